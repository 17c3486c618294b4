"""Live queries that cannot be computed any more: commits go on exactly, their followers get the error, others go on."""

from __future__ import annotations

import random
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.database.test_live_queries import Follower
from tests.properties.settings import base_seed, case_count
from upshot.core.errors import Error

PROGRAM = """
    .decl a(x: number)
    .decl b(x: number)
    .decl v(x: number)
    v(X) :- a(X), !b(X).
"""


def database(text: str = PROGRAM, folder: Path | None = None) -> upshot.Database:
    db = upshot.connect(folder)
    db.define(text)
    return db


def insert(db: upshot.Database, **rows: list[int]) -> Any:
    with db.transaction() as tx:
        for name, values in rows.items():
            tx.insert(name, [(value,) for value in values])
    return tx


def codes(follower: Follower) -> list[str]:
    return [error.code for error in follower.subscription.errors if isinstance(error, Error)]


def test_a_query_that_fails_ends_and_the_commit_goes_on() -> None:
    db = database()
    failing, other = Follower(db, "a(X), Y = 10 / (X - 5)"), Follower(db, "a(X), X > 3")
    tx = insert(db, a=[4, 5])
    assert tx.changes["v"].inserted.sorted() == [(4,), (5,)]
    assert (codes(failing), failing.subscription.active, failing.rows) == (["division-by-zero"], False, set())
    error = failing.subscription.errors[0]
    assert "in the followed query `a(X), Y = 10 / (X - 5)`" in str(error)
    assert "$live" not in str(error)
    other.check()
    insert(db, a=[6])
    other.check()
    assert len(db._state.live.by_answer) == 1
    db.verify()


def test_a_decimal_that_a_query_cannot_hold_ends_it() -> None:
    db = database(".decl s(x: decimal(18, 2))")
    failing = Follower(db, "s(X), Y = X * X")
    with db.transaction() as tx:
        tx.insert("s", [(Decimal("9" * 15 + ".99"),)])
    assert not failing.subscription.active
    assert len(failing.subscription.errors) == 1
    assert "$live" not in str(failing.subscription.errors[0])
    assert len(db.query("s(X)")) == 1


def test_the_error_of_a_view_still_rejects_the_commit_and_ends_no_query() -> None:
    db = database(PROGRAM + ".decl w(y: number)  w(10 / (X - 5)) :- a(X).")
    failing, other = Follower(db, "a(X), Y = 10 / (X - 5)"), Follower(db, "a(X)")
    with pytest.raises(upshot.DataError, match=r"division by zero in the rule for `w"):
        insert(db, a=[5])
    assert failing.subscription.active
    insert(db, a=[4])
    for each in (failing, other):
        each.check()


def test_a_commit_that_a_constraint_rejects_ends_no_query() -> None:
    db = database(PROGRAM + ".deny large(X) :- a(X), X > 4.")
    follower = Follower(db, "a(X), Y = 10 / (X - 5)")
    with pytest.raises(upshot.ConstraintError):
        insert(db, a=[5])
    assert follower.subscription.active
    insert(db, a=[4])
    follower.check()


def test_only_the_followers_whose_parameters_fail_are_ended() -> None:
    db = database()
    insert(db, a=[1, 2])
    followers = {d: Follower(db, "a(X), Y = 10 / (X - $d)", d=d) for d in range(5, 40)}
    with db.transaction() as tx:
        tx.insert("a", [(8,), (30,)])
        tx.delete("a", [(1,)])
    assert {d for d, each in followers.items() if not each.subscription.active} == {8, 30}
    assert codes(followers[8]) == codes(followers[30]) == ["division-by-zero"]
    rest = [each for d, each in followers.items() if d not in (8, 30)]
    for each in rest:
        each.check()
        assert len(each.events) == 2, "one event for the commit"
    with db.transaction() as tx:
        tx.delete("a", [(8,), (30,)])
    for each in rest:
        each.check()
    Follower(db, "a(X), Y = 10 / (X - $d)", d=8).check()


def test_a_query_on_demand_that_fails_ends_alone() -> None:
    db = database(PROGRAM + ".view v materialized=false events=none")
    whole, failing = Follower(db, "v(X), v(Y), Y = X + 1"), Follower(db, "v(X), Y = 10 / (X - 5)")
    assert db._state.live.layer is not None
    insert(db, a=[4, 5])
    assert codes(failing) == ["division-by-zero"]
    whole.check()
    insert(db, a=[6], b=[4])
    whole.check()


def test_a_query_fails_in_a_transaction_with_active_rules_and_reads() -> None:
    db = database(PROGRAM + ".rule copy(X) on insert a(X) when X > 3 do insert b(X).")
    failing, other = Follower(db, "b(X), Y = 10 / (X - 5)"), Follower(db, "b(X)")
    with db.transaction() as tx:
        tx.insert("a", [(5,)])
        assert tx.rows("v").sorted() == [(5,)]
        tx.process()
        assert tx.rows("v").sorted() == []
        tx.insert("a", [(7,)])
    assert db.query("b(X)").sorted() == [(5,), (7,)]
    assert codes(failing) == ["division-by-zero"]
    other.check()
    db.verify()


def test_what_if_and_realize_see_nothing_of_a_query_that_fails() -> None:
    db = database()
    follower = Follower(db, "a(X), Y = 10 / (X - 5)")
    assert db.what_if(insert={"a": [(5,)]})["v"].inserted.sorted() == [(5,)]
    assert next(db.realize(insert={"v": [(5,)]})).insert == {"a": ((5,),)}
    assert follower.subscription.active
    insert(db, a=[4])
    follower.check()


def test_a_definition_goes_on_without_the_queries_that_fail_with_it() -> None:
    db = database()
    insert(db, a=[4, 5], b=[5])
    failing, other = Follower(db, "v(X), Y = 10 / (X - 5)"), Follower(db, "v(X)")
    db.define("v(X) :- b(X).")
    assert codes(failing) == ["division-by-zero"]
    other.check()
    assert other.rows == {(5,)}
    insert(db, a=[6])
    other.check()


def test_events_before_the_failure_reach_the_follower_of_a_group(tmp_path: Path) -> None:
    db = database(folder=tmp_path / "store")
    failing = Follower(db, "a(X), Y = 10 / (X - 5)")
    with db.group() as group:
        for value in (4, 5, 6):
            with group.transaction() as tx:
                tx.insert("a", [(value,)])
    assert failing.rows == {(4, -10)}
    assert codes(failing) == ["division-by-zero"]
    assert db.query("v(X)").sorted() == [(4,), (5,), (6,)]


def test_a_query_that_failed_when_it_began_leaves_nothing_behind() -> None:
    db = database()
    insert(db, a=[5])
    with pytest.raises(upshot.DataError, match="division by zero in the followed query"):
        db.watch("a(X), Y = 10 / (X - 5)", print)
    assert not db._state.live.by_answer
    db.watch("a(X), Y = 10 / (X - $d)", lambda _: None, d=4)
    with pytest.raises(upshot.DataError, match="division by zero in the followed query"):
        db.watch("a(X), Y = 10 / (X - $d)", print, d=5)
    assert [len(each.followers) for each in db._state.live.by_answer.values()] == [1]


def test_a_query_is_dropped_with_its_last_follower() -> None:
    db = database()
    one, two = (Follower(db, "a(X), X > $d", d=1) for _ in range(2))
    three = Follower(db, "a(X), b(X)")
    one.subscription.close()
    assert len(db._state.live.by_answer) == 2
    two.subscription.close()
    assert len(db._state.live.by_answer) == 1
    with db.transaction() as tx:
        tx.insert("a", [(5,)])
        three.subscription.close()
    with db.transaction() as tx:
        tx.insert("a", [(6,)])
    assert not db._state.live.by_answer


def test_a_query_that_takes_too_long_is_ended_and_others_go_on() -> None:
    db = database(".decl n(x: number)  .decl b(x: number)")
    with db.transaction() as tx:
        tx.insert("n", [(number,) for number in range(3_000)])
    db.limit_live_queries(0.3)
    runaway = Follower(db, "b(Z), n(A), n(B), n(C), A + B + C + Z < 0")
    others = [Follower(db, query) for query in ("b(Z)", "b(Z), Z > 1", "b(Z), !n(Z)", "b(Z), n(Z)")]
    began = time.monotonic()
    insert(db, b=[1, 4_000])
    assert time.monotonic() - began < 5
    assert codes(runaway) == ["timeout"]
    for each in others:
        each.check()
    assert len(db._state.live.by_answer) == 4


FAILING = ["a(X), Y = 10 / (X - $d)", "v(X), Y = 10 / (X - $d)", "v(X), b(Z), Y = 10 / (X - Z - $d)"]
SAFE = ["v(X), X > $d", "a(X), b(X)", "N = count : { v(_) }"]


@pytest.mark.parametrize("number", range(case_count(12)))
def test_commits_and_followers_agree_with_queries_while_others_fail(number: int) -> None:
    rng = random.Random(base_seed() + number)
    more = rng.choice(
        ["", ".view v materialized=false events=none", ".rule r(X) on insert b(X) when X > 6 do insert a(X)."]
    )
    db, twin = database(PROGRAM + more), database(PROGRAM + more)
    followers: list[Follower] = []
    for _ in range(12):
        query = rng.choice(FAILING + SAFE)
        values = {"d": rng.randrange(10)} if "$d" in query else {}
        try:
            followers.append(Follower(db, query, **values))
        except upshot.DataError:
            with pytest.raises(upshot.DataError):
                db.query(query, **values)
        change = [(rng.choice(["insert", "delete"]), rng.choice("ab"), rng.randrange(10)) for _ in range(4)]
        for each in (db, twin):
            with each.transaction() as tx:
                for verb, name, value in change:
                    getattr(tx, verb)(name, [(value,)])
        for name in "abv":
            assert db.query(f"{name}(X)").sorted() == twin.query(f"{name}(X)").sorted()
        for follower in [each for each in followers if each.subscription.active]:
            follower.check()
        for follower in [each for each in followers if not each.subscription.active]:
            assert codes(follower) == ["division-by-zero"]
            with pytest.raises(upshot.DataError):
                db.query(follower.query, **follower.values)
            followers.remove(follower)
        db.verify()
