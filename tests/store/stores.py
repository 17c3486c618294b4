"""What the tests of the store share: a program, looking at everything a database holds, and files as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from upshot.core.rows import Rows
from upshot.store import encoding

PATHS = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.decl out(x: number, n: number)
out(X, N) :- edge(X, _), N = count : { edge(X, _) }.
.decl any()
any() :- path(_, _).
.deny loop(X) :- path(X, X).
"""


def contents(db: upshot.Database) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all relations, in order and printed so that NaN equals NaN."""
    return {name: [tuple(map(repr, row)) for row in db.rows(name).sorted()] for name in db.schemas}


def printed(rows: Rows) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row)) for row in rows.sorted()]


def state(db: upshot.Database) -> tuple[int, dict[str, list[tuple[Any, ...]]]]:
    return db.version, contents(db)


def files(root: Path) -> dict[str, bytes]:
    """Every file of a store with its bytes, except the index that SQLite makes of its own log."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith("-shm") and path.name != "lock"
    }


@contextlib.contextmanager
def small_is_large(monkeypatch: pytest.MonkeyPatch, rows: int = 2) -> Iterator[None]:
    """Changes of more than so many rows go into Parquet folders."""
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "FEW_ROWS", rows)
        yield
