"""What every realisation has to change one of: the disjunctions of the model state, learned from derivations.

A derivation of a row that must not be there shows that its leaves cannot all be as they are: `∇−p → ∇−q ∨ ∇+r`. That
is so in every branch, whatever state it was seen in. Where all leaves but one are decided on, the last is decided as
well; where all are, the branch has come to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from upshot.engine.time_limit import check_time
from upshot.revise.branch import Branch
from upshot.revise.obstacles import Leaf, Proof
from upshot.revise.request import Key

MOST = 4_000
"""Derivations that are learned from; those beyond say nothing that would not be found out later."""

Rows = tuple[Key, ...]
"""A row that must not be there, or two that must not be there together."""


@dataclass(frozen=True, slots=True)
class Forced:
    """A leaf that has to be otherwise since nothing else is left to keep a row away; no leaf if nothing at all is.
    `because` are the rows that are decided to be as they are."""

    about: Key
    leaf: Leaf | None
    because: Rows = ()


@dataclass(slots=True)
class Disjunctions:
    """Those that were learned. A set of leaves is a number with one bit for each."""

    _proofs: dict[Rows, dict[Proof, None]] = field(default_factory=dict)
    _learned: list[tuple[int, Key]] = field(default_factory=list)
    _of_aggregates: list[tuple[int, Key]] = field(default_factory=list)
    _bits: dict[Key, int] = field(default_factory=dict)
    """By row, the bit of the leaf that it is there; the next one is that of the leaf that it is not."""
    _leaves: list[Leaf] = field(default_factory=list)

    def about(self, rows: Rows) -> Iterator[Proof]:
        """The derivations that are known of rows."""
        yield from self._proofs.get(rows, ())

    def learn(self, rows: Rows, proof: Proof, *, always: bool, of_aggregates: bool = False) -> None:
        """Notes a derivation of rows that must not be there, in any branch (`always`) or in those that say so. Those
        with aggregates among their leaves are kept apart: what becomes of them is better known from all their values
        that would do."""
        learned = self._of_aggregates if of_aggregates else self._learned
        if len(learned) >= MOST:
            return
        leaves = {Leaf(each.key, each.there) for each in proof.leaves}
        if not always:
            leaves.add(Leaf(rows[0], there=False))
        if not of_aggregates:
            self._proofs.setdefault(rows, {})[proof] = None
        learned.append((sum(map(self._bit, leaves)), rows[0]))

    def forced(self, branch: Branch, *, of_aggregates: bool = False) -> list[Forced]:
        """What follows from what is decided on."""
        learned = [*self._learned, *self._of_aggregates] if of_aggregates else self._learned
        if not learned:
            return []
        decided, otherwise = self._decided(branch)
        found: dict[int, tuple[Key, int]] = {}
        check_time()
        for leaves, about in learned:
            if not leaves & otherwise:
                left = leaves & ~decided
                if not left:
                    return [Forced(about, None)]
                if not left & (left - 1):
                    found[left] = about, leaves & decided
        return [
            Forced(about, self._leaves[bit.bit_length() - 1], tuple(each.key for each in self.members(others)))
            for bit, (about, others) in found.items()
        ]

    def open(self, branch: Branch, settled: int) -> list[int]:
        """Of each disjunction that the branch has not seen to, the leaves that it has decided nothing about; those with
        a leaf among the `settled` ones are left out."""
        decided, otherwise = self._decided(branch)
        seen_to = otherwise | settled & ~decided
        return list(dict.fromkeys(leaves & ~decided for leaves, _ in self._learned if not leaves & seen_to))

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self._learned)

    def leaves(self, first: int = 0) -> list[Leaf]:
        """All leaves from this one on, in the order of their bits."""
        return self._leaves[first:]

    def members(self, leaves: int) -> Iterator[Leaf]:
        """The leaves of a set."""
        while leaves:
            lowest = leaves & -leaves
            yield self._leaves[lowest.bit_length() - 1]
            leaves ^= lowest

    def _decided(self, branch: Branch) -> tuple[int, int]:
        """The leaves that are decided to be as they are, and those that are decided to be otherwise."""
        there = away = 0
        for key in branch.true:
            there |= self._bits.get(key, 0)
        for key in branch.false:
            away |= self._bits.get(key, 0)
        return there | away << 1, there << 1 | away

    def _bit(self, leaf: Leaf) -> int:
        if leaf.key not in self._bits:
            self._bits[leaf.key] = 1 << len(self._leaves)
            self._leaves += (Leaf(leaf.key, there=True), Leaf(leaf.key, there=False))
        return self._bits[leaf.key] << (not leaf.there)
