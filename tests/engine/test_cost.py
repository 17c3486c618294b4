"""The cost of a change follows the change: counters do not grow with what it cannot reach; bytes stay within bounds."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench import graphs
from tests.engine.driver import Driver
from upshot.engine.work import ViewWork

NODES = ".decl edge(x: number, y: number) .decl closure(x: number, y: number)\n"
PROGRAMS = {
    "linear": NODES + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- edge(X, Z), closure(Z, Y).",
    "left linear": NODES + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), edge(Z, Y).",
    "nonlinear": NODES + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), closure(Z, Y).",
    "views above": NODES
    + """
    .decl two(x: number, y: number) .decl out(x: number, n: number)
    .decl lone(x: number) .decl far(x: number, y: number)
    closure(X, Y) :- edge(X, Y). closure(X, Y) :- edge(X, Z), closure(Z, Y).
    two(X, Z) :- edge(X, Y), edge(Y, Z).
    out(X, N) :- edge(X, _), N = count : { edge(X, _) }.
    lone(X) :- edge(X, _), !edge(_, X).
    far(X, Y) :- closure(X, Y), !edge(X, Y), !two(X, Y).
    """,
}
COUNTERS = ("probed", "matched", "derived", "filtered", "deleted", "rederived", "inserted", "rounds")
BLOCKS, EDGES_PER_BLOCK = 5, 260


def graph(blocks: int) -> np.ndarray[Any, Any]:
    """The first blocks are the same, however many follow."""
    first = graphs.blocks(BLOCKS * graphs.BLOCK, BLOCKS * EDGES_PER_BLOCK, seed=3)
    copies = [first + shift * BLOCKS * graphs.BLOCK for shift in range(blocks // BLOCKS)]
    return np.concatenate(copies)


def table(edges: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table({"x": edges[:, 0], "y": edges[:, 1]})


def counted(work: ViewWork) -> dict[str, int]:
    return {name: value for name, value in asdict(work).items() if name in COUNTERS}


def costs(text: str, blocks: int) -> list[dict[str, int]]:
    """The counters of ten changes of one edge each, gone and come again."""
    it = Driver(text)
    edges = graph(blocks)
    it.engine.insert("edge", table(edges))
    it.engine.propagate()
    it.engine.accept()
    found = []
    for row in [tuple(row) for row in edges[7 : BLOCKS * EDGES_PER_BLOCK : 130].tolist()]:
        for change in (it.delete, it.insert):
            change("edge", row)
            found.append(counted(it.work))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cost_of_one_edge_does_not_grow_with_the_graph(name: str) -> None:
    small, large = costs(PROGRAMS[name], BLOCKS), costs(PROGRAMS[name], 10 * BLOCKS)
    assert len(small) == 20
    assert small == large


def test_one_edge_costs_about_what_it_changes() -> None:
    it = Driver(PROGRAMS["linear"])
    edges = graph(BLOCKS)
    it.engine.insert("edge", table(edges))
    it.commit()
    for row in [tuple(row) for row in edges[::200].tolist()]:
        change = it.delete("edge", row)["closure"]
        overestimate = it.work.deleted
        assert overestimate - it.work.rederived == len(change[1])
        assert it.work.probed <= 60 * (overestimate + 1)
        assert it.work.derived <= 60 * (overestimate + 1)
        back = it.insert("edge", row)["closure"]
        assert back == (change[1], set())
        assert it.work.inserted == len(back[0])
        assert it.work.derived <= 10 * (len(back[0]) + 10)


def test_a_change_that_fails_every_guard_is_not_joined() -> None:
    it = Driver(
        """
        .decl r(k: symbol, x: number) .decl s(x: number, y: number) .decl p(y: number)
        p(Y) :- r("wanted", X), s(X, Y), X > 100.
        """
    )
    it.insert("s", *[(i, j) for i in range(200) for j in range(3)])
    it.insert("r", ("wanted", 150))
    it.insert("r", ("other", 160), ("wanted", 50))
    assert (it.work.derived, it.work.matched) == (0, 0)
    assert it.rows("p") == {(0,), (1,), (2,)}


@pytest.mark.parametrize("strategy", ["maintenance", "counting", "production"])
def test_a_small_change_of_a_large_join_takes_little_time(strategy: str) -> None:
    it = Driver(
        f"""
        .decl r(x: number, y: number) .decl s(y: number, z: number) .decl p(x: number, z: number)
        .view p strategy={strategy}
        p(X, Z) :- r(X, Y), s(Y, Z).
        """
    )
    count = 100_000
    ids = np.arange(count)
    it.engine.insert("r", pa.table({"x": ids, "y": ids % 1000}))
    it.engine.insert("s", pa.table({"y": ids[:1000], "z": ids[:1000]}))
    it.engine.propagate()
    it.engine.accept()
    it.insert("r", (-1, 0))
    started = time.process_time()
    for i in range(100):
        it.insert("r", (-2 - i, i))
        it.delete("r", (i, i % 1000))
    assert time.process_time() - started < 1.0
    assert it.work.derived <= 3
    assert it.engine.size("p") == count + 1


# ---- bytes ------------------------------------------------------------------------------------

MOST = 40
"""Bytes a tuple of two columns may take, as the design says."""


def test_a_million_tuples_take_few_bytes_each() -> None:
    it = Driver(".decl e(x: number, y: number)")
    count = 1_000_000
    rows = pa.table({"x": np.arange(count) // 5, "y": np.arange(count) * 7 % count})
    it.engine.insert("e", rows)
    it.engine.propagate()
    it.engine.accept()
    assert it.engine.size("e") == count
    assert it.engine.memory()["e"] <= MOST * count


def test_a_million_derived_tuples_take_few_bytes_each() -> None:
    it = Driver(PROGRAMS["left linear"])
    chain = np.arange(1_415)
    it.engine.insert("edge", pa.table({"x": chain[:-1], "y": chain[1:]}))
    it.engine.propagate()
    it.engine.accept()
    size = it.engine.size("closure")
    assert size == 1414 * 1415 // 2
    assert it.engine.memory()["closure"] <= MOST * size


def test_a_small_change_takes_little_further_memory() -> None:
    it = Driver(PROGRAMS["linear"])
    edges = graph(BLOCKS)
    it.engine.insert("edge", table(edges))
    it.commit()
    before = sum(it.engine.memory().values())
    for row in [tuple(row) for row in edges[::60].tolist()]:
        it.delete("edge", row)
        it.insert("edge", row)
    assert sum(it.engine.memory().values()) <= 2 * before


def test_memory_does_not_grow_under_changes_that_cancel() -> None:
    it = Driver(PROGRAMS["linear"])
    edges = [tuple(row) for row in graph(BLOCKS).tolist()]
    it.insert("edge", *edges)
    sizes = []
    for turn in range(12):
        some = edges[turn::12]
        it.delete("edge", *some)
        it.insert("edge", *some)
        sizes.append(sum(it.engine.memory().values()))
    assert sizes[-1] <= 1.5 * sizes[0]
    assert it.rows("edge") == set(edges)
