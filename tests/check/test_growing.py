"""Counts and sums in their own recursion: what is accepted, and what is refused with its reason."""

from __future__ import annotations

import pytest

import upshot
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax import parse

HEAD = """
.decl e(x: number, y: number)  .decl w(x: number, y: number, n: unsigned)  .decl q(x: number)  .decl p(x: number)
.decl best(x: number, n: max number)
p(X) :- q(X), X < 3.  best(X, 0) :- q(X).
"""

GROWING = (
    "p(X) :- q(X), count : { e(X, Y), p(Y) } > 2.",
    "p(X) :- q(X), 2 <= count : { e(X, Y), p(Y), Y != X }.",
    "p(X) :- q(X), N = count : { e(X, Y), p(Y) }, M = count : { e(X, _) }, 2 * N >= M.",
    "p(X) :- q(X), sum N : { w(X, Y, N), p(Y) } > 50.",
    "p(X) :- q(X), sum Y : { e(X, Y), p(Y), Y >= 0 } > 50.",
    "p(X) :- q(X), count : { e(X, Y), p(Y), !q(Y) } > 1, sum 2 : { e(Y, X), p(Y) } > 3.",
    "best(X, N) :- q(X), N = count : { e(X, Y), p(Y) }.  p(X) :- best(X, N), N > 3.",
    "p(X) :- q(X), count : { e(_, Y), p(Y) } > X.",
)

REFUSED = {
    "p(X) :- q(X), count : { e(X, Y), p(Y) } < 3.": "`count : { … } < 3` is not monotone: a greater value can make it",
    "p(X) :- q(X), N = count : { e(X, Y), p(Y) }, N != 3.": "`N != 3` is not monotone",
    "p(X) :- q(X), N = count : { e(X, Y), p(Y) }, !e(X, N).": "`!e(X, N)` is not monotone",
    "p(N) :- q(X), N = count : { e(X, Y), p(Y) }.": "column `x` would keep every intermediate value; declare it `max`",
    "p(X) :- q(X), count : { p(Y), Y < X } > 3.": "no literal outside of the recursion has `Y`",
    "p(X) :- q(X), count : { q(Y), !p(Y), Y < X } > 3.": "`p` is read through negation",
    "p(X) :- q(X), sum Y : { e(X, Y), p(Y) } > 3.": "`Y` may be negative",
    "p(X) :- q(X), count : { e(X, Y), p(Y) ; q(Y), Y > X } > 3.": "its body has alternatives",
    "p(X) :- q(X), sum F : { e(X, Y), p(Y), F = to_float(Y), F > 0.0 } > 3.0.": "floats have no exact sum",
}


@pytest.mark.parametrize("rule", GROWING)
def test_an_aggregate_that_can_only_grow_may_be_recursive(rule: str) -> None:
    program = check(parse(HEAD + rule))
    assert any(name.startswith(("p_total", "best_total")) for name in program.parts)


@pytest.mark.parametrize(("rule", "reason"), REFUSED.items())
def test_an_aggregate_that_could_do_more_is_refused_with_the_reason(rule: str, reason: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(HEAD + rule))
    assert [each.slug for each in caught.value.diagnostics] == ["unstratified"]
    assert reason in str(caught.value)


def test_the_members_of_a_set_are_the_rows_of_its_group() -> None:
    with upshot.connect() as db:
        db.define("""
        .decl knows(x: symbol, y: symbol)
        .decl told(x: symbol, by: union symbol)
        .decl believes(x: symbol)
        told(X, Y) :- knows(Y, X), believes(Y).
        believes(X) :- knows(_, X), count : { knows(Y, X), told(X, Y) } >= 2.
        believes("ann").  believes("bob").
        """)
        with db.transaction() as tx:
            tx.insert("knows", [("ann", "cy"), ("bob", "cy"), ("cy", "di"), ("ann", "di"), ("cy", "ed")])
        assert sorted(db.rows("believes")) == [("ann",), ("bob",), ("cy",), ("di",)]
        with db.transaction() as tx:
            tx.delete("knows", [("bob", "cy")])
        assert sorted(tx.changes["believes"].deleted) == [("cy",), ("di",)]
        assert sorted(tx.changes["told"].deleted) == [("cy", "bob"), ("di", "cy"), ("ed", "cy")]
        assert "knows" in str(db.why("believes", ("ann",))) or db.why("believes", ("ann",)) is not None
        db.verify()


def test_a_view_over_a_growing_count_survives_a_restart_and_another_definition(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = HEAD + "p(X) :- q(X), count : { e(X, Y), p(Y) } > 1."
    with upshot.connect(tmp_path / "db") as db:
        db.define(text)
        with db.transaction() as tx:
            tx.insert("q", [(number,) for number in range(1, 6)])
            tx.insert("e", [(4, 1), (4, 2), (5, 4), (5, 1)])
        db.snapshot()
    with upshot.connect(tmp_path / "db") as db:
        assert sorted(db.rows("p")) == [(1,), (2,), (4,), (5,)]
        with db.transaction() as tx:
            tx.delete("e", [(4, 1)])
        assert sorted(tx.changes["p"].deleted) == [(4,), (5,)]
        db.define(".decl p_total(x: number)  p_total(X) :- p(X).")
        assert sorted(db.rows("p_total")) == [(1,), (2,)]
        db.verify()
