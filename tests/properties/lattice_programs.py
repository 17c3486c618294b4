"""Random programs whose recursion keeps the least or the greatest value, and random changes for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Change = dict[str, tuple[set[Row], set[Row]]]

BASE = """
.decl edge(x: symbol, y: symbol, w: number)
.decl node(x: symbol)
.decl closed(x: symbol)
"""

PARTS = {
    "dist": """
.decl dist(x: symbol, d: min number)
dist(X, 0) :- node(X).
dist(Y, D + W) :- dist(X, D), edge(X, Y, W).
""",
    "limited": """
.decl limited(x: symbol, d: min number)
limited("a", 0).
limited(Y, D + W) :- limited(X, D), edge(X, Y, W), !closed(Y), D < 9, W != 3.
""",
    "pairs": """
.decl pairs(x: symbol, y: symbol, d: number)
pairs(X, Y, A) <= pairs(X, Y, B) :- B <= A.
pairs(X, Y, W) :- edge(X, Y, W).
pairs(X, Z, A + B) :- pairs(X, Y, A), pairs(Y, Z, B).
""",
    "comp": """
.decl comp(x: symbol, label: min symbol)
comp(X, X) :- node(X).
comp(Y, L) :- comp(X, L), edge(X, Y, _).
comp(X, L) :- comp(Y, L), edge(X, Y, _).
""",
    "wide": """
.decl wide(w: max number, x: symbol)
wide(100, "a").
wide(min(D, W), Y) :- wide(D, X), edge(X, Y, W), W > 0.
""",
    "turns": """
.decl even(x: symbol, d: min number)
.decl odd(x: symbol, d: min number)
.decl seen(x: symbol)
even(X, 0) :- node(X).
odd(Y, D + W) :- even(X, D), edge(X, Y, W).
even(Y, D + W) :- odd(X, D), edge(X, Y, W), seen(X).
seen(X) :- odd(X, D), D < 6.
seen(Y) :- seen(X), edge(X, Y, 0).
""",
    "mark": """
.decl mark(x: symbol, on: any boolean)
mark(X, false) :- edge(X, _, _).
mark(X, true) :- closed(X).
mark(Y, B) :- mark(X, B), edge(X, Y, _).
""",
    "cheapest": """
.decl cheapest(w: min number)
cheapest(W) :- edge(_, _, W).
""",
    "cost": """
.decl cost(x: symbol, c: min float)
cost(X, 0.5) :- node(X).
cost(Y, C * 2.0 + 0.25) :- cost(X, C), edge(X, Y, W), W < 3, C < 40.0.
""",
    "late": """
.decl late(x: symbol, d: max number)
late(X, 0) :- node(X).
late(Y, max(D, W)) :- late(X, D), edge(X, Y, W).
""",
}
ABOVE = {
    "far": ("dist", ".decl far(x: symbol)  far(X) :- dist(X, D), D > 3."),
    "unreached": ("dist", ".decl unreached(x: symbol)  unreached(X) :- edge(X, _, _), !dist(X, _)."),
    "sizes": (
        "comp",
        ".decl sizes(l: symbol, n: number)  sizes(L, N) :- comp(_, L), N = count : { comp(_, L) }.",
    ),
    "again": (
        "dist",
        ".decl again(x: symbol, d: max number)  again(X, D) :- dist(X, D).  again(Y, D) :- again(X, D), edge(X, Y, _).",
    ),
}
NODES = "abcdef"


@dataclass(frozen=True, slots=True)
class LatticeCase:
    text: str
    views: tuple[str, ...]
    changes: tuple[Change, ...]


def lattice_case(seed: int) -> LatticeCase:
    """A program of some of the parts, and changes each of which is net."""
    chance = random.Random(seed)
    chosen = chance.sample(sorted(PARTS), chance.randint(1, 3))
    above = [name for name, (below, _) in ABOVE.items() if below in chosen and chance.random() < 0.5]
    text = "\n".join([BASE, *(PARTS[name] for name in chosen), *(ABOVE[name][1] for name in above)])
    views = [name for name in chosen if name != "turns"] + (["even", "odd", "seen"] if "turns" in chosen else [])
    return LatticeCase(text, (*views, *above), tuple(_changes(chance)))


def _changes(chance: random.Random) -> Iterator[Change]:
    held: dict[str, set[Row]] = {"edge": set(), "node": set(), "closed": set()}
    for number in range(chance.randint(3, 8)):
        change: Change = {}
        for name in held:
            inserted = {_row(name, chance) for _ in range(chance.choice((0, 1, 2, 6) if number else (2, 6, 10)))}
            often = chance.choice((0.0, 0.1, 0.4))
            deleted = {row for row in held[name] if chance.random() < often}
            change[name] = (inserted - held[name], deleted - inserted)
            held[name] = (held[name] - change[name][1]) | change[name][0]
        yield change


def _row(name: str, chance: random.Random) -> Row:
    if name == "edge":
        return chance.choice(NODES), chance.choice(NODES), chance.choice((0, 1, 1, 2, 3, 5))
    return (chance.choice(NODES[:3] if name == "node" else NODES),)
