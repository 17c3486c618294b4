"""Programs that analyses run: rules that every peer reads, generated relations, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = np.ndarray[Any, Any]

_VARIABLES, _APART = 1_200, 10_000
"""The variables of one program with calls, and the distance between the numbers of two."""

_POINTS_TO = """
vpt(V,O) :- new(V,O).
vpt(V,O) :- assign(V,W), vpt(W,O).
vpt(V,O) :- load(V,B,F), vpt(B,H), hpt(H,F,O).
hpt(H,F,O) :- store(B,F,V), vpt(B,H), vpt(V,O).
"""

_CSPA = """
flow(Y,X) :- assign(Y,X).
flow(X,X) :- assign(X,Y).
flow(X,X) :- assign(Y,X).
alias(X,X) :- assign(Y,X).
alias(X,X) :- assign(X,Y).
flow(X,Y) :- assign(X,Z), alias(Z,Y).
flow(X,Y) :- flow(X,Z), flow(Z,Y).
alias(X,W) :- dereference(Y,X), value(Y,Z), dereference(Z,W).
value(X,Y) :- flow(Z,X), flow(Z,Y).
value(X,Y) :- flow(Z,X), alias(Z,W), flow(W,Y).
"""

_CSDA = """
reaches(X,Y) :- nulledge(X,Y).
reaches(X,Y) :- reaches(X,W), arc(W,Y).
"""

_SAME_GENERATION = """
sg(X,Y) :- parent(X,P), parent(Y,P), X != Y.
sg(X,Y) :- parent(X,A), sg(A,B), parent(Y,B).
"""

_REACHABILITY = """
reach(Y) :- start(Y).
reach(Y) :- reach(X), edge(X,Y).
"""

_CALLS = """
vpt(V,H) :- reachable(M), alloc(V,H,M).
vpt(V,H) :- move(V,W), vpt(W,H).
calls(I,M) :- reachable(S), invoke(I,S), site(I,B,G), vpt(B,H), class(H,T), super(T,U), method(U,G,M),
    body(M,C), live(C), entry(M,E).
reachable(M) :- main(M).
reachable(M) :- calls(I,M).
vpt(V,H) :- calls(I,M), actual(I,W), formal(M,V), vpt(W,H).
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """`changed` is the relation of which rows are deleted and inserted again, `counted` the view that is compared;
    `relations` draws the rows of each relation for a size."""

    rules: str
    changed: str
    counted: str
    columns: Mapping[str, int]
    relations: Callable[[int], dict[str, Rows]]
    sizes: tuple[int, int]
    """The full size and the quick one."""
    query: str = ""
    """The same in SQL with recursive common table expressions, where they can express it: the number of rows."""

    def declared(self) -> str:
        """The program with declarations, as Upshot and Soufflé read it."""
        names = [f".decl {name}({', '.join(f'c{i}: number' for i in range(n))})" for name, n in self.columns.items()]
        return "\n".join(names) + self.rules


def _draw(size: int, *bounds: int, seed: int) -> Rows:
    """Distinct rows of random numbers below the bounds."""
    draw = np.random.default_rng(seed)
    return np.unique(np.column_stack([draw.integers(0, bound, size) for bound in bounds]), axis=0)


def _points_to(n: int) -> dict[str, Rows]:
    objects = np.arange(n)
    return {
        "new": np.column_stack([np.random.default_rng(1).integers(0, n, n), objects]),
        "assign": _draw(n // 2, n, n, seed=2),
        "load": _draw(n // 4, n, n, 10, seed=3),
        "store": _draw(n // 4, n, 10, n, seed=4),
    }


def _cspa(n: int) -> dict[str, Rows]:
    """Procedures of 16 variables: assignments and dereferences stay inside one."""
    drawn = {"assign": _draw(n // 2, n // 16, 16, 16, seed=5), "dereference": _draw(n // 4, n // 16, 16, 16, seed=6)}
    return {name: rows[:, :1] * 16 + rows[:, 1:] for name, rows in drawn.items()}


def _csda(n: int) -> dict[str, Rows]:
    """Chains with a few short cuts, as control flow has them."""
    arcs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    arcs = arcs[arcs[:, 1] % 500 != 0]
    skip = np.random.default_rng(7).integers(0, n - 20, n // 10)
    skips = np.unique(np.column_stack([skip, skip + 2 + skip % 11]), axis=0)
    starts = np.arange(0, n, 200)
    return {"nulledge": np.column_stack([starts, starts]), "arc": np.unique(np.concatenate([arcs, skips]), axis=0)}


def _tree(n: int) -> dict[str, Rows]:
    children = np.arange(1, n)
    return {"parent": np.column_stack([children, (children - 1) // 2])}


def _graph(n: int) -> dict[str, Rows]:
    return {"start": np.arange(10)[:, None], "edge": _draw(3 * n, n, n, seed=8)}


def _calls(n: int) -> dict[str, Rows]:
    """Programs of 1,200 variables side by side: in one large program nearly everything would point to everything."""
    one, copies = _calls_of_one(_VARIABLES), range(max(1, n // _VARIABLES))
    return {name: np.concatenate([rows + copy * _APART for copy in copies]) for name, rows in one.items()}


def _calls_of_one(n: int) -> dict[str, Rows]:
    """n variables, n / 4 methods, n / 20 classes in a shallow hierarchy, n / 2 calls through a receiver."""
    methods, classes, calls, names = n // 4, n // 20, n // 2, 40
    kinds = np.arange(classes)
    numbers = np.arange(methods)
    return {
        "main": np.arange(max(1, n // 40))[:, None],
        "alloc": _draw(n, n, n // 2, methods, seed=10),
        "move": _draw(n, n, n, seed=11),
        "invoke": np.column_stack([np.arange(calls), np.random.default_rng(12).integers(0, methods, calls)]),
        "site": np.column_stack([np.arange(calls), *np.random.default_rng(13).integers(0, (n, names), (calls, 2)).T]),
        "class": np.column_stack([np.arange(n // 2), np.random.default_rng(14).integers(0, classes, n // 2)]),
        "super": np.unique(np.concatenate([np.column_stack([kinds, kinds // 2**k]) for k in range(4)]), axis=0),
        "method": np.column_stack([numbers % classes, numbers // classes * 7 % names, numbers]),
        "body": np.column_stack([numbers, numbers + 1]),
        "live": np.arange(1, methods + 1)[:, None],
        "entry": np.column_stack([numbers, numbers]),
        "actual": _draw(calls, calls, n, seed=15),
        "formal": _draw(methods, methods, n, seed=16),
    }


WORKLOADS: Mapping[str, Workload] = {
    "points-to": Workload(
        _POINTS_TO, "assign", "vpt", {"new": 2, "assign": 2, "load": 3, "store": 3, "vpt": 2, "hpt": 3}, _points_to,
        (30_000, 3_000),
    ),
    "points-to, 12 k": Workload(
        _POINTS_TO, "assign", "vpt", {"new": 2, "assign": 2, "load": 3, "store": 3, "vpt": 2, "hpt": 3}, _points_to,
        (12_000, 1_200),
    ),
    "CSPA": Workload(
        _CSPA, "assign", "value", {"assign": 2, "dereference": 2, "flow": 2, "alias": 2, "value": 2}, _cspa,
        (20_000, 2_000),
    ),
    "CSDA": Workload(
        _CSDA, "arc", "reaches", {"nulledge": 2, "arc": 2, "reaches": 2}, _csda, (200_000, 20_000),
        "with recursive n(x, y) as (select c0, c1 from nulledge"
        " union select n.x, arc.c1 from n join arc on arc.c0 = n.y) select count(*) from n",
    ),
    "same generation": Workload(
        _SAME_GENERATION, "parent", "sg", {"parent": 2, "sg": 2}, _tree, (1_023, 255),
        "with recursive sg(x, y) as (select l.c0, r.c0 from parent l join parent r on l.c1 = r.c1 where l.c0 <> r.c0"
        " union select l.c0, r.c0 from sg join parent l on l.c1 = sg.x join parent r on r.c1 = sg.y)"
        " select count(*) from sg",
    ),
    "reachability": Workload(
        _REACHABILITY, "edge", "reach", {"start": 1, "edge": 2, "reach": 1}, _graph, (300_000, 30_000),
        "with recursive n(x) as (select c0 from start union select edge.c1 from n join edge on edge.c0 = n.x)"
        " select count(*) from n",
    ),
    "calls, ten-way join": Workload(
        _CALLS, "move", "vpt",
        {
            "main": 1, "alloc": 3, "move": 2, "invoke": 2, "site": 3, "class": 2, "super": 2, "method": 3, "body": 2,
            "live": 1, "entry": 2, "actual": 2, "formal": 2, "vpt": 2, "calls": 2, "reachable": 1,
        },
        _calls, (20_000, 2_000),
    ),
}  # fmt: skip
