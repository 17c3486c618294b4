"""Every write of a store where its disk, its folder, or one of its files is read-only, in a mount namespace of its own.

Run as `unshare --map-root-user --mount python read_only.py FOLDER`; prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import upshot
from upshot.store import encoding
from upshot.store.backup import back_up_from_outside

PROGRAM = """
.decl item(x: number, t: symbol)
.decl named(t: symbol, x: number)
named(T, X) :- item(X, T).
"""


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """A file, a folder or all of the disk. What is open for writing stays so: only what is opened now cannot be."""
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


class Owner:
    """Opens a store and writes to it in every way, and knows what must be in it."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place / "store"
        self.rows: set[tuple[int, str]] = set()
        self.version, self.number = 0, 0
        self.seen: Counter[str] = Counter()
        with self.opened() as db:
            db.define(PROGRAM)
            self.version = db.version
            for act in (self.large, self.snapshot, self.large, self.small):
                act(db)

    def opened(self) -> upshot.Database:
        return upshot.connect(self.root)

    # ---- writes ---------------------------------------------------------------------------------------------------

    def _insert(self, db: upshot.Database, count: int) -> None:
        self.number += count
        rows = [(self.number - i, f"text {self.number}") for i in range(count)]
        with db.transaction() as tx:
            tx.insert("item", rows)
        self.rows |= set(rows)
        self.version = db.version

    def small(self, db: upshot.Database) -> None:
        self._insert(db, 1)

    def large(self, db: upshot.Database) -> None:
        self._insert(db, 30)

    def definition(self, db: upshot.Database) -> None:
        db.define(f".decl new{db.version}(x: number)")
        self.version = db.version

    def snapshot(self, db: upshot.Database) -> None:
        db.snapshot()

    def compact(self, db: upshot.Database) -> None:
        db.compact()

    def record(self, db: upshot.Database) -> None:
        db.records("note").put("a", {"n": self.number})

    def cursor(self, db: upshot.Database) -> None:
        db.cursors.set_all({"somebody": db.version})

    def backup(self, db: upshot.Database) -> None:
        target = self.place / "copy"
        try:
            db.backup(target)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    # ---- trials ---------------------------------------------------------------------------------------------------

    def attempt(self, what: str, act: Callable[[upshot.Database], None], db: upshot.Database) -> None:
        """It is done, or it fails by name and nothing happened."""
        try:
            act(db)
            self.seen[f"{what}: done"] += 1
        except upshot.EngineError as error:
            self.failed(what, error)
        self.check(db)

    def failed(self, what: str, error: upshot.Error) -> None:
        told = (
            error.code,
            str(self.place) in error.message,
            "read-only" in error.message.lower().replace("readonly", "read-only"),
        )
        assert told == ("store-failed", True, True), error
        assert "can be written" in error.help, error.help
        self.seen[f"{what}: failed"] += 1

    def check(self, db: upshot.Database) -> None:
        assert (db.version, set(db.rows("item"))) == (self.version, self.rows)
        assert len(db.rows("named")) == len(self.rows)

    def everything(self, where: str, db: upshot.Database) -> None:
        for act in (self.small, self.large, self.definition, self.snapshot, self.compact, self.record, self.cursor):
            self.attempt(f"{where}, {act.__name__}", act, db)
        self.attempt(f"{where}, backup", self.backup, db)

    def before_opening(self, name: str, place: Path) -> None:
        with read_only(place):
            try:
                with self.opened() as db:
                    self.seen[f"{name}: opened"] += 1
                    self.everything(name, db)
            except upshot.EngineError as error:
                self.failed(f"{name}: opening", error)
        self.goes_on()

    def after_opening(self, name: str, place: Path) -> None:
        with self.opened() as db:
            self.small(db)
            with read_only(place):
                self.everything(f"open, {name}", db)
            self.everything("writable again", db)
        self.goes_on()

    def goes_on(self) -> None:
        with self.opened() as db:
            self.check(db)
            self.small(db)
            self.large(db)
            db.verify()

    def killed(self) -> None:
        """The store as a process that is killed leaves it: the last commits are in SQLite's own log only."""
        with self.opened() as db:
            self.small(db)
            left = shutil.copytree(self.root, self.place / "left", ignore=lambda _, names: {"lock"} & set(names))
        shutil.rmtree(self.root)
        left.rename(self.root)

    def targets(self) -> None:
        """A new store, and a backup, where nothing can be written."""
        other = self.place / "other"
        other.mkdir()
        with read_only(other), self.opened() as db:
            for what, act in {
                "a new store": lambda: upshot.connect(other / "new").close(),
                "a new store in an empty folder": lambda: upshot.connect(other).close(),
                "a backup": lambda: db.backup(other / "copy"),
                "a backup into an empty folder": lambda: db.backup(other),
                "a backup from outside": lambda: back_up_from_outside(self.root, other / "copy"),
            }.items():
                try:
                    act()
                    raise AssertionError(what)
                except upshot.EngineError as error:
                    self.failed(what, error)
            self.check(db)
            assert list(other.iterdir()) == []
        upshot.connect(other / "new").close()


def places(root: Path) -> dict[str, Path]:
    """The disk, the store's folder, everything that lies in it, and what is in the folders of one version."""
    found = {"disk": root.parent, "store": root} | {path.name: path for path in sorted(root.iterdir())}
    for parent in ("deltas", "snapshots"):
        newest = max((root / parent).iterdir())
        found |= {
            f"{parent}/newest{str(path).removeprefix(str(newest))}": path for path in (newest, *newest.rglob("*"))
        }
    return found


def main(place: Path) -> None:
    encoding.FEW_ROWS = 20
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    owner = Owner(place)
    for name in places(owner.root):
        found = places(owner.root).get(name)
        if found is not None:
            owner.before_opening(name, found)
    for name in ("acknowledged", "log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "store"):
        owner.killed()
        owner.before_opening(f"killed, {name}", places(owner.root)[name])
    for name in ("store", "deltas", "snapshots", "log.sqlite", "acknowledged"):
        owner.after_opening(name, places(owner.root)[name])
    owner.targets()
    print(json.dumps(owner.seen))  # noqa: T201 - the result


if __name__ == "__main__":
    main(Path(sys.argv[1]))
