"""Select the next production rule and its window: Starburst's semantics, independent of an engine.

A rule is triggered by the net effect of the changes since it last ran; its transition tables are that effect. The
engine chooses the representation of rows: the processor only computes unions and differences of sets.
[Widom & Finkelstein 1990; Ceri & Widom 1994, section 3]
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError
from upshot.core.operations import INSERTED, UPDATED
from upshot.core.precedence import circle

Rows = TypeVar("Rows")


class RowSets(Protocol[Rows]):
    """Set operations on an engine's representation of rows."""

    def union(self, parts: Sequence[Rows]) -> Rows:
        """The union of the parts, which may be none."""

    def without(self, rows: Rows, others: Rows) -> Rows:
        """The rows that are not among the others."""

    def is_empty(self, rows: Rows) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScheduledRule:
    """A rule for the processor. `triggers`: pairs of a relation and `inserted`, `deleted` or `updated`; any of them
    triggers the rule. `rank`: of two rules without another order, the one with the smaller rank runs first. A
    `generated` rule maintains a view; other rules run only if no generated rule is triggered."""

    name: str
    triggers: tuple[tuple[str, str], ...]
    rank: tuple[int, ...] = ()
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Transition(Generic[Rows]):
    """The net effect of a window on a relation. A row inserted and then deleted is in neither set; one deleted and then
    inserted is in both. The relation before the window is the current one without `inserted` and with `deleted`."""

    inserted: Rows
    deleted: Rows

    def canceled(self, sets: RowSets[Rows]) -> Transition[Rows]:
        """The transition without the rows that are in both sets."""
        return Transition(sets.without(self.inserted, self.deleted), sets.without(self.deleted, self.inserted))

    def followed_by(self, later: Transition[Rows], sets: RowSets[Rows]) -> Transition[Rows]:
        """The composition of both transitions."""
        inserted = sets.union((sets.without(self.inserted, later.deleted), later.inserted))
        return Transition(inserted, sets.union((self.deleted, sets.without(later.deleted, self.inserted))))


@dataclass(frozen=True, slots=True)
class RowEvent(Generic[Rows]):
    """Rows inserted into or deleted from a relation in one step; `time` is the number of the event since the last
    processing point."""

    time: int
    operation: str
    rows: Rows


class ChangeWindow(Generic[Rows]):
    """The changes between two times, by relation."""

    def __init__(
        self,
        since: int,
        until: int,
        events: Mapping[str, list[RowEvent[Rows]]],
        sets: RowSets[Rows],
        own: int | None = None,
    ) -> None:
        """With `own`, deletions and later insertions cancel, separately before and after the end `own` of the rule's
        own changes; see `RuleProcessor`."""
        self._since, self._until, self._events, self._sets = since, until, events, sets
        self._own = own
        self._found: dict[str, Transition[Rows]] = {}

    def of(self, relation: str) -> Transition[Rows]:
        """The net effect on a relation."""
        if relation not in self._found:
            if self._own is None:
                self._found[relation] = self._between(relation, self._since, self._until)
            else:
                own = self._between(relation, self._since, self._own).canceled(self._sets)
                rest = self._between(relation, self._own, self._until).canceled(self._sets)
                self._found[relation] = own.followed_by(rest, self._sets)
        return self._found[relation]

    def _between(self, relation: str, since: int, until: int) -> Transition[Rows]:
        log = self._events.get(relation, [])
        first, end = (bisect_left(log, time, key=lambda event: event.time) for time in (since, until))
        return net_effect(log[first:end], self._sets)

    def has(self, relation: str, operation: str) -> bool:
        """Test whether the net effect has rows of the operation."""
        found = self.of(relation)
        return not self._sets.is_empty(found.inserted if operation == INSERTED else found.deleted)


@dataclass(frozen=True, slots=True)
class Consideration(Generic[Rows]):
    """The next rule with its window; `number` is the number of its turns in this processing point."""

    rule: ScheduledRule
    window: ChangeWindow[Rows]
    number: int


class RuleProcessor(Generic[Rows]):
    """The rule processing of one transaction. Report every change with `changed`, take the next rule with `next`, run
    its action, report its changes, until there is no next rule: that ends the processing point. Later changes belong to
    the next one.

    The window of a rule starts at its last turn in this processing point, or at the end of the previous point; so each
    rule considers each change exactly once. When no generated rule is triggered, the windows of all generated rules
    restart: the views are consistent with the relations below them, and `old` means that state from then on.

    In the window of a rule that is not generated, changes that were undone are left out: a row that was deleted and
    inserted again is in neither table. Only if the rule itself deleted the row does its insertion by another rule
    count; otherwise two rules that undo each other would seem to agree.
    """

    def __init__(
        self,
        rules: Iterable[ScheduledRule],
        sets: RowSets[Rows],
        has_updates: Callable[[str, Transition[Rows]], bool] = lambda relation, change: False,
    ) -> None:
        """`has_updates` tests whether a change of a relation has a deleted and an inserted row with the same key."""
        ordered = in_order(tuple(rules))
        self._has_updates = has_updates
        self._generated = [rule for rule in ordered if rule.generated]
        self._others = [rule for rule in ordered if not rule.generated]
        self._sets = sets
        self._begin_point()

    def _begin_point(self) -> None:
        self._events: dict[str, list[RowEvent[Rows]]] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._now = 0
        self._since = dict.fromkeys((rule.name for rule in (*self._generated, *self._others)), 0)
        self._turns = dict.fromkeys(self._since, 0)
        self._acted: dict[str, int] = {}

    def acted(self, name: str) -> None:
        """Report the end of a rule's turn, after all of its changes."""
        self._acted[name] = self._now

    def changed(self, relation: str, operation: str, rows: Rows) -> None:
        """Report rows inserted into or deleted from a relation, without those that change nothing."""
        if self._sets.is_empty(rows):
            return
        self._events.setdefault(relation, []).append(RowEvent(self._now, operation, rows))
        self._last[relation, operation] = self._last[relation, UPDATED] = self._now
        self._now += 1

    def next(self, among: Container[str] | None = None) -> Consideration[Rows] | None:
        """The next rule: a generated one while one is triggered, then one of the others, or of those whose names are
        `among` these. None ends the processing point; with `among` it continues, and the windows of waiting rules
        grow."""
        found = self._first(self._generated)
        if found is None:
            self._since |= dict.fromkeys((rule.name for rule in self._generated), self._now)
            found = self._first(rule for rule in self._others if among is None or rule.name in among)
        if found is None and among is None:
            self._begin_point()
        return found

    def together(self) -> list[Consideration[Rows]]:
        """The next rule and, if it is a generated one, all other triggered rules of its rank: they have no order, so
        their conditions may be evaluated in parallel. The changes of one are in the next windows of the others. Empty
        at the end of the processing point."""
        first = self.next()
        if first is None or not first.rule.generated:
            return [] if first is None else [first]
        same_rank = [rule for rule in self._generated if rule.rank == first.rule.rank]
        found = [first]
        while (another := self._first(same_rank)) is not None:
            found.append(another)
        return found

    def _first(self, rules: Iterable[ScheduledRule]) -> Consideration[Rows] | None:
        for rule in rules:
            since = self._since[rule.name]
            recent = [each for each in rule.triggers if self._last.get(each, -1) >= since]
            if not recent:
                continue
            own = None if rule.generated else self._acted.get(rule.name, since)
            window = ChangeWindow(since, self._now, self._events, self._sets, own)
            if any(self._in(window, *trigger) for trigger in recent):
                self._since[rule.name] = self._acted[rule.name] = self._now
                self._turns[rule.name] += 1
                return Consideration(rule, window, self._turns[rule.name])
        return None

    def _in(self, window: ChangeWindow[Rows], relation: str, operation: str) -> bool:
        if operation == UPDATED:
            return self._has_updates(relation, window.of(relation))
        return window.has(relation, operation)


def net_effect(events: Iterable[RowEvent[Rows]], sets: RowSets[Rows]) -> Transition[Rows]:
    """The events of one relation, in order, as one transition."""
    inserted = deleted = sets.union(())
    for operation, some in groupby(events, key=lambda event: event.operation):
        rows = sets.union([event.rows for event in some])
        if operation == INSERTED:
            inserted = sets.union((inserted, rows))
        else:
            deleted = sets.union((deleted, sets.without(rows, inserted)))
            inserted = sets.without(inserted, rows)
    return Transition(inserted, deleted)


# ---- order ------------------------------------------------------------------------------------


def in_order(rules: Sequence[ScheduledRule]) -> list[ScheduledRule]:
    """The rules in topological order; of the candidates for the next place, the one with the smallest rank, then the
    one defined first. A cyclic order is a program error."""
    places = {rule.name: place for place, rule in enumerate(rules)}
    after = _pairs(rules, places)
    waiting = [0] * len(rules)
    for followers in after:
        for follower in followers:
            waiting[follower] += 1
    ready = [(rule.rank, place) for place, rule in enumerate(rules) if not waiting[place]]
    heapq.heapify(ready)
    ordered: list[ScheduledRule] = []
    while ready:
        _, place = heapq.heappop(ready)
        ordered.append(rules[place])
        for follower in after[place]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (rules[follower].rank, follower))
    if len(ordered) < len(rules):
        raise _contradiction({rule.name: [rules[each].name for each in after[i]] for i, rule in enumerate(rules)})
    return ordered


def _pairs(rules: Sequence[ScheduledRule], places: Mapping[str, int]) -> list[set[int]]:
    """For each rule the places of the rules that must follow it."""
    after: list[set[int]] = [set() for _ in rules]
    for place, rule in enumerate(rules):
        for name in (*rule.precedes, *rule.follows):
            if name not in places:
                message = f"rule `{rule.name}` is ordered by `{name}`, which is not a rule"
                raise ProgramError([Diagnostic("unknown-rule", message, help=did_you_mean(name, places))])
        for name in rule.precedes:
            after[place].add(places[name])
        for name in rule.follows:
            after[places[name]].add(place)
    return after


def _contradiction(after: Mapping[str, Collection[str]]) -> ProgramError:
    """The error that shows a cycle."""
    found = circle(after)
    names = " before ".join(f"`{name}`" for name in (*found, found[0]))
    hint = "remove one `precedes` or `follows`"
    return ProgramError([Diagnostic("rule-order-cycle", f"cyclic order of rules: {names}", help=hint)])
