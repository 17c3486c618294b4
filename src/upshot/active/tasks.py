"""Tasks of rules after a commit: the changes of a firing, as a transaction of its own, and its calls.

Only this module writes and reads the JSON of tasks and firings in a store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upshot.active.firing import Firing, shown
from upshot.check.program import RuleAction
from upshot.store.entries import LoggedFiring, OutboxTask

if TYPE_CHECKING:
    from upshot.check.program import CheckedRule


@dataclass(slots=True)
class Pending:
    """A task: all changes of a firing, or one call. The last error is in the firing."""

    firing: Firing
    number: int
    actions: tuple[RuleAction, ...]
    per: str = "set"
    under_way: bool = False
    """True while a thread runs it."""

    @property
    def is_call(self) -> bool:
        return self.actions[0].kind == "call"

    @property
    def key(self) -> str:
        """Identifies the task, among those of its firing too."""
        return f"{self.firing.key.rpartition('-')[0]}-{self.number}"

    @property
    def place(self) -> tuple[int, int]:
        """The position in the outbox."""
        assert self.firing.version is not None, "committed"
        return self.firing.version, self.number


def pending_of(rule: CheckedRule, firing: Firing, first: int) -> list[Pending]:
    """The tasks of a firing, numbered from `first`."""
    changing = tuple(action for action in rule.actions if action.kind != "call")
    calls = [(action,) for action in rule.actions if action.kind == "call"]
    groups = [changing, *calls] if changing else calls
    return [Pending(firing, first + place, group, rule.per) for place, group in enumerate(groups)]


def as_task(pending: Pending) -> OutboxTask:
    actions = [[action.kind, action.target, action.columns] for action in pending.actions]
    firing = pending.firing
    text = {"rule": firing.rule, "shown": firing.places, "per": pending.per, "actions": actions, "key": firing.key}
    return OutboxTask(*pending.place, json.dumps(text), firing.instances)


def logged(firing: Firing) -> LoggedFiring:
    text = json.dumps({"coupling": firing.coupling, "key": firing.key})
    return LoggedFiring(firing.rule, text, len(firing.rows), firing.rows)


def logged_notes(found: LoggedFiring) -> tuple[str, str]:
    """The coupling and the key of a logged firing."""
    notes = json.loads(found.text)
    return notes["coupling"], notes["key"]


def from_task(task: OutboxTask) -> Pending:
    found = json.loads(task.text)
    actions = tuple(RuleAction(kind, target, tuple(columns)) for kind, target, columns in found["actions"])
    places = tuple(found["shown"])
    rows = shown(found["rule"], task.rows, places)
    firing = Firing(found["rule"], rows, task.rows, "after", places, task.version, found["key"])
    return Pending(firing, task.number, actions, found["per"])
