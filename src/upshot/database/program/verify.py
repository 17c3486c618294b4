"""Verify stored views: recompute every view and compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from upshot.check.names.variables import walk
from upshot.check.program import CheckedProgram
from upshot.core.errors import VerifyError
from upshot.core.fact_text import fact
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Role, Schema
from upshot.database.constraints import SHOWN
from upshot.database.engines import Engine
from upshot.database.explain.dependencies import everything_below, inputs
from upshot.database.placement import placement_of
from upshot.database.state import DatabaseState
from upshot.engine.limits import by_rounds_alone
from upshot.plan import ProgramPlan, compile_program
from upshot.syntax.ast import Aggregate, Call
from upshot.values.functors import bare_name, is_functor

_LARGE = 50_000
"""Larger tables are passed on without collecting their rows."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The compared relations: the declared views and their number of rows. Generated views were compared too."""

    views: tuple[str, ...]
    rows: int


def verify(state: DatabaseState) -> Verified:
    """Compare each view, also generated ones, with its recomputation; `VerifyError` if one differs."""
    with state.writing("verify") as engine:
        fresh = state.make_engine()
        try:
            with by_rounds_alone():
                return _verified(state, engine, fresh)
        finally:
            fresh.close()


def _verified(state: DatabaseState, engine: Engine, fresh: Engine) -> Verified:
    normal = state.compiled.plan.normal
    fresh.install(_all_stored(state))
    for name, schema in normal.schemas.items():
        if schema.role is Role.BASE and engine.size(name):
            fresh.insert(name, _transferable(engine.rows(name), engine))
    fresh.propagate()
    fresh.accept()
    views = [schema for schema in normal.schemas.values() if schema.role is not Role.BASE]
    found = {schema.name: list(_differences(schema, engine, fresh)) for schema in views}
    differences = [line for lines in found.values() for line in lines]
    if differences:
        more = f"\n  and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        listed = "".join(f"\n  {line}" for line in differences[:SHOWN])
        raise VerifyError(
            f"stored views differ from their definition:{listed}{more}",
            code="view-differs",
            help=_cure(normal, [name for name, lines in found.items() if lines]),
        )
    declared = tuple(view.name for view in views if view.name in state.compiled.visible)
    return Verified(declared, sum(fresh.size(name) for name in declared))


def _cure(program: CheckedProgram, differing: Iterable[str]) -> str:
    """The help: suspect the functions that differing views call; without any, the engine."""
    below = everything_below(differing, inputs(program))
    clauses = [clause for clause in program.clauses if clause.head.relation in below]
    nodes = (node for clause in clauses for part in (clause.head, *clause.body) for node in walk(part))
    called = (node.function for node in nodes if isinstance(node, Call | Aggregate))
    functions = {bare_name(each) for each in called if is_functor(each)}
    if not functions:
        return "this is a bug in Upshot; please report it with the program and the transactions"
    listed = ", ".join(f"`@{name}`" for name in sorted(functions))
    return f"{listed} must have the same value for the same arguments; declare a function that has not `stateful`"


def _all_stored(state: DatabaseState) -> ProgramPlan:
    """The plan with every view stored: views on demand are compared with that."""
    plan = state.compiled.plan
    return compile_program(replace(plan.source, options={})) if plan.on_demand.strategies else plan


def _differences(schema: Schema, stored: Engine, fresh: Engine) -> Iterable[str]:
    size = stored.size(schema.name)
    if size == fresh.size(schema.name) and stored.contains_all(
        schema.name, _transferable(fresh.rows(schema.name), fresh)
    ):
        return
    actual, expected = row_set(stored.rows(schema.name)), row_set(fresh.rows(schema.name))
    for row in Rows.of(schema, list(actual - expected)).sorted():
        yield f"{fact(schema, row)} is stored but not derived"
    for row in Rows.of(schema, list(expected - actual)).sorted():
        yield f"{fact(schema, row)} is derived but not stored"


def _transferable(rows: Rows, engine: Engine) -> Any:
    """Rows of one engine for another: many rows on Spark are not collected in between."""
    if not rows.schema.columns:
        return list(rows)
    is_large = len(rows) > _LARGE and placement_of(engine).engine == "spark"
    return rows.to_spark() if is_large else rows.to_arrow()
