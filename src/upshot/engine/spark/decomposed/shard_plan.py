"""The plan of the parts of a decomposed recursion: the program that each runs, the relations that all share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from upshot.check.program import CheckedProgram, ViewOptions
from upshot.core.schema import Column
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.engine.limits import Limits
from upshot.engine.user_functions import UserFunctions
from upshot.plan.pivot import Columns, Decomposition
from upshot.plan.program_plan import ProgramPlan, compile_program
from upshot.rewrite.stratified import stratified

SharedRows = tuple[tuple[bool, pa.Table], ...]
"""The rows of a relation that every part needs whole: tables that are inserted and deleted in turn."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The program of every part of a component. `pivots` names the columns that hold the pivot, of views, seeds and
    split relations."""

    views: tuple[str, ...]
    seeds: Mapping[str, str]
    split: tuple[str, ...]
    shared: tuple[str, ...]
    pivots: Mapping[str, Columns]
    below: ProgramPlan
    """The program without the recursion: shared relations and what is derived from them alone."""
    whole: ProgramPlan
    places: Mapping[Span, str]
    """The names of the rules' places in errors."""
    limits: Limits

    @property
    def moving(self) -> tuple[str, ...]:
        """The relations of which a part has its own rows, the views apart."""
        return (*self.seeds.values(), *self.split)

    def types(self, relation: str) -> tuple[Type, ...]:
        return self.whole.normal.schemas[relation].types


def shard_plan(found: Decomposition, places: Mapping[Span, str], limits: Limits) -> ShardPlan:
    """The plan of the parts of a decomposition."""
    assert found.program is not None
    program = framed_program(found.program)
    own = {*found.views, *found.seeds.values(), *found.split}
    clauses = [clause for clause in program.clauses if clause.head.relation not in own]
    schemas = {name: schema for name, schema in program.schemas.items() if name not in own}
    assert found.component is not None
    options = dict.fromkeys(found.views, ViewOptions(found.component.strategy.inner, policy=found.component.policy))
    below = stratified(program, clauses, schemas, by="decomposition")
    if found.linearized:
        # A linear closure takes more rounds than the original, and always ends.
        limits = replace(limits, max_rounds=max(limits.max_rounds, Limits().max_rounds))
    limits = replace(limits, functions=UserFunctions())
    pivots = {
        **found.pivots,
        **found.split,
        **{seed: found.pivots[v] for v, seed in found.seeds.items()},
    }
    return ShardPlan(
        found.views, found.seeds, tuple(found.split), found.shared, pivots, compile_program(below),
        compile_program(replace(program, options=options)), places, limits,
    )  # fmt: skip


def framed_program(program: CheckedProgram) -> CheckedProgram:
    """The program over relations whose columns are called as in frames."""
    schemas = {
        name: replace(schema, columns=tuple(Column(f"c{i}", c.type) for i, c in enumerate(schema.columns)))
        for name, schema in program.schemas.items()
    }
    return replace(program, schemas=schemas)
