"""What a branch has yet to change at least, whatever becomes of it.

A disjunction that is open needs one of its leaves to be otherwise; a row of a view that is not as it has to be needs a
base row to change that it hangs on. Needs that no base row has in common are met by as many changes: the cheapest ones
of each add up to a price that no realisation of the branch stays below. What cannot be told for certain counts nothing:
aggregates, and rows of views that the changes of the branch may have seen to already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest

from upshot.revise.base_places import BasePlaces, Place, TakenPlaces
from upshot.revise.branch import Branch
from upshot.revise.disjunctions import Disjunctions
from upshot.revise.fitting_rows import fits
from upshot.revise.obstacles import Leaf
from upshot.revise.request import DELETE, INSERT, Key, Preferences
from upshot.revise.rules import Rules
from upshot.revise.world import World

Priority = tuple[float, int]
"""A price, and a number of changes."""


MOST = 1_000
"""Disjunctions that are looked at for one branch, the narrowest ones."""


@dataclass(frozen=True, slots=True)
class Need:
    """A base row at one of the places has to change, for at least this price."""

    places: tuple[Place, ...]
    price: float


@dataclass(frozen=True, slots=True)
class _Change:
    """What a leaf hangs on: the `places` where a base row has to change before it is otherwise, those of them that are
    not frozen, and the least price of that. A base row is its own place."""

    places: tuple[Place, ...]
    free: tuple[Place, ...]
    price: float
    is_base: bool


@dataclass(slots=True)
class LowerBound:
    """The prices that realisations of branches do not stay below."""

    world: World
    rules: Rules
    preferences: Preferences
    disjunctions: Disjunctions
    _places: BasePlaces = field(init=False)
    _changes: dict[Leaf, _Change] = field(default_factory=dict)
    _views: dict[Key, bool] = field(default_factory=dict)
    _last: tuple[Branch, int, Priority] | None = None
    """What was found last, with so many disjunctions known: a branch is asked about again soon."""
    _looked_at: int = 0
    """The leaves of disjunctions, the first of them, of which is known whether they are `_settled` or `_wide`."""
    _settled: int = 0
    """The leaves that are otherwise as long as nothing else is decided, or may be for all that is known."""
    _wide: int = 0
    """The leaves that hang on more base rows than one."""

    def __post_init__(self) -> None:
        self._places = BasePlaces(self.rules)

    def of(self, branch: Branch) -> Priority:
        """What every realisation of the branch costs at least, and the changes that it has at least."""
        known = self.disjunctions.number
        if self._last is None or self._last[0] is not branch or self._last[1] != known:
            needs = self.needs(branch)
            # Rounded only once, the sum of a part is never above that of the whole.
            price = math.fsum([*self._prices(branch), *(each.price for each in needs)])
            self._last = branch, known, (price, branch.size + len(needs))
        return self._last[2]

    def spent(self, branch: Branch) -> float:
        """The price of the changes that the branch has decided on."""
        return math.fsum(self._prices(branch))

    def _prices(self, branch: Branch) -> Iterator[float]:
        yield from (self.preferences.price(name, INSERT) for name, _ in branch.insert)
        yield from (self.preferences.price(name, DELETE) for name, _ in branch.delete)

    def needs(self, branch: Branch) -> list[Need]:
        """Needs of a branch beyond what it has decided on; no base row could meet two of them."""
        changed, taken, found = TakenPlaces(), TakenPlaces(), list[Need]()
        changed.add((*branch.insert, *branch.delete))
        for leaves in (*self._of_disjunctions(branch), *self._of_rows(branch)):
            need = self._need(leaves, changed)
            if need is not None and not taken.meet(need.places):
                taken.add(need.places)
                found.append(need)
        return found

    def _of_disjunctions(self, branch: Branch) -> Iterator[list[Leaf]]:
        """Leaves one of which is to be otherwise in the end; no leaf twice. Narrow ones leave most room for others."""
        self._look_at_new_leaves()
        open_ = self.disjunctions.open(branch, self._settled)
        used = 0
        for leaves in nsmallest(MOST, open_, key=lambda each: (each & self._wide != 0, each.bit_count())):
            if not leaves & used:
                used |= leaves
                yield [*self.disjunctions.members(leaves)]

    def _of_rows(self, branch: Branch) -> list[list[Leaf]]:
        """The same of rows of views that are to be there, or not to be there."""
        wanted = [(branch.true, False), (branch.false, True)]
        found = [Leaf(key, there) for keys, there in wanted for key in keys if self._is_followed_view(key)]
        self.world.look_up(leaf.key for leaf in found)
        return [[leaf] for leaf in found if self.world.stored(leaf.key) == leaf.there]

    def _look_at_new_leaves(self) -> None:
        new = self.disjunctions.leaves(self._looked_at)
        self.world.look_up(leaf.key for leaf in new if self._fits(leaf.key))
        for number, leaf in enumerate(new, self._looked_at):
            is_base = self.rules.is_base(leaf.key[0])
            there = self._fits(leaf.key) and self.world.stored(leaf.key)
            if there != leaf.there or not (is_base or self._is_followed_view(leaf.key)):
                self._settled |= 1 << number
            if not is_base:
                self._wide |= 1 << number
        self._looked_at += len(new)

    def _fits(self, key: Key) -> bool:
        return fits(key[1], self.rules.program.schemas[key[0]])

    def _is_followed_view(self, key: Key) -> bool:
        if key not in self._views:
            self._views[key] = not self.rules.is_base(key[0]) and self._places.below(key) is not None
        return self._views[key]

    def _need(self, leaves: Iterable[Leaf], changed: TakenPlaces) -> Need | None:
        """What it takes to have one of the leaves otherwise, which are not so in the committed state; None if it may
        take nothing more."""
        places: dict[Place, None] = {}
        price = math.inf
        for leaf in leaves:
            here = self._change(leaf)
            if not here.is_base and changed.meet(here.places):
                return None
            places |= dict.fromkeys(here.free)
            price = min(price, here.price)
        # With nothing left to change, the branch comes to its end, and that is for the search to see.
        return Need(tuple(places), price) if places else None

    def _change(self, leaf: Leaf) -> _Change:
        if leaf not in self._changes:
            places, signs = self._changed_at(leaf)
            free: dict[Place, None] = {}
            prices: list[float] = []
            for place in places:
                allowed = [sign for sign in signs if not self.preferences.is_frozen(place[0], sign)]
                if allowed:
                    free[place] = None
                    prices += (self.preferences.price(place[0], sign) for sign in allowed)
            is_base = self.rules.is_base(leaf.key[0])
            self._changes[leaf] = _Change(places, tuple(free), min(prices, default=math.inf), is_base)
        return self._changes[leaf]

    def _changed_at(self, leaf: Leaf) -> tuple[tuple[Place, ...], Iterable[str]]:
        """The places one of which has to change before the leaf is otherwise, and in what directions."""
        if not self.rules.is_base(leaf.key[0]):
            return self._places.below(leaf.key) or (), (INSERT, DELETE)
        if not self._fits(leaf.key):
            # A row that its relation cannot have stays away for ever.
            return (), ()
        return (leaf.key,), (DELETE if leaf.there else INSERT,)
