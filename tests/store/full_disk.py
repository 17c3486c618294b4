"""Commits to a store on a small disk that fills up and is emptied again, in a mount namespace of its own.

Run as `unshare --map-root-user --mount python full_disk.py FOLDER SEED STEPS`; prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import upshot
from upshot.store import encoding

SIZE = 3 << 20
PROGRAM = """
.decl item(x: number, t: symbol)
.decl named(t: symbol, x: number)
named(T, X) :- item(X, T).
"""
State = set[tuple[int, str]]


def mount(place: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join((f"size={SIZE}", *options)), "none", place], check=True)


def fill(place: Path, dice: random.Random) -> None:
    """Leaves a little room, or none."""
    ballast = place / "ballast"
    ballast.unlink(missing_ok=True)
    found = os.statvfs(place)
    room = found.f_bavail * found.f_frsize
    left = dice.choice((0, 1, 2, 3, 5, 8, 16, 40)) * 4096
    ballast.write_bytes(bytes(max(room - left, 0)))


class Writer:
    """A database, and what must be in it."""

    def __init__(self, place: Path, dice: random.Random) -> None:
        self.place, self.dice = place, dice
        self.rows: State = set()
        self.records: dict[str, dict[str, int]] = {}
        self.seen: Counter[str] = Counter()
        self.db = self.opened()
        self.db.define(PROGRAM)

    def opened(self) -> upshot.Database:
        return upshot.connect(self.place / "store", keep=40)

    def step(self, number: int) -> None:
        """One write of some kind; whatever it ends in, the database holds what was acknowledged."""
        kind = self.dice.choice(("small", "small", "large", "group", "record", "snapshot", "compact", "backup"))
        before = self.db.version
        try:
            getattr(self, kind)(number)
            self.seen[f"{kind} done"] += 1
        except upshot.EngineError as error:
            assert error.code == "store-failed", error  # noqa: PT017 - no test of pytest
            self.seen[f"{kind} failed"] += 1
            assert self.db.version == before
        self.check()

    def check(self) -> None:
        assert set(self.db.rows("item")) == self.rows
        assert len(self.db.rows("named")) == len(self.rows)
        assert self.db.records("note").all() == self.records

    def small(self, number: int) -> None:
        self.commit([(number, f"{number} in the log")])

    def large(self, number: int) -> None:
        self.commit([(1_000 * number + i, self.dice.randbytes(20).hex()) for i in range(40)])

    def commit(self, rows: list[tuple[int, str]]) -> None:
        gone = self.dice.sample(sorted(self.rows), min(len(self.rows), len(rows)) if len(self.rows) > 200 else 0)
        with self.db.transaction() as tx:
            tx.insert("item", rows)
            tx.delete("item", gone)
        self.rows = self.rows - set(gone) | set(rows)

    def group(self, number: int) -> None:
        rows = [(1_000_000 * number + i, "in a group") for i in range(3)]
        with self.db.group() as group:
            for row in rows:
                with group.transaction() as tx:
                    tx.insert("item", [row])
        self.rows |= set(rows)

    def record(self, number: int) -> None:
        self.db.records("note").put("a", {"n": number})
        self.records = {"a": {"n": number}}

    def snapshot(self, number: int) -> None:
        self.db.snapshot()

    def compact(self, number: int) -> None:
        self.db.compact()

    def backup(self, number: int) -> None:
        target = self.place / f"copy {number}"
        self.db.backup(target)
        subprocess.run(["rm", "-r", target], check=True)

    def reopen(self) -> None:
        """Opens it again with the disk as full as it is; if that fails, with room."""
        self.db.close()
        try:
            self.db = self.opened()
            self.seen["opened"] += 1
        except upshot.Error as error:
            assert error.code == "store-failed", error  # noqa: PT017 - no test of pytest
            self.seen["not opened"] += 1
            (self.place / "ballast").unlink(missing_ok=True)
            self.db = self.opened()
        self.check()


def main(place: Path, seed: int, steps: int) -> None:
    encoding.FEW_ROWS = 20
    mount(place)
    dice = random.Random(seed)
    writer = Writer(place, dice)
    for number in range(1, steps + 1):
        if dice.random() < 0.5:
            fill(place, dice)
        if dice.random() < 0.3:
            (place / "ballast").unlink(missing_ok=True)
        writer.step(number)
        if dice.random() < 0.1:
            writer.reopen()
    (place / "ballast").unlink(missing_ok=True)
    writer.small(0)
    writer.check()
    writer.db.verify()
    writer.reopen()
    writer.db.close()
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    try:
        upshot.connect(place / "store")
        writer.seen["opened a disk that cannot be written"] += 1
    except upshot.Error as error:
        writer.seen[f"read-only: {error.code}"] += 1
    print(json.dumps(writer.seen))  # noqa: T201 - the result


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
