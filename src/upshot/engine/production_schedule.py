"""The production rules of one component of views, for the rule processor."""

from __future__ import annotations

from upshot.engine.rule_processor import ScheduledRule
from upshot.plan.program_plan import ComponentPlan
from upshot.rewrite.shapes import relations_read
from upshot.strategies.production_rules import ProductionRule, RulePurpose


def scheduled(plan: ComponentPlan) -> list[ScheduledRule]:
    return [
        ScheduledRule(rule.name, (rule.trigger,), rank=_rank(rule, plan), generated=True) for rule in plan.production
    ]


def _rank(rule: ProductionRule, plan: ComponentPlan) -> tuple[int, ...]:
    """The rank of a rule; `start` rules that read the component's views come first, while these are empty."""
    reads_itself = rule.group is RulePurpose.START and not relations_read(rule.source).isdisjoint(plan.views)
    return (*rule.rank, not reads_itself)
