"""Answers to queries: one plan over what is stored, or magic sets where something is derived on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Schema
from upshot.engine.local.codec import Codec
from upshot.engine.local.demand_run import DemandRun
from upshot.engine.local.installed import Installed
from upshot.engine.local.queries import Query
from upshot.engine.local.runner import Runner
from upshot.engine.local.storage import Storage, Table
from upshot.engine.work import ViewWork
from upshot.rewrite.questions import about_clauses

Codes = NDArray[np.int64]
Given = Mapping[str, tuple[Schema, Codes]]
"""Relations that are there for one query only, with their rows."""


class Answers:
    """Answers from one state of a program, `old` or `new`; `work` is what the last one took."""

    def __init__(
        self, installed: Installed, state: str, storage: Storage, codec: Codec, runner: Runner, *, memo: bool = True
    ) -> None:
        self._installed, self._state, self._memo = installed, state, memo
        self._storage, self._codec, self._runner = storage, codec, runner
        self.work = ViewWork()

    def answer(self, schema: Schema, clauses: tuple[Clause, ...], given: Given, helpers: Mapping[str, Schema]) -> Codes:
        """The rows that the clauses derive for the head. Joins begin at `given` relations, which are small, and what is
        derived on the way (the `helpers`, aggregates, views that are not stored) is only asked for what they need."""
        views = self._installed.on_demand
        reaches = views is not None and views.reaches(clauses)
        if views is not None and reaches and not helpers and views.started.can_answer(clauses, self._state):
            return views.started.answer(schema, clauses)
        known = {name: each for name, (each, _) in given.items()}
        with self._tables(given) as tables:
            if not reaches and not helpers:
                schemas = {**self._installed.schemas, **known}
                query = Query(schemas, tables, self._storage, self._codec, self._runner, self._state)
                normal = query.normal(schema, clauses)
                if not given or len(normal.strata) == 1:
                    codes = query.derived(schema.name, normal)
                    self.work = query.work
                    return codes
            return self._on_demand(schema, clauses, tables, known, helpers)

    def _on_demand(
        self, schema: Schema, clauses: tuple[Clause, ...], tables: Mapping[str, Table], given: Mapping[str, Schema],
        helpers: Mapping[str, Schema],
    ) -> Codes:  # fmt: skip
        plan, views = self._installed.plan, self._installed.on_demand
        normal = plan.normal if plan is not None else CheckedProgram({}, (), {}, ())
        question, program = about_clauses(
            normal, views.unstored if views is not None else (), schema, clauses, state=self._state, given=given,
            helpers=helpers,
        )  # fmt: skip
        run = DemandRun(
            question.program, tables, program.schemas, self._storage, self._codec, self._runner, memo=self._memo
        )
        try:
            self.work = run.run({})
            return run.rows(question.answers[schema.name])
        finally:
            run.release()

    @contextmanager
    def _tables(self, given: Given) -> Iterator[Mapping[str, Table]]:
        """All tables there are to read."""
        made: dict[str, Table] = {}
        try:
            for name, (schema, codes) in given.items():
                made[name] = table = self._storage.create(schema.arity)
                table.stage(codes, insert=True)
                table.settle()
                table.accept()
            yield {**self._installed.tables, **made}
        finally:
            for table in made.values():
                self._storage.drop(table)
