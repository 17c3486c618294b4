"""Preferences, bounds, the different answers, built-ins, repairs, and what becomes of a realization."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

import upshot
from tests.revise.goldens import CLOSURE, COMPENSATED
from tests.revise.test_goldens import database, shown
from upshot import Bounds

ACCESS = """
    .decl member(user: symbol, team: symbol)
    .decl granted(team: symbol, right: symbol)
    .decl direct(user: symbol, right: symbol)
    .decl access(user: symbol, right: symbol)
    access(U, R) :- direct(U, R).
    access(U, R) :- member(U, T), granted(T, R).
"""


def access() -> upshot.Database:
    db = upshot.connect()
    db.define(ACCESS)
    with db.transaction() as tx:
        tx.insert("member", [("ann", "ops"), ("bob", "ops")])
        tx.insert("granted", [("ops", "deploy")])
    return db


ANN = {"access": [("ann", "deploy")]}


def test_several_insertions_and_deletions_are_one_request() -> None:
    found = access().realize({"access": [("eve", "deploy")]}, ANN, frozen=["direct"], limit=1)
    assert shown(found)[0] == {'-member("ann", "ops")', '+member("eve", "ops")'}


def test_patterns_take_text_in_single_quotes() -> None:
    double, single = ({"access": f"access({quote}ann{quote}, _)"} for quote in "\"'")
    assert shown(access().realize(delete=single)) == shown(access().realize(delete=double))
    for text in ("""access('o\\'neil "x"', _)""", """access("o'neil \\"x\\"", _)"""):
        db = access()
        with db.transaction() as tx:
            tx.insert("member", [('o\'neil "x"', "ops")])
        assert db.pattern_rows("access", text) == [('o\'neil "x"', "deploy")]


def test_frozen_relations_are_not_touched() -> None:
    assert shown(access().realize(delete=ANN, frozen=["granted"])) == [{'-member("ann", "ops")'}]
    assert shown(access().realize(delete=ANN, frozen="-member")) == [{'-granted("ops", "deploy")'}]


def test_only_by_touching_frozen_relations_is_an_answer_of_its_own() -> None:
    found = access().realize(delete=ANN, frozen=["granted", "member"])
    assert list(found) == []
    assert found.status == "only through frozen"
    assert "`member`" in found.reason


def test_none_exists_is_an_answer_of_its_own() -> None:
    found = database(CLOSURE + ".deny no() :- e(1, 2).").realize({"p": [(1, 2)]}, bounds=Bounds(new_constants=0))
    assert found.status == "more"
    impossible = database(COMPENSATED + "h(X) :- p(X), !p(X).").realize({"i": [()]}, {"h": [(1,)], "p": [(1,)]})
    assert [each.size for each in impossible] == [1]
    never = database(".decl a() .decl v() v() :- a(). .deny no() :- a().").realize({"v": [()]})
    assert list(never) == []
    assert (never.status, never.reason) == (
        "none exists",
        "none exists: the constraint `no` would be violated beyond repair",
    )


def test_none_exists_for_what_contradicts_itself() -> None:
    found = database(".decl a() .decl v() .decl w() v() :- a(). w() :- a().").realize({"v": [()]}, {"w": [()]})
    assert list(found) == []
    assert found.status == "none exists"


def test_the_price_of_a_change_decides_what_comes_first() -> None:
    dear = access().realize(delete=ANN, cost={"-member": 10})
    assert [(each.cost, *each.delete) for each in dear] == [(1, "granted"), (10, "member")]
    cheap = access().realize(delete=ANN, cost={"granted": 2})
    assert [(each.cost, *each.delete) for each in cheap] == [(1, "member"), (2, "granted")]


def test_fewest_side_effects_first() -> None:
    found = access().realize(delete=ANN, side_effect_free_first=True, cost={"member": 3})
    assert [each.side_effects for each in found] == [0, 1]
    first = access().realize(delete=ANN, side_effect_free_first=True, limit=1)
    assert len(list(first)) == 1
    assert first.reason == "there are 2, of which these have the fewest side effects"


def test_what_a_realization_does_is_told_in_full() -> None:
    first = next(access().realize(delete=ANN, frozen=["member"]))
    assert first.effects["access"].deleted.sorted() == [("ann", "deploy"), ("bob", "deploy")]
    assert first.text().splitlines() == [
        '-granted("ops", "deploy")',
        '// goal: -access("ann", "deploy")',
        '// also: -access("bob", "deploy")',
    ]
    told = json.loads(first.json())
    assert told["delete"] == {"granted": [["ops", "deploy"]]}
    assert told["changes"] == {
        "granted": {"insert": [], "delete": [["ops", "deploy"]]},
        "access": {"insert": [], "delete": [["ann", "deploy"], ["bob", "deploy"]]},
    }
    assert told["side_effects"] == 1


def test_a_realization_is_applied() -> None:
    db = access()
    first = next(db.realize(delete=ANN, frozen=["granted"]))
    done = db.apply(first)
    assert done.version == 3
    assert db.rows("access") == [("bob", "deploy")]


def test_a_realization_that_would_no_longer_do_is_refused() -> None:
    db = access()
    first = next(db.realize(delete=ANN, frozen=["granted"]))
    with db.transaction() as tx:
        tx.insert("direct", [("ann", "deploy")])
    with pytest.raises(upshot.DataError) as refused:
        db.apply(first)
    assert refused.value.code == "not-a-realization"
    assert db.query("member($u, T)", u="ann") == [("ops",)]


def test_a_realization_that_still_does_is_applied_to_a_database_that_moved_on() -> None:
    db = access()
    first = next(db.realize(delete=ANN, frozen=["granted"]))
    with db.transaction() as tx:
        tx.insert("member", [("eve", "ops")])
    db.apply(first)
    assert ("ann", "deploy") not in db.rows("access")


def test_realizations_of_a_state_that_is_gone_are_not_given() -> None:
    db = access()
    found = db.realize(delete=ANN)
    next(found)
    with db.transaction() as tx:
        tx.insert("member", [("eve", "ops")])
    with pytest.raises(upshot.UsageError) as refused:
        next(found)
    assert refused.value.code == "state-changed"


def test_placeholders_are_filled_when_a_realization_is_applied() -> None:
    db = database(COMPENSATED, p=[(1,)])
    only = next(db.realize({"h": [(1,)]}))
    with pytest.raises(upshot.UsageError) as refused:
        db.apply(only)
    assert refused.value.code == "placeholder-open"
    with pytest.raises(upshot.DataError) as wrong:
        db.apply(only, {"?1": 1})
    assert wrong.value.code == "not-a-realization"
    db.apply(only, {"?1": 7})
    assert db.rows("h") == [(1,)]


def test_what_is_so_already_needs_nothing() -> None:
    found = access().realize(ANN)
    assert [(each.size, each.text()) for each in found] == [(0, "// nothing to do: already true")]
    assert (found.status, found.reason) == ("all", "nothing to do: already true")
    first = access().realize(ANN, limit=1)
    next(first)
    assert (first.status, first.reason) == ("all", "nothing to do: already true")


def test_numbers_are_spelled_as_their_columns_keep_them() -> None:
    program = """
        .decl item(name: symbol, price: decimal(8, 2), weight: float)
        .decl sold(name: symbol, price: decimal(8, 2), weight: float)
        sold(N, P, W) :- item(N, P, W).
    """
    for price in (Decimal(5), Decimal("5.0"), 5):
        (way,) = database(program).realize({"sold": [("bike", price, 2)]})
        assert way.text().splitlines() == [
            '+item("bike", decimal("5.00"), 2.0)',
            '// goal: +sold("bike", decimal("5.00"), 2.0)',
        ]
        told = json.loads(way.json())
        assert told["insert"] == {"item": [["bike", "5.00", 2.0]]}
        assert told["changes"]["item"]["insert"] == told["insert"]["item"]
    fixed = database(f'{program} .decl cheap() cheap() :- item("bike", decimal("5"), _).')
    (way,) = fixed.realize({"cheap": [()]})
    assert way.lines() == ['+item("bike", decimal("5.00"), ?1)']


def test_what_is_so_already_must_stay_so() -> None:
    found = access().realize({"access": [("bob", "deploy")]}, ANN)
    assert next(found).text().splitlines()[0] == '-member("ann", "ops")'
    others = list(found)
    assert any("granted" in each.delete and "direct" in each.insert for each in others)
    assert not any(("bob", "deploy") in each.effects["access"].deleted for each in others)


def test_built_ins_are_propagated_where_they_determine_a_value_and_stated_where_they_do_not() -> None:
    program = """
        .decl base(x: number)  .decl next(x: number)  .decl big()
        next(X + 1) :- base(X).
        big() :- base(X), X > 100, X < 200.
    """
    assert shown(database(program).realize({"next": [(8,)]})) == [{"+base(7)"}]
    (only,) = database(program).realize({"big": [()]})
    assert only.conditions == ("?1 > 100", "?1 < 200")
    assert 100 < only.placeholders[0].witness < 200


def test_a_key_is_kept_by_deleting_the_row_that_has_it() -> None:
    program = ".decl price(item: symbol, n: number) key(item)  .decl cheap(item: symbol) cheap(I) :- price(I, 1)."
    db = upshot.connect()
    db.define(program)
    with db.transaction() as tx:
        tx.insert("price", [("nut", 5)])
    assert shown(db.realize({"cheap": [("nut",)]})) == [{'-price("nut", 5)', '+price("nut", 1)'}]


def test_constraints_are_repaired_by_further_changes() -> None:
    program = """
        .decl course(c: symbol)  .decl enrolled(s: symbol, c: symbol)  .decl student(s: symbol)
        student(S) :- enrolled(S, C).
        .deny missing(C) :- enrolled(S, C), !course(C).
    """
    db = upshot.connect()
    db.define(program)
    found = db.repairs(insert={"enrolled": [("ann", "art")]})
    assert shown(found) == [{'+enrolled("ann", "art")', '+course("art")'}]


def test_violations_that_are_there_are_repaired() -> None:
    db = database(".decl a(x: number) .decl b(x: number)", a=[(1,), (2,)], b=[(2,)])
    db.define(".deny d(X) :- a(X), !b(X).\n.deny d existing=keep")
    assert sorted(map(sorted, shown(db.repairs("d")))) == [["+b(1)"], ["-a(1)"]]
    assert shown(db.repairs()) == shown(db.repairs("d"))


def test_bounds_on_size_and_time_and_number() -> None:
    db = database(CLOSURE, e=[(1, 2), (3, 4)])
    small = db.realize({"p": [(1, 4)]}, bounds=Bounds(size=1))
    assert {frozenset(each) for each in shown(small)} == {frozenset({"+e(1, 4)"}), frozenset({"+e(1, 3)"}),
                                                          frozenset({"+e(2, 3)"}), frozenset({"+e(2, 4)"})}  # fmt: skip
    assert "1 change" in small.reason
    assert len(list(db.realize({"p": [(1, 4)]}, limit=2))) == 2
    hurried = db.realize({"p": [(1, 4)]}, bounds=Bounds(seconds=0))
    assert list(hurried) == []
    assert hurried.reason == "none found within 0 seconds"


def test_views_that_are_not_stored_are_updated_too() -> None:
    db = upshot.connect()
    db.define(ACCESS + ".view access materialized=false")
    with db.transaction() as tx:
        tx.insert("member", [("ann", "ops")])
        tx.insert("granted", [("ops", "deploy")])
    assert len(list(db.realize(delete=ANN))) == 2


def test_a_request_that_asks_for_both_is_refused() -> None:
    with pytest.raises(upshot.UsageError) as refused:
        access().realize(ANN, ANN)
    assert refused.value.code == "request-contradicts"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"frozen": ["access"]}, "not-a-base-relation"),
        ({"frozen": ["nobody"]}, "unknown-relation"),
        ({"cost": {"member": -1}}, "wrong-argument"),
        ({"cost": {"member": 10**400}}, "wrong-argument"),
        ({"cost": {"member": float("inf")}}, "wrong-argument"),
        ({"limit": 0}, "wrong-argument"),
        ({"bounds": 7}, "wrong-argument"),
    ],
)
def test_wrong_wishes_are_refused(arguments: dict[str, object], code: str) -> None:
    with pytest.raises(upshot.UsageError) as refused:
        access().realize(delete=ANN, **arguments)  # type: ignore[arg-type]
    assert refused.value.code == code


def test_a_search_says_whether_it_is_certain_to_end() -> None:
    assert access().realize(delete=ANN).is_certain_to_end is False
    plain = database(".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X), !b(X).")
    assert plain.realize({"v": [(1,)]}).is_certain_to_end is True


def test_what_every_realization_has_one_of() -> None:
    found = access().realize(delete=ANN)
    list(found)
    assert found.disjunctions() == [('-granted("ops", "deploy")', '-member("ann", "ops")')]


def test_a_realization_that_a_rule_would_undo_is_not_given() -> None:
    db = database(
        ".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X). v(X) :- b(X)."
        ".rule never(X) on insert a(X) do delete a(X)."
    )
    assert shown(db.realize({"v": [(1,)]})) == [{"+b(1)"}]


@pytest.mark.slow
@pytest.mark.parametrize("people", [1_000, 50_000])
def test_the_work_follows_the_request_and_not_the_database(people: int) -> None:
    db = upshot.connect()
    db.define(ACCESS)
    with db.transaction() as tx:
        tx.insert("member", [(f"p{i}", f"t{i // 5}") for i in range(people)])
        tx.insert("granted", [(f"t{i}", f"r{i}") for i in range(people // 5)])
        tx.insert("direct", [(f"p{i}", f"r{i // 5}") for i in range(people // 2)])
    taken = db.realize(delete={"access": [("p7", "r1")]})
    assert len(list(taken)) == 2
    assert taken.work == {"models": 6, "instances": 0, "candidates": 2, "propagations": 2}
    first = db.realize({"access": [("p7", "r3")]})
    assert next(first).size == 1
    assert first.work["propagations"] <= 3
    assert first.work["instances"] <= 10


def test_booleans_have_no_new_values_and_both_are_tried() -> None:
    db = upshot.connect()
    db.define(".decl flag(name: symbol, on: boolean) .decl known(name: symbol) known(N) :- flag(N, _).")
    assert sorted(map(sorted, shown(db.realize({"known": [("x",)]})))) == [['+flag("x", false)'], ['+flag("x", true)']]


def test_a_new_value_lies_where_the_constraints_allow_it() -> None:
    program = ".decl a(x: number) .decl v() v() :- a(X). .deny large(X) :- a(X), X > 100."
    (only,) = database(program).realize({"v": [()]})
    assert only.conditions == ("?1 <= 100",)
    assert only.placeholders[0].witness < 100
    between = database(program + ".deny small(X) :- a(X), X < 98.").realize({"v": [()]})
    assert [way.conditions for way in between] == [("?1 >= 98", "?1 <= 100")]


def test_what_is_computed_from_a_new_value_bounds_it() -> None:
    program = ".decl a(x: number) .decl v() v() :- a(X). .deny no(X) :- a(X), X + 1 > 0."
    found = database(program).realize({"v": [()]})
    assert [(way.lines(), way.conditions) for way in found] == [(["+a(?1)"], ("?1 <= -1",))]
    assert found.status == "all"


def test_facts_that_a_view_was_given_are_changed_under_its_name() -> None:
    db = upshot.connect()
    db.define(".decl edge(x: number, y: number) .decl link(x: number, y: number) .input link link(X, Y) :- edge(X, Y).")
    with db.transaction() as tx:
        tx.insert("link", [(1, 2)])
    assert shown(db.realize(delete={"link": [(1, 2)]})) == [{"-link(1, 2)"}]
    both = db.realize(insert={"link": [(3, 4)]})
    assert sorted(map(sorted, shown(both))) == [["+edge(3, 4)"], ["+link(3, 4)"]]
    assert both.disjunctions() == [("+edge(3, 4)", "+link(3, 4)")]
    none = db.realize(delete={"link": [(1, 2)]}, frozen=["link"])
    assert list(none) == []
    assert "`link`" in none.reason


def test_rows_with_null_are_taken_away() -> None:
    db = upshot.connect()
    db.define(".decl a(x: number, y: number?) .decl v(x: number, y: number?) v(X, Y) :- a(X, Y).")
    with db.transaction() as tx:
        tx.insert("a", [(1, None), (1, 2)])
    (only,) = db.realize(delete={"v": [(1, None)]})
    assert only.delete == {"a": ((1, None),)}


def test_a_recursion_that_uses_its_view_twice_is_asked_for_step_by_step() -> None:
    program = """
        .decl step(x: number, y: number, n: number)  .decl far(x: number, y: number)
        far(X, Y) :- step(X, Y, N), N > 10.
        far(X, Z) :- far(X, Y), far(Y, Z).
    """
    db = database(program, step=[(1, 2, 20), (3, 4, 20), (5, 6, 1)])
    found = db.realize({"far": [(1, 4)]}, bounds=Bounds(size=1, new_constants=1))
    assert {way.insert["step"][0][:2] for way in found} == {(1, 4), (2, 4), (1, 3), (2, 3)}
    assert found.work["models"] < 40


def test_what_is_to_become_true_later_breaks_a_derivation_by_itself() -> None:
    program = """
        .decl a() .decl c() .decl z() .decl lower() .decl middle() .decl above()
        lower() :- z().
        middle() :- a(), !lower().
        above() :- c(), !middle().
    """
    found = database(program, a=[()], c=[()], z=[()]).realize({"middle": [()]}, {"above": [()]})
    assert shown(found) == [{"-z()"}]


def test_two_negated_literals_may_name_the_same_row() -> None:
    program = ".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X), a(Y), !b(X), !b(Y)."
    assert shown(database(program).realize({"v": [(1,)]})) == [{"+a(1)"}]


def test_a_value_that_only_a_rule_names_is_asked_for() -> None:
    program = ".decl a(x: number) .decl v(x: number) .decl w(x: number) .decl h()"
    found = database(program + " v(5) :- a(1). w(X) :- v(X). h() :- w(Y).").realize({"h": [()]})
    assert shown(found) == [{"+a(1)"}]
