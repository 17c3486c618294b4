"""Select the next production rule and its windows: Starburst's semantics, independent of an engine.

A rule is triggered by the net effect of what happened since it last ran; the transition tables it reads are that
effect. Rows are whatever the engine makes of them: the processor only asks for unions and differences of sets.
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
    """Sets of rows as an engine has them."""

    def union(self, parts: Sequence[Rows]) -> Rows:
        """The rows of any part; there may be no part."""

    def without(self, rows: Rows, others: Rows) -> Rows:
        """The rows that are not among the others."""

    def is_empty(self, rows: Rows) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScheduledRule:
    """A rule as the processor sees it. `triggers`: pairs of a relation and `inserted`, `deleted` or `updated`; one of
    them is enough. `rank`: of two rules without another order, the one of smaller rank runs first. A `generated` rule
    keeps a view; other rules run only when no generated rule is triggered, and what they change starts a new wave."""

    name: str
    triggers: tuple[tuple[str, str], ...]
    rank: tuple[int, ...] = ()
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Transition(Generic[Rows]):
    """The net effect of a window on a relation. Inserted and then deleted is nothing; deleted and then inserted is
    both. The relation before the window is what it holds now, without `inserted`, with `deleted`."""

    inserted: Rows
    deleted: Rows

    def canceled(self, sets: RowSets[Rows]) -> Transition[Rows]:
        """The same, without the rows that are in both."""
        return Transition(sets.without(self.inserted, self.deleted), sets.without(self.deleted, self.inserted))

    def followed_by(self, later: Transition[Rows], sets: RowSets[Rows]) -> Transition[Rows]:
        """Both, one after the other."""
        inserted = sets.union((sets.without(self.inserted, later.deleted), later.inserted))
        return Transition(inserted, sets.union((self.deleted, sets.without(later.deleted, self.inserted))))


@dataclass(frozen=True, slots=True)
class RowEvent(Generic[Rows]):
    """Rows that really entered or left a relation, all at once; `time` counts the events of a processing point."""

    time: int
    operation: str
    rows: Rows


class ChangeWindow(Generic[Rows]):
    """The changes between two times, relation by relation."""

    def __init__(
        self,
        since: int,
        until: int,
        events: Mapping[str, list[RowEvent[Rows]]],
        sets: RowSets[Rows],
        own: int | None = None,
    ) -> None:
        """The changes of the rule itself end at `own`, if rows that come back cancel; see `RuleProcessor`."""
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
        """Test whether the net effect has such rows."""
        found = self.of(relation)
        return not self._sets.is_empty(found.inserted if operation == INSERTED else found.deleted)


@dataclass(frozen=True, slots=True)
class Consideration(Generic[Rows]):
    """A rule whose turn it is, with its window; `number` counts its turns in this processing point."""

    rule: ScheduledRule
    window: ChangeWindow[Rows]
    number: int


class RuleProcessor(Generic[Rows]):
    """One transaction's rule processing. Tell it of every change with `changed`, take the next rule with `next`, run
    its action, tell of its changes, until there is no next: that ends the processing point. What changes afterwards
    belongs to the next one.

    A rule's window starts when it last had its turn in this processing point, or with the first change after the
    previous point if it has had none; so each change is considered exactly once by each rule. When no generated rule is
    triggered, the windows of all of them start anew: the views are consistent with what they rest on, and `old` means
    that state from now on.

    In the window of a rule that is not generated, what was undone did not happen: a row that went and came back is in
    neither table. Only what the rule itself took away counts as inserted when another brings it back, or two rules that
    undo each other would seem to agree.
    """

    def __init__(
        self,
        rules: Iterable[ScheduledRule],
        sets: RowSets[Rows],
        has_updates: Callable[[str, Transition[Rows]], bool] = lambda relation, change: False,
    ) -> None:
        """`has_updates` tests whether the change of a relation pairs a deleted row with an inserted one."""
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
        """Everything that the rule did in its turn has been told."""
        self._acted[name] = self._now

    def changed(self, relation: str, operation: str, rows: Rows) -> None:
        """Rows entered or left a relation: only rows that were absent, or present, before."""
        if self._sets.is_empty(rows):
            return
        self._events.setdefault(relation, []).append(RowEvent(self._now, operation, rows))
        self._last[relation, operation] = self._last[relation, UPDATED] = self._now
        self._now += 1

    def next(self, among: Container[str] | None = None) -> Consideration[Rows] | None:
        """The rule whose turn it is: a generated one as long as one is triggered, then one of the others, or of those
        `among` these names. None ends the processing point, unless names are given: then it goes on, and the windows of
        the rules that had to wait grow."""
        found = self._first(self._generated)
        if found is None:
            self._since |= dict.fromkeys((rule.name for rule in self._generated), self._now)
            found = self._first(rule for rule in self._others if among is None or rule.name in among)
        if found is None and among is None:
            self._begin_point()
        return found

    def together(self) -> list[Consideration[Rows]]:
        """The next rule and, if it is a generated one, all others of its rank that are triggered too: nothing orders
        them, so their conditions may be evaluated side by side. What one of them changes is in the next windows of the
        others. Empty at the end of the processing point."""
        first = self.next()
        if first is None or not first.rule.generated:
            return [] if first is None else [first]
        alike = [rule for rule in self._generated if rule.rank == first.rule.rank]
        found = [first]
        while (another := self._first(alike)) is not None:
            found.append(another)
        return found

    def _first(self, rules: Iterable[ScheduledRule]) -> Consideration[Rows] | None:
        for rule in rules:
            since = self._since[rule.name]
            happened = [each for each in rule.triggers if self._last.get(each, -1) >= since]
            if not happened:
                continue
            own = None if rule.generated else self._acted.get(rule.name, since)
            window = ChangeWindow(since, self._now, self._events, self._sets, own)
            if any(self._in(window, *trigger) for trigger in happened):
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
    """The rules so that each stands after all that precede it; of those that could come next, the one of smallest rank,
    and of equals the one defined first. An order that contradicts itself is a program error."""
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
    """For each rule the places of those that come after it."""
    after: list[set[int]] = [set() for _ in rules]
    for place, rule in enumerate(rules):
        for name in (*rule.precedes, *rule.follows):
            if name not in places:
                raise ProgramError(
                    [
                        Diagnostic(
                            "unknown-rule",
                            f"rule `{rule.name}` is ordered by `{name}`, which is not a rule",
                            help=did_you_mean(name, places),
                        )
                    ]
                )
        for name in rule.precedes:
            after[place].add(places[name])
        for name in rule.follows:
            after[places[name]].add(place)
    return after


def _contradiction(after: Mapping[str, Collection[str]]) -> ProgramError:
    """The error that names a circle."""
    found = circle(after)
    names = " before ".join(f"`{name}`" for name in (*found, found[0]))
    hint = "remove one `precedes` or `follows`"
    return ProgramError([Diagnostic("rule-order-cycle", f"cyclic order of rules: {names}", help=hint)])
