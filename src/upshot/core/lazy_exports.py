"""Lazy imports: a package imports its modules when their names are first used.

`import upshot.plan` alone loads none of its modules, so that a small program loads only those that it uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, from the module of each name it exports. Repeat the imports for type
    checkers, under `if TYPE_CHECKING`, and assign these two in the `else` branch.

    >>> attribute, names = lazy_exports("upshot.syntax", {"parse": "upshot.syntax.parser"})
    >>> attribute("parse").__name__, names()
    ('parse', ['parse'])
    """

    def attribute(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute, lambda: sorted(homes)


def lazy_modules(package: str) -> Callable[[str], object]:
    """`__getattr__` of a package whose modules are imported when first used as its attributes."""

    def module(name: str) -> object:
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return module


class LazyMethod:
    """A method of a base class that is imported when one of its methods is first looked up: then all attributes of that
    class are copied to the placeholder class."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self._name, self._attribute = home, name, ""

    def __set_name__(self, shell: type, attribute: str) -> None:
        self._shell, self._attribute = shell, attribute

    def __get__(self, instance: object, owner: type) -> object:
        for attribute, value in vars(getattr(import_module(self._home), self._name)).items():
            if not attribute.startswith("__"):
                setattr(self._shell, attribute, value)
        return getattr(owner if instance is None else instance, self._attribute)


def lazy_base(home: str, name: str, *methods: str) -> type:
    """A base class in place of the class `name` of the module `home`, which is imported with the first use of one of
    its public methods. Import the class itself for type checkers."""
    return type(name, (), {method: LazyMethod(home, name) for method in methods})
