"""`upshot watch`: transactions in, what each means for the views out."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.input.changes import ChangeLine, read_change_lines
from upshot.cli.input.files import STDIN
from upshot.cli.input.transactions import at_change, commit_line
from upshot.cli.output.deltas import changes_to_json, view_changes
from upshot.cli.output.diagnostics import as_fields
from upshot.cli.output.firings import code_of_failures, firing_lines, firings_field, report_failures
from upshot.cli.output.later_commits import LaterCommits
from upshot.cli.output.outcome import code_of
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK, Engine, OnError
from upshot.core.errors import EngineError, Error, UsageError
from upshot.database.database import Database
from upshot.database.program.constraints import notes_of_repairs


def watch(
    terminal: Terminal,
    file: Path,
    fact_dir: Path | None,
    changes: Path,
    on_error: OnError,
    actions: Path | None,
    engine: Engine,
) -> int:
    """One line of output for each line of input, as soon as it is committed.

    A bad line changes nothing. It ends the run, or, with `--on-error continue`, its error takes the place of its
    changes; the exit code then tells at the end that there was one. When the engine fails the run always ends.
    """
    if file == STDIN and changes == STDIN:
        raise UsageError("the program and the changes cannot both come from standard input", code="stdin-twice")
    with opened(terminal, file, fact_dir, engine, actions=actions) as database:
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
    changed, fired = view_changes(transaction.changes, database.schemas), firings_field(transaction.firings)
    own = f'{{"version": {transaction.version}, "changes": {changes_to_json(changed)}{fired}}}'
    return "\n".join([own, *later.lines(transaction.version)])
