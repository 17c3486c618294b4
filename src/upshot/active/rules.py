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
        """Rules that are active for nothing are left out."""
        awake = [rule for rule in rules if rule.activations]
        names = {rule.name for rule in awake}
        followed = {relation for rule in awake for relation, _ in rule.triggers}
        followed |= {window.relation for rule in awake for window in rule.windows}
        return ActiveRules(
            {rule.name: rule for rule in awake},
            tuple(in_order([_scheduled(rule, names) for rule in awake])),
            frozenset(followed),
        )

    def coupled(self, *couplings: str) -> frozenset[str]:
        """The names of the rules with one of these couplings."""
        return frozenset(name for name, rule in self.rules.items() if rule.coupling in couplings)


def _scheduled(rule: CheckedRule, awake: set[str]) -> ScheduledRule:
    return ScheduledRule(
        rule.name,
        rule.triggers,
        rank=(_COUPLINGS.index(rule.coupling), -rule.priority),
        precedes=tuple(name for name in rule.precedes if name in awake),
        follows=tuple(name for name in rule.follows if name in awake),
    )
