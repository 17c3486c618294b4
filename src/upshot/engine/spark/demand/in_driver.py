"""Demand programs in the driver: the stored relations that views on demand read, held by a local engine.

A demand program takes many short rounds, and a round as a job costs a thousand times as much as here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from upshot.check.active.events import RelevantChanges
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Column, Role, Schema
from upshot.engine.limits import Limits
from upshot.engine.local.queries.answers import Answers
from upshot.engine.local.queries.on_demand import LocalOnDemandViews
from upshot.engine.spark.demand.queries import Given
from upshot.engine.spark.storage.driver_copy import Codes, DriverCopy, DriverMemory, InDriver
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs
from upshot.engine.spark.storage.table import FrameTable
from upshot.engine.work import ViewWork
from upshot.plan.on_demand import OnDemand
from upshot.plan.program_plan import ProgramPlan
from upshot.rewrite.demand.demand import DemandProgram

T = TypeVar("T")


class DemandInDriver(InDriver["DemandCopy"]):
    """The views on demand of a plan as the driver computes them; kept as long as the plan is, from commit to commit."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, FrameTable], reads: Iterable[str], jobs: Jobs, limits: Limits,
        memory: DriverMemory,
    ) -> None:  # fmt: skip
        super().__init__(memory)
        self._tables, self._names = tables, set(reads)
        self._jobs, self._limits = jobs, replace(limits, memory=None)
        self._plan = _plan_in_driver(plan)

    def run(self, work: Callable[[DemandCopy], T], reads: Iterable[str] = ()) -> T | None:
        """The result of work on the copy, which reads the inputs of the views and these stored relations; None if they
        outgrow the driver."""
        names = self._names.union(reads)
        if not self.fits(self._tables[name] for name in names):
            return None
        self._names = names
        return self.tried(lambda: work(self._followed()))

    def _followed(self) -> DemandCopy:
        if self._copy is None:
            self._copy = DemandCopy(self._plan, self._limits, self._jobs, self._memory)
            self._copy.start()
        self._copy.sources = {name: self._tables[name] for name in sorted(self._names)}
        self._copy.follow(self._copy.sources)
        return self._copy

    def describe(self) -> str:
        tables = [self._tables[name] for name in self._names]
        if self.fits(tables):
            return "all rounds in the driver, which holds what the views read"
        return f"rounds of joins on Spark: {self.refusal(tables)}"


class DemandCopy(DriverCopy):
    """A copy whose views are all on demand, in the committed state of its `sources`. Results become pieces before the
    change is undone, since texts that no table holds are reclaimed then."""

    sources: Mapping[str, FrameTable]

    @property
    def _views(self) -> LocalOnDemandViews:
        assert self._now.on_demand is not None
        return self._now.on_demand

    def net_changes(
        self, views: Collection[str], afresh: Collection[str], following: DemandProgram | None, work: ViewWork
    ) -> dict[str, tuple[Piece, Piece]]:
        """The inserted and the deleted rows of the views, by the changes of their inputs, and of the rules if there is
        a program `following` them."""
        try:
            changed = self._settled({name: table for name, table in self.sources.items() if table.matters})
            with self._bounded(", ".join(views)):
                self._views.follow_rules(following)
                if afresh:
                    found, done = self._views.changes(changed, afresh)
                else:
                    found, done = self._views.propagate(changed, {})
            # The net changes are counted where they are settled.
            done.inserted = done.deleted = 0
            work.add(done)
            net = {}
            for view in views:
                schema = self._schema(view)
                none = np.empty((0, schema.arity), np.int64)
                plus, minus = found.get(view, (none, none))
                net[view] = self.piece(schema, plus), self.piece(schema, minus)
            return net
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

    def matching(
        self, adornments: Mapping[str, str], bindings: Mapping[str, Piece], state: str, work: ViewWork
    ) -> dict[str, Piece]:
        """The rows of views that have one of the bindings, and others that were found on the way."""
        return {view: self._matching(view, each, bindings[view], state, work) for view, each in adornments.items()}

    def _matching(self, view: str, adornment: str, bindings: Piece, state: str, work: ViewWork) -> Piece:
        schema = self._schema(view)
        bound = [column for column, letter in zip(schema.columns, adornment, strict=True) if letter == "b"]
        codes = np.empty((1, 0), np.int64)
        if bound:
            columns = tuple(Column(f"c{i}", column.type) for i, column in enumerate(bound))
            codes = self._rows_of(Schema(view, columns), bindings)
        try:
            self._settled(self.sources if state == "new" else {})
            with self._bounded(view):
                return self.piece(schema, self._views.rows_for(view, adornment, codes, state, work=work))
        finally:
            self.rollback()

    def _rows_of(self, schema: Schema, piece: Piece) -> Codes:
        parts = list(self.coded(schema, piece))
        return np.concatenate(parts) if parts else np.empty((0, schema.arity), np.int64)

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], state: str, given: Given, helpers: Mapping[str, Schema]
    ) -> Piece:
        """The rows that a query's clauses derive for its head."""
        try:
            self._settled(self.sources if state == "new" else {})
            with self._bounded("a query"):
                coded = {name: (known, self._rows_of(known, rows)) for name, (known, rows) in given.items()}
                memo = self._optimizations.memo
                answers = Answers(self._now, state, self._runner, memo=memo)
                return self.piece(schema, answers.answer(schema, clauses, coded, helpers))
        finally:
            self.rollback()


def _plan_in_driver(plan: ProgramPlan) -> ProgramPlan:
    """The views on demand over all stored relations. None of the views has a stored copy here; all changes are computed
    of those that have one, and those for rules as in several turns."""
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
    relevant = RelevantChanges(plan.relevant.several, plan.relevant.several)
    return ProgramPlan(source, program, components, plan.strategies, on_demand, relevant=relevant)
