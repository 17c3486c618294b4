"""The active rules that fired, as they are printed, and what became of what they had to do after the commit."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from upshot.active.firing import Firing
from upshot.cli.output.diagnostics import of_error
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, WRONG_INPUT
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error
from upshot.core.fact_text import fact
from upshot.core.json_values import rows_to_json
from upshot.database.database import Database
from upshot.database.rules.action_files import read_actions


def register_actions(database: Database, file: Path | None) -> None:
    """Makes the functions of a file known to rules."""
    without_log()
    for name, function in read_actions(file).items() if file is not None else ():
        database.action(name, function)
        database.function(name, function)


def without_log() -> None:
    """A call that fails is reported as all else is, and not logged beside it."""
    if not os.environ.get("UPSHOT_TRACEBACK"):
        logging.getLogger("upshot.rules").addHandler(logging.NullHandler())


def firings_field(firings: Sequence[Firing]) -> str:
    """Print firings as in `, "firings": [{"rule": "reorder", "rows": [["item1",72]]}]`; nothing if no rule fired."""
    parts = (f'{{"rule": {json.dumps(each.rule)}, "rows": {rows_to_json(each.rows.sorted())}}}' for each in firings)
    return f', "firings": [{", ".join(parts)}]' if firings else ""


def firing_lines(firings: Iterable[Firing]) -> list[str]:
    """One line a firing, `firing: reorder("item1", 72)`, in the syntax of facts."""
    return [f"firing: {', '.join(fact(each.rows.schema, row) for row in each.rows.sorted())}" for each in firings]


def report_failures(terminal: Terminal, firings: Iterable[Firing]) -> None:
    """Says what rules failed to do after the commit, which stands."""
    failed = [each.error for each in firings if each.error is not None]
    terminal.report(found for error in failed for found in _told(error))


def code_of_failures(database: Database) -> int:
    """The exit code for rules: tasks still pending at the end are lost."""
    return WRONG_INPUT if database.pending() else OK


def _told(error: Exception) -> Sequence[Diagnostic]:
    if isinstance(error, Error):
        return of_error(error)
    return [Diagnostic("action-failed", f"{type(error).__name__}: {error}")]
