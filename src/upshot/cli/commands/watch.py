"""`upshot watch`: commit transactions; print the view changes of each, and of the commits that its rules make."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.input.changes import ChangeLine, at_change, commit_line, read_change_lines
from upshot.cli.input.files import refuse_stdin_twice
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.changes import (
    code_of_failures,
    commit_to_json,
    firing_lines,
    report_failures,
    rows_of_rules,
    view_changes,
)
from upshot.cli.output.diagnostics import as_fields
from upshot.cli.output.outcome import code_of
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK, OnError
from upshot.core.errors import EngineError, Error
from upshot.core.schema import Role
from upshot.database.changes import Changes
from upshot.database.constraints import notes_of_repairs
from upshot.database.database import Database
from upshot.database.watch import Event


def watch(
    terminal: Terminal,
    source: DatabaseOptions,
    changes: Annotated[
        Path,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Transactions, one JSON object per line; - reads standard input."
        ),
    ],
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="Stop at an invalid transaction, or continue.")
    ] = OnError.STOP,
) -> int:
    """Print one line for each line of input, as soon as it is committed.

    An invalid line changes nothing. It ends the run, or, with `--on-error continue`, its error is printed instead of
    changes and determines the exit code. An engine failure always ends the run.
    """
    refuse_stdin_twice(source.file, changes)
    with opened(terminal, source) as database:
        return _commits(terminal, database, changes, on_error)


def _commits(terminal: Terminal, database: Database, changes: Path, on_error: OnError) -> int:
    code, later = OK, LaterCommits(database)
    for line in read_change_lines(changes):
        try:
            terminal.data(_committed(terminal, database, line, later))
        except Error as error:
            found = at_change(error, line)
            if on_error is OnError.STOP or isinstance(error, EngineError):
                terminal.out.flush()
                terminal.report(found)
                return code_of(error)
            code = code_of(error)
            terminal.data(json.dumps({"error": as_fields(found[0])}, ensure_ascii=False))
        terminal.out.flush()
    return code or code_of_failures(database)


def _committed(terminal: Terminal, database: Database, line: ChangeLine, later: LaterCommits) -> str:
    transaction = commit_line(database, line)
    terminal.report((*transaction.warnings, *notes_of_repairs(transaction.repaired, database.schemas)))
    report_failures(terminal, transaction.firings)
    if not terminal.json:
        for text in firing_lines(transaction.firings):
            terminal.message(text)
    changed = view_changes(transaction.changes, database.schemas)
    own = commit_to_json(transaction.version, changed, rows_of_rules(transaction.firings))
    return "\n".join([own, *later.lines(transaction.version)])


class LaterCommits:
    """The commits that rules make after a transaction. Watches all views and rules from now on."""

    def __init__(self, database: Database) -> None:
        self._database, self._events = database, list[Event]()
        self._rules = frozenset(database.rules)
        views = [name for name, schema in database.schemas.items() if schema.role is not Role.BASE]
        for name in (*views, *self._rules) if self._rules else ():
            database.watch(name, self._events.append, since=database.version)

    def lines(self, version: int) -> list[str]:
        """One line for each commit after a version."""
        events, later = list(self._events), range(version + 1, self._database.version + 1)
        self._events.clear()
        return [self._line(each, [event for event in events if event.version == each]) for each in later]

    def _line(self, version: int, events: list[Event]) -> str:
        changed = [(e.view, Changes(e.inserted, e.deleted)) for e in events if e.view not in self._rules]
        fired = [(each.view, each.inserted) for each in events if each.view in self._rules]
        return commit_to_json(version, sorted(changed, key=itemgetter(0)), fired)
