"""Rows of views that are not stored, by production rules: `start` rules put the first round into tables that go again.
[Ceri & Widom 1994]"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.engine.local.components.component import Component
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import NEW, T_NDEL, T_NINS, T_NRED
from upshot.engine.local.queries.queries import Query
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.storage import Storage, Table
from upshot.engine.work import ViewWork
from upshot.plan.program_plan import ProgramPlan
from upshot.syntax.ast import Atom, Variable, Wildcard

Codes = NDArray[np.int64]


class StartedViews:
    """The views of a plan that `strategy=production materialized=false` asks for, over the tables of what is stored."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, Table], storage: Storage, codec: Codec, runner: Runner
    ) -> None:
        self._plan, self._tables = plan, tables
        self._storage, self._codec, self._runner = storage, codec, runner

    def can_give(self, view: str, state: str) -> bool:
        """Whether start rules compute the view in that state. They read relations as they are after the change: the
        state before an open one is asked for otherwise."""
        if view not in self._plan.on_demand.started:
            return False
        return state == "new" or not any(
            self._tables[name].word(field)
            for component in self._plan.started
            for name in component.reads
            for field in (T_NINS, T_NDEL, T_NRED)
        )

    def can_answer(self, clauses: Collection[Clause], state: str) -> bool:
        """Whether a query in that state is for whole rows of one such view, with nothing that a selection could start
        from."""
        match tuple(clauses):
            case (Clause(body=(Atom(view, args),)),):
                names = [term.name for term in args if isinstance(term, Variable)]
                free = all(isinstance(term, Variable | Wildcard) for term in args) and len(set(names)) == len(names)
                return free and self.can_give(view, state)
            case _:
                return False

    def rows(self, view: str, work: ViewWork | None = None) -> Codes:
        with self._computed(view, work) as tables:
            return tables[view].in_state(NEW)

    def answer(self, schema: Schema, clauses: tuple[Clause, ...]) -> Codes:
        """The rows that the clauses derive for their head; the contents of the view go again."""
        atom = clauses[0].body[0]
        assert isinstance(atom, Atom)
        with self._computed(atom.relation, None) as tables:
            for table in tables.values():
                table.accept()
            every = {**self._tables, **tables}
            query = Query(self._plan.normal.schemas, every, self._storage, self._codec, self._runner)
            return query.answer(schema, clauses)

    @contextmanager
    def _computed(self, view: str, work: ViewWork | None) -> Iterator[dict[str, Table]]:
        """Tables of the view and of all unstored ones below it, filled stratum by stratum: a negation is tested when
        what it negates is complete."""
        schemas = self._plan.normal.schemas
        needed = {view}
        for plan in reversed(self._plan.started):
            if not needed.isdisjoint(plan.views):
                needed |= {*plan.views, *plan.reads}
        plans = [plan for plan in self._plan.started if not needed.isdisjoint(plan.views)]
        made: dict[str, Table] = {}
        components: list[Component] = []
        try:
            for plan in plans:
                made |= {name: self._storage.create(schemas[name].arity) for name in plan.views}
            for plan in plans:
                component = Component(plan, self._storage, {**self._tables, **made}, schemas, self._codec, self._runner)
                components.append(component)
                done = component.propagate()
                if work is not None:
                    work.add(done)
            yield made
        finally:
            for component in components:
                component.release()
            for table in made.values():
                self._storage.drop(table)
