"""Which rule plans a component runs in which stage of its strategy."""

from __future__ import annotations

from upshot.plan.choice import read_by
from upshot.plan.production_plans import production_plan
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, RulePlan
from upshot.plan.rule_plans import load_plan, maintenance_plans
from upshot.plan.statistics import Statistics
from upshot.rewrite import MaintenanceRule, Stage
from upshot.syntax.ast import Atom


def stage_plans(component: ComponentPlan, stage: str, statistics: Statistics) -> list[RulePlan]:
    """The rule plans of a stage (`load`, or the value of a `Stage`), ordered by the sizes as they are now. Production
    rules have no stages: the plans are those of all of them."""
    if component.strategy == "production":
        return [production_plan(rule, statistics) for rule in component.production]
    if stage != "load":
        wanted = Stage(stage)
        rules = [rule for rule in component.rules if rule.stage is wanted and rule.driver is not None]
        if wanted in (Stage.REDERIVE, Stage.PROVE):
            # Most rows of a recursive view come from its recursive rules: what they bring back is not tried again.
            rules.sort(key=lambda rule: not _is_recursive(rule, component))
        return [p for rule in rules for p in maintenance_plans(rule, component.states, component.views, statistics)]
    action = Action.GAIN if component.strategy == "counting" else Action.INSERT
    seeds = [
        load_plan(clause, action, statistics)
        for clause in component.clauses
        if not any(isinstance(literal, Atom) and literal.relation in component.views for literal in clause.body)
    ]
    rounds = [p for p in stage_plans(component, "insert", statistics) if not p.seed] if component.recursive else []
    return seeds + rounds


def stages_of(component: ComponentPlan) -> tuple[str, ...]:
    """The stages that a change runs through, in order; none for aggregates, which are not kept by rules."""
    match component.strategy:
        case "counting":
            return ("count",)
        case "recompute":
            return ("load",)
        case "production":
            return ("rules",)
        case "aggregate":
            return ()
        case "bf":
            return ("delete", "check", "prove", "insert")
        case _:
            return ("delete", "rederive", "insert")


def _is_recursive(rule: MaintenanceRule, component: ComponentPlan) -> bool:
    return rule.source is not None and bool(read_by(rule.source) & set(component.views))
