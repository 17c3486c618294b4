"""The production rules of one component of views, as the rule processor takes them."""

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
    """The rank of a rule; of `start` rules, first those that read the views themselves: nothing is in them yet."""
    reads_itself = rule.group is RulePurpose.START and not relations_read(rule.source).isdisjoint(plan.views)
    return (*rule.rank, not reads_itself)
