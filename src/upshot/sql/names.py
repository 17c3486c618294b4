"""Names of SQL: unquoted names match in any case, and unquoted new names become lower case."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from upshot.sql.trouble import Statement

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def new_name(statement: Statement, identifier: exp.Identifier) -> str:
    """The name of a new relation or column: a quoted name as it is, an unquoted one in lower case."""
    name = identifier.name if identifier.args.get("quoted") else identifier.name.lower()
    if not _NAME.fullmatch(name):
        statement.refuse(
            "sql-name",
            f"`{name}` is not a valid name",
            identifier,
            help="use letters, digits and `_`; start with a letter",
        )
    return name


def matches(identifier: exp.Identifier, name: str) -> bool:
    """Test whether an identifier denotes this name."""
    if identifier.args.get("quoted"):
        return identifier.name == name
    return identifier.name.lower() == name.lower()


def chosen(identifier: exp.Identifier, names: Iterable[str]) -> list[str]:
    """The matching names: the exact one, or else the lower-case one, or else all that differ in case only."""
    found = [name for name in names if matches(identifier, name)]
    exact = [name for name in found if name == identifier.name]
    folded = [name for name in found if name == identifier.name.lower()]
    return exact or folded or found


def relation_name(statement: Statement, table: exp.Table, known: Iterable[str]) -> str:
    """The relation of a table; refused if none or several match."""
    refuse_schema(statement, table)
    identifier = table.this
    names = list(known)
    found = chosen(identifier, names)
    if not found:
        statement.unknown_relation(identifier, names, "create it first")
    if len(found) > 1:
        listed = ", ".join(f'`"{name}"`' for name in found)
        statement.refuse(
            "sql-ambiguous", f"`{identifier.name}` is ambiguous: {listed}", identifier, help="write the name in quotes"
        )
    return found[0]


def refuse_schema(statement: Statement, table: exp.Table) -> None:
    if not isinstance(table.this, exp.Identifier):
        statement.unsupported(f"`{statement.spelled(table)}` in place of a table", table, help="name a table or a view")
    if table.args.get("db") is not None:
        statement.refuse(
            "sql-name",
            f"`{statement.spelled(table)}` names a schema; schemas are not supported",
            table,
            help=f"write `{table.name}`",
        )
