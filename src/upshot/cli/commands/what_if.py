"""`upshot what-if`: the effects of transactions that are not committed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from upshot.cli.commands.realizations import signed_rows
from upshot.cli.input.changes import ChangeFacts, ChangeLine, canceled, for_each_line, parse_change
from upshot.cli.input.files import refuse_stdin_twice
from upshot.cli.options import ChangesOption, DatabaseOptions
from upshot.cli.output.changes import (
    changes_to_json,
    firing_lines,
    firings_field,
    rows_of_rules,
    signed_lines,
    view_changes,
    witnesses_text,
)
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import UsageError
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Role, Schema
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.database.queries.what_if import WhatIf


def what_if(
    terminal: Terminal,
    source: DatabaseOptions,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ROW|-ROW...", show_default=False, help="One transaction: '+p(2)' inserts, '-q(3)' deletes."
        ),
    ] = None,
    changes: ChangesOption = None,
) -> int:
    """The rows are one transaction. Each line of a change file is one transaction, evaluated separately."""
    rows = rows or []
    if (changes is None) != bool(rows):
        message = "rows and `--changes` cannot be combined" if rows else "no transaction was given"
        hint = "give rows to insert and delete, as in '+edge(1, 2)' '-edge(3, 4)', or a file with `--changes`"
        raise UsageError(message, code="options-conflict" if rows else "empty-request", help=hint)
    refuse_stdin_twice(source.file, changes)
    with opened(terminal, source) as database:
        if changes is None:
            print_what_if(terminal, database, rows)
            return OK

        def process(line: ChangeLine) -> None:
            _print_effects(terminal, database, line.place, parse_change(line, database.schemas))

        return for_each_line(terminal, changes, process)


def print_what_if(terminal: Terminal, database: Database, rows: Sequence[str]) -> None:
    """Print the effects of one transaction of signed rows."""
    change = canceled(signed_rows(rows, "+", database), signed_rows(rows, "-", database))
    _print_effects(terminal, database, "", change)


def _print_effects(terminal: Terminal, database: Database, place: str, change: ChangeFacts) -> None:
    """`place`: file and line of the transaction."""
    answer = database.what_if(insert=change.insert, delete=change.delete)
    views = view_changes(answer, database.schemas)
    changed = [*_made_by_rules(answer, change, database.schemas), *views]
    if terminal.json:
        fired = firings_field(rows_of_rules(answer.firings))
        violations = ", ".join(f"{json.dumps(name)}: {rows_to_json(rows)}" for name, rows in answer.violations.items())
        terminal.data(f'{{"changes": {changes_to_json(changed)}, "violations": {{{violations}}}{fired}}}')
        return
    if place:
        terminal.data(f"// {place}")
    for text in signed_lines(changed):
        terminal.data(text)
    if not views:
        terminal.data("// no view changed")
    for text in firing_lines(answer.firings):
        terminal.data(f"// {text}")
    terminal.report(_violation(database, place, name, list(rows)) for name, rows in answer.violations.items())


def _made_by_rules(answer: WhatIf, change: ChangeFacts, schemas: Mapping[str, Schema]) -> Iterator[tuple[str, Changes]]:
    """The changes of base relations by active rules: those that are not part of the transaction."""
    for name, made in answer.items() if answer.firings else ():
        if schemas[name].role is Role.BASE:
            inserted = row_set(made.inserted) - set(change.insert.get(name, ()))
            deleted = row_set(made.deleted) - set(change.delete.get(name, ()))
            if inserted or deleted:
                yield name, Changes(*(Rows.of(made.inserted.schema, list(rows)) for rows in (inserted, deleted)))


def _violation(database: Database, place: str, name: str, rows: list[tuple[object, ...]]) -> Diagnostic:
    shown = witnesses_text(database.schemas[name], rows)
    before = f"{place}: " * bool(place)
    return Diagnostic("would-violate", f"{before}would violate `{name}`: {shown}", severity=Severity.WARNING)
