"""The pipeline's workload: millions of items with stock and thresholds, some of them parts of others.

An item is at risk when something it needs, directly or through other parts, is low.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import graphs

PROGRAM = """
.decl quantity(item: number, n: number) key(item)
.decl threshold(item: number, n: number) key(item)
.decl requires(item: number, needed: number)
.decl low(item: number)
.decl needs(item: number, needed: number)
.decl at_risk(item: number)

low(I) :- quantity(I, Q), threshold(I, T), Q < T.
needs(I, P) :- requires(I, P).
needs(I, P) :- needs(I, Q), requires(Q, P).
at_risk(I) :- needs(I, P), low(P).
"""
VIEWS = ("low", "needs", "at_risk")
EDGES_PER_BATCH = 10


@dataclass(slots=True)
class Batch:
    """The net changes of one micro-batch by relation, as columns by name."""

    inserted: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        parts = (*self.inserted.values(), *self.deleted.values())
        return sum(len(next(iter(columns.values()))) for columns in parts)


class Parts:
    """`rows` base rows in total: a blocks graph of parts, and a quantity and a threshold for every item."""

    def __init__(self, rows: int, nodes: int) -> None:
        self._rng = np.random.default_rng(13)
        drawn = graphs.blocks(nodes, 3 * nodes + 2_000)
        self.nodes = nodes
        self.edges = {(int(a), int(b)) for a, b in drawn[: 3 * nodes]}
        self._spare = [(int(a), int(b)) for a, b in drawn[3 * nodes :]]
        self.items = (rows - len(self.edges)) // 2
        self.threshold = self._rng.integers(50, 300, self.items)
        low = self._rng.random(self.items) < 0.01
        self.quantity = np.where(low, self.threshold - 1, self.threshold + self._rng.integers(0, 1000, self.items))

    def relations(self) -> dict[str, dict[str, Any]]:
        """The current base relations, as columns by name."""
        item = np.arange(self.items, dtype=np.int64)
        return {
            "quantity": {"item": item, "n": self.quantity.copy()},
            "threshold": {"item": item, "n": self.threshold},
            "requires": _pairs(sorted(self.edges)),
        }

    def batch(self, changes: int) -> Batch:
        """The next changes, already applied here: quantities cross their thresholds, some parts are replaced."""
        came = [self._spare.pop() for _ in range(EDGES_PER_BATCH // 2)]
        ordered = sorted(self.edges)
        went = [ordered[n] for n in self._rng.choice(len(ordered), EDGES_PER_BATCH // 2, replace=False).tolist()]
        self.edges = (self.edges - set(went)) | set(came)
        self._spare = [*went, *self._spare]
        count = (changes - EDGES_PER_BATCH) // 2
        known = self._rng.choice(self.nodes, count // 10, replace=False)
        others = self.nodes + self._rng.choice(self.items - self.nodes, count - len(known), replace=False)
        item = np.concatenate([known, others]).astype(np.int64)
        old = self.quantity[item]
        new = np.where(old < self.threshold[item], self.threshold[item] + 5, self.threshold[item] - 3)
        self.quantity[item] = new
        return Batch(
            {"quantity": {"item": item, "n": new}, "requires": _pairs(came)},
            {"quantity": {"item": item, "n": old}, "requires": _pairs(went)},
        )

    def sizes(self) -> dict[str, int]:
        """The expected number of tuples of each view, computed independently."""
        low = self.quantity < self.threshold
        edges = np.array(sorted(self.edges), dtype=np.int64)
        at_risk = sum(_reaching(part, low) for part in graphs.by_block(edges).values())
        return {"low": int(low.sum()), "needs": graphs.blocks_closure_size(edges), "at_risk": at_risk}


def _reaching(edges: list[tuple[int, int]], low: Any) -> int:
    """The number of nodes of a block that reach a low one; edges lead from smaller to larger numbers."""
    risky: set[int] = set()
    for source, target in sorted(edges, reverse=True):
        if low[target] or target in risky:
            risky.add(source)
    return len(risky)


def _pairs(rows: list[tuple[int, int]]) -> dict[str, Any]:
    return {"item": np.array([a for a, _ in rows], dtype=np.int64), "needed": np.array([b for _, b in rows], np.int64)}
