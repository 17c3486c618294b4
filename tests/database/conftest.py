from __future__ import annotations

from collections.abc import Iterator

import pytest

import upshot

PATHS = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""

STOCK = """
.decl quantity(item: symbol, n: number) key(item)
.decl threshold(item: symbol, n: number) key(item)
.decl low(item: symbol)
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
.deny oversold(I, Q) :- quantity(I, Q), Q < 0.
"""


@pytest.fixture
def db() -> Iterator[upshot.Database]:
    with upshot.connect() as database:
        yield database


@pytest.fixture
def paths(db: upshot.Database) -> upshot.Database:
    db.define(PATHS)
    return db


@pytest.fixture
def stock(db: upshot.Database) -> upshot.Database:
    db.define(STOCK)
    return db
