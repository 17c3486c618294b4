"""Recognize SQL and Datalog by the beginning of a text."""

from __future__ import annotations

import re
from pathlib import PurePath

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|;|(?m:^)[ \t]*\.[a-z_]+[^\n]*)", re.DOTALL)
"""Space, comments of either language, and lines that begin with a dot, which both have."""

_STATEMENT = re.compile(
    r"(?:create|drop|alter|select|with|insert|update|delete|merge|truncate|refresh|grant|values|explain|set|use|begin)"
    r"(?:\s+[\w\"`'*]|\s*/\*|\s*--)",
    re.IGNORECASE,
)
"""A word that SQL begins with and another behind it: what Datalog has there is a parenthesis, a comma or `:-`."""


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
