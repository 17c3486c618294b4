"""The changes that the rules of a program hear.

A propagation reports the net change since the transaction began. A row that came before a turn of a rule and left after
it is no such change, yet one of the window that begins with the turn. It is seen only if both signs are reported; so
the opposite of what a rule listens to matters where the change itself can happen after one of its turns: by an action
of a rule before the commit, or by a statement, after the turn of an immediate rule or a processing point.
"""

from __future__ import annotations

from dataclasses import dataclass

from upshot.check.active.events import Event, Events, written
from upshot.check.program import CheckedProgram
from upshot.core.operations import OPPOSITE


@dataclass(frozen=True, slots=True)
class HeardChanges:
    """Pairs of a relation and `inserted` or `deleted`: heard by the rules in a transaction `once` deferred rules run at
    its end only, and in one with `several` processing points."""

    once: frozenset[Event] = frozenset()
    several: frozenset[Event] = frozenset()


def heard_changes(program: CheckedProgram) -> HeardChanges:
    """The changes that the rules of a program listen to."""
    if not program.rules:
        return HeardChanges()
    events = Events.of(program)
    early = [rule for rule in program.rules if rule.is_awake and rule.coupling != "after"]
    made = {event for rule in early for action, _ in written(rule) for event in events.above(rule, action)}
    once = {event for rule in program.rules for event in rule.hears}
    several = set(once)
    for rule in early:
        undone = rule.hears if rule.coupling == "immediate" else rule.hears & made
        once |= {(relation, OPPOSITE[operation]) for relation, operation in undone}
        several |= {(relation, OPPOSITE[operation]) for relation, operation in rule.hears}
    return HeardChanges(frozenset(once), frozenset(several))
