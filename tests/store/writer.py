"""Commits to a store until it is killed, and says each version once it is committed.

What version n changes follows from n alone, so whoever opens the store knows what must be in it.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import upshot
from upshot.database.durable import journal
from upshot.store import encoding, retention

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
KEPT = 12
"""Commits that are kept of groups."""


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


def group_size(first: int) -> int:
    """How many versions the group has that begins with this one."""
    return 1 + first * 7 % 6


def main(root: str, mode: str = "") -> None:
    encoding.FEW_ROWS = 20
    journal.WORTH_A_LOOK = 300
    if mode == "groups":
        write_groups(root)
        return
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
            print(number, flush=True)  # noqa: T201 - the acknowledgment


def write_groups(root: str) -> None:
    """The same versions in groups, while the past goes and copies are made."""
    retention.LOOK, retention.SLICE, retention.FREE_PAGES, retention.SHRUNK_PAGES = 3, 8, 8, 4
    with upshot.connect(root, keep=KEPT) as db:
        db.define(PROGRAM)
        threading.Thread(target=_look_after, args=(db, root), daemon=True).start()
        while True:
            first = db.version + 1
            with db.group() as group:
                for number in range(first, first + group_size(first)):
                    came, went = change(number)
                    with group.transaction(meta={"number": number}) as tx:
                        for name in came:
                            tx.delete(name, went[name])
                            tx.insert(name, came[name])
            assert tx.version == number
            print(number, flush=True)  # noqa: T201 - the acknowledgment


def _look_after(db: upshot.Database, root: str) -> None:
    copy, waste = Path(root + " copy"), Path(root + " waste")
    while True:
        db.compact()
        db.records("note").put("compacted", {"version": db.version})
        shutil.rmtree(waste, ignore_errors=True)
        if copy.exists():
            copy.rename(waste)
        db.backup(copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
