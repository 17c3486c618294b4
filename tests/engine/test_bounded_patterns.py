"""`match` answers in bounded time."""

from __future__ import annotations

import random
import time

import pytest

import upshot
from upshot.core.errors import DataError, LimitError
from upshot.engine.time_limit import check_time, time_limit
from upshot.values import patterns
from upshot.values.patterns import pattern

HOSTILE = [
    (r"(a+)+b", "a" * 5_000),
    (r"(a|a)*b", "a" * 5_000),
    (r"(a|aa)+c", "a" * 2_000),
    (r"(.*a){20}x", "a" * 300),
    (r".*.*.*=.*", "x" * 20_000),
    (r"([a-z]+\.)+[a-z]+!", "abc." * 1_000),
    (r"(x{0,9}){0,9}y", "x" * 500),
]


@pytest.mark.parametrize(("expression", "text"), HOSTILE, ids=[each[0] for each in HOSTILE])
def test_a_pattern_that_would_backtrack_for_ever_is_answered_soon(expression: str, text: str) -> None:
    began = time.process_time()
    assert pattern(expression).matches(text) is False
    assert time.process_time() - began < 10


def test_states_that_are_followed_together_agree_with_backtracking() -> None:
    made = random.Random(11)
    pieces = [
        *r"ab.^$",
        "[ab]",
        "[^a]",
        r"\w",
        r"\d",
        r"\s",
        r"\b",
        r"\B",
        "(?=a)",
        "(?!b+)",
        "[[:alpha:]-]",
        "a*",
        "b+?",
        "(a|b)",
        "(ab|ba)*",
        "(a+)+",
        "a{1,3}",
    ]
    for _ in range(3_000):
        expression = "".join(made.choice(pieces) for _ in range(made.randrange(1, 6)))
        text = "".join(made.choice("ab1 \n") for _ in range(made.randrange(0, 7)))
        compiled = pattern(expression).compiled
        followed = patterns._follow(patterns._automaton(compiled.pattern), text)
        assert followed == (compiled.fullmatch(text) is not None), (expression, text)


def test_what_only_backtracking_can_answer_is_refused_where_it_may_take_for_ever() -> None:
    with pytest.raises(DataError, match="may take very long"):
        pattern(r"(a+)+\1b").matches("a" * 100)
    assert pattern(r"(a+)b\1").matches("aabaa")
    with pytest.raises(DataError, match=r"`\(\?i` is not a group"):
        pattern(r"(?i)hello")


def test_a_pattern_has_a_longest_length() -> None:
    with pytest.raises(DataError, match="1001 characters"):
        pattern("a" * 1_001)


def test_of_two_time_limits_the_closer_one_holds() -> None:
    with time_limit(0), time_limit(100), pytest.raises(LimitError, match="time limit of 0 seconds exceeded"):
        check_time()
    with time_limit(100), time_limit(0), pytest.raises(LimitError):
        check_time()
    with time_limit(100):
        check_time()
    check_time()


def test_a_query_without_end_is_cut_off_and_harms_nothing() -> None:
    with upshot.connect() as db:
        db.define(".decl e(x: number)\n.decl twice(x: number)\ntwice(X + X) :- e(X).")
        with db.transaction() as tx:
            tx.insert("e", [(i,) for i in range(2_000)])
        with pytest.raises(LimitError) as found, time_limit(0.5):
            db.query("e(X), e(Y), e(Z), e(W), X + Y + Z + W < 0")
        assert found.value.code == "timeout"
        with pytest.raises(LimitError) as found, time_limit(60, rows=100_000):
            db.query("e(X), e(Y), e(Z)")
        assert found.value.code == "too-many-rows"
        assert len(db.query("e(X), X < 10")) == 10
        db.verify()


def test_a_transaction_that_takes_too_long_is_undone() -> None:
    with upshot.connect() as db:
        db.define(".decl e(x: number)\n.decl sum(x: number)\nsum(X) :- e(X), e(Y), e(Z), X + Y + Z < 0.")
        with pytest.raises(LimitError), time_limit(0.5), db.transaction() as tx:
            tx.insert("e", [(i,) for i in range(5_000)])
        assert (len(db.rows("e")), db.version) == (0, 1)
        db.verify()
