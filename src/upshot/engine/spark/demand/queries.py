"""Answers to queries over stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import CheckedProgram, Clause
from upshot.core.errors import UsageError
from upshot.core.schema import Role, Schema
from upshot.engine.spark.frames.aggregates import group_values
from upshot.engine.spark.frames.joins import in_one_part
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.storage.pieces import Piece, nothing, united
from upshot.engine.spark.storage.requests import FrameRequest, Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable, TableStatistics
from upshot.plan.order_body import Resolved
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import load_plan
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom

Given = Mapping[str, tuple[Schema, Piece]]
"""Relations of one query only, with their rows."""


class Query:
    """A query over the relations in one state, `old` or `new`, and the `given` ones. Frames are made for the head and
    the helpers; one job computes the head."""

    def __init__(
        self, schemas: Mapping[str, Schema], tables: Mapping[str, FrameTable], answers: Jobs, state: str = "old",
        given: Given = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._schemas: Mapping[str, Schema] = {**schemas, **{name: known for name, (known, _) in given.items()}}
        self._tables, self._answers, self._is_new = tables, answers, state == "new"
        self._session: SparkSession = answers.session
        self._given = {name: rows for name, (_, rows) in given.items()}
        self._own: dict[str, DataFrame | None] = {}

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], helpers: Mapping[str, Schema] = MappingProxyType({})
    ) -> Steps[Piece]:
        """The rows that the clauses derive for the head relation; `helpers` are relations that they derive as well."""
        stored = {name: replace(known, role=Role.BASE) for name, known in self._schemas.items()}
        views = {name: replace(known, role=Role.VIEW) for name, known in {**helpers, schema.name: schema}.items()}
        empty = CheckedProgram({}, (), {}, ())
        normal = normal_form(stratified(empty, clauses, {**stored, **views}, by="the rewriting of a query"))
        self._schemas = normal.schemas
        for layer in normal.strata:
            assert len(layer) == 1, "a query derives nothing from itself"
            deriving = tuple(c for c in normal.clauses if c.head.relation == layer[0])
            if any(isinstance(each, Atom) and each.relation == layer[0] for c in deriving for each in c.body):
                raise UsageError(
                    "a query on Spark cannot compute the values of a `range`",
                    code="range-on-spark",
                    help="define a view with the range, and query the view",
                )
            self._own[layer[0]] = self._computed(deriving)
        frame = self._own[schema.name]
        if frame is None:
            return nothing(schema.types)
        large = sum(self._tables[name].size for name in self._read(normal)) > 100 * self._answers.small
        large = large and not self._given and not _has_constants(normal)
        (piece,) = yield [FrameRequest(frame, schema.types, large=large, branches=len(clauses))]
        return piece

    def _read(self, normal: CheckedProgram) -> set[str]:
        names = {literal.relation for c in normal.clauses for literal in c.body if isinstance(literal, Atom)}
        return names & self._tables.keys()

    def _computed(self, clauses: tuple[Clause, ...]) -> DataFrame | None:
        """The rows of one view; None if it has no clauses."""
        frames = []
        statistics = TableStatistics(self._tables, self._size_of)
        for clause in clauses:
            if aggregate_of(clause) is not None:
                source = clause.body[0]
                assert isinstance(source, Atom)
                frames.append(group_values(clause, self._schemas, self._state(source.relation)))
                continue
            plan = load_plan(clause, Action.INSERT, statistics, name="query", resolve=self._resolve, by_constants=True)
            frames.append(self._heads(plan))
        return in_one_part(united(frames)).distinct() if frames else None

    def _size_of(self, name: str) -> int | None:
        """The number of rows of a relation that is not a table."""
        return self._given[name].count if name in self._given else 1 if name in self._own else None

    def _heads(self, plan: RulePlan) -> DataFrame:
        return heads(plan, self._frame, self._driven, session=self._session, schemas=self._schemas)

    def _frame(self, relation: str, state: State) -> DataFrame:
        return self._state(relation)

    def _driven(self, relation: str, change: Change) -> DataFrame:
        return self._state(relation)

    def _state(self, relation: str) -> DataFrame:
        if relation in self._given:
            return self._given[relation].frame(self._session)
        if relation not in self._own:
            table = self._tables[relation]
            return table.frame(State.NEW if self._is_new else State.OLD)
        frame = self._own[relation]
        return frame if frame is not None else nothing(self._schemas[relation].types).frame(self._session)

    def _resolve(self, relation: str) -> Resolved:
        return Resolved(relation, State.NEW if relation in self._own else State.OLD)


def _has_constants(normal: CheckedProgram) -> bool:
    """Test whether rows are selected by a constant, so that few are expected."""
    return any(
        any(not hasattr(term, "name") and hasattr(term, "value") for term in literal.args)
        for clause in normal.clauses
        for literal in clause.body
        if isinstance(literal, Atom)
    )
