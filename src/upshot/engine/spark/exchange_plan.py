"""A recursion without a pivot in parts that exchange rows: which parts need a row, and what runs inside one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

Place = Columns | None
"""The columns whose hash tells the part; None: every part."""


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """`shard` runs one round without recursion: new rows come into the relations of `driving`, by view, and the heads
    that follow are in those of `heads`. What drives no round twice is in the relations of `known`: the views
    themselves, or beside them what goes from them.

    A row is needed by the parts, of `count`, that its `places` tell; the part of the first one owns it."""

    shard: ShardPlan
    known: Mapping[str, str]
    driving: Mapping[str, str]
    heads: Mapping[str, str]
    places: Mapping[str, tuple[Place, ...]]
    count: int

    @property
    def views(self) -> tuple[str, ...]:
        return self.shard.views

    @property
    def joins_views(self) -> bool:
        """Whether a rule joins new rows with others of the views."""
        read = {name for clause in self.shard.whole.source.clauses for name in read_by(clause)}
        return not read.isdisjoint(self.views)


def exchange_plans(plan: ShardPlan, count: int) -> tuple[ExchangePlan, ExchangePlan]:
    """The recursive rules of a whole recursion in `count` parts: what follows from rows that come into the views, and
    what may go with rows that go."""
    program, below = plan.whole.source, plan.below.source
    rules = [clause for clause in program.clauses if not read_by(clause).isdisjoint(plan.views)]
    schemas, names = dict(below.schemas), dict[str, dict[str, str]]()
    for kind in ("found", "new", "gone"):
        names[kind] = {}
        for view in plan.views:
            name = names[kind][view] = fresh_name(f"{view}_{kind}", {*program.schemas, *schemas})
            role = Role.VIEW if kind == "found" else Role.BASE
            schemas[name] = Schema(name, program.schemas[view].columns, role)
    # The views are given and the heads have other names: nothing is recursive.
    schemas |= {view: Schema(view, program.schemas[view].columns) for view in plan.views}
    found = names["found"]
    made = [
        replace(each, head=replace(each.head, relation=found[each.head.relation]))
        for rule in rules
        for each in _driven(rule, names["new"])
    ]
    step = stratified(below, [*below.clauses, *made], schemas, by="exchange")
    shard = replace(plan, key=f"{plan.key}-exchange", whole=compile_program(step))
    themselves = {view: view for view in plan.views}
    coming = ExchangePlan(shard, themselves, names["new"], found, _places(plan.views, rules, schemas), count)
    return coming, replace(coming, known=names["gone"])


def _driven(rule: Clause, driving: Mapping[str, str]) -> Iterator[Clause]:
    """The rule once for each of its literals of the component, with new rows only for that one."""
    for number, literal in enumerate(rule.body):
        if isinstance(literal, Atom) and literal.relation in driving:
            new = replace(literal, relation=driving[literal.relation])
            yield replace(rule, body=(*rule.body[:number], new, *rule.body[number + 1 :]))


# ---- places -----------------------------------------------------------------------------------------------------


def _places(
    views: Sequence[str], rules: Sequence[Clause], schemas: Mapping[str, Schema]
) -> dict[str, tuple[Place, ...]]:
    """Where the rows of each view are needed. A rule that uses the component once can use a row anywhere. One that uses
    it several times is evaluated where a variable that most of these literals share is hashed to: they are needed
    there, and the others everywhere."""
    wanted: dict[str, list[Place]] = {view: [] for view in views}
    for rule in rules:
        own = [literal for literal in rule.body if isinstance(literal, Atom) and literal.relation in wanted]
        if len(own) < 2:
            continue
        shared = _most_shared(own)
        for atom in own:
            place = (atom.args.index(shared),) if shared in atom.args else None
            if place not in wanted[atom.relation]:
                wanted[atom.relation].append(place)
    found: dict[str, tuple[Place, ...]] = {}
    for view, places in wanted.items():
        owned = next((place for place in places if place is not None), None)
        owned = owned if owned is not None else _key(view, rules, schemas[view].arity)
        found[view] = (owned, *(place for place in places if place != owned))
    return found


def _most_shared(atoms: Sequence[Atom]) -> Variable | None:
    """The variable that most of the literals have, the first of several; none if no two share one."""
    counts: dict[Variable, int] = {}
    for atom in atoms:
        for term in dict.fromkeys(atom.args):
            if isinstance(term, Variable):
                counts[term] = counts.get(term, 0) + 1
    most = max(counts, key=lambda variable: counts[variable], default=None)
    return most if most is not None and counts[most] > 1 else None


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
