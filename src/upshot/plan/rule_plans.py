"""Compile clauses, generated rules and screening guards to rule plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from upshot.check.program import Clause, Literal
from upshot.plan.order_body import Resolve, Resolved, Statistics, best_start, match_atom, order_body
from upshot.plan.rule_plan import Action, Change, Drive, Operand, RulePlan, State
from upshot.strategies.maintenance_rules import MaintenanceRule, RuleStage, StateOf
from upshot.syntax.ast import Atom, Constant, Not, Variable

_ACTION = {
    RuleStage.DELETE: Action.DELETE,
    RuleStage.REDERIVE: Action.REDERIVE,
    RuleStage.CHECK: Action.ASK,
    RuleStage.PROVE: Action.PROVE,
    RuleStage.INSERT: Action.INSERT,
}
_CHANGE = {"ins": Change.INSERTED, "plus": Change.INSERTED}
"""The changes of rows by state; rows of all other driving states are deleted, or may be."""
_OF_HEAD = (Action.REDERIVE, Action.ASK, Action.PROVE)
_REDERIVING = (RuleStage.REDERIVE, RuleStage.PROVE)
_STATE = {"new": State.NEW, "kept": State.KEPT, "open": State.KEPT, "proven": State.PROVEN}
_COUNTED = {"gain": Action.GAIN, "loss": Action.LOSE}


def load_plan(
    clause: Clause,
    action: Action,
    statistics: Statistics,
    *,
    name: str = "load",
    resolve: Resolve | None = None,
    by_constants: bool = False,
) -> RulePlan:
    """The plan of a whole body, by default in the new state, starting with the cheapest relation; `by_constants`: rows
    with a constant are looked up in an index instead of scanned."""
    resolve = resolve or _in_new_state
    start = best_start(clause.body, resolve=resolve, types=clause.types, statistics=statistics)
    if by_constants and start is not None and _has_constant(clause.body[start]):
        start = None
    planned = PlannedRule(name, clause, action, clause.head.relation, clause)
    return driven_plan(planned, start, Change.ALL, resolve, statistics, seed=True)


def _has_constant(literal: Literal) -> bool:
    return isinstance(literal, Atom) and any(isinstance(term, Constant) for term in literal.args)


def _in_new_state(relation: str) -> Resolved:
    return Resolved(relation, State.NEW)


@dataclass(frozen=True, slots=True)
class Driver:
    """The literal that drives a D, R, I or counting rule: the `change` of a `relation`, with the `action` on the heads.
    `seed`: it drives the rule once, before the rounds; `of_group`: deleted rows of the component itself drive it, and
    their groups are read again."""

    relation: str
    change: Change
    action: Action
    seed: bool
    of_group: bool


def driver_of(rule: MaintenanceRule, states: Mapping[str, StateOf], layer: Collection[str]) -> Driver:
    """The driver of a rule of the component `layer`."""
    assert rule.driver is not None
    literal = rule.clause.body[rule.driver]
    assert isinstance(literal, Atom)
    driven = states[literal.relation]
    action = _COUNTED.get(states[rule.clause.head.relation].state) or _ACTION[rule.stage]
    of_group = rule.stage is RuleStage.INSERT and driven.state == "del" and driven.relation in layer
    seed = rule.stage in _REDERIVING or of_group or driven.relation not in layer
    return Driver(driven.relation, _CHANGE.get(driven.state, Change.DELETED), action, seed, of_group)


def maintenance_plans(
    rule: MaintenanceRule, states: Mapping[str, StateOf], layer: Collection[str], statistics: Statistics
) -> list[RulePlan]:
    """The plans of a D, R, I or counting rule of the component `layer`."""
    driver = driver_of(rule, states, layer)
    head = states[rule.clause.head.relation].relation
    # A search for one derivation stops at the first one. It is short in the relations below the view, where few rows
    # match a key, and can be long in the view itself, where a hub has many rows and most of them lead to none.
    last = layer if driver.action in _OF_HEAD else ()
    planned = PlannedRule(rule.name, rule.clause, driver.action, head, rule.source)
    resolve = _resolver(states)
    plan = driven_plan(planned, rule.driver, driver.change, resolve, statistics, seed=driver.seed, last=last)
    if driver.of_group and plan.driver:
        plan = replace(plan, driver=replace(plan.driver, of_head=True, of_negation=False))
    return [plan, *_rederivation_rounds(rule, states, layer, statistics)] if rule.stage in _REDERIVING else [plan]


def _rederivation_rounds(
    rule: MaintenanceRule, states: Mapping[str, StateOf], layer: Collection[str], statistics: Statistics
) -> list[RulePlan]:
    """The rule R (or P) driven by rows just rederived (or proven): one plan per literal of the component. The action
    itself tests, last, that the head was over-deleted."""
    plans = []
    body = rule.clause.body[1:]
    clause = Clause(rule.clause.head, body, rule.clause.types, rule.clause.origin)
    for position, literal in enumerate(body):
        if isinstance(literal, Atom) and states[literal.relation].relation in layer:
            head = states[clause.head.relation].relation
            planned = PlannedRule(rule.name, clause, _ACTION[rule.stage], head, rule.source, is_in_order=False)
            plans.append(driven_plan(planned, position, Change.REDERIVED, _resolver(states), statistics, seed=False))
    return plans


def _resolver(states: Mapping[str, StateOf]) -> Resolve:
    def resolve(name: str) -> Resolved:
        meaning = states[name]
        return Resolved(meaning.relation, _STATE.get(meaning.state, State.OLD))

    return resolve


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A clause to be planned, with the `action` on the relation `head`. `source` is the rule that it was made from; if
    it `is_in_order`, their literals have the same places."""

    name: str
    clause: Clause
    action: Action
    head: str
    source: Clause | None = None
    is_in_order: bool = True


def driven_plan(
    planned: PlannedRule,
    start: int | None,
    change: Change,
    resolve: Resolve,
    statistics: Statistics,
    *,
    seed: bool,
    last: Collection[str] = (),
) -> RulePlan:
    """The plan of a clause, driven by the rows of `change` of its literal at `start`; `last` as in `order_body`."""
    clause, source, action = planned.clause, planned.source, planned.action
    body = list(clause.body)
    bound: set[str] = set()
    driver = None
    if start is not None:
        atom = body.pop(start)
        assert isinstance(atom, Atom)
        match = match_atom(atom, bound, resolve)
        of_negation = source is not None and planned.is_in_order and _negates(source, start)
        of_head = action in _OF_HEAD and change is Change.DELETED
        driver = Drive(change, match, of_negation=of_negation and not of_head, of_head=of_head)
        bound |= {variable for _, variable in match.binds}
    rule = (source or clause).body
    ordered = order_body(body, bound, resolve=resolve, types=clause.types, statistics=statistics, last=last, rule=rule)
    return RulePlan(
        planned.name,
        clause,
        planned.head,
        _arguments(clause.head),
        action,
        driver,
        ordered.steps,
        seed,
        {**clause.types, **ordered.types},
        ordered.expected,
    )


def _negates(rule: Clause, place: int) -> bool:
    literal = rule.body[place] if place < len(rule.body) else None
    return isinstance(literal, Not) and isinstance(literal.body, Atom)


def _arguments(head: Atom) -> tuple[Operand, ...]:
    assert all(isinstance(term, Variable | Constant) for term in head.args), head
    return tuple(term for term in head.args if isinstance(term, Variable | Constant))


MATCHED = "'matched"
"""The relation of the changed rows that a guard matches; no relation of a user can have this name."""


def guard_plans(guards: Iterable[Clause], statistics: Statistics) -> Iterator[RulePlan]:
    """The plans of the guards of `rewrite.changes.screening`, each driven by deleted and by inserted rows."""
    for guard in guards:
        for change, state in ((Change.DELETED, State.OLD), (Change.INSERTED, State.NEW)):
            resolve = partial(Resolved, state=state)
            planned = PlannedRule("guard", guard, Action.INSERT, MATCHED)
            yield driven_plan(planned, 0, change, resolve, statistics, seed=True)
