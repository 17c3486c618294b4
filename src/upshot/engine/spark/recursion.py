"""How a recursive component runs beside rounds of joins: in parts that never meet, or without a pivot."""

from __future__ import annotations

from pyspark.sql import SparkSession

from upshot.check.program import CheckedProgram
from upshot.engine.limits import Limits
from upshot.engine.spark.decomposed import Decomposed
from upshot.engine.spark.pieces import SMALL
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.sharing import MOST_SHARED
from upshot.engine.spark.without_pivot import WithoutPivot
from upshot.plan.pivot import decomposition
from upshot.plan.program_plan import ComponentPlan

Recursion = Decomposed | WithoutPivot


def recursion(
    component: ComponentPlan, normal: CheckedProgram, session: SparkSession, scratch: Scratch, limits: Limits, *,
    small: int = SMALL, most_shared: int = MOST_SHARED, most_held: int | None = None,
) -> Recursion:  # fmt: skip
    """By the pivot, if the rules of the normal-form program have one. `small`, `most_shared`: as of the engine;
    `most_held`: the most bytes that a worker may take, by default what the session allows."""
    found = decomposition(component, normal)
    if found.program is not None:
        return Decomposed(
            component, normal, found, session, scratch, limits, small=small, most_shared=most_shared,
            most_held=most_held,
        )  # fmt: skip
    return WithoutPivot(
        component, normal, found.reason, session, scratch, limits, small=small, most_shared=most_shared,
        most_held=most_held,
    )  # fmt: skip
