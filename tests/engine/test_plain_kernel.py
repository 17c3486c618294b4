"""The plain form of the kernel: the same functions, with accesses to memory in place of calls."""

from __future__ import annotations

import sys
from inspect import isfunction
from types import CodeType, ModuleType

from upshot.engine.local.kernel import cells, changes, kernel, plain, sets, sharing, walks

ACCESSES = {"load1", "load4", "load8", "store1", "store4", "store8"}


def plain_modules() -> list[ModuleType]:
    plain.entries()
    return [sys.modules[f"{plain.__package__}.plain_{name}"] for name in plain.SOURCES]


def names_in(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def test_the_plain_form_has_every_entry_of_the_kernel() -> None:
    expected = {each.__name__ for module in (cells, sets, changes, sharing, walks, kernel) for each in module.ENTRIES}
    assert set(plain.entries()) == expected


def test_no_function_of_the_plain_form_calls_a_load_or_store() -> None:
    for module in plain_modules():
        functions = [each for each in vars(module).values() if isfunction(each) and each.__module__ == module.__name__]
        assert functions
        for function in functions:
            assert names_in(function.__code__).isdisjoint(ACCESSES), function


def test_the_plain_form_has_byte_code_of_its_own() -> None:
    for module in plain_modules():
        loader = module.__loader__
        assert isinstance(loader, plain._Loader)
        assert plain._own_file("sets.pyc") == f"sets.plain{plain.FORM}.pyc"
        assert loader.get_source(module.__name__) is not None
