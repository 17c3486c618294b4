"""Backward/forward on Spark: the search for other proofs as rounds of joins.

A step of the search is a job, so all rows search at once, and widen the search from step to step: each row without a
proof first searches one premise of another derivation, then two, four, and so on. Premises that were searched only for
rows that are proven by now are dropped: they may never have lost a derivation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from upshot.core.schema import Column, Schema
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.rounds.component import Propagation
from upshot.engine.spark.storage.pieces import Contents, Piece, nothing
from upshot.engine.spark.storage.requests import FrameRequest, Steps
from upshot.engine.spark.storage.table import MOST_LAYERS, rows_without, spilled
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.spark.types import framed
from upshot.syntax.ast import Variable

_FEWER = 4
"""Once this many times fewer rows are without a proof, the search restarts narrow, for those alone."""

_SEARCHED = "searched premises"
"""The name of premises paired with the rows that search them; no relation has this name."""

Rows = dict[str, Piece]
"""Rows of each view of the component."""


class BackwardForwardPropagation(Propagation):
    """A row of the views is deleted only after a search for another proof has failed. [Motik et al. 2015]

    `visited` are the rows that need no search: deleted, proven, or in the current wave; `unproven` are the rows of the
    search without a proof so far.
    """

    def _deletions(self, *, large: bool) -> Steps[tuple[dict[str, Contents], dict[str, Contents]]]:
        """The rows without a proof, which are both the over-deleted rows and those that are not rederived."""
        self._gone, self._proven = self._nothing(), self._nothing()
        self._visited, self._unproven = self._nothing(), self._nothing()
        self._old = dict(self._working)
        """The old state without the rows that earlier waves have deleted."""
        self._open, self._width = dict(self._working), 1
        """The rows that can be searched, and how many of them per searching row."""
        plans = self._plans("delete")
        lost = yield from self._lost([plan for plan in plans if plan.seed], large=large)
        while _count(lost):
            gone = yield from self._search(lost)
            self._driving = {(view, Change.DELETED): rows for view, rows in gone.items()}
            lost = yield from self._lost([plan for plan in plans if not plan.seed], large=False)
            for view in gone:
                self._old[view] = self._without(view, self._gone)
        self._working = {view: self._without(view, self._gone) for view in self._views}
        self.work.deleted += sum(rows.count for rows in self._gone.values())
        self.work.answered += sum(rows.count for rows in self._proven.values())
        return dict(self._gone), dict(self._gone)

    def _lost(self, plans: Sequence[RulePlan], *, large: bool) -> Steps[Rows]:
        """The rows that lost a derivation and are neither proven nor gone."""
        due = [plan for plan in plans if self._driven(plan)]
        if not due:
            return {}
        self.work.rounds += 1
        return (yield from self._new_rows(due, self._visited, present=False, large=large))

    # ---- the search ------------------------------------------------------------------------------------------------

    def _search(self, lost: Rows) -> Steps[Rows]:
        """One wave: the rows without a proof, none if all lost rows have one. An exhausted search is complete, so the
        rows that it has not proven have no proof."""
        self._restart(lost)
        yield from self._look_at(lost)
        begun, width = _count(lost), 1
        while _count(left := (yield from self._lost_without_proof(lost))):
            if _FEWER * _count(left) <= begun:
                self._restart(left)
                begun, width = _count(left), 1
            premises = yield from self._premises(width)
            if not _count(premises):
                return (yield from self._delete_unproven())
            yield from self._add(self._visited, premises)
            yield from self._add(self._unproven, premises)
            yield from self._look_at(premises)
            width *= 2
        self._restart({})
        return {}

    def _restart(self, left: Rows) -> None:
        """Drop all rows of the search but these."""
        self._visited, self._unproven = self._nothing(), self._nothing()
        for view in self._views:
            rows = left.get(view, nothing(self._views[view].types))
            for piece in (self._gone[view], self._proven[view], rows):
                self._visited[view] = self._visited[view].plus(piece)
            self._unproven[view] = self._unproven[view].plus(rows)

    def _lost_without_proof(self, lost: Rows) -> Steps[Rows]:
        """The lost rows without a proof so far."""
        left = {}
        for view, rows in lost.items():
            left[view] = yield from rows_without(Contents.of(rows), self._proven[view], self._session)
        return left

    def _look_at(self, rows: Rows) -> Steps[None]:
        """Prove these rows from proven ones, and rows of the search from them."""
        self.work.asked += _count(rows)
        self._driving = {(view, Change.DELETED): each for view, each in rows.items() if each.count}
        yield from self._rounds(
            "prove", Change.REDERIVED, self._unproven, present=True, take=self._prove, held=self._proven
        )
        for view, contents in self._unproven.items():
            if contents.layers > MOST_LAYERS:
                (piece,) = yield [FrameRequest(contents.frame(self._session), contents.types, large=True)]
                self._unproven[view] = Contents.of(piece)

    def _prove(self, view: str, rows: Piece) -> None:
        self._unproven[view] = self._unproven[view].minus(rows)
        self._proven[view] = self._proven[view].plus(rows)

    def _premises(self, width: int) -> Steps[Rows]:
        """For each row without a proof, at most this many unvisited premises per rule."""
        self._driving = {(view, Change.DELETED): each for view, each in self._unproven.items() if each.count}
        due = [plan for plan in self._plans("check") if self._driven(plan)]
        if not due:
            return {}
        self.work.rounds += 1
        self._width = width
        self._open = {view: self._without(view, self._visited) for view in self._views}
        return (yield from self._new_rows(due, self._visited, present=False, large=False))

    def _delete_unproven(self) -> Steps[Rows]:
        """Delete every row that the search has not proven."""
        gone: Rows = {}
        for view, rows in self._unproven.items():
            if rows.count:
                gone[view] = yield from rows_without(rows, Contents(rows.types), self._session)
        yield from self._add(self._gone, gone)
        self._restart({})
        return gone

    # ---- sets of rows ----------------------------------------------------------------------------------------------

    def _nothing(self) -> dict[str, Contents]:
        return {view: Contents(table.types) for view, table in self._views.items()}

    def _add(self, contents: dict[str, Contents], rows: Rows) -> Steps[None]:
        for view, each in rows.items():
            contents[view] = yield from spilled(contents[view].plus(each), self._small)

    def _without(self, view: str, contents: Mapping[str, Contents]) -> Contents:
        """The old rows of a view without some of them."""
        return self._views[view].committed.minus(contents[view])

    # ---- frames ----------------------------------------------------------------------------------------------------

    def _read(self, relation: str, state: State) -> DataFrame:
        if relation in self._views and state is not State.NEW:
            held = {State.OLD: self._old, State.KEPT: self._open, State.PROVEN: self._proven}[state]
            return held[relation].frame(self._session, framed(self._views[relation].types))
        table = self._tables[relation]
        if state is not State.KEPT or not table.deleted.count:
            return super()._read(relation, state)
        return table.contents(State.OLD).minus(table.deleted).frame(self._session, framed(table.types))

    def _heads(self, plan: RulePlan, *, small: bool) -> DataFrame:
        """Of a searching rule, a few premises per row: the least ones, so that rules pick the same derivation."""
        if plan.action is not Action.ASK or not plan.arguments:
            return super()._heads(plan, small=small)
        assert plan.driver is not None
        asking = [Variable(name) for _, name in plan.driver.match.binds]
        columns = (
            *self._schemas[plan.head].columns,
            *(Column(variable.name, plan.types[variable.name]) for variable in asking),
        )
        schemas = {**self._schemas, _SEARCHED: Schema(_SEARCHED, columns)}
        both = replace(plan, head=_SEARCHED, arguments=(*plan.arguments, *asking))
        rows = heads(both, self._read, self._drive, session=self._session, schemas=schemas, small=small)
        asked = [f"c{i}" for i in range(len(plan.arguments))]
        by = [F.col(f"c{i}") for i in range(len(asked), len(columns))] or [F.lit(True)]
        place = F.dense_rank().over(Window.partitionBy(*by).orderBy(*asked))
        return rows.withColumn("place", place).filter(F.col("place") <= self._width).select(*asked)


def _count(rows: Rows) -> int:
    return sum(each.count for each in rows.values())
