"""One line of a change file, committed or refused as a whole."""

from __future__ import annotations

from dataclasses import replace

from upshot.cli.input.changes import ChangeLine, parse_change
from upshot.cli.output.diagnostics import of_error
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error
from upshot.database.database import Database
from upshot.database.transaction import Transaction


def commit_line(database: Database, line: ChangeLine) -> Transaction:
    """The committed transaction of a line. On any error nothing of it was applied."""
    change = parse_change(line, database.schemas)
    with database.transaction() as transaction:
        for relation, rows in change.delete.items():
            transaction.delete(relation, rows)
        for relation, rows in change.insert.items():
            transaction.insert(relation, rows)
    return transaction


def at_change(error: Error, line: ChangeLine) -> list[Diagnostic]:
    """What went wrong with a line; every diagnostic begins with its file and line number."""
    return [_placed(diagnostic, line) for diagnostic in of_error(error)]


def _placed(diagnostic: Diagnostic, line: ChangeLine) -> Diagnostic:
    if diagnostic.message.startswith(f"{line.place}: "):
        return diagnostic
    return replace(diagnostic, message=f"{line.place}: {diagnostic.message}", span=line.span(), label="")
