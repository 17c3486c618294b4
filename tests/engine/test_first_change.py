"""The first change after a load: what it probes was built by the load, and the load's own changes are not copied."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

import upshot
from upshot.engine.limits import loaded_once
from upshot.engine.local.storage import index, storage

EDGES = [(i, i + 1) for i in range(3000) if i % 10]
PAIRS = [(i, i * 7 % 3000) for i in range(3000)]
CLOSURE = """
.decl e(x: number, y: number) .decl p(x: number, y: number)
p(X, Y) :- e(X, Y). p(X, Y) :- e(X, Z), p(Z, Y).
"""
JOIN = """
.decl a(x: number, y: number) .decl b(y: number, z: number) .decl p(x: number, z: number) .decl q(z: number, n: number)
p(X, Z) :- a(X, Y), b(Y, Z). q(Z, N) :- p(_, Z), N = count : { p(_, Z) }.
"""
LEAST = ".decl b(y: number, z: number) .decl q(z: number, n: number) q(Z, N) :- b(_, Z), N = min Y : { b(Y, Z) }."
LEAST_OF_ALL = ".decl b(y: number, z: number) .decl q(n: number) q(N) :- b(_, _), N = min Y : { b(Y, _) }."
PROGRAMS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "closure": (CLOSURE, {"e": EDGES}),
    "backward forward": (CLOSURE + ".view p strategy=bf", {"e": EDGES}),
    "join": (JOIN, {"a": PAIRS, "b": PAIRS}),
    "min": (LEAST, {"b": [(y, z % 100) for y, z in PAIRS]}),
    "min of all": (LEAST_OF_ALL, {"b": PAIRS}),
}


def loaded(text: str, rows: dict[str, list[Any]]) -> upshot.Database:
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        for name, each in rows.items():
            tx.insert(name, each)
    return db


def indexes(db: upshot.Database) -> dict[str, set[tuple[int, ...]]]:
    tables = db._state.engine._now.tables  # type: ignore[attr-defined]
    return {name: set(table.indexes) for name, table in tables.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_change_after_a_load_builds_and_rehashes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, rows = PROGRAMS[name]
    db = loaded(text, rows)
    built, moved = indexes(db), list[int]()
    rehashed = index.rehashed

    def counted(old: Any, old_count: int, new_count: int) -> Any:
        moved.append(old_count)
        return rehashed(old, old_count, new_count)

    monkeypatch.setattr(index, "rehashed", counted)
    monkeypatch.setattr(storage, "rehashed", counted)
    for relation, each in rows.items():
        with db.transaction() as tx:
            tx.delete(relation, each[:1])
        with db.transaction() as tx:
            tx.insert(relation, [(-1, each[5][1])])
    assert tx.stats.components
    assert indexes(db) == built
    assert sum(moved) < 200
    db.verify()


def test_a_load_that_no_change_follows_builds_no_index_for_one() -> None:
    with loaded_once():
        once = loaded(*PROGRAMS["closure"])
    assert not indexes(once)["p"]
    assert indexes(loaded(*PROGRAMS["closure"]))["p"]
    with once.transaction() as tx:
        tx.delete("e", EDGES[:1])
    assert len(tx.changes["p"].deleted) == 9
    once.verify()


def test_what_a_transaction_changed_is_freed_with_it() -> None:
    db = loaded(*PROGRAMS["closure"])
    gc.disable()
    try:
        with db.transaction() as tx:
            tx.delete("e", EDGES[:1])
        rows = ref(tx.changes["p"].deleted._source)
        assert rows() is not None
        with db.transaction() as tx:
            assert rows() is None
    finally:
        gc.enable()


def test_the_extreme_of_a_group_that_began_large_is_known_without_its_rows() -> None:
    db = loaded(*PROGRAMS["min of all"])
    (component,) = [each for each in db._state.engine._now.components if each._aggregates]  # type: ignore[attr-defined]
    (aggregate,) = component._aggregates

    def unread(*_: object) -> None:
        raise AssertionError("the group is read again")

    aggregate._read_again = unread
    for least in range(20):
        with db.transaction() as tx:
            tx.delete("b", [PAIRS[least]])
        assert set(tx.changes["q"].inserted) == {(least + 1,)}
