"""What would bring a row about that is not there, with the answer to why it is not."""

from __future__ import annotations

import json
import time

import pytest

import upshot

PROGRAM = """
.decl member(person: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl suspended(person: symbol, right: symbol)
.decl access(person: symbol, right: symbol)
access(P, R) :- member(P, T), granted(T, R), !suspended(P, R).
"""


@pytest.fixture
def db() -> upshot.Database:
    made = upshot.connect()
    made.define(PROGRAM, name="access.dl")
    with made.transaction() as tx:
        tx.insert("member", [("ann", "ops"), ("bob", "web")])
        tx.insert("granted", [("ops", "deploy")])
        tx.insert("suspended", [("ann", "deploy")])
    return made


def test_the_answer_shows_what_would_bring_the_row_about(db: upshot.Database) -> None:
    answer = db.why_not("access", ("ann", "deploy"))
    assert [line.split() for line in str(answer).splitlines()[-2:]] == [
        ["└─", "becomes", "true", "with", "the", "only", "realization"],
        ["└─", '-suspended("ann",', '"deploy")'],
    ]
    assert [part.kind for part in answer.parts] == ["attempt"]
    assert "becomes true" not in answer.text(fixes=0)


def test_the_same_as_data_and_as_a_picture(db: upshot.Database) -> None:
    answer = db.why_not("access", ("bob", "deploy"))
    last = json.loads(answer.json(fixes=2))["parts"][-1]
    assert (last["kind"], last["status"], len(last["parts"])) == ("fixes", "more", 2)
    assert last["parts"][0]["insert"] in ({"granted": [["web", "deploy"]]}, {"member": [["bob", "ops"]]})
    assert answer.as_dict(fixes=2)["parts"][-1] == last
    assert "becomes true with" in answer.svg()
    assert "fixes" not in {part["kind"] for part in answer.as_dict(fixes=0)["parts"]}


def test_fixes_are_realizations_with_preferences_and_one_can_be_applied(db: upshot.Database) -> None:
    answer = db.why_not("access", ("bob", "deploy"))
    ways = answer.fixes(limit=1, frozen=["granted"], cost={"+member": 4})
    (way,) = ways
    assert (way.insert, way.cost) == ({"member": (("bob", "ops"),)}, 4)
    db.apply(way)
    assert ("bob", "deploy") in set(db.rows("access"))
    with pytest.raises(upshot.UsageError) as caught:
        answer.fixes()
    assert caught.value.code == "state-changed"
    assert "the database has changed since the query" in str(answer)


def test_what_was_looked_for_once_stays_with_the_answer(db: upshot.Database) -> None:
    answer = db.why_not("access", ("ann", "deploy"))
    shown = str(answer)
    with db.transaction() as tx:
        tx.delete("suspended", [("ann", "deploy")])
    assert str(answer) == shown


def test_inside_a_transaction_or_a_reading_the_answer_says_that_it_did_not_look(db: upshot.Database) -> None:
    answer = db.why_not("access", ("ann", "deploy"))
    with db.transaction():
        assert "not searched: cannot search for realizations while a transaction is open" in str(answer)
    with db.reading():
        assert "not searched: cannot search for realizations inside" in str(answer)
    assert "the only realization" in str(answer)


def test_a_row_that_nothing_brings_about_says_so(db: upshot.Database) -> None:
    db.define('.deny nobody(P) :- access(P, "launch").')
    text = str(db.why_not("access", ("ann", "launch")))
    assert "no base changes make it true" in text
    assert "the constraint `nobody` would be violated beyond repair" in text


def test_new_values_and_further_changes_of_views_are_noted(db: upshot.Database) -> None:
    db.define('.decl leads(p: symbol) .decl lead(p: symbol, t: symbol) leads(P) :- lead(P, T), granted(T, "lead").')
    text = db.why_not("leads", ("eve",)).text(fixes=1)
    assert '+granted(?1, "lead"), +lead("eve", ?1)' in text
    assert "?1 is a fresh symbol" in text


def test_the_condition_of_a_rule_is_explained_without_them(db: upshot.Database) -> None:
    db.define('.rule note(P) when member(P, T), granted(T, _), !suspended(P, "x") do insert suspended(P, "note").')
    assert "the condition of a rule" in str(db.why_not("note", ("bob",)))


def test_the_time_to_look_is_bounded() -> None:
    db = upshot.connect()
    db.define("""
    .decl e(x: number, y: number)  .decl h()  .decl i()  .decl j(x: number)
    h() :- e(X, Y), !i().
    i() :- e(Y, X), e(Z, X), Y != Z.
    j(X) :- e(X, Y), e(X, Z), Y != Z.
    i() :- e(X, Y), !j(X).
    i() :- e(X, Y), !j(Y).
    """)
    with db.transaction() as tx:
        tx.insert("e", [(x, x + 1) for x in range(30)])
    begun = time.process_time()
    text = db.why_not("h", ()).text(seconds=0.5)
    assert time.process_time() - begun < 10
    assert "no base changes were found" in text
    assert "within" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("function", "row"), [("sum", ("ops", 65)), ("min", ("ops", 7)), ("max", ("ops", 70)), ("count", ("ops", 4))]
)
def test_a_group_with_null_among_its_values_is_asked_what_would_change_it(function: str, row: tuple[str, int]) -> None:
    folded = "count" if function == "count" else f"{function} P"
    db = upshot.connect()
    db.define(
        ".decl emp(name: symbol, dept: symbol, pay: number?) .decl v(dept: symbol, n: number) "
        f"v(D, N) :- emp(_, D, _), N = {folded} : {{ emp(_, D, P) }}."
    )
    with db.transaction() as tx:
        tx.insert("emp", [("ann", "ops", 60), ("eve", "ops", 4), ("cid", "ops", None), ("dee", "web", None)])
    assert "becomes true with" in db.why_not("v", row).text(fixes=1)


def test_a_constant_that_a_rule_with_new_values_brings_is_no_new_value() -> None:
    db = upshot.connect()
    db.define(
        ".decl b(x: number, y: number) .decl c(x: number) .decl w(k: number) .decl p(x: number) "
        "w(7) :- b(_, Z), Z > 1. p(Y) :- w(K), c(Y), K > 1."
    )
    (first,) = db.why_not("p", (1,)).fixes(limit=1)
    assert set(first.lines()) == {"+b(?1, ?2)", "+c(1)"}
