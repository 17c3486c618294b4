"""Graphs of some hundred edges under batches of changes, against reachability computed directly."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import kernel

Pair = tuple[int, int]
Pairs = set[Pair]

EDGE = ".decl edge(x: number, y: number) .decl v(x: number, y: number)\n"


def closure(edges: Pairs) -> Pairs:
    after = defaultdict(list)
    for x, y in edges:
        after[x].append(y)
    found: Pairs = set()
    for start in after:
        stack = list(after[start])
        seen = set(stack)
        while stack:
            for y in after.get(stack.pop(), ()):
                if y not in seen:
                    seen.add(y)
                    stack.append(y)
        found |= {(start, y) for y in seen}
    return found


def same_generation(edges: Pairs) -> Pairs:
    children = defaultdict(list)
    for x, y in edges:
        children[x].append(y)
    new = {(a, b) for siblings in children.values() for a in siblings for b in siblings if a != b}
    found: Pairs = set()
    while new:
        found |= new
        new = {(a, b) for x, y in new for a in children[x] for b in children[y]} - found
    return found


def apart(edges: Pairs) -> Pairs:
    reach = closure(edges)
    return {(x, y) for x, _ in edges for _, y in edges if (x, y) not in reach}


PROGRAMS: dict[str, tuple[str, Callable[[Pairs], Pairs]]] = {
    "linear": ("v(X, Y) :- edge(X, Y). v(X, Y) :- edge(X, Z), v(Z, Y).", closure),
    "left linear": ("v(X, Y) :- edge(X, Y). v(X, Y) :- v(X, Z), edge(Z, Y).", closure),
    "nonlinear": ("v(X, Y) :- edge(X, Y). v(X, Y) :- v(X, Z), v(Z, Y).", closure),
    "same generation": (
        "v(X, Y) :- edge(P, X), edge(P, Y), X != Y. v(X, Y) :- edge(P, X), v(P, Q), edge(Q, Y).",
        same_generation,
    ),
    "negation above": (
        ".decl c(x: number, y: number) c(X, Y) :- edge(X, Y). c(X, Y) :- edge(X, Z), c(Z, Y).\n"
        "v(X, Y) :- edge(X, _), edge(_, Y), !c(X, Y).",
        apart,
    ),
}
SHAPES = {"sparse": (60, 70), "around one cycle": (40, 60), "dense": (14, 80)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_of_changes_keep_the_view_exact(name: str, shape: str) -> None:
    rules, expected = PROGRAMS[name]
    nodes, count = SHAPES[shape]
    rng = random.Random(f"{name}/{shape}")

    def some(number: int) -> list[Pair]:
        return [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(number)]

    with kernel("compiled"):
        it = Driver(EDGE + rules)
        edges = set(some(count))
        it.insert("edge", *edges)
        view = expected(edges)
        assert it.rows("v") == view
        for size in (1, 1, 1, 2, 5, 20, 60, 1, 3):
            gone, come = rng.sample(sorted(edges), min(size, len(edges))), some(size)
            edges = edges - set(gone) | set(come)
            deltas = it.change(delete={"edge": gone}, insert={"edge": come})
            before, view = view, expected(edges)
            assert deltas.get("v", (set(), set())) == (view - before, before - view)
            assert it.rows("v") == view


@pytest.mark.parametrize("name", PROGRAMS)
def test_taking_a_graph_apart_edge_by_edge_ends_with_nothing(name: str) -> None:
    rules, expected = PROGRAMS[name]
    rng = random.Random(name)
    with kernel("compiled"):
        it = Driver(EDGE + rules)
        edges = sorted({(rng.randrange(25), rng.randrange(25)) for _ in range(60)})
        it.insert("edge", *edges)
        rng.shuffle(edges)
        while edges:
            it.delete("edge", edges.pop())
            assert it.rows("v") == expected(set(edges))
        assert it.engine.size("v") == 0
