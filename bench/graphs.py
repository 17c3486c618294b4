"""The input graphs and what is exactly known of them, so that a wrong answer cannot pass for a fast one.

Every graph is an integer array of shape (edges, 2), drawn from a seeded generator: the same name is the same graph on
every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.int64]

BLOCK = 200
REACH = 20


def grid(size: int) -> Edges:
    """The (size+1) × (size+1) points, with edges right and down."""
    side = size + 1
    points = np.arange(side * side, dtype=np.int64).reshape(side, side)
    right = np.stack([points[:, :-1].ravel(), points[:, 1:].ravel()], axis=1)
    down = np.stack([points[:-1, :].ravel(), points[1:, :].ravel()], axis=1)
    return np.concatenate([right, down])


def grid_closure_size(size: int) -> int:
    """How many pairs of points are connected, without enumerating them.

    >>> grid_closure_size(50), grid_closure_size(100)
    (1755675, 26522600)
    """
    side = size + 1
    return (side * (side + 1) // 2) ** 2 - side**2


def grid_same_generation_size(size: int) -> int:
    """The tuples of same generation, `x != y` asked in the base rule only.

    >>> grid_same_generation_size(50), grid_same_generation_size(100)
    (88350, 686700)
    """
    n = size + 1
    return (n - 1) * n * (n + 1) // 3 + (n - 2) * (n - 1) * n // 3 + (n - 1) ** 2


def random_graph(nodes: int, probability: float, seed: int = 1) -> Edges:
    """G(n, p): every ordered pair of different nodes with the given probability."""
    rng = np.random.default_rng(seed)
    rows = []
    for node in range(nodes):
        targets = np.flatnonzero(rng.random(nodes) < probability)
        targets = targets[targets != node]
        rows.append(np.stack([np.full(len(targets), node), targets], axis=1))
    return np.concatenate(rows).astype(np.int64)


def blocks(nodes: int, edges: int, seed: int = 1) -> Edges:
    """`edges` different random edges a → b with a < b ≤ a + 20, inside blocks of 200 nodes.

    What one edge can affect lies in its block, so the affected part does not grow with the graph.
    """
    rng = np.random.default_rng(seed)
    drawn = np.empty(0, dtype=np.int64)
    while True:
        source = rng.integers(0, nodes, size=2 * edges)
        target = source + rng.integers(1, REACH + 1, size=2 * edges)
        inside = (target < nodes) & (source // BLOCK == target // BLOCK)
        drawn = np.concatenate([drawn, source[inside] * nodes + target[inside]])
        _, first = np.unique(drawn, return_index=True)
        if len(first) >= edges:
            chosen = drawn[np.sort(first)[:edges]]
            return np.stack([chosen // nodes, chosen % nodes], axis=1)


def by_block(edges: Edges) -> dict[int, list[tuple[int, int]]]:
    """The edges of a `blocks` graph, per block."""
    parts: dict[int, list[tuple[int, int]]] = {}
    for source, target in edges.tolist():
        parts.setdefault(source // BLOCK, []).append((source, target))
    return parts


def blocks_closure_size(edges: Edges) -> int:
    """The connected pairs of a `blocks` graph, counted block by block.

    >>> blocks_closure_size(np.array([[0, 1], [1, 2], [200, 201]]))
    4
    """
    return sum(acyclic_closure_size(part) for part in by_block(edges).values())


def acyclic_closure_size(edges: Iterable[tuple[int, int]]) -> int:
    """The connected pairs of a graph whose edges all lead from a smaller node to a larger one.

    >>> acyclic_closure_size([(1, 2), (2, 3), (1, 3)])
    3
    """
    ordered = sorted(edges, reverse=True)
    if not ordered:
        return 0
    lowest = min(source for source, _ in ordered)
    reach: dict[int, int] = {}
    for source, target in ordered:
        reach[source] = reach.get(source, 0) | reach.get(target, 0) | 1 << (target - lowest)
    return sum(bits.bit_count() for bits in reach.values())


def closure_size(edges: Edges) -> int:
    """The connected pairs of any graph, cycles included, through its strongly connected components.

    >>> closure_size(np.array([[0, 1], [1, 0], [1, 2]]))
    6
    """
    successors: dict[int, list[int]] = {}
    for source, target in edges.tolist():
        successors.setdefault(source, []).append(target)
    component: dict[int, int] = {}
    reach: list[int] = []
    total = 0
    for number, members in enumerate(_components(successors)):
        component.update((node, number) for node in members)
        targets = {target for node in members for target in successors.get(node, ())}
        bits = 0
        for target in targets:
            bits |= 1 << target
            if component[target] != number:
                bits |= reach[component[target]]
        if any(component[target] == number for target in targets):
            for node in members:
                bits |= 1 << node
        reach.append(bits)
        total += len(members) * bits.bit_count()
    return total


def _components(successors: dict[int, list[int]]) -> Iterator[list[int]]:
    """The strongly connected components, each after all those it leads to (Tarjan's algorithm, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    done: set[int] = set()
    stack: list[int] = []
    for root in successors:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(successors.get(target, ()))))
                    break
                if target not in done:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    members = [stack.pop()]
                    while members[-1] != node:
                        members.append(stack.pop())
                    done.update(members)
                    yield members
