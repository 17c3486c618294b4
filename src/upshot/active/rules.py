"""The active rules of a program, in the order in which they get their turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upshot.check.program import CheckedRule
from upshot.engine.rule_processor import ScheduledRule, in_order

IMMEDIATE, DEFERRED, AFTER = "immediate", "deferred", "after"
_COUPLINGS = (IMMEDIATE, DEFERRED, AFTER)


@dataclass(frozen=True, slots=True)
class ActiveRules:
    """`rules` by name; `scheduled` as the processor takes them, in order; `followed` are the relations whose changes
    some rule has to be told of."""

    rules: Mapping[str, CheckedRule] = field(default_factory=dict)
    scheduled: tuple[ScheduledRule, ...] = ()
    followed: frozenset[str] = frozenset()

    @staticmethod
    def of(rules: Iterable[CheckedRule]) -> ActiveRules:
        """Rules that are active for nothing are left out; what is ordered by way of them keeps its order."""
        known = {rule.name: rule for rule in rules}
        ordered = [known[each.name] for each in in_order([_scheduled(rule) for rule in known.values()])]
        ordered.sort(key=lambda rule: _COUPLINGS.index(rule.coupling))
        awake = [rule for rule in known.values() if rule.activations]
        followed = {relation for rule in awake for relation, _ in rule.triggers}
        followed |= {window.relation for rule in awake for window in rule.windows}
        return ActiveRules(
            {rule.name: rule for rule in awake},
            tuple(
                ScheduledRule(rule.name, rule.triggers, (turn,))
                for turn, rule in enumerate(ordered)
                if rule.activations
            ),
            frozenset(followed),
        )

    def coupled(self, *couplings: str) -> frozenset[str]:
        """The names of the rules with one of these couplings."""
        return frozenset(name for name, rule in self.rules.items() if rule.coupling in couplings)


def _scheduled(rule: CheckedRule) -> ScheduledRule:
    return ScheduledRule(
        rule.name,
        rule.triggers,
        rank=(_COUPLINGS.index(rule.coupling), -rule.priority),
        precedes=rule.precedes,
        follows=rule.follows,
    )
