"""The rule plans of a component for each stage of its strategy.

A production rule has one plan: its transition table drives it, and its heads are collected, not applied.
"""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import Clause
from upshot.core.operations import DELETED
from upshot.plan.order_body import Resolved, Statistics
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import PlannedRule, driven_plan, driver_of, load_plan, maintenance_plans
from upshot.rewrite.shapes import relations_read, with_atom
from upshot.strategies.maintenance_rules import MaintenanceRule, RuleStage
from upshot.strategies.production_rules import BEFORE, ProductionRule, RulePurpose
from upshot.strategies.strategy import Stores
from upshot.syntax.ast import Atom

_CHANGE = {"inserted": Change.INSERTED, "deleted": Change.DELETED}


def derived(view: str) -> str:
    """The name of the relation of the heads that production rules derive for a view; no user relation can have it."""
    return f"derived {view}"


def production_plan(rule: ProductionRule, statistics: Statistics) -> RulePlan:
    """The plan of the rule's condition, whose heads are inserted into `derived(view)`; the action is not part of it."""
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
    # The plan is printed with the original rule, and rows to be reinserted are collected like others.
    return replace(plan, clause=rule.clause, action=Action.INSERT)


def _qualified(clause: Clause) -> Clause:
    """The clause with the state of every atom as a prefix of its relation's name."""

    def named(atom: Atom) -> Atom:
        return replace(atom, relation=f"{atom.state} {atom.relation}", state="")

    return replace(clause, body=tuple(with_atom(literal, named) for literal in clause.body))


def _resolve(name: str) -> Resolved:
    """Deleted rows are read in the old state: the current one lacks them."""
    state, _, relation = name.partition(" ")
    return Resolved(relation, State.OLD if state in (BEFORE, DELETED) else State.NEW)


def stage_plans(component: ComponentPlan, stage: str, statistics: Statistics) -> list[RulePlan]:
    """The rule plans of a stage (`load`, or the value of a `RuleStage`), in a join order for the current sizes.
    Production rules have no stages: all of their plans are returned."""
    if component.production:
        return [production_plan(rule, statistics) for rule in component.production]
    if stage != "load":
        rules = _rules_of(component, stage)
        if RuleStage(stage) in (RuleStage.REDERIVE, RuleStage.PROVE):
            # Most rows of a recursive view come from its recursive rules; rows that they return are not tried again.
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
    """The relations and changes that start a stage, and the actions on the heads that they derive."""
    drivers = (driver_of(rule, component.states, component.views) for rule in _rules_of(component, stage))
    return {(each.relation, each.change, each.action) for each in drivers if each.seed}


def _rules_of(component: ComponentPlan, stage: str) -> list[MaintenanceRule]:
    return [rule for rule in component.rules if rule.stage.value == stage and rule.driver is not None]


def _is_recursive(rule: MaintenanceRule, component: ComponentPlan) -> bool:
    return rule.source is not None and bool(relations_read(rule.source) & set(component.views))
