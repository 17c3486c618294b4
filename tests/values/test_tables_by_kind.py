"""Every table that is keyed by the kind of a column has every kind, or is known to need only some.

A new kind makes this test fail with the places to edit. A `match` with a default is no table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from upshot.core.types import Kind

SOURCE = Path(__file__).parents[2] / "src" / "upshot"
EVERY = {kind.name for kind in Kind}

LEFT_OUT: dict[str, set[str]] = {
    "check/types/constants.py _CLASSES": set(),
    "core/arrow_schema.py arrow_type": set(),
    "core/field_text.py _READERS": set(),
    "core/json_values.py _READERS": set(),
    "core/rows.py _NULLABLE": {"DATE", "DECIMAL", "RECORD", "SYMBOL", "TIMESTAMP"},
    "core/structures.py NEUTRAL": {"DECIMAL"},
    "core/structures.py _CLASSES": {"DECIMAL", "RECORD"},
    "core/structures.py _FORMS": {"DATE", "DECIMAL", "RECORD", "TIMESTAMP"},
    "database/files/arrow_tables.py _castable": set(),
    "database/files/souffle_devices.py _AFFINITY": {"DATE", "DECIMAL", "RECORD", "SYMBOL", "TIMESTAMP"},
    "engine/local/storage/arrow_codec.py _ACCEPTS": {"RECORD", "SYMBOL"},
    "engine/local/storage/arrow_codec.py _decode": set(),
    "engine/local/storage/codec.py _required_encoder": set(),
    "engine/local/storage/codec.py decode": set(),
    "engine/spark/storage/input_rows.py _ACCEPTS": set(),
    "engine/user_functions.py _CLASSES": {"RECORD"},
    "engine/user_functions.py _fitting": {"BOOLEAN", "DATE", "DECIMAL", "RECORD"},
    "export/postgres_terms.py _TYPES": {"DECIMAL", "RECORD"},
    "pipeline/batch/ranges.py _SOME": set(),
    "pipeline/sources/reading/cells.py _RANGES": {"BOOLEAN", "RECORD", "SYMBOL"},
    "pipeline/sources/reading/cells.py _read_text": set(),
    "revise/ordered_values.py value_at": set(),
    "spark/types.py spark_type": set(),
    "store/encoding.py _from_raw": set(),
    "store/encoding.py _to_raw": set(),
    "values/sort_keys.py _KEYS": {"RECORD", "SYMBOL"},
    "values/windows.py _READ": {"RECORD"},
    "values/windows.py _WRITTEN": {"RECORD"},
}
"""The tables, each with the kinds that it has no need of."""


def test_every_table_that_is_keyed_by_kind_has_every_kind() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()} {name}": EVERY - kinds
        for path in sorted(SOURCE.rglob("*.py"))
        for name, kinds in _tables(ast.parse(path.read_text()))
        if len(kinds) >= 3
    }
    assert found == LEFT_OUT


def _tables(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """The kinds of each dict and each match without a default, by the name of the dict or the function."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=ast.Dict(keys)) | ast.AnnAssign(target, value=ast.Dict(keys)):
                yield ast.unparse(target), {name for key in keys if (name := _kind(key))}
            case ast.FunctionDef(name):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Match) and not any(_is_default(case) for case in inner.cases):
                        parts = (part for case in inner.cases for part in ast.walk(case.pattern))
                        yield name, {kind for part in parts if (kind := _kind(part))}


def _kind(node: ast.AST | None) -> str | None:
    match node:
        case ast.Attribute(ast.Name("Kind"), name):
            return name
    return None


def _is_default(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
