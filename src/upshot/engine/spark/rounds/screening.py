"""Changes that no literal of any rule can match, found by looking at the changed rows alone."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.components.screening import Screening
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.encode_rows import encode_rows
from upshot.engine.local.storage.storage import Storage
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.storage.pieces import LocalPiece, united
from upshot.engine.spark.storage.requests import FrameRequest, Steps
from upshot.engine.spark.storage.table import FrameTable, TableStatistics
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_plan import Change, State
from upshot.plan.rule_plans import MATCHED, guard_plans
from upshot.rewrite.changes.screening import relevant_rows

_FIRST = 64
"""Rows that are looked at before all others: most changes matter, and a few rows show it."""


def screen(plan: ProgramPlan, table: FrameTable, session: SparkSession, limits: Limits) -> Steps[None]:
    """Mark a settled table of a base relation if no row of its change can matter to a view. A small change takes no
    job: it is looked at in the driver, on the tables of the local engine."""
    views = [view for layer in plan.normal.strata for view in layer]
    guards = relevant_rows(plan.normal, table.schema.name, views) if table.changed else None
    if guards is None:
        return
    if not guards:
        table.is_irrelevant = True
    elif isinstance(table.inserted, LocalPiece) and isinstance(table.deleted, LocalPiece):
        rows = [*table.inserted.rows, *table.deleted.rows]
        parts = (rows[:_FIRST], rows[_FIRST:])
        table.is_irrelevant = not any(_any_matches(plan, table.schema, part, limits) for part in parts if part)
    else:
        (found,) = yield [FrameRequest(_matching(guards, table, session).limit(1), table.types, here=True)]
        table.is_irrelevant = not found.count


def _any_matches(plan: ProgramPlan, schema: Schema, rows: Sequence[Row], limits: Limits) -> bool:
    """In tables of their own, which go at once: nothing of the rows is kept in the driver."""
    storage, codec = Storage(), Codec()
    changed = storage.create(schema.arity)
    screening = Screening(plan, {schema.name: changed}, storage, codec, Runner(storage, codec, limits))
    try:
        changed.stage(encode_rows(codec, schema, list(rows)), insert=True)
        changed.settle()
        return screening.is_relevant(schema.name)
    finally:
        screening.release()
        storage.drop(changed)


def _matching(guards: Sequence[Clause], table: FrameTable, session: SparkSession) -> DataFrame:
    schema = table.schema
    schemas = {schema.name: schema, MATCHED: schema}

    def read(_: str, state: State) -> DataFrame:
        return table.frame(state)

    def drive(_: str, change: Change) -> DataFrame:
        return table.change(change).frame(session)

    plans = guard_plans(guards, TableStatistics({schema.name: table}))
    return united([heads(plan, read, drive, session=session, schemas=schemas) for plan in plans])
