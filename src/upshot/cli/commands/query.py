"""`upshot query`: the answers to a query, in Datalog or SQL."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.input.rows import constant
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK
from upshot.core.errors import QueryWarning, UsageError
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows
from upshot.database.database import Database
from upshot.database.files.souffle_options import FileOptions
from upshot.database.files.souffle_writer import lines
from upshot.database.queries.query import is_select


def query(
    terminal: Terminal,
    source: DatabaseOptions,
    text: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", show_default=False, help="A rule body with parameters such as $x, or a SELECT with :x."
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="The value of a parameter. Repeatable."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--at", metavar="VERSION", help="Read this earlier version of a database directory.")
    ] = None,
) -> int:
    """Print the rows one per line, in the order of the SQL query, or sorted."""
    with opened(terminal, source) as database:
        rows = answers(terminal, database, text, _parameters(values or ()), version)
        if terminal.json:
            columns = json.dumps(rows.columns, ensure_ascii=False)
            terminal.data(f'{{"columns": {columns}, "rows": {rows_to_json(rows)}}}')
        else:
            terminal.out.writelines(line + "\n" for line in _lines(rows))
    return OK


def answers(
    terminal: Terminal, database: Database, text: str, parameters: dict[str, Any], version: int | None = None
) -> Rows:
    """The answers to a rule body, sorted, or to a SELECT, in its order. Report warnings of the query."""
    state = database if version is None else database.at(version)
    if is_select(text):
        return state.sql(text, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", QueryWarning)
        found = state.query(text, **parameters)
    terminal.report(each.message.diagnostic for each in caught if isinstance(each.message, QueryWarning))
    return Rows.of(found.schema, found.sorted())


def _lines(rows: Rows) -> list[str]:
    """One line of tab-separated values per row, as `run -D -` prints them; true or false without variables."""
    if not rows.columns:
        return ["true" if len(rows) else "false"]
    return list(lines(rows.schema, rows, FileOptions(rows.schema.name, Path("-"))))


def _parameters(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            message = f"`{text}` is not a parameter and its value"
            raise UsageError(message, code="wrong-argument", help="as in `-p x=7` or `-p name=ann`")
        found[name] = constant(value)
    return found
