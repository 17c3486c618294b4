"""Answer queries: by one plan over stored relations, or by magic sets if the query needs derived rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Schema
from upshot.engine.local.components.installed import LocalProgram
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.queries.demand_run import DemandRun
from upshot.engine.local.queries.prepared_queries import PreparedQuery, QueryInputs
from upshot.engine.local.queries.queries import LocalQuery
from upshot.engine.local.storage.codec import Codec, Misfit
from upshot.engine.local.storage.storage import Table
from upshot.engine.work import ViewWork
from upshot.rewrite.demand.magic_sets import query_clauses
from upshot.syntax.ast import Atom, Constant

Codes = NDArray[np.int64]
_FEW = 1_000
"""Input relations with at most this many rows are not filtered."""


def _is_recursive(program: CheckedProgram) -> bool:
    """Test whether a relation depends on itself, for example the values of a range."""
    component = {view: views for views in program.strata for view in views}
    return any(
        isinstance(literal, Atom) and literal.relation in component.get(clause.head.relation, ())
        for clause in program.clauses
        for literal in clause.body
    )


class Answers:
    """Answers queries in one state of a program, `old` or `new`; `work` is that of the last query."""

    def __init__(self, installed: LocalProgram, state: str, runner: Runner, *, memo: bool = True) -> None:
        self._installed, self._state, self._runner, self._memo = installed, state, runner, memo
        self.work = ViewWork()

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], inputs: QueryInputs, helpers: Mapping[str, Schema]
    ) -> Codes:
        """The rows that the clauses derive for the head. Joins start at `inputs` relations, which are small; of derived
        relations (the `helpers`, aggregates, unstored views) only the needed rows are computed."""
        views = self._installed.on_demand
        reaches = views is not None and views.reaches(clauses)
        if views is not None and reaches and not helpers and views.started.can_answer(clauses, self._state):
            return views.started.answer(schema, clauses)
        if not (reaches or inputs or helpers):
            query = LocalQuery(self._installed.schemas, self._installed.tables, self._runner, self._state)
            normal = query.program(schema, clauses)
            if not _is_recursive(normal):
                codes = query.answer(schema, normal)
                self.work = query.work
                return codes

        def make(tables: Mapping[str, Table]) -> PreparedQuery:
            return self._prepared(schema, clauses, {name: each for name, (each, _) in inputs.items()}, tables, helpers)

        if inputs:
            codes, self.work = self._installed.prepared_queries(self._runner.storage).answer(
                schema.name, clauses, inputs, make
            )
            return codes
        prepared = make({})
        try:
            codes, self.work = prepared.answer({})
            return codes
        finally:
            prepared.release(self._runner.storage)

    def _prepared(
        self, schema: Schema, clauses: tuple[Clause, ...], inputs: Mapping[str, Schema], tables: Mapping[str, Table],
        helpers: Mapping[str, Schema],
    ) -> PreparedQuery:  # fmt: skip
        plan, views = self._installed.plan, self._installed.on_demand
        normal = plan.normal if plan is not None else CheckedProgram({}, (), {}, ())
        prepared, program = query_clauses(
            normal, views.unstored if views is not None else (), schema, clauses, state=self._state, inputs=inputs,
            helpers=helpers,
        )  # fmt: skip
        run = DemandRun(
            prepared.program, {**self._installed.tables, **tables}, program.schemas, self._runner, memo=self._memo,
        )  # fmt: skip
        return PreparedQuery(clauses, run, tables, prepared.answers[schema.name])


def selected_rows(
    inputs: Mapping[str, tuple[Schema, Codes]], clauses: Iterable[Clause], codec: Codec
) -> dict[str, tuple[Schema, Codes]]:
    """The `inputs` relations of a query without rows that no literal matches, by its constants."""
    found = dict(inputs)
    if all(len(codes) <= _FEW for _, codes in inputs.values()):
        return found
    used: dict[str, list[Atom]] = {}
    for clause in clauses:
        for literal in clause.body:
            for atom in atoms(literal):
                used.setdefault(atom.relation, []).append(atom)
    for name, (schema, codes) in inputs.items():
        if len(codes) > _FEW:
            found[name] = (schema, _matching(codes, schema, used.get(name, ()), codec))
    return found


def _matching(codes: Codes, schema: Schema, literals: Iterable[Atom], codec: Codec) -> Codes:
    matched = np.zeros(len(codes), np.bool_)
    for atom in literals:
        fits: NDArray[np.bool_] | None = None
        for place, (term, column) in enumerate(zip(atom.args, schema.columns, strict=True)):
            if isinstance(term, Constant) and term.value is not None:
                try:
                    same = codes[:, place] == codec.encoder(column.type)(term.value)
                except Misfit:
                    same = np.zeros(len(codes), np.bool_)
                fits = same if fits is None else fits & same
        if fits is None:
            return codes
        matched |= fits
    return codes[matched]
