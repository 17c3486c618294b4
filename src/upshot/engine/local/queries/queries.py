"""Answer queries over stored relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.engine.local.components.aggregates import AggregateView
from upshot.engine.local.components.assemble import Assembler
from upshot.engine.local.components.phases import LocalStatistics
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import NEW, OLD
from upshot.engine.local.storage.storage import Table
from upshot.engine.work import ViewWork
from upshot.plan.order_body import Resolved
from upshot.plan.rule_plan import Action, State
from upshot.plan.rule_plans import load_plan
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom


class LocalQuery:
    """A query over the relations in one state, `old` or `new`, with temporary tables for the head and for auxiliary
    views of normal form."""

    def __init__(
        self, schemas: Mapping[str, Schema], tables: Mapping[str, Table], runner: Runner, state: str = "old"
    ) -> None:
        self._state = State.NEW if state == "new" else State.OLD
        self._schemas, self._storage, self._codec, self._runner = dict(schemas), runner.storage, runner.codec, runner
        self._tables = dict(tables)
        self._own: dict[str, Table] = {}
        self.work = ViewWork()

    def program(self, schema: Schema, clauses: tuple[Clause, ...]) -> CheckedProgram:
        """The normal form of the query over stored relations."""
        stored = {name: replace(known, role=Role.BASE) for name, known in self._schemas.items()}
        return normal_form(CheckedProgram({**stored, schema.name: schema}, clauses, {}, ((schema.name,),)))

    def answer(self, schema: Schema, normal: CheckedProgram) -> NDArray[np.int64]:
        """The rows of the head relation. The program is not recursive: each stratum is computed once."""
        self._schemas = dict(normal.schemas)
        try:
            for views in normal.strata:
                for view in views:
                    self._own[view] = self._tables[view] = self._storage.create(normal.schemas[view].arity)
                self._compute(tuple(c for c in normal.clauses if c.head.relation in views))
            return self._own[schema.name].in_state(NEW)
        finally:
            for table in self._own.values():
                self._storage.drop(table)

    def _compute(self, clauses: tuple[Clause, ...]) -> None:
        plain = [clause for clause in clauses if aggregate_of(clause) is None]
        for clause in clauses:
            if aggregate_of(clause) is not None:
                self._aggregate(clause)
        if not plain:
            return
        statistics = LocalStatistics(self._tables)
        plans = [
            load_plan(c, Action.INSERT, statistics, name="query", resolve=self._resolve, by_constants=True)
            for c in plain
        ]
        widest = max(schema.arity for schema in self._schemas.values()) + 1
        phase = Assembler(self._storage, self._tables, self._schemas, self._codec, widest).assemble(plans)
        try:
            own = list(self._own.items())
            self._runner.run(phase, own, None, {table.number: table for _, table in own}, self.work)
        finally:
            phase.release(self._storage)

    def _aggregate(self, clause: Clause) -> None:
        source = clause.body[0]
        assert isinstance(source, Atom)
        head = clause.head.relation
        view = AggregateView(
            clause, self._schemas[head], self._schemas[source.relation], self._tables[head],
            self._tables[source.relation], self._codec,
        )  # fmt: skip
        view.load(NEW if source.relation in self._own or self._state is State.NEW else OLD)
        self._tables[head].settle()

    def _resolve(self, relation: str) -> Resolved:
        return Resolved(relation, State.NEW if relation in self._own else self._state)
