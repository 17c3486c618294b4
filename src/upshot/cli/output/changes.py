"""Changes of views and firings of active rules as they are printed: JSON objects, or lines in the syntax of facts."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upshot.active.firing import Firing
from upshot.cli.output.diagnostics import of_error
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, WRONG_INPUT
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error
from upshot.core.fact_text import fact
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows
from upshot.core.schema import Role, Schema
from upshot.database.changes import Changes, ChangeSet
from upshot.database.database import Database

SHOWN_WITNESSES = 5


def view_changes(changes: ChangeSet, schemas: Mapping[str, Schema]) -> list[tuple[str, Changes]]:
    """The changed views, by name, without base relations: their changes are the transaction itself."""
    return [(name, change) for name, change in sorted(changes.items()) if schemas[name].role is not Role.BASE]


def changes_to_json(changes: Iterable[tuple[str, Changes]]) -> str:
    """Print changes as in `{"closure": {"insert": [[1,3]], "delete": []}}`, rows sorted."""
    parts = (
        f'{json.dumps(name)}: {{"insert": {rows_to_json(change.inserted.sorted())}, '
        f'"delete": {rows_to_json(change.deleted.sorted())}}}'
        for name, change in changes
    )
    return "{" + ", ".join(parts) + "}"


def firings_field(firings: Sequence[tuple[str, Rows]]) -> str:
    """Print rules and rows as in `, "firings": [{"rule": "reorder", "rows": [["item1",72]]}]`; nothing without any."""
    parts = (f'{{"rule": {json.dumps(rule)}, "rows": {rows_to_json(rows.sorted())}}}' for rule, rows in firings)
    return f', "firings": [{", ".join(parts)}]' if firings else ""


def commit_to_json(
    version: int, changes: Iterable[tuple[str, Changes]], firings: Sequence[tuple[str, Rows]] = ()
) -> str:
    """Print a commit as in `{"version": 3, "changes": {…}, "firings": […]}`."""
    return f'{{"version": {version}, "changes": {changes_to_json(changes)}{firings_field(firings)}}}'


def rows_of_rules(firings: Iterable[Firing]) -> list[tuple[str, Rows]]:
    """The rule and the rows of each firing."""
    return [(each.rule, each.rows) for each in firings]


def signed_lines(changes: Iterable[tuple[str, Changes]]) -> list[str]:
    """One line per row, `+closure(1, 3)` or `-closure(2, 4)`."""
    lines = []
    for _, change in changes:
        lines += [f"-{fact(change.deleted.schema, row)}" for row in change.deleted.sorted()]
        lines += [f"+{fact(change.inserted.schema, row)}" for row in change.inserted.sorted()]
    return lines


def witnesses_text(schema: Schema, rows: Sequence[Sequence[Any]]) -> str:
    """The first witnesses of a constraint, and the number of the others."""
    more = f" and {len(rows) - SHOWN_WITNESSES} more" * (len(rows) > SHOWN_WITNESSES)
    return ", ".join(fact(schema, row) for row in rows[:SHOWN_WITNESSES]) + more


def firing_lines(firings: Iterable[Firing]) -> list[str]:
    """One line per firing, `firing: reorder("item1", 72)`."""
    return [f"firing: {', '.join(fact(each.rows.schema, row) for row in each.rows.sorted())}" for each in firings]


def report_failures(terminal: Terminal, firings: Iterable[Firing]) -> None:
    """Report calls of rules that failed after the commit. The commit stays."""
    failed = [each.error for each in firings if each.error is not None]
    terminal.report(found for error in failed for found in _diagnostics(error))


def _diagnostics(error: Exception) -> Sequence[Diagnostic]:
    if isinstance(error, Error):
        return of_error(error)
    return [Diagnostic("action-failed", f"{type(error).__name__}: {error}")]


def code_of_failures(database: Database) -> int:
    """The exit code for rules: tasks that are pending at the end are lost."""
    return WRONG_INPUT if database.pending() else OK


def without_log() -> None:
    """Stop logging failed calls of rules: the command reports them itself."""
    if not os.environ.get("UPSHOT_TRACEBACK"):
        logging.getLogger("upshot.rules").addHandler(logging.NullHandler())
