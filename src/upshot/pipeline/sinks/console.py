"""Changes of a view as lines on standard output. A terminal does not record its version: after a crash the last version
may be printed twice."""

from __future__ import annotations

import sys
from collections.abc import Callable

from upshot.core.fact_text import fact
from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.pipeline.sinks.sink import Columns, Sink, all_inserted

PrintChanges = Callable[[str, int, Changes], None]
"""Prints the changes that a version made to a view."""


class Console(Sink):
    """`held` is the version that was printed last, as the state records it."""

    is_table = False

    def __init__(self, view: str, held: int | None, print_changes: PrintChanges) -> None:
        self.view = view
        self.place = f"the console, for `{view}`"
        self._held, self._print = held, print_changes

    def columns(self) -> Columns | None:
        return None

    def stored_version(self, *, announced: bool = False) -> int | None:
        return self._held

    def start(self, rows: Rows, version: int) -> None:
        self.apply(all_inserted(rows), version)

    def apply(self, changes: Changes, version: int) -> None:
        if changes and (self._held is None or version > self._held):
            self._print(self.view, version, changes)
        self._held = version


def print_lines(view: str, version: int, changes: Changes) -> None:
    """One line a row, `+closure(1, 3)` or `-closure(2, 4)`."""
    for rows, sign in ((changes.deleted, "-"), (changes.inserted, "+")):
        sys.stdout.writelines(f"{sign}{fact(rows.schema, row)}\n" for row in rows.sorted())
    sys.stdout.flush()
