"""A recursion without a pivot in parts that exchange rows: which part owns a row, and what runs inside one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from upshot.check.program import Clause
from upshot.check.variables import fresh_name
from upshot.core.schema import Role, Schema
from upshot.engine.spark.shard_plan import ShardPlan
from upshot.plan.choice import read_by
from upshot.plan.pivot import Columns
from upshot.plan.program_plan import compile_program
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Variable


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """`shard` runs one step without recursion: rows of the views come in, the heads that follow are in the relations
    of `heads`. A row belongs to the part, of `count`, that the hash of its columns in `keys` tells."""

    shard: ShardPlan
    heads: Mapping[str, str]
    keys: Mapping[str, Columns]
    count: int

    @property
    def views(self) -> tuple[str, ...]:
        return self.shard.views


def exchange_plan(plan: ShardPlan, count: int) -> ExchangePlan:
    """The same recursion, whose rules use its views once each, in `count` parts."""
    program, below = plan.whole.source, plan.below.source
    rules = [clause for clause in program.clauses if not read_by(clause).isdisjoint(plan.views)]
    schemas, heads = dict(below.schemas), dict[str, str]()
    for view in plan.views:
        columns = program.schemas[view].columns
        heads[view] = fresh_name(f"{view}_found", {*program.schemas, *schemas})
        # The views are given and the heads have other names: nothing is recursive.
        schemas |= {view: Schema(view, columns), heads[view]: Schema(heads[view], columns, Role.VIEW)}
    made = [replace(rule, head=replace(rule.head, relation=heads[rule.head.relation])) for rule in rules]
    step = stratified(below, [*below.clauses, *made], schemas, by="exchange")
    shard = replace(plan, key=f"{plan.key}-exchange", seeds={}, whole=compile_program(step))
    keys = {view: _key(view, rules, schemas[view].arity) for view in plan.views}
    return ExchangePlan(shard, heads, keys, count)


def _key(view: str, rules: Sequence[Clause], arity: int) -> Columns:
    """The column that most rules pass on from a row of the view to another: such rows stay in their part. Without one,
    all columns: the parts are then of one size, whatever the data."""
    passed = [sum(_passes(rule, view, column) for rule in rules) for column in range(arity)]
    most = max(passed, default=0)
    return (passed.index(most),) if most else tuple(range(arity))


def _passes(rule: Clause, view: str, column: int) -> bool:
    if rule.head.relation != view or not isinstance(rule.head.args[column], Variable):
        return False
    own = [atom for atom in rule.body if isinstance(atom, Atom) and atom.relation == view]
    return any(atom.args[column] == rule.head.args[column] for atom in own)
