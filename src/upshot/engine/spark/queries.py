"""Answers to queries over the committed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.engine.spark.aggregates import group_values
from upshot.engine.spark.asks import Answers, Ask
from upshot.engine.spark.pieces import Piece, nothing, united
from upshot.engine.spark.rule_frames import heads
from upshot.engine.spark.tables import Table, TableStatistics
from upshot.plan.order_body import Resolved
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import load_plan
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom


class Query:
    """A query being answered: the relations there are, and frames for the head and what the rewriting adds. Nothing
    runs before the head is asked for, in one job."""

    def __init__(self, schemas: Mapping[str, Schema], tables: Mapping[str, Table], answers: Answers) -> None:
        self._schemas: Mapping[str, Schema] = dict(schemas)
        self._tables, self._answers = tables, answers
        self._session: SparkSession = answers.session
        self._own: dict[str, DataFrame | None] = {}

    def answer(self, schema: Schema, clauses: tuple[Clause, ...]) -> Piece:
        """The rows that the clauses derive for the head relation from the committed rows."""
        stored = {name: replace(known, role=Role.BASE) for name, known in self._schemas.items()}
        normal = normal_form(CheckedProgram({**stored, schema.name: schema}, clauses, {}, ((schema.name,),)))
        self._schemas = normal.schemas
        for views in normal.strata:
            for view in views:
                self._own[view] = self._computed(tuple(c for c in normal.clauses if c.head.relation == view))
        frame = self._own[schema.name]
        if frame is None:
            return nothing(schema.types)
        large = sum(self._tables[name].committed.count for name in self._read(normal)) > 100 * self._answers.small
        (piece,) = self._answers.answer([Ask(frame, schema.types, large=large and not _has_constants(normal))])
        return piece

    def _read(self, normal: CheckedProgram) -> set[str]:
        names = {literal.relation for c in normal.clauses for literal in c.body if isinstance(literal, Atom)}
        return names & self._tables.keys()

    def _computed(self, clauses: tuple[Clause, ...]) -> DataFrame | None:
        """The rows of one view, None if there are none for sure."""
        frames = []
        statistics = TableStatistics(self._tables, lambda name: 1 if name in self._own else None)
        for clause in clauses:
            if aggregate_of(clause) is not None:
                source = clause.body[0]
                assert isinstance(source, Atom)
                frames.append(group_values(clause, self._schemas, self._state(source.relation)))
                continue
            plan = load_plan(clause, Action.INSERT, statistics, name="query", resolve=self._resolve, by_constants=True)
            frames.append(self._heads(plan))
        return united(frames).distinct() if frames else None

    def _heads(self, plan: RulePlan) -> DataFrame:
        return heads(plan, self._frame, self._driven, session=self._session, schemas=self._schemas)

    def _frame(self, relation: str, state: State) -> DataFrame:
        return self._state(relation)

    def _driven(self, relation: str, change: Change) -> DataFrame:
        return self._state(relation)

    def _state(self, relation: str) -> DataFrame:
        if relation not in self._own:
            return self._tables[relation].old_frame()
        frame = self._own[relation]
        return frame if frame is not None else nothing(self._schemas[relation].types).frame(self._session)

    def _resolve(self, relation: str) -> Resolved:
        return Resolved(relation, State.NEW if relation in self._own else State.OLD)


def _has_constants(normal: CheckedProgram) -> bool:
    """Whether rows are asked for by a given value, so that few are expected."""
    return any(
        any(not hasattr(term, "name") and hasattr(term, "value") for term in literal.args)
        for clause in normal.clauses
        for literal in clause.body
        if isinstance(literal, Atom)
    )
