"""Inline relations without rows of their own: their rules take the place of their calls, and stay in the program."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from tests.check.programs import clauses, slugs

LESS = ".decl a(x: number)\n.decl lt(x: number, y: number) inline\nlt(X, Y) :- X < Y.\n.decl b(x: number, y: number)\n"


@pytest.mark.parametrize(
    ("rules", "rows"),
    [
        ("b(X, Y) :- a(X), a(Y), lt(X, Y).", {(1, 2), (1, 4), (2, 4)}),
        ("b(X, Y) :- a(X), a(Y), !lt(X, Y).", {(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}),
        ("b(X, N) :- a(X), N = count : { a(Y), lt(Y, X) }.", {(1, 0), (2, 1), (4, 2)}),
        (".decl mid(x: number, y: number) inline\nmid(X, Y) :- lt(X, Z), a(Z), lt(Z, Y).\n"
         "b(X, Y) :- a(X), a(Y), lt(X, Y), !mid(X, Y).", {(1, 2), (2, 4)}),
        (".decl f(x: number, y: number) inline\nf(X, X + 1).\nf(X, Y) :- Y = X * 2.\nb(X, Y) :- a(X), f(X, Y).",
         {(1, 2), (2, 3), (2, 4), (4, 5), (4, 8)}),
        (".decl same(x: number, y: number) inline\nsame(X, X).\nb(X, Y) :- a(X), a(Y), !same(X, Y), lt(X, 3).",
         {(1, 2), (1, 4), (2, 1), (2, 4)}),
        ("b(X, _Y) :- a(X), a(_Y), lt(X, _Y).", {(1, 2), (1, 4), (2, 4)}),
    ],
)  # fmt: skip
def test_a_call_has_the_meaning_of_the_rules(rules: str, rows: set[tuple[int, int]]) -> None:
    with upshot.connect() as db:
        db.define(LESS + rules)
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,), (4,)])
        assert set(db.rows("b")) == set(tx.changes["b"].inserted) == rows
        with db.transaction() as tx:
            tx.delete("a", [(2,)])
        db.verify()
        assert "lt" not in db.schemas


def test_an_inline_relation_with_safe_rules_stays_a_view() -> None:
    with upshot.connect() as db:
        db.define(LESS + ".decl pair(x: number, y: number) inline\npair(X, Y) :- a(X), a(Y), lt(X, Y).")
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,)])
        assert set(db.rows("pair")) == {(1, 2)}


def test_a_later_rule_and_a_reopened_database_use_the_inline_relation(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(LESS + "b(X, Y) :- a(X), a(Y), lt(X, Y).")
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,)])
    with upshot.connect(tmp_path / "db") as db:
        db.define(".decl c(x: number)\nc(X) :- a(X), lt(X, 2).")
        assert set(db.rows("c")) == {(1,)}
        assert set(db.rows("b")) == {(1, 2)}


def test_constraints_and_active_rules_use_inline_relations() -> None:
    text = ".deny small(X) :- a(X), lt(X, 0).\n.rule note(X) when a(X), lt(3, X) do insert b(X, X)."
    with upshot.connect() as db:
        db.define(LESS + text)
        with db.transaction() as tx:
            tx.insert("a", [(1,), (4,)])
        assert set(db.rows("b")) == {(4, 4)}
        with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
            tx.insert("a", [(-1,)])


def test_the_clause_has_the_body_in_the_place_of_the_call() -> None:
    assert clauses(LESS + "b(X, Y) :- a(X), a(Y), lt(X, Y).", "b") == ["b(X, Y) :- a(X), a(Y), X < Y."]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (".decl r(x: number, y: number) inline\nr(X, Y) :- X < Y.\nr(X, Y) :- r(Y, X).\nb(X, X) :- a(X), r(X, 1).",
         ["recursive-inline"]),
        ("b(X, Y) :- a(X), lt(X, Y).", ["unsafe-variable"]),
        ("b(X, X) :- a(X), lt(X, _).", ["unsafe-variable"]),
        ("b(X, X) :- a(X), lt(X, 1, 2).", ["wrong-arity"]),
        ("lt(X, Y) | b(X, Y) :- a(X), a(Y).", ["unsafe-variable", "unsafe-variable"]),
    ],
)  # fmt: skip
def test_a_wrong_use_of_an_inline_relation_is_refused(rules: str, found: list[str]) -> None:
    assert slugs(LESS + rules) == found
