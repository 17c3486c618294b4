"""The functions of users that frames may call: those of the engine that makes them."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark import cloudpickle

from upshot.engine.user_functions import UserFunctions

_IN_USE: ContextVar[UserFunctions] = ContextVar("functions_in_use", default=UserFunctions())  # noqa: B039


def functions_in_use() -> UserFunctions:
    """The functions for the frames that are being made."""
    return _IN_USE.get()


@contextmanager
def using_functions(functions: UserFunctions) -> Iterator[None]:
    """Inside, frames call these functions. Their code travels with the tasks: workers need not have its module."""
    for code in (code for function in functions.registered.values() for code in function.parts):
        module = sys.modules.get(getattr(code, "__module__", "") or "")
        if module is not None and module.__name__ != "__main__" and not _is_installed(module.__name__):
            cloudpickle.register_pickle_by_value(module)
    token = _IN_USE.set(functions)
    try:
        yield
    finally:
        _IN_USE.reset(token)


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None) or ""
    return file.startswith(sysconfig.get_paths()["purelib"]) or name.partition(".")[0] in sys.stdlib_module_names
