"""Answers and changes as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from upshot.cli.output.terminal import Terminal
from upshot.cli.output.wording import counted
from upshot.core.field_text import text_of
from upshot.core.rows import Rows
from upshot.database.changes import Changes

MOST_ROWS = 20
"""Rows shown of an answer, or of each side of a change."""


def show_answer(terminal: Terminal, rows: Rows) -> None:
    """The rows of an answer under the names of its variables; yes or no if it has none."""
    if not rows.schema.columns:
        terminal.show("yes" if len(rows) else "no")
        return
    if len(rows):
        table = _table(*(column.name for column in rows.schema.columns))
        for row in rows.sorted()[:MOST_ROWS]:
            table.add_row(*(Text(text_of(value)) for value in row))
        terminal.show(table)
    shown = f", the first {MOST_ROWS} shown" if len(rows) > MOST_ROWS else ""
    terminal.show(Text(counted(len(rows), "row") + shown, style="dim"))


def show_changes(terminal: Terminal, changed: Sequence[tuple[str, Changes]]) -> None:
    """One line a row: its sign, its view, its values."""
    if not changed:
        terminal.show(Text("no view changed", style="dim"))
        return
    table = _table("", "view", "row")
    for name, change in changed:
        _add(table, name, "-", change.deleted, "red")
        _add(table, name, "+", change.inserted, "green")
    terminal.show(table)


def _add(table: Table, name: str, sign: str, rows: Rows, style: str) -> None:
    for row in rows.sorted()[:MOST_ROWS]:
        table.add_row(Text(sign), Text(name), Text(", ".join(map(text_of, row)) or "()"), style=style)
    if len(rows) > MOST_ROWS:
        table.add_row(Text(sign), Text(name), Text(f"… {len(rows) - MOST_ROWS:,} more"), style="dim")


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    return table
