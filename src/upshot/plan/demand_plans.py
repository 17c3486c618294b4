"""Rule plans of demand programs: one plan for each relation in a rule's body that grows while the program runs.

Gates separate the strata; `waits_for` computes which gates may open together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from upshot.core.optimizations import Optimizations
from upshot.core.precedence import reachable
from upshot.plan.order_body import Resolve, Resolved, Statistics
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_plan import Absent, Action, Change, Probe, RulePlan, State, Step
from upshot.plan.rule_plans import PlannedRule, driven_plan
from upshot.rewrite.changes.change_rules import ABSENT_IN
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, Meaning, RowOrigin
from upshot.rewrite.shapes import aggregate_of, relations_read
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.syntax.ast import Atom, Not

LIKELY = 64
"""The assumed number of rows of a generated relation that is still empty."""


def change_program(
    plan: ProgramPlan,
    optimizations: Optimizations,
    *,
    changed: Mapping[str, Collection[str]] | None = None,
    redefined: Collection[str] = (),
    several_turns: bool = False,
) -> DemandProgram:
    """The rules for the changes of the views on demand that are not `redefined`, as both engines run them and `upshot
    rewrite` prints them. `changed`: the signs (`ins`, `del`) of the changes of stored relations, None: all;
    `several_turns`: active rules have several turns in the transaction."""
    needed = plan.needed_changes(redefined, several_turns=several_turns)
    return changes_on_demand(
        plan.normal,
        {view: name for view, name in plan.on_demand.strategies.items() if view not in redefined},
        changed=changed,
        reported=needed if optimizations.event_paths else None,
        nervous=plan.on_demand.nervous,
        optimizations=optimizations,
    )


def reason_not_computed(plan: ProgramPlan, view: str, optimizations: Optimizations) -> str:
    """The reason why no changes of a view on demand are computed: neither they nor those of a view above it are
    reported. Empty if they are computed."""
    needed = set(plan.needed_changes(several_turns=True))
    for component in reversed(plan.components):
        if not needed.isdisjoint(component.views):
            needed.update(component.reads)
    if view in needed or not optimizations.event_paths:
        return ""
    return "no rules for changes: it has no subscribers (`events=none`); queries compute its rows"


@dataclass(frozen=True, slots=True)
class DemandGroup:
    """The rules of one gate, or those without (`gate` is None). `folds` are the aggregates among them: their first
    literal has the groups whose rows are complete."""

    gate: int | None
    rules: tuple[DemandRule, ...]
    folds: tuple[DemandRule, ...]


def groups_of(program: DemandProgram) -> tuple[DemandGroup, ...]:
    """The group without a gate, then those of the gates in ascending order."""
    gates = sorted({rule.gate for rule in program.rules if rule.gate is not None})
    found = []
    for gate in (None, *gates):
        rules = [rule for rule in program.rules if rule.gate == gate]
        folds = tuple(rule for rule in rules if aggregate_of(rule.clause) is not None)
        found.append(DemandGroup(gate, tuple(rule for rule in rules if rule not in folds), folds))
    return tuple(found)


def grows(program: DemandProgram, relation: str) -> bool:
    """Test whether the generated relation gets rows while the program runs, or before its first rule."""
    return program.relations[relation].origin is not RowOrigin.STORED


def group_plans(
    program: DemandProgram, group: DemandGroup, statistics: Statistics, *, memo: bool = True
) -> list[RulePlan]:
    """One plan per rule and growing literal. A rule without growing literals runs once, at the start; behind a gate
    only the first literal drives, since the others are complete when it opens."""
    plans: list[RulePlan] = []
    resolve = resolver(program)
    expected = _ExpectedRows(program, statistics)
    for rule in group.rules:
        body = rule.clause.body
        drivers = [i for i, each in enumerate(body) if isinstance(each, Atom) and grows(program, each.relation)]
        for position in drivers[:1] if group.gate is not None else drivers:
            plans.append(_plan(rule, position, resolve, expected))
        if not drivers:
            plans.append(_plan(rule, None, resolve, expected))
    return [_without_known(program, plan) for plan in plans] if memo else plans


def _plan(rule: DemandRule, position: int | None, resolve: Resolve, statistics: Statistics) -> RulePlan:
    head = rule.clause.head.relation
    planned = PlannedRule(rule.name, rule.clause, Action.INSERT, head, rule.source, is_in_order=False)
    plan = driven_plan(planned, position, Change.INSERTED, resolve, statistics, seed=position is None)
    if plan.driver is not None and position in rule.rows:
        plan = replace(plan, driver=replace(plan.driver, of_head=True))
    return _with_rows(rule, plan)


def filters(program: DemandProgram) -> dict[str, str]:
    """For each relation of potential changes, the relation of the bindings with which they are tested: whole rows of
    the view, in the state in which they must be absent. Each binding drives the rules that answer it once."""
    named = {meaning: name for name, meaning in program.relations.items()}
    found = {}
    for name, meaning in program.relations.items():
        sign, _, kind = meaning.state.partition("_")
        if meaning.origin is RowOrigin.PART and kind == "potential" and sign in ABSENT_IN:
            adornment = "b" * program.schemas[name].arity
            bindings = named.get(Meaning(RowOrigin.BINDINGS, meaning.relation, f"{ABSENT_IN[sign]} {adornment}"))
            if bindings is not None:
                found[name] = bindings
    return found


def resolver(program: DemandProgram) -> Resolve:
    def resolve(name: str) -> Resolved:
        meaning = program.relations[name]
        if meaning.origin is RowOrigin.STORED:
            return Resolved(meaning.relation, State.OLD if meaning.state == "old" else State.NEW)
        return Resolved(name, State.NEW)

    return resolve


def _with_rows(rule: DemandRule, plan: RulePlan) -> RulePlan:
    """Mark the steps of the literals that compare whole rows: NULL equals itself there."""
    literals = [rule.clause.body[position] for position in rule.rows]
    absent = {each.body.relation for each in literals if isinstance(each, Not) and isinstance(each.body, Atom)}
    present = {each.relation for each in literals if isinstance(each, Atom)}
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, Absent) and step.relation in absent:
            steps.append(replace(step, as_row=True))
        elif isinstance(step, Probe) and step.match.relation in present:
            steps.append(replace(step, match=replace(step.match, as_row=True)))
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps))


def _without_known(program: DemandProgram, plan: RulePlan) -> RulePlan:
    """Leave out bindings whose answer is known, and those that a query with fewer bound columns covers."""
    meaning = program.relations[plan.head]
    if meaning.origin is not RowOrigin.BINDINGS:
        return plan
    tests: list[Step] = []
    state, adornment = meaning.state.split(" ")
    for name, other in program.relations.items():
        if other.relation != meaning.relation or name == plan.head:
            continue
        if other == Meaning(RowOrigin.ANSWERS, meaning.relation, state) and "f" not in adornment:
            tests.append(Absent(name, State.NEW, plan.arguments, as_row=True))
        elif other.origin is RowOrigin.BINDINGS and other.state.split(" ")[0] == state:
            covered = _covering(adornment, other.state.split(" ")[1])
            if covered is not None:
                operands = tuple(plan.arguments[i] for i in covered)
                tests.append(Absent(name, State.NEW, operands, as_row=True))
    return replace(plan, steps=(*plan.steps, *tests))


def _covering(adornment: str, wider: str) -> list[int] | None:
    """The places, among the columns that `adornment` binds, of those that `wider` binds; None if `wider` binds other
    columns too."""
    if any(w == "b" and a == "f" for a, w in zip(adornment, wider, strict=True)):
        return None
    bound = [column for column, letter in enumerate(adornment) if letter == "b"]
    return [place for place, column in enumerate(bound) if wider[column] == "b"]


class _ExpectedRows:
    """Statistics that assume some rows in generated relations that are still empty."""

    def __init__(self, program: DemandProgram, statistics: Statistics) -> None:
        self._program, self._statistics = program, statistics

    def size(self, relation: str) -> int:
        size = self._statistics.size(relation)
        return max(size, LIKELY) if self._is_generated(relation) else size

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return None if self._is_generated(relation) else self._statistics.keys(relation, columns)

    def _is_generated(self, relation: str) -> bool:
        meaning = self._program.relations.get(relation)
        return meaning is not None and meaning.origin is not RowOrigin.STORED


def waits_for(program: DemandProgram, groups: Sequence[DemandGroup]) -> dict[int, frozenset[int]]:
    """For each gate, the lower gates that must have no waiting rows when it opens: a relation that its rules read
    depends on their rules."""
    readers: dict[str, set[str]] = {}
    for rule in program.rules:
        for name in relations_read(rule.clause):
            readers.setdefault(name, set()).add(rule.clause.head.relation)
    gated = [(group.gate, (*group.rules, *group.folds)) for group in groups if group.gate is not None]
    read = {gate: {name for rule in rules for name in relations_read(rule.clause)} for gate, rules in gated}
    above = {
        gate: reachable({rule.clause.head.relation for rule in rules}, lambda name: readers.get(name, ()))
        for gate, rules in gated
    }
    return {
        gate: frozenset(lower for lower in above if lower < gate and not above[lower].isdisjoint(read[gate]))
        for gate in read
    }
