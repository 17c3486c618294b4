"""Demand programs in the driver: the stored relations that views on demand read, held by a local engine.

A demand program takes many short rounds, and a round as a job costs a thousand times what it does here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from upshot.check.active.events import HeardChanges
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Column, Role, Schema
from upshot.engine.limits import BudgetExceeded, Limits, in_bytes
from upshot.engine.local.queries.answers import Answers
from upshot.engine.local.queries.on_demand import LocalOnDemandViews
from upshot.engine.spark.demand.queries import Given
from upshot.engine.spark.storage.driver_copy import Codes, DriverCopy, DriverMemory, needed_bytes
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs
from upshot.engine.spark.storage.table import FrameTable
from upshot.engine.work import ViewWork
from upshot.plan.on_demand import OnDemand
from upshot.plan.program_plan import ProgramPlan
from upshot.rewrite.demand.demand import DemandProgram

T = TypeVar("T")


class DemandInDriver:
    """The views on demand of a plan as the driver computes them; kept as long as the plan is, from commit to commit.
    What outgrows its memory is answered by None, and rounds must do."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, FrameTable], reads: Iterable[str], jobs: Jobs, limits: Limits,
        memory: DriverMemory,
    ) -> None:  # fmt: skip
        self._tables, self._names = tables, set(reads)
        self._jobs, self._memory, self._outgrown = jobs, memory, False
        self._limits = replace(limits, memory=None)
        self._plan = _plan_in_driver(plan)
        self._copy: _DemandCopy | None = None

    def release(self) -> None:
        if self._copy is not None:
            self._copy.close()
        self._copy = None

    def fits(self, names: Iterable[str] = ()) -> bool:
        """Test whether the driver may hold the inputs of the views, and these relations besides."""
        return not self._outgrown and self._needed(names) <= self._memory.left_for(self._copy)

    def _needed(self, names: Iterable[str] = ()) -> int:
        return needed_bytes(self._tables[name] for name in self._names.union(names))

    def describe(self) -> str:
        most = in_bytes(self._memory.most)
        if self._outgrown:
            return f"rounds of joins on Spark, since they need more than the {most} that the driver may hold"
        if not self.fits():
            needed = in_bytes(self._needed())
            return f"rounds of joins on Spark: what the views read needs about {needed}, and the driver may hold {most}"
        return "all rounds in the driver, which holds what the views read"

    # ---- requests --------------------------------------------------------------------------------------------------

    def changes(
        self, views: tuple[str, ...], afresh: Collection[str], following: DemandProgram | None, work: ViewWork,
        reads: Iterable[str] = (),
    ) -> dict[str, tuple[Piece, Piece]] | None:  # fmt: skip
        """The inserted and the deleted rows of the views, by the changes of the tables; and of the rules, if there are
        some for `following` them, which read these stored relations besides."""
        self._names.update(reads)

        def found(copy: _DemandCopy) -> dict[str, tuple[Piece, Piece]]:
            return copy.net_changes(self._held(), views, afresh, following, work)

        return self._tried(found)

    def asked(
        self, adornments: Mapping[str, str], bindings: Mapping[str, Piece], state: str, work: ViewWork
    ) -> dict[str, Piece] | None:
        """The rows of views that have one of the bindings, and others that were found on the way."""

        def found(copy: _DemandCopy) -> dict[str, Piece]:
            with_change = self._held() if state == "new" else {}
            return {
                view: copy.asked(view, adornment, bindings[view], with_change, work)
                for view, adornment in adornments.items()
            }

        return self._tried(found)

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], reads: Iterable[str], state: str, given: Given,
        helpers: Mapping[str, Schema],
    ) -> Piece | None:  # fmt: skip
        """The rows that a query's clauses, which read these stored relations besides, derive for its head."""
        self._names.update(reads)

        def found(copy: _DemandCopy) -> Piece:
            with_change = self._held() if state == "new" else {}
            return copy.answer(schema, clauses, given, helpers, with_change)

        return self._tried(found)

    def _held(self) -> dict[str, FrameTable]:
        return {name: self._tables[name] for name in sorted(self._names)}

    def _tried(self, work: Callable[[_DemandCopy], T]) -> T | None:
        """The result of the work on the copy, which holds the committed rows; None if they outgrow the driver."""
        try:
            if self._copy is None:
                self._copy = _DemandCopy(self._plan, self._limits, self._jobs, self._memory)
                self._copy.start()
            self._copy.follow(self._held())
            return work(self._copy)
        except BudgetExceeded:
            self.release()
            self._outgrown = True
            return None


class _DemandCopy(DriverCopy):
    """A copy whose views are all on demand. What it finds is made a piece before the change is undone, since texts that
    no table holds are reclaimed then."""

    @property
    def _views(self) -> LocalOnDemandViews:
        assert self._now.on_demand is not None
        return self._now.on_demand

    def _made(self, view: str, codes: Codes) -> Piece:
        return self.piece(self._schema(view), codes)

    def net_changes(
        self, tables: Mapping[str, FrameTable], views: Iterable[str], afresh: Collection[str],
        following: DemandProgram | None, work: ViewWork,
    ) -> dict[str, tuple[Piece, Piece]]:  # fmt: skip
        try:
            changed = self._settled({name: table for name, table in tables.items() if table.matters})
            with self._bounded(", ".join(views)):
                self._views.follow_rules(following)
                if afresh:
                    found, done = self._views.changes(changed, afresh)
                else:
                    found, done = self._views.propagate(changed, {})
            # The net changes are counted where they are settled.
            done.inserted = done.deleted = 0
            work.add(done)
            none = {view: np.empty((0, self._schema(view).arity), np.int64) for view in views}
            net = {view: found.get(view, (none[view], none[view])) for view in views}
            return {view: (self._made(view, plus), self._made(view, minus)) for view, (plus, minus) in net.items()}
        finally:
            self.rollback()

    def _settled(self, tables: Mapping[str, FrameTable]) -> list[str]:
        """Make the open change of tables the new state, and name those that it changes."""
        changed = {name: table for name, table in tables.items() if table.changed}
        self.stage_changes(changed)
        for name in changed:
            with self._bounded(name):
                self._now.tables[name].settle()
        return sorted(changed)

    def asked(
        self, view: str, adornment: str, bindings: Piece, with_change: Mapping[str, FrameTable], work: ViewWork
    ) -> Piece:
        """The rows of a view that have one of the bindings, after the open change of some tables."""
        types = [t for t, letter in zip(self._schema(view).types, adornment, strict=True) if letter == "b"]
        codes = np.empty((1, 0), np.int64)
        if types:
            codes = self._rows_of(Schema(view, tuple(Column(f"c{i}", type) for i, type in enumerate(types))), bindings)
        try:
            self._settled(with_change)
            with self._bounded(view):
                found = self._views.asked(view, adornment, codes, "new" if with_change else "old", work=work)
            return self._made(view, found)
        finally:
            self.rollback()

    def _rows_of(self, schema: Schema, piece: Piece) -> Codes:
        parts = list(self.coded(schema, piece))
        return np.concatenate(parts) if parts else np.empty((0, schema.arity), np.int64)

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], given: Given, helpers: Mapping[str, Schema],
        with_change: Mapping[str, FrameTable],
    ) -> Piece:  # fmt: skip
        try:
            self._settled(with_change)
            with self._bounded("a query"):
                coded = {name: (known, self._rows_of(known, rows)) for name, (known, rows) in given.items()}
                state = "new" if with_change else "old"
                memo = self._optimizations.memo
                answers = Answers(self._now, state, self._storage, self._codec, self._runner, memo=memo)
                found = answers.answer(schema, clauses, coded, helpers)
            return self.piece(schema, found)
        finally:
            self.rollback()


def _plan_in_driver(plan: ProgramPlan) -> ProgramPlan:
    """The views on demand over all that is stored. No copy of a view is stored here, and of one that has a copy all
    changes are wanted; rules hear what they would in several turns."""
    normal, strategies = plan.normal, plan.on_demand.strategies
    schemas = {n: s if n in strategies else replace(s, role=Role.BASE) for n, s in normal.schemas.items()}
    clauses = tuple(clause for clause in normal.clauses if clause.head.relation in strategies)
    strata = tuple(layer for layer in normal.strata if layer[0] in strategies)
    program = CheckedProgram(schemas, clauses, {}, strata)
    seen = {name: schema for name, schema in schemas.items() if name in plan.source.schemas}
    options = {view: each for view, each in plan.source.options.items() if view not in plan.on_demand.kept}
    source = replace(program, schemas=seen, options=options)
    components = tuple(c for c in plan.components if c.views[0] in strategies)
    on_demand = OnDemand(strategies, nervous=plan.on_demand.nervous)
    heard = HeardChanges(plan.heard.several, plan.heard.several)
    return ProgramPlan(source, program, components, plan.strategies, on_demand, heard=heard)
