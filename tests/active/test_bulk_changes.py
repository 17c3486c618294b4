"""Rules and large changes: a change stays coded unless its rows are compared, and constants select from it."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from upshot.active import row_sets

GRAPH = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl hit(x: number)
.decl pair(x: number, y: number)
"""
LONG = [(node, node + 1) for node in range(1_000, 1_200)]


def graph(*rules: str) -> Any:
    db = upshot.connect()
    db.define(GRAPH + "\n".join(rules))
    return db


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of changes have become Python values, each time."""
    counts: list[int] = []
    whole = row_sets.row_set

    def counted(rows: Any) -> frozenset[Any]:
        counts.append(len(rows))
        return whole(rows)

    monkeypatch.setattr(row_sets, "row_set", counted)
    return counts


@pytest.mark.parametrize(
    "rule",
    [
        ".rule h(X) when closure(X, 5) do insert hit(X).",
        ".rule h(X) on insert closure(X, 5) do insert hit(X).",
        ".rule h(X) semantics=nervous when closure(X, 5), !hit(X) do insert hit(X).",
        ".rule h(X) on change closure(X, Y) when Y = 5 do insert hit(X).",
    ],
)
def test_a_large_change_that_concerns_no_rule_is_not_decoded(rule: str, decoded: list[int]) -> None:
    with graph(rule) as db:
        with db.transaction() as tx:
            tx.insert("edge", LONG)
        assert len(tx.changes["closure"].inserted) == 20_100
        assert tx.firings == ()
        assert decoded == []


def test_a_large_change_with_one_row_that_fires_is_not_decoded_either(decoded: list[int]) -> None:
    with graph(
        ".rule h(X) when closure(X, 1200) do insert hit(X).", ".rule c(X) on insert hit(X) do insert pair(X, X)."
    ) as db:
        with db.transaction() as tx:
            tx.insert("edge", LONG)
        assert [len(firing.rows) for firing in tx.firings] == [200, 200]
        assert all(count <= 200 for count in decoded)


def test_the_cause_of_one_of_many_rows_that_a_rule_fired_for_is_its_own() -> None:
    with graph(".rule h(X) when closure(X, 1040) do insert hit(X).") as db:
        with db.transaction() as tx:
            tx.insert("edge", LONG[:40])
        assert [len(firing.rows) for firing in tx.firings] == [40]
        assert tx.firings[0].cause[1_039,].inserted == (("edge", (1_039, 1_040)),)


@pytest.mark.parametrize("bulk", [10, 1_500])
def test_constants_select_the_rows_of_all_literals_that_read_a_table(bulk: int) -> None:
    """Rows that only one of two literals matches stay, and NULL is no constant to select by."""
    with upshot.connect() as db:
        db.define("""
            .decl fact(x: number, name: symbol?)
            .decl found(x: number)
            .decl missing(x: number)
            .rule both(X) on insert fact(X, "a") when inserted fact(_, "b"), !inserted fact(X, "c") do insert found(X).
            .rule none(X) on insert fact(X, N) when is_null(N) do insert missing(X).
        """)
        with db.transaction() as tx:
            tx.insert(
                "fact", [(n, "a") for n in range(bulk)] + [(n, "c") for n in range(0, bulk, 2)] + [(7, "b"), (8, None)]
            )
        assert db.rows("found").sorted() == [(n,) for n in range(1, bulk, 2)]
        assert db.rows("missing").sorted() == [(8,)]


def test_a_savepoint_keeps_coded_changes() -> None:
    with graph(".rule h(X) when closure(X, 1200) do insert hit(X).") as db:
        with db.transaction() as tx:
            tx.insert("edge", LONG)
            tx.process()
            with tx.savepoint() as savepoint:
                tx.insert("edge", [(900, 1_000)])
                tx.process()
                savepoint.rollback()
            tx.insert("edge", [(901, 1_000)])
        assert [len(firing.rows) for firing in tx.firings] == [200, 1]
        assert db.rows("hit") == {(901,), *((x,) for x in range(1_000, 1_200))}
        db.verify()
