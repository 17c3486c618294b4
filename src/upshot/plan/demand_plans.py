"""Rule plans of demand programs: each rule is driven by every relation of its body that grows while the program runs.

Gates separate the strata; `waits_for` computes the gates that may open together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from upshot.check.names.variables import atoms
from upshot.core.optimizations import Optimizations
from upshot.plan.order_body import Resolve, Resolved, Statistics
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_plan import Absent, Action, Change, Probe, RulePlan, State, Step
from upshot.plan.rule_plans import PlannedRule, driven_plan
from upshot.rewrite.changes.change_rules import ABSENT_IN
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, Meaning, RowOrigin
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.syntax.ast import Atom, Not

LIKELY = 64
"""Rows that a relation of the rules is expected to have before any is there."""


def change_program(
    plan: ProgramPlan,
    optimizations: Optimizations,
    *,
    changed: Mapping[str, Collection[str]] | None = None,
    afresh: Collection[str] = (),
    several_turns: bool = False,
) -> DemandProgram:
    """The rules for the changes of the views on demand, all but those `afresh`; `changed`: the signs (`ins`, `del`)
    that stored relations change by, None for all; `several_turns`: rules have more than one in the transaction. It is
    what both engines run and what `upshot rewrite` prints."""
    return changes_on_demand(
        plan.normal,
        {view: name for view, name in plan.on_demand.strategies.items() if view not in afresh},
        changed=changed,
        wanted=plan.wanted(afresh, several_turns=several_turns) if optimizations.event_paths else None,
        nervous=plan.on_demand.nervous,
        optimizations=optimizations,
    )


def unheard(plan: ProgramPlan, view: str, optimizations: Optimizations) -> str:
    """The reason why no changes of a view on demand are computed: nobody hears them, nor those of a view over it. Empty
    if they are computed."""
    heard = set(plan.wanted(several_turns=True))
    for component in reversed(plan.components):
        if not heard.isdisjoint(component.views):
            heard.update(component.reads)
    if view in heard or not optimizations.event_paths:
        return ""
    return "no rules for changes: it has no subscribers (`events=none`); queries compute its rows"


@dataclass(frozen=True, slots=True)
class DemandGroup:
    """The rules without a gate (`gate` is None) or those of one gate. `folds` are aggregates, which are not joins:
    their first literal lists the groups whose rows are complete."""

    gate: int | None
    rules: tuple[DemandRule, ...]
    folds: tuple[DemandRule, ...]


def groups_of(program: DemandProgram) -> tuple[DemandGroup, ...]:
    """The groups in the order in which they run: whatever has rows waiting first, the one without gate before all."""
    gates = sorted({rule.gate for rule in program.rules if rule.gate is not None})
    found = []
    for gate in (None, *gates):
        rules = [rule for rule in program.rules if rule.gate == gate]
        folds = tuple(rule for rule in rules if aggregate_of(rule.clause) is not None)
        found.append(DemandGroup(gate, tuple(rule for rule in rules if rule not in folds), folds))
    return tuple(found)


def grows(program: DemandProgram, relation: str) -> bool:
    """Test whether rows of the generated relation come while the program runs, or before its first rule."""
    return program.relations[relation].held is not RowOrigin.STORED


def group_plans(
    program: DemandProgram, group: DemandGroup, statistics: Statistics, *, memo: bool = True
) -> list[RulePlan]:
    """One plan per rule and growing literal. A rule without any runs once, at the start; behind a gate only the first
    literal drives, since the others are complete when it opens."""
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
    return [_sparing(program, plan) for plan in plans] if memo else plans


def _plan(rule: DemandRule, position: int | None, resolve: Resolve, statistics: Statistics) -> RulePlan:
    head = rule.clause.head.relation
    planned = PlannedRule(rule.name, rule.clause, Action.INSERT, head, rule.source, is_in_order=False)
    plan = driven_plan(planned, position, Change.INSERTED, resolve, statistics, seed=position is None)
    if plan.driver is not None and position in rule.rows:
        plan = replace(plan, driver=replace(plan.driver, of_head=True))
    return _with_rows(rule, plan)


def filters(program: DemandProgram) -> dict[str, str]:
    """For each relation of potential changes the one of the questions that they are put to: whole rows of the view, in
    the state that must not have them. A question is a row of a set, and drives the rules that answer it once."""
    named = {meaning: name for name, meaning in program.relations.items()}
    found = {}
    for name, meaning in program.relations.items():
        sign, _, kind = meaning.state.partition("_")
        if meaning.held is RowOrigin.PART and kind == "potential" and sign in ABSENT_IN:
            adornment = "b" * program.schemas[name].arity
            asked = named.get(Meaning(RowOrigin.ASKED, meaning.relation, f"{ABSENT_IN[sign]} {adornment}"))
            if asked is not None:
                found[name] = asked
    return found


def resolver(program: DemandProgram) -> Resolve:
    def resolve(name: str) -> Resolved:
        meaning = program.relations[name]
        if meaning.held is RowOrigin.STORED:
            return Resolved(meaning.relation, State.OLD if meaning.state == "old" else State.NEW)
        return Resolved(name, State.NEW)

    return resolve


def _with_rows(rule: DemandRule, plan: RulePlan) -> RulePlan:
    """Literals that compare whole rows: NULL is looked for like any value."""
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


def _sparing(program: DemandProgram, plan: RulePlan) -> RulePlan:
    """A binding is not queried if its answer is known, or if a query with fewer bindings covers it."""
    meaning = program.relations[plan.head]
    if meaning.held is not RowOrigin.ASKED:
        return plan
    spared: list[Step] = []
    state, adornment = meaning.state.split(" ")
    for name, other in program.relations.items():
        if other.relation != meaning.relation or name == plan.head:
            continue
        if other == Meaning(RowOrigin.ANSWERS, meaning.relation, state) and "f" not in adornment:
            spared.append(Absent(name, State.NEW, plan.arguments, as_row=True))
        elif other.held is RowOrigin.ASKED and other.state.split(" ")[0] == state:
            covered = _covering(adornment, other.state.split(" ")[1])
            if covered is not None:
                operands = tuple(plan.arguments[i] for i in covered)
                spared.append(Absent(name, State.NEW, operands, as_row=True))
    return replace(plan, steps=(*plan.steps, *spared))


def _covering(adornment: str, wider: str) -> list[int] | None:
    """The places, among the bound columns of `adornment`, of those that `wider` binds; None if it binds others too."""
    if any(w == "b" and a == "f" for a, w in zip(adornment, wider, strict=True)):
        return None
    bound = [column for column, letter in enumerate(adornment) if letter == "b"]
    return [place for place, column in enumerate(bound) if wider[column] == "b"]


class _ExpectedRows:
    """Statistics that expect some rows in relations that are still empty."""

    def __init__(self, program: DemandProgram, statistics: Statistics) -> None:
        self._program, self._statistics = program, statistics

    def size(self, relation: str) -> int:
        size = self._statistics.size(relation)
        return max(size, LIKELY) if self._is_made(relation) else size

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return None if self._is_made(relation) else self._statistics.keys(relation, columns)

    def _is_made(self, relation: str) -> bool:
        meaning = self._program.relations.get(relation)
        return meaning is not None and meaning.held is not RowOrigin.STORED


def waits_for(program: DemandProgram, groups: Sequence[DemandGroup]) -> dict[int, frozenset[int]]:
    """For each gate the lower ones whose rows must not be waiting when it opens: those whose rules lead, whatever other
    rules come in between, to a relation that its own rules read. All others have no say in what it finds."""
    onward: dict[str, set[str]] = {}
    for rule in program.rules:
        for name in _read(rule):
            onward.setdefault(name, set()).add(rule.clause.head.relation)
    gated = [(group.gate, (*group.rules, *group.folds)) for group in groups if group.gate is not None]
    reached = {gate: _reached({rule.clause.head.relation for rule in rules}, onward) for gate, rules in gated}
    read = {gate: {name for rule in rules for name in _read(rule)} for gate, rules in gated}
    return {
        gate: frozenset(lower for lower in reached if lower < gate and not reached[lower].isdisjoint(read[gate]))
        for gate in read
    }


def _read(rule: DemandRule) -> set[str]:
    return {atom.relation for literal in rule.clause.body for atom in atoms(literal)}


def _reached(start: Iterable[str], onward: Mapping[str, set[str]]) -> set[str]:
    found = set(start)
    waiting = list(found)
    while waiting:
        for name in onward.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
