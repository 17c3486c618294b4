"""`upshot verify`: recompute every view and compare it with the stored rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.input.changes import ChangeLine, commit_line, for_each_line
from upshot.cli.input.files import refuse_stdin_twice
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.changes import code_of_failures, report_failures
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.core.errors import UsageError, counted
from upshot.database.database import Database


def verify(
    terminal: Terminal,
    source: DatabaseOptions,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Commit these transactions first; - reads standard input."
        ),
    ] = None,
) -> int:
    """Of a program, load the facts and commit the transactions of the change file first."""
    refuse_stdin_twice(source.file, changes)
    if source.file.is_dir() and (source.fact_dir is not None or changes is not None):
        message = f"`{source.file}` is a database directory, which is verified as it is"
        raise UsageError(message, code="wrong-argument", help="omit `-F` and `--changes`")
    with opened(terminal, source) as database:
        return _verified(terminal, database, changes)


def _verified(terminal: Terminal, database: Database, changes: Path | None) -> int:
    committed = 0

    def commit(line: ChangeLine) -> None:
        nonlocal committed
        report_failures(terminal, commit_line(database, line).firings)
        committed += 1

    if changes is not None and (code := for_each_line(terminal, changes, commit)):
        return code
    with terminal.progress("recomputing every view"):
        verified = database.verify()
    views = sorted(set(verified.views) & set(database.schemas))
    rows = sum(len(database.rows(view)) for view in views)
    if terminal.json:
        fields = {"ok": True, "transactions": committed, "views": views, "rows": rows}
        terminal.data(json.dumps(fields))
    else:
        after = f" after {counted(committed, 'transaction')}" if changes is not None else ""
        compared = f"{counted(len(views), 'view')} with {counted(rows, 'row')} {equal_recomputation(len(views))}"
        terminal.data(f"ok: {compared}{after}")
    return code_of_failures(database)


def equal_recomputation(views: int) -> str:
    """The result of a verification of this number of views.

    >>> equal_recomputation(1), equal_recomputation(2)
    ('equals its recomputation', 'equal their recomputation')
    """
    return "equals its recomputation" if views == 1 else "equal their recomputation"
