"""The plain form of the kernel: its functions in Python, with calls of loads and stores inlined.

Most operations of the kernel are loads and stores, and in Python a call costs more than the access itself. The modules
are loaded again under other names (`sets` as `plain_sets`), with `load8(table, i)` translated to
`_WORDS[(table >> 3) + i]`. Their byte code is cached beside that of the original modules, which `compiled` uses.
"""

from __future__ import annotations

import ast
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType
from typing import Any

FORM = 1
"""Part of the name of byte code files; it changes with the translation."""

SOURCES = (
    "arithmetic", "cells", "sets", "best_rows", "changes", "sharing", "walks", "heads", "instructions", "kernel",
)  # fmt: skip
"""The modules in the order of their imports."""

_LOADS = {"load8": ("_WORDS", 3), "load4": ("_HALVES", 2), "load1": ("_BYTES", 0)}
_STORES = {"store8": ("_WORDS", 3), "store4": ("_HALVES", 2), "store1": ("_BYTES", 0)}


class _InPlace(ast.NodeTransformer):
    """Inlines accesses to memory, and redirects imports from the kernel to its plain form."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        package, _, name = (node.module or "").rpartition(".")
        if package == __package__ and name in SOURCES:
            node.module = f"{package}.plain_{name}"
        elif package == __package__ and name == "memory":
            node.names += [ast.alias(array) for array, _ in _LOADS.values()]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        access = _LOADS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return node if access is None else ast.copy_location(_item(node, access, ast.Load()), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        self.generic_visit(node)
        call = node.value
        access = _STORES.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        if access is None or not isinstance(call, ast.Call):
            return node
        return ast.copy_location(ast.Assign([_item(call, access, ast.Store())], call.args[2]), node)


def _item(call: ast.Call, access: tuple[str, int], context: ast.expr_context) -> ast.Subscript:
    array, shift = access
    address, i = call.args[:2]
    start = ast.BinOp(address, ast.RShift(), ast.Constant(shift)) if shift else address
    return ast.Subscript(ast.Name(array, ast.Load()), ast.BinOp(start, ast.Add(), i), context)


class _Loader(SourceFileLoader):
    """Loads a translated source, with its own byte code files."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        tree = ast.fix_missing_locations(_InPlace().visit(ast.parse(data, str(path))))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def get_data(self, path: str) -> bytes:
        return super().get_data(_own_file(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(_own_file(path), data, _mode=_mode)


def _own_file(path: str) -> str:
    return path.removesuffix(".pyc") + f".plain{FORM}.pyc" if path.endswith(".pyc") else path


def entries() -> dict[str, Any]:
    """The entry points by name."""
    found: dict[str, Any] = {}
    for source in SOURCES:
        name = f"{__package__}.plain_{source}"
        loader = _Loader(name, str(Path(__file__).with_name(f"{source}.py")))
        spec = spec_from_loader(name, loader)
        assert spec is not None
        sys.modules[name] = module = module_from_spec(spec)
        loader.exec_module(module)
        found |= {function.__name__: function for function in getattr(module, "ENTRIES", ())}
    return found
