"""The rule plans that a component runs in each stage of its strategy.

A production rule has one plan: its transition table drives it, its heads are collected rather than applied.
"""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import Clause, Literal
from upshot.core.operations import DELETED
from upshot.plan.choice import read_by
from upshot.plan.order_body import Resolved, Statistics
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import PlannedRule, driven_plan, driver_of, load_plan, maintenance_plans
from upshot.strategies.maintenance_rules import MaintenanceRule, RuleStage
from upshot.strategies.production_rules import BEFORE, ProductionRule, RulePurpose
from upshot.strategies.strategy import Stores
from upshot.syntax.ast import Atom, Not

_CHANGE = {"inserted": Change.INSERTED, "deleted": Change.DELETED}


def derived(view: str) -> str:
    """The name under which the heads that a rule derives for a view are collected; no relation of a user has it."""
    return f"derived {view}"


def production_plan(rule: ProductionRule, statistics: Statistics) -> RulePlan:
    """The rule's condition as a plan whose heads are inserted into `derived(view)`; what the rule does with them is
    not part of it."""
    if rule.group is RulePurpose.START:
        plan = load_plan(rule.source, Action.INSERT, statistics, name=rule.name)
        return replace(plan, head=derived(rule.view))
    _, state = rule.trigger
    again = rule.group is RulePurpose.REINSERT
    planned = PlannedRule(
        rule.name,
        _qualified(rule.clause),
        Action.REDERIVE if again else Action.INSERT,
        derived(rule.view),
        rule.source,
        is_in_order=not again,
    )
    plan = driven_plan(planned, rule.driver, _CHANGE[state], _resolve, statistics, seed=True)
    # The plan is shown with the rule as it was made, and a row to be inserted again is collected like any other.
    return replace(plan, clause=rule.clause, action=Action.INSERT)


def _qualified(clause: Clause) -> Clause:
    """The clause with the state of every atom as a part of its relation's name."""
    return replace(clause, body=tuple(map(_named, clause.body)))


def _named(literal: Literal) -> Literal:
    match literal:
        case Atom(relation, state=state):
            return replace(literal, relation=f"{state} {relation}", state="")
        case Not(Atom(relation, state=state) as atom):
            return replace(literal, body=replace(atom, relation=f"{state} {relation}", state=""))
        case _:
            return literal


def _resolve(name: str) -> Resolved:
    """A deleted row is looked at as it was before; it may be gone by now."""
    state, _, relation = name.partition(" ")
    return Resolved(relation, State.OLD if state in (BEFORE, DELETED) else State.NEW)


def stage_plans(component: ComponentPlan, stage: str, statistics: Statistics) -> list[RulePlan]:
    """The rule plans of a stage (`load`, or the value of a `RuleStage`), ordered by the sizes as they are now.
    Production rules have no stages: the plans are those of all of them."""
    if component.production:
        return [production_plan(rule, statistics) for rule in component.production]
    if stage != "load":
        rules, wanted = _rules_of(component, stage), RuleStage(stage)
        if wanted in (RuleStage.REDERIVE, RuleStage.PROVE):
            # Most rows of a recursive view come from its recursive rules: what they bring back is not tried again.
            rules.sort(key=lambda rule: not _is_recursive(rule, component))
        return [p for rule in rules for p in maintenance_plans(rule, component.states, component.views, statistics)]
    action = Action.GAIN if component.strategy.stores is Stores.COUNTS else Action.INSERT
    seeds = [
        load_plan(clause, action, statistics)
        for clause in component.clauses
        if not any(isinstance(literal, Atom) and literal.relation in component.views for literal in clause.body)
    ]
    rounds = [
        plan
        for rule in (_rules_of(component, "insert") if component.recursive else ())
        if not driver_of(rule, component.states, component.views).seed
        for plan in maintenance_plans(rule, component.states, component.views, statistics)
    ]
    return seeds + rounds


def seeds_of(component: ComponentPlan, stage: str) -> set[tuple[str, Change, Action]]:
    """The changes of relations that a stage begins with, and what becomes of the heads that they derive."""
    drivers = (driver_of(rule, component.states, component.views) for rule in _rules_of(component, stage))
    return {(each.relation, each.change, each.action) for each in drivers if each.seed}


def _rules_of(component: ComponentPlan, stage: str) -> list[MaintenanceRule]:
    wanted = RuleStage(stage)
    return [rule for rule in component.rules if rule.stage is wanted and rule.driver is not None]


def _is_recursive(rule: MaintenanceRule, component: ComponentPlan) -> bool:
    return rule.source is not None and bool(read_by(rule.source) & set(component.views))
