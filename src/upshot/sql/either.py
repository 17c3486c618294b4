"""A program in either language."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from upshot.core.schema import Schema
from upshot.sql.recognition import is_sql
from upshot.syntax import parse
from upshot.syntax.ast import Program

_NOTHING: Mapping[str, Schema] = MappingProxyType({})


def parse_either(
    text: str,
    name: str = "<text>",
    schemas: Mapping[str, Schema] = _NOTHING,
    parts: Mapping[str, str] = MappingProxyType({}),
    functors: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """The program that a text of Datalog or SQL stands for. `schemas` are the relations that SQL may use beside its
    own, `parts` those made for views, by the view, `functors` the functions of the user."""
    if not is_sql(text, name):
        return parse(text, name)
    from upshot.sql.program import Catalog, sql_program  # noqa: PLC0415 - sqlglot only where there is SQL

    return sql_program(text, name, Catalog(schemas, parts, functors))
