"""Causes of the changes of a transaction: found for all rows together, and enough to bring each change about."""

from __future__ import annotations

import random
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from upshot.database.durable.past_states import PastState

GRAPH = """
.decl edge(x: number, y: number)
.decl mark(x: number)
.decl tc(x: number, y: number)
.decl both(x: number, y: number)
"""
LINEAR = (
    GRAPH + "tc(X, Y) :- edge(X, Y). tc(X, Z) :- tc(X, Y), edge(Y, Z). both(X, Y) :- tc(X, Y), tc(Y, X), mark(X).\n"
)
NONLINEAR = GRAPH + "tc(X, Y) :- edge(X, Y). tc(X, Z) :- tc(X, Y), tc(Y, Z). both(X, Y) :- tc(X, Y), mark(Y).\n"
PROGRAMS = {
    "linear": LINEAR,
    "nonlinear": NONLINEAR,
    "unstored": LINEAR + ".view tc materialized=false\n",
    "unreported": LINEAR + ".view tc materialized=false events=none\n",
}


def database(program: str) -> upshot.Database:
    db = upshot.connect()
    db.define(program)
    return db


def changed(db: upshot.Database, insert: dict[str, Any], delete: dict[str, Any]) -> Any:
    with db.transaction() as tx:
        for name, rows in delete.items():
            tx.delete(name, list(rows))
        for name, rows in insert.items():
            tx.insert(name, list(rows))
    return tx.changes


def _count(changes: Any) -> int:
    assert len(changes.inserted) or len(changes.deleted)
    return len(changes.inserted) + len(changes.deleted)


def tables(db: upshot.Database) -> dict[str, set[Any]]:
    return {name: set(db.rows(name)) for name in ("edge", "mark")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_base_changes_of_a_cause_are_enough_for_the_change(program: str) -> None:
    found = 0
    for case in range(case_count(60)):
        draw = random.Random(seed_of(f"causes {program}", case))
        db = database(PROGRAMS[program])
        pairs = [(x, y) for x in range(6) for y in range(6)]
        changed(db, {"edge": draw.sample(pairs, 7), "mark": [(x,) for x in range(0, 6, 2)]}, {})
        for _ in range(3):
            old = tables(db)
            changes = changed(db, {"edge": draw.sample(pairs, 3)}, {"edge": draw.sample(sorted(old["edge"]), 2)})
            new = tables(db)
            for name in ("tc", "both") if program != "unreported" else ("both",):
                causes = changes[name].causes()
                assert set(causes) == {*changes[name].inserted, *changes[name].deleted}
                for row in draw.sample(sorted(causes), min(3, len(causes))):
                    cause, came = causes[row], row in set(changes[name].inserted)
                    base = cause.inserted if came else cause.deleted
                    assert base
                    assert not (cause.deleted if came else cause.inserted)
                    before, after = (old, new) if came else (new, old)
                    assert {each for _, each in base} <= after["edge"] - before["edge"]
                    # The cause alone inserts the row into the old state, and brings it back into the new one.
                    with_cause = database(PROGRAMS[program])
                    here = {each: set(rows) for each, rows in before.items()}
                    for relation, each in base:
                        here[relation].add(each)
                    changed(with_cause, here, {})
                    assert row in set(with_cause.rows(name)), (name, row, cause)
                    found += 1
    assert found


def test_negation_and_aggregates_have_causes_of_either_sign() -> None:
    db = database(
        GRAPH + ".decl free(x: number)\n.decl degree(x: number, n: number)\n"
        "free(X) :- mark(X), !edge(X, _). degree(X, N) :- mark(X), N = count : { edge(X, _) }."
    )
    changed(db, {"edge": [(1, 2), (3, 4)], "mark": [(1,), (2,)]}, {})
    changes = changed(db, {"edge": [(2, 1)]}, {"edge": [(1, 2)]})
    free, degree = changes["free"].causes(), changes["degree"].causes()
    assert (free[1,].inserted, free[1,].deleted) == ((), (("edge", (1, 2)),))
    assert (free[2,].inserted, free[2,].deleted) == ((("edge", (2, 1)),), ())
    assert degree[1, 0].deleted == (("edge", (1, 2)),)
    assert degree[2, 1].inserted == degree[2, 0].inserted == (("edge", (2, 1)),)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many questions were asked of states, each time."""
    asked: list[int] = []
    answers = PastState.answers

    def counted(self: PastState, questions: Any) -> Any:
        asked.append(len(questions))
        return answers(self, questions)

    monkeypatch.setattr(PastState, "answers", counted)
    return asked


OVER_CLOSURE = LINEAR + (
    ".decl degree(x: number, n: number)\n.decl high(x: number)\n.decl alone(x: number)\n"
    "degree(X, N) :- mark(X), N = count : { tc(X, _) }. high(X) :- degree(X, N), N > 4.\n"
    "alone(X) :- mark(X), !tc(X, _).\n"
)


def test_the_cause_of_a_group_or_a_negation_has_every_base_change_below_it() -> None:
    edges = {("edge", (1, y)) for y in range(10, 20)}
    for program in (OVER_CLOSURE, OVER_CLOSURE + ".view tc materialized=false events=none\n"):
        db = database(program)
        changed(db, {"mark": [(1,)]}, {})
        changes = changed(db, {"edge": [row for _, row in edges]}, {})
        for name in ("degree", "high", "alone"):
            assert [{*cause.inserted} for cause in changes[name].causes().values()] == [edges] * _count(changes[name])
        changes = changed(db, {}, {"edge": [row for _, row in edges]})
        for name in ("degree", "high", "alone"):
            assert [{*cause.deleted} for cause in changes[name].causes().values()] == [edges] * _count(changes[name])


def test_causes_below_a_group_go_from_changed_row_to_changed_row(asked: list[int]) -> None:
    db = database(OVER_CLOSURE)
    changed(db, {"edge": [(x, x + 1) for x in range(60)], "mark": [(0,)]}, {})
    causes = changed(db, {"edge": [(60, 61)]}, {})["degree"].causes()
    assert {cause.inserted for cause in causes.values()} == {(("edge", (60, 61)),)}
    # The rows that stay are not looked at: the derivation of the one that came has 61 rules.
    assert sum(asked) <= 20


def test_a_best_value_that_takes_the_place_of_a_better_one_has_its_cause() -> None:
    db = database(
        ".decl road(x: symbol, y: symbol, n: number)\n.decl dist(x: symbol, y: symbol, n: number)\n"
        "dist(X, Y, N) :- road(X, Y, N). dist(X, Z, N + M) :- dist(X, Y, N), road(Y, Z, M).\n"
        "dist(X, Y, A) <= dist(X, Y, B) :- B <= A.\n.decl far(x: symbol)\nfar(Y) :- dist(_, Y, N), N > 5."
    )
    road = ("b", "c", 2)
    changed(db, {"road": [("a", "b", 1), ("b", "c", 9), road, ("a", "c", 9), ("c", "b", 0)]}, {})
    for sign in ("deleted", "inserted"):
        rows = {"road": [road]}
        changes = changed(db, {}, rows) if sign == "deleted" else changed(db, rows, {})
        for name in ("dist", "far"):
            found = changes[name].causes()
            assert len(found) == _count(changes[name])
            assert {getattr(cause, sign) for cause in found.values()} == {(("road", road),)}
    assert '+ dist("a", "c", 3)' in str(db.why_changed("dist", ("a", "c", 9)))


def test_what_did_not_change_has_no_cause() -> None:
    db = database(
        LINEAR
        + ".decl seen(x: number)\nseen(X) :- edge(X, _).\n"
        + ".view seen materialized=false strategy=differencing semantics=nervous\n"
    )
    changed(db, {"edge": [(1, 2)]}, {})
    changes = changed(db, {"edge": [(1, 3)]}, {})
    assert set(changes["seen"].inserted) <= {(1,)}
    assert changes["seen"].causes() == changes["mark"].causes() == changes["both"].causes() == {}
    assert set(changes["tc"].causes()) == set(dict(changes.items())["tc"].causes()) == {(1, 3)}
    with pytest.raises(upshot.Error) as caught:
        changes["nothing"].causes()
    assert caught.value.code == "unknown-relation"


def test_causes_follow_the_changes_once_for_all_rows(asked: list[int]) -> None:
    db = database(LINEAR)
    changed(db, {"edge": [(x, x + 1) for x in range(200)]}, {})
    causes = changed(db, {"edge": [(200, 201)]}, {})["tc"].causes()
    assert len(causes) == 201
    assert {cause.inserted for cause in causes.values()} == {(("edge", (200, 201)),)}
    # The 20,000 rows that stay are not looked at, whatever they are derived from.
    assert sum(asked) <= 10
