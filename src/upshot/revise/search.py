"""All minimal realisations of a request, the cheapest first. [Behrend & Manthey 2008, section 4]

A branch is a state of the disjunctive model: base changes decided on, and rows that must or must not be there. It is
staged and propagated (bottom-up); what it leaves unmet is asked for (top-down), and a choice of answers makes as many
branches:

    a row that must be there and is not      one branch for each instance of a rule that could derive it
    a row that must not be there and is      one for each leaf of its smallest derivation
    a new witness of a constraint, two rows that share a key                              the same

Every minimal realisation stays in reach: of the branches made, one agrees with it on all that was decided. A branch
with nothing unmet is a realisation, and minimal unless it contains one found before, since smaller ones come first.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from upshot.reasons.why import reasons_in
from upshot.revise.branch import Branch, Update, contains_update
from upshot.revise.obstacles import Leaf, Proof, proof_of
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences, Request
from upshot.revise.rules import Rules
from upshot.revise.ways import Alternatives, Limits, Ways
from upshot.revise.world import World

Priority = tuple[float, int]

SLICE = 0.05
"""Seconds after which others may have their turn with the database."""


@dataclass(slots=True)
class Search:
    """A search that goes a slice of time at a time. `constraints` are the relations to which no row may come."""

    world: World
    rules: Rules
    constraints: Collection[str]
    request: Request
    preferences: Preferences
    bounds: Bounds
    counts: dict[str, int] = field(default_factory=dict)
    found: list[tuple[Update, tuple[Placeholder, ...]]] = field(default_factory=list)
    dead_ends: dict[Key, None] = field(default_factory=dict)
    """Rows at which branches ended: nothing makes them true, or false, that does not contradict the branch."""
    _heap: list[tuple[Priority, int, Branch | Alternatives]] = field(default_factory=list)
    _made: int = 0
    _seen: set[object] = field(default_factory=set)
    _spent: float = 0.0
    _ways: Ways = field(init=False)

    def __post_init__(self) -> None:
        self._ways = Ways(self.world, self.rules, self.preferences, self.bounds, counts=self.counts)
        start = self._ways.decided(Branch(), sorted(self.request.insert, key=repr), self.request.delete)
        if start is not None:
            self._push((0.0, 0), start)

    @property
    def limits(self) -> Limits:
        return self._ways.limits

    @property
    def is_exhausted(self) -> bool:
        return not self._heap

    def run(self, slice: float = SLICE) -> Branch | None:
        """Looks at branches for a slice of time, in seconds, or until one is a realisation, which is returned. Nothing
        stays staged."""
        begun = time.monotonic()
        try:
            while self._heap:
                found = self._step()
                if found is not None or time.monotonic() - begun > min(slice, self.bounds.seconds - self._spent):
                    return found
            return None
        finally:
            self.world.undo()
            self._spent += time.monotonic() - begun
            if self._spent > self.bounds.seconds and self._heap:
                self.limits.note(f"{self.bounds.seconds:g} seconds")
                self._heap.clear()

    def _step(self) -> Branch | None:
        floor, _, item = heapq.heappop(self._heap)
        if isinstance(item, Branch):
            return self._examined(item, floor)
        if self._is_covered(item.source):
            return None
        branch = next(item.branches, None)
        if branch is not None:
            item.is_empty = False
            self._again(floor, item)
            self._push(floor, branch)
        elif item.is_empty:
            self.dead_ends[item.about] = None
        return None

    def _push(self, floor: Priority, branch: Branch) -> None:
        if branch.state in self._seen or self._is_covered(branch):
            return
        self._seen.add(branch.state)
        self._again(max(floor, self._priority(branch)), branch)

    def _again(self, floor: Priority, item: Branch | Alternatives) -> None:
        # Of equals, the newest is looked at first: a branch is followed to its end before its siblings are made.
        self._made += 1
        heapq.heappush(self._heap, (floor, -self._made, item))

    def _priority(self, branch: Branch) -> Priority:
        price = sum(self.preferences.price(name, INSERT) for name, _ in branch.insert)
        price += sum(self.preferences.price(name, DELETE) for name, _ in branch.delete)
        return price, branch.size

    def _is_covered(self, branch: Branch) -> bool:
        """Whether all that could come of the branch contains a realisation that was found."""
        return any(contains_update(branch, update, names) for update, names in self.found)

    # ---- one branch ---------------------------------------------------------------------------------------------

    def _examined(self, branch: Branch, floor: Priority) -> Branch | None:
        if self._is_covered(branch):
            return None
        self._count("branches")
        self.world.stage(branch.insert, branch.delete)
        missing = self._missing(branch)
        if missing is not None:
            self._continue(self._ways.derivations(branch, missing), branch, floor)
            return None
        for about, proof in self._standing(branch):
            self._continue(iter([Alternatives(branch, about, 0, 0, self._without(branch, proof))]), branch, floor)
            return None
        self.found.append(((branch.insert, branch.delete), branch.placeholders))
        return branch

    def _continue(self, alternatives: Iterator[Alternatives], branch: Branch, floor: Priority) -> None:
        if branch.rounds >= self.bounds.rounds:
            self.limits.note(f"{self.bounds.rounds} rounds")
            return
        price, size = self._priority(branch)
        # Pushed in reverse: those of which most holds already are looked at first.
        for each in reversed(list(alternatives)):
            self._again(max(floor, (price + each.price, size + each.changes)), each)

    def _missing(self, branch: Branch) -> Key | None:
        """A row of a view that must be there, is not, and that no rule has been chosen for."""
        waiting = (key for key in branch.true if key not in branch.support and not self.rules.is_base(key[0]))
        return next((key for key in sorted(waiting, key=repr) if not self.world.holds(key)), None)

    def _standing(self, branch: Branch) -> Iterator[tuple[Key, Proof]]:
        """What is so and must not be so, and why it is."""
        for key in sorted(branch.false, key=repr):
            if not self.rules.is_base(key[0]) and self.world.holds(key):
                yield key, self._proof(key)
        for constraint in sorted(self.constraints):
            for row in sorted(self.world.added(constraint), key=repr):
                yield (constraint, row), self._proof((constraint, row))
        for first, second in self.world.key_conflicts():
            proofs = [self._proof(key) for key in (first, second)]
            leaves = dict.fromkeys(leaf for proof in proofs for leaf in proof.leaves)
            yield first, Proof(tuple(leaves))

    def _proof(self, key: Key) -> Proof:
        if self.rules.is_base(key[0]):
            return Proof((Leaf(key, there=True),))
        self._count("derivations")
        proof = proof_of(key, reasons_in(self.world, self.rules.program))
        assert proof is not None, "it is there"
        return proof

    def _without(self, branch: Branch, proof: Proof) -> Iterator[Branch]:
        """The branches in which one leaf of the derivation is otherwise, and those before it are as they are."""
        for view in proof.folded:
            self.limits.note(f"`{view}`, whose rows are aggregates and are not looked into")
        branch = replace(branch, rounds=branch.rounds + 1)
        kept: list[Leaf] = []
        for leaf in proof.leaves:
            true = [each.key for each in kept if each.there] + [leaf.key] * (not leaf.there)
            false = [each.key for each in kept if not each.there] + [leaf.key] * leaf.there
            made = self._ways.decided(branch, true, false)
            kept.append(leaf)
            if made is not None:
                yield made

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
