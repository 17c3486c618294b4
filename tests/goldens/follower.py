"""A database kept by one strategy and the oracle beside it: each transaction must report what recomputation gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import upshot
from tests.properties.engines import connect
from tests.properties.strategies import view_options
from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.engine.work import Work
from upshot.syntax import parse

Row = tuple[Any, ...]
Rows = list[Row]
Base = Mapping[str, Rows]
Delta = tuple[set[Row], set[Row]]

NOTHING: Delta = (set(), set())


class Follower:
    """`views` are what the program defines; `work` are the counters of the last transaction."""

    def __init__(self, text: str, strategy: str, base: Base | None = None) -> None:
        self.program = check(parse(text))
        self.views = [view for component in self.program.strata for view in component]
        self.db = connect()
        self.db.define("\n".join([text, *view_options(self.program, strategy)]))
        self.work = Work()
        self.base: dict[str, set[Row]] = {name: set(rows) for name, rows in self.program.facts.items()}
        self._known = self._recomputed()
        if base:
            self.change(insert=base)

    def change(
        self, *, delete: Base | None = None, insert: Base | None = None, upsert: Base | None = None
    ) -> dict[str, Delta]:
        """One transaction: deletions, insertions, upserts, in this order. Its changes are the oracle's, or it fails."""
        with self.db.transaction() as tx:
            for name, rows in (delete or {}).items():
                tx.delete(name, rows)
                self.base.setdefault(name, set()).difference_update(rows)
            for name, rows in (insert or {}).items():
                tx.insert(name, rows)
                self.base.setdefault(name, set()).update(rows)
            for name, rows in (upsert or {}).items():
                tx.upsert(name, rows)
                self._upsert(name, rows)
        self.work = tx.stats
        return self.compared(tx.changes)

    def compared(self, changes: upshot.ChangeSet) -> dict[str, Delta]:
        """The changes of all views, after they were found to be the difference of two recomputations."""
        found = {view: (set(changes[view].inserted), set(changes[view].deleted)) for view in self.views}
        before, self._known = self._known, self._recomputed()
        wanted = {view: (self._known[view] - before[view], before[view] - self._known[view]) for view in self.views}
        assert found == wanted
        assert {view: set(self.db.rows(view)) for view in self.views} == self._known
        return found

    def rows(self, name: str) -> set[Row]:
        return set(self.db.rows(name))

    def _upsert(self, name: str, rows: Rows) -> None:
        (key,) = self.program.schemas[name].keys
        held = self.base.setdefault(name, set())
        for row in rows:
            held -= {other for other in held if all(other[i] == row[i] for i in key)}
            held.add(row)

    def _recomputed(self) -> dict[str, set[Row]]:
        return evaluate(self.program, self.base)
