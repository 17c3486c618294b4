"""Shortest paths on a cyclic graph: maintained by Upshot for each edge, or recomputed."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow

import upshot
from bench import memory
from bench.contenders.upshot import warm_up
from bench.tasks import Answer, Task

PROGRAM = """
.decl edge(a: number, b: number, w: number)
.decl dist(a: number, d: min number)
dist(0, 0).
dist(Y, D + W) :- dist(X, D), edge(X, Y, W).
.view dist {option}
"""


def run(task: Task) -> Answer:
    """Load, then each of some edges out and in again; the distances without the edge are compared with Dijkstra's
    algorithm for the first of them, and at the end."""
    warm_up()
    edges = weighted_edges(task.options["nodes"], task.options["edges"])
    db = upshot.connect()
    db.define(PROGRAM.format(option=task.options["option"]))
    before, began = memory.reset_peak(), time.perf_counter()
    db.register("edge", pyarrow.table([edges[:, 0], edges[:, 1], edges[:, 2]], names=["a", "b", "w"]))
    answer = Answer(time.perf_counter() - began, len(db.rows("dist")), memory.peak() - before, memory.peak())
    _compare(db, edges)
    times: dict[str, list[float]] = {"delete": [], "insert": []}
    for number, place in enumerate(
        np.random.default_rng(7).permutation(len(edges))[: task.options["changes"]].tolist()
    ):
        row = tuple(edges[place].tolist())
        for statement, seconds in times.items():
            began = time.perf_counter()
            with db.transaction() as tx:
                getattr(tx, statement)("edge", [row])
            _ = list(tx.changes["dist"].inserted), list(tx.changes["dist"].deleted)
            seconds.append(time.perf_counter() - began)
            if number == 0 and statement == "delete":
                _compare(db, np.delete(edges, place, axis=0))
    _compare(db, edges)
    answer.times = times
    return answer


def weighted_edges(nodes: int, count: int) -> np.ndarray[Any, Any]:
    """Distinct random edges with weights from 1 to 99."""
    draw = np.random.default_rng(3)
    pairs = np.unique(draw.integers(0, nodes, (count, 2)), axis=0)
    return np.column_stack([pairs, draw.integers(1, 100, len(pairs))])


def _compare(db: Any, edges: np.ndarray[Any, Any]) -> None:
    leads = defaultdict(list)
    for source, target, weight in edges.tolist():
        leads[source].append((target, weight))
    best: dict[int, int] = {}
    queue = [(0, 0)]
    while queue:
        cost, node = heapq.heappop(queue)
        if node not in best:
            best[node] = cost
            for target, weight in leads[node]:
                if target not in best:
                    heapq.heappush(queue, (cost + weight, target))
    if set(db.rows("dist")) != set(best.items()):
        raise AssertionError("the distances are not those of Dijkstra's algorithm")
