"""Commits to a store until it is killed, and says each version once it is committed.

What version n changes follows from n alone, so whoever opens the store knows what must be in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import upshot
from upshot.database import journal
from upshot.store import encoding

PROGRAM = """
.decl edge(x: number, y: symbol)
.decl tag(x: number)
.decl path(x: number, y: symbol)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, _), tag(X), edge(X, Z).
.decl size(n: number)
size(N) :- N = count : { path(_, _) }.
"""
Row = tuple[object, ...]


def change(version: int) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """What comes and what goes with this version; now and then much."""
    base = version % 17
    width = 40 if version % 11 == 0 else 3
    came = {"edge": [(base, f"{version % 5}:{i}") for i in range(width)], "tag": [(version % 23,)]}
    other = (version + 8) % 17
    went = {"edge": [(other, f"{i % 5}:{i % 40}") for i in range(30)], "tag": [((version + 7) % 23,)]}
    return came, went


def follow(versions: Iterable[int]) -> dict[str, set[Row]]:
    """The base relations after these versions."""
    state: dict[str, set[Row]] = {"edge": set(), "tag": set()}
    for version in versions:
        came, went = change(version)
        for name, rows in state.items():
            rows.difference_update(went[name])
            rows.update(came[name])
    return state


def main(root: str) -> None:
    encoding.FEW_ROWS = 20
    journal.WORTH_A_LOOK = 300
    with upshot.connect(root) as db:
        db.define(PROGRAM)
        while True:
            number = db.version + 1
            came, went = change(number)
            with db.transaction(meta={"number": number}) as tx:
                for name in came:
                    tx.delete(name, went[name])
                    tx.insert(name, came[name])
            assert tx.version == number
            print(number, flush=True)  # noqa: T201 - the acknowledgement


if __name__ == "__main__":
    main(sys.argv[1])
