"""Plans that update the rows of a view after a change of its own rules, without recomputation.

Rows that an added rule derives in the new state are inserted, and propagated like any insertion. Rows that a removed
rule derived in the old state are over-deleted, propagated by the old rules, and rederived by the new ones.
[Harrison & Dietrich 1994]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from upshot.check.names.variables import walk
from upshot.check.program import Clause
from upshot.plan.component_plans import stage_plans
from upshot.plan.order_body import Resolved, Statistics
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, RulePlan, State
from upshot.plan.rule_plans import load_plan
from upshot.syntax.ast import Call
from upshot.values.functors import is_functor, is_stateful


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A component before and after its rules changed."""

    before: ComponentPlan
    after: ComponentPlan

    @property
    def removed(self) -> tuple[Clause, ...]:
        return tuple(clause for clause in self.before.clauses if clause not in self.after.clauses)

    @property
    def added(self) -> tuple[Clause, ...]:
        return tuple(clause for clause in self.after.clauses if clause not in self.before.clauses)

    def plans(self, stage: str, statistics: Statistics) -> list[RulePlan]:
        """The rule plans of a stage (`delete`, `rederive`, `check`, `prove`, `insert` or `count`), including those of
        changed rules. Proofs use remaining rules only; rows that added rules derive are inserted."""
        match stage:
            case "delete":
                return stage_plans(self.before, stage, statistics) + self._whole(Action.DELETE, statistics)
            case "rederive":
                return stage_plans(self.after, stage, statistics)
            case "check" | "prove":
                return self._of_lasting(stage, statistics)
            case "insert":
                return stage_plans(self.after, stage, statistics) + self._whole(Action.INSERT, statistics)
            case _:
                plans = self._of_lasting(stage, statistics)
                return plans + self._whole(Action.LOSE, statistics) + self._whole(Action.GAIN, statistics)

    def _of_lasting(self, stage: str, statistics: Statistics) -> list[RulePlan]:
        """The plans of the rules in both versions."""
        added = self.added
        rules = tuple(rule for rule in self.after.rules if rule.source not in added)
        return stage_plans(replace(self.after, rules=rules), stage, statistics)

    def _whole(self, action: Action, statistics: Statistics) -> list[RulePlan]:
        """The plans of the removed rules in the old state, or of the added rules in the new state."""
        if action in (Action.DELETE, Action.LOSE):
            return [
                load_plan(clause, action, statistics, name="removed", resolve=lambda name: Resolved(name, State.OLD))
                for clause in self.removed
            ]
        return [load_plan(clause, action, statistics, name="added") for clause in self.added]


def rule_change(before: ComponentPlan, after: ComponentPlan) -> RuleChange | None:
    """The change from one set of rules to the other, if the rows can follow it: the strategy is the same and supports
    it, and some rule is in both."""
    if before.views != after.views or before.strategy != after.strategy:
        return None
    if not after.strategy.follows_rules or after.strategy.follows_as is not None:
        return None
    if any(_calls_stateful(clause) for clause in before.clauses):
        return None  # earlier results of such functions are unknown
    if before.recursive != after.recursive or not any(clause in before.clauses for clause in after.clauses):
        return None
    return RuleChange(before, after)


def _calls_stateful(clause: Clause) -> bool:
    return any(
        isinstance(each, Call) and is_functor(each.function) and is_stateful(each.function)
        for literal in clause.body
        for each in walk(literal)
    )
