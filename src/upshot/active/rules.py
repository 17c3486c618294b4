"""The active rules of a program, in the order in which they get their turns."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.operations import UPDATED
from upshot.engine.rule_processor import ScheduledRule, in_order

if TYPE_CHECKING:
    from upshot.check.program import CheckedRule

IMMEDIATE, DEFERRED, AFTER = "immediate", "deferred", "after"


@dataclass(frozen=True, slots=True)
class ActiveRules:
    """`rules` by name; `scheduled` in the order of their turns; `followed` relations are those whose changes a rule
    reads; `keys` are those of relations whose updates a rule reads."""

    rules: Mapping[str, CheckedRule] = field(default_factory=dict)
    scheduled: tuple[ScheduledRule, ...] = ()
    followed: frozenset[str] = frozenset()
    keys: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def of(rules: Iterable[CheckedRule]) -> ActiveRules:
        """Rules that are inactive are left out; the others keep the order that these imply."""
        known = list(rules)
        awake = [rule for rule in known if rule.is_awake]
        followed = {relation for rule in awake for relation, _ in rule.triggers}
        followed |= {window.relation for rule in awake for window in rule.windows}
        return ActiveRules(
            {rule.name: rule for rule in awake},
            tuple(
                ScheduledRule(rule.name, rule.triggers, rank=(turn,))
                for turn, rule in enumerate(_in_turn(known))
                if rule.is_awake
            ),
            frozenset(followed),
            {table.relation: table.key for rule in awake for table in rule.windows if table.operation == UPDATED},
        )

    def coupled(self, *couplings: str) -> frozenset[str]:
        return frozenset(name for name, rule in self.rules.items() if rule.coupling in couplings)


def _in_turn(rules: Sequence[CheckedRule]) -> Iterator[CheckedRule]:
    """The rules by coupling, whatever their precedence, then by precedence and priority."""
    for coupling in (IMMEDIATE, DEFERRED, AFTER):
        alike = {rule.name: rule for rule in rules if rule.coupling == coupling}
        for each in in_order([_scheduled(rule, alike) for rule in alike.values()]):
            yield alike[each.name]


def _scheduled(rule: CheckedRule, among: Container[str]) -> ScheduledRule:
    return ScheduledRule(
        rule.name,
        rule.triggers,
        rank=(-rule.priority,),
        precedes=tuple(name for name in rule.precedes if name in among),
        follows=tuple(name for name in rule.follows if name in among),
    )
