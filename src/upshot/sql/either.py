"""Parse a program in either language, recognized by the beginning of its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

from upshot.core.schema import Schema
from upshot.syntax import parse
from upshot.syntax.ast import Program

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|;|(?m:^)[ \t]*\.[a-z_]+[^\n]*)", re.DOTALL)
"""Space, comments of either language, and directives, which both languages have."""

_STATEMENT = re.compile(
    r"(?:create|drop|alter|select|with|insert|update|delete|merge|truncate|refresh|grant|values|explain|set|use|begin)"
    r"(?:\s+[\w\"`'*]|\s*/\*|\s*--)",
    re.IGNORECASE,
)
"""A first word of SQL and another word: in Datalog a parenthesis, a comma or `:-` follows a name."""


def is_sql(text: str, name: str = "") -> bool:
    """Test whether the text is SQL: by the name of its file, or by its first statement.

    >>> is_sql("-- all of it\\nCREATE VIEW v AS SELECT 1"), is_sql(".decl create(x: number)\\ncreate(1).")
    (True, False)
    """
    if PurePath(name).suffix in (".sql", ".dl"):
        return PurePath(name).suffix == ".sql"
    place = 0
    while found := _SKIPPED.match(text, place):
        place = found.end()
    return _STATEMENT.match(text, place) is not None


_NOTHING: Mapping[str, Schema] = MappingProxyType({})


def parse_either(
    text: str,
    name: str = "<text>",
    schemas: Mapping[str, Schema] = _NOTHING,
    parts: Mapping[str, str] = MappingProxyType({}),
    functors: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """Parse a text of Datalog or SQL. SQL may use the relations of `schemas` besides its own; `parts` maps hidden views
    to the views that they belong to; `functors` are the functions of the user."""
    if not is_sql(text, name):
        return parse(text, name)
    from upshot.sql.program import Catalog, sql_program  # noqa: PLC0415 - sqlglot only where there is SQL

    return sql_program(text, name, Catalog(schemas, parts, functors))
