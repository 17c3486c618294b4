"""The values that the variables of rules take: stored ones, those a change brings, new ones."""

from __future__ import annotations

from decimal import Decimal

import pytest

import upshot
from tests.revise.test_goldens import database, shown
from upshot import Bounds
from upshot.core.rows import Rows


def ways(found: object) -> set[frozenset[str]]:
    return {frozenset(each) for each in shown(found)}  # type: ignore[arg-type]


def test_values_of_a_column_are_not_taken_for_those_of_another() -> None:
    program = """
        .decl e(x: number, y: number)  .decl g(x: number)  .decl s(x: number, y: number)  .decl t(x: number)
        s(X, Y) :- e(X, Y).  s(X, Y) :- e(Y, X).  t(9) :- e(Z, W), g(Z).
    """
    found = database(program).realize({"s": [(1, 2)], "t": [(9,)]})
    listed = ways(found)
    assert frozenset({"+e(1, 2)", "+g(1)"}) in listed
    assert frozenset({"+e(2, 1)", "+g(2)"}) in listed


def test_a_new_value_is_one_that_does_not_occur() -> None:
    for type, old, taken in (("number", 1, 7_000_000_001), ("symbol", "a", "new value 1")):
        program = f"""
            .decl p(x: {type})  .decl q(x: {type})  .decl h(x: {type})  .decl i()
            h(X) :- p(X), q(X), i().  i() :- p(X), !q(X).
        """
        first, second = database(program, p=[(old,)], q=[(taken,)]).realize({"h": [(old,)]})  # type: ignore[list-item]
        assert (first.size, len(first.placeholders)) == (2, 1)
        assert first.placeholders[0].witness != taken
        assert (second.size, second.delete) == (3, {"q": ((taken,),)})


def test_a_new_value_does_not_occur_in_what_constraints_compare_it_with() -> None:
    program = ".decl e(x: number) .decl f(x: number) .decl p() p() :- e(X). .deny d(X) :- e(X), !f(X)."
    found = list(database(program, f=[(7_000_000_001,)]).realize({"p": [()]}))
    assert [each.size for each in found if each.placeholders] == [2]


def test_many_values_in_the_way_of_a_new_one_are_gone_around() -> None:
    program = ".decl e(x: number) .decl f(x: number) .decl p() p() :- e(X), !f(X), X > 100, X < 200."
    found = next(database(program, f=[(x,) for x in range(101, 140)]).realize({"p": [()]}))
    assert 140 <= found.placeholders[0].witness < 200
    full = database(program, f=[(x,) for x in range(101, 200)]).realize({"p": [()]})
    assert all(not each.placeholders for each in full)
    assert "the fresh values that were tried" in full.reason


def test_a_value_that_another_row_brings_is_taken_whatever_views_are_called() -> None:
    for first, second in (("w", "v"), ("a_w", "z_v"), ("z_w", "a_v")):
        program = f"""
            .decl e(x: number, y: number)  .decl {first}(x: number)  .decl {second}(x: number, y: number)
            .decl t(x: number, y: number)
            {first}(X) :- e(X, _).  {second}(X, Y) :- e(X, Y).  t(X, Y) :- {first}(X), {second}(X, Y).
        """
        found = database(program).realize({"t": [(1, 2)]})
        assert shown(found) == [{"+e(1, 2)"}]
        assert found.status == "all"


def test_a_value_that_a_rule_takes_from_elsewhere_is_taken_by_others() -> None:
    program = """
        .decl e(x: number, y: number)  .decl g(x: number)  .decl a_w(y: number)  .decl z(x: number)  .decl t(x: number)
        a_w(Y) :- e(_, Y).  z(9) :- e(Z, 2), g(Z).  t(X) :- a_w(X), z(9).
    """
    found = database(program, g=[(5,)]).realize({"t": [(2,)]})
    assert shown(found) == [{"+e(5, 2)"}, {"+e(?1, 2)", "+g(?1)"}]
    assert found.status == "all"


def test_a_value_that_a_constraint_brings_is_taken_by_what_was_asked_for() -> None:
    program = ".decl e(x: number) .decl f(x: number, y: number) .decl p() p() :- f(X, Y). .deny d(X) :- e(X), !f(X, 7)."
    assert shown(database(program).realize({"p": [()], "e": [(1,)]})) == [{"+e(1)", "+f(1, 7)"}]


REFERRING = ".decl e(x: number) .decl f(x: number) .decl p() p() :- e(X). .deny d(X) :- e(X), !f(X)."


def test_values_that_a_constraint_looks_for_are_offered_where_a_new_one_is_in_the_way() -> None:
    assert shown(database(REFERRING, f=[(5,)]).realize({"p": [()]})) == [{"+e(5)"}, {"+e(?1)", "+f(?1)"}]
    assert shown(database(REFERRING, f=[(5,)]).realize({"p": [()]}, frozen=["f"])) == [{"+e(5)"}]


def test_values_that_a_constraint_compares_with_are_offered_where_a_new_one_is_in_the_way() -> None:
    program = ".decl e(x: number) .decl f(x: number) .decl p() p() :- e(X). .deny d(X) :- e(X), f(Z), X != Z."
    assert shown(database(program, f=[(5,)]).realize({"p": [()]})) == [{"+e(5)"}, {"-f(5)", "+e(?1)"}]
    named = ".decl e(x: number) .decl p() p() :- e(X). .deny d(X) :- e(X), X != 5."
    assert shown(database(named).realize({"p": [()]})) == [{"+e(5)"}]


def test_values_that_a_rule_computes_are_made_of_those_that_it_has() -> None:
    program = """
        .decl e(x: number)  .decl f(x: number)  .decl v(x: number)  .decl t(k: number)
        v(Z) :- e(X), f(X), Z = X + 1.  t(9) :- v(Z).
    """
    db = database(program, e=[(1,)])
    first, second = db.realize({"t": [(9,)]})
    assert (first.lines(), first.conditions) == (["+f(1)"], ())
    assert (second.lines(), second.conditions) == (["+e(?1)", "+f(?1)"], ())
    db.apply(second, {"?1": 20})
    assert db.rows("v") == [(21,)]


def test_a_value_that_an_equation_makes_of_a_new_one_is_new_as_well() -> None:
    program = """
        .decl e(x: number)  .decl h(x: number)  .decl v(x: number)  .decl t(k: number)
        v(Z) :- e(X), Z = X + 1.  t(9) :- v(Z), h(Z).
    """
    db = database(program)
    (only,) = db.realize({"t": [(9,)]})
    assert (only.lines(), only.conditions) == (["+e(?1)", "+h(?2)"], ("?1 = ?2 - 1",))
    db.apply(only, {"?1": 7, "?2": 8})
    assert db.rows("t") == [(9,)]


def test_new_texts_pass_the_tests_of_rules_which_are_stated() -> None:
    declared = ".decl f(x: symbol) .decl p() p() :- f(X), "
    for test, stated in (
        ('X < "b"', ('?1 < "b"',)),
        ('match("[a-c]+", X)', ('match("[a-c]+", ?1)',)),
        ('contains("X y", X)', ('contains("X y", ?1)',)),
    ):
        db = database(f"{declared}{test}.")
        (only,) = db.realize({"p": [()]})
        assert (only.lines(), only.conditions) == (["+f(?1)"], stated)
        db.apply(only, {"?1": only.placeholders[0].witness})
        assert db.rows("p") == [()]


def test_a_test_for_which_no_text_was_found_is_not_called_impossible() -> None:
    found = database('.decl f(x: symbol) .decl p() p() :- f(X), match("[0-9]{40}z[0-9]{2}", X).').realize({"p": [()]})
    assert list(found) == []
    assert found.status == "bounds reached"


def test_null_is_taken_where_a_rule_asks_for_it() -> None:
    program = ".decl f(x: number, y: symbol?) .decl p(x: number) p(X) :- f(X, Y), is_null(Y)."
    assert shown(database(program).realize({"p": [(1,)]})) == [{"+f(1, null)"}]


def stated(found: object) -> list[tuple[list[str], tuple[str, ...]]]:
    return [(way.lines(), way.conditions) for way in found]  # type: ignore[attr-defined]


def test_the_bounds_of_new_values_are_those_that_rules_set_for_every_type_with_an_order() -> None:
    for type, bound in (("number", "10"), ("float", "0.5"), ("decimal(6, 2)", 'decimal("1.25")'), ("symbol", '"b"'),
                        ("date", 'date("2024-02-29")')):  # fmt: skip
        for test, condition in ((f"X <= {bound}", f"?1 <= {bound}"), (f"X > {bound}", f"?1 > {bound}")):
            found = database(f".decl e(x: {type}) .decl p() p() :- e(X), {test}.").realize({"p": [()]})
            assert stated(found) == [(["+e(?1)"], (condition,))]
            assert found.status == "all"


LIMITS = """
    .decl limit(who: symbol, most: number)  .decl spent(who: symbol, n: number)  .decl has(who: symbol)
    has(W) :- limit(W, _).  .deny beyond(W) :- limit(W, L), spent(W, N), N > L.
"""


def test_what_a_constraint_compares_a_new_value_with_is_stated() -> None:
    db = database(LIMITS, spent=[("bob", 1), ("ann", 7)])  # type: ignore[list-item]
    found = db.realize({"has": [("bob",)]})
    assert stated(found) == [(['+limit("bob", ?1)'], ("?1 >= 1",))]
    assert found.status == "all"


def test_a_change_that_is_enough_for_some_values_is_minimal_and_says_for_which() -> None:
    program = ".decl p(x: number) .decl q(x: number) .decl t() t() :- p(X). .deny d(X) :- p(X), !q(X), X > 10."
    found = database(program).realize({"t": [()]})
    assert stated(found) == [(["+p(?1)"], ("?1 <= 10",))]
    assert found.reason == "this is the only one"


def test_new_values_that_are_compared_with_each_other_say_so_and_have_no_bounds_of_their_own() -> None:
    program = ".decl e(x: number) .decl f(x: number) .decl t() t() :- e(X), f(Y). .deny d(X) :- e(X), f(Y), X > Y."
    assert stated(database(program).realize({"t": [()]})) == [(["+e(?1)", "+f(?2)"], ("?1 <= ?2",))]


def test_values_that_nothing_compares_have_no_conditions_whatever_others_of_their_type_have() -> None:
    program = ".decl e(id: number, n: number) .decl p() p() :- e(_, N), N > 6, N > 5."
    (only,) = database(program).realize({"p": [()]})
    assert (only.lines(), only.conditions) == (["+e(?1, ?2)"], ("?2 > 6",))


def test_a_value_that_is_left_no_choice_is_named() -> None:
    program = ".decl e(x: number) .decl p() p() :- e(X), X >= 10, X <= 10."
    assert stated(database(program).realize({"p": [()]})) == [(["+e(10)"], ())]


def test_a_value_that_is_left_no_choice_at_all_does_not_exist() -> None:
    program = ".decl e(x: number) .decl p() p() :- e(X), X >= 1, X <= 2, X != 1, X != 2."
    found = database(program).realize({"p": [()]})
    assert (list(found), found.status) == ([], "none exists")


def test_what_was_tried_for_new_values_is_shown_as_such_wherever_it_is() -> None:
    program = """
        .decl a(x: number)  .decl b(x: number)  .decl e(x: number)  .decl v(x: number)  .decl w(x: number)  .decl r()
        v(X) :- b(X), X > 9.  v(X) :- e(X), a(X), X > 4.  w(Z) :- a(X), v(Y), Z = X - 1.  r() :- e(X), w(Y), X < Y + 1.
    """
    bounds = Bounds(new_constants=2, size=3, seconds=60)
    answer = database(program, a=[(5,)], b=[(9,)]).realize({"r": [()]}, bounds=bounds)
    found = list(answer)
    assert (len(found), answer.status) == (12, "all"), "with 5 and 9, which are stored, and new values"
    for way in found:
        text = "".join((*way.lines(), *way.conditions))
        assert "0000" not in text
        assert all(each.name in text for each in way.placeholders)


def test_values_that_follow_from_new_ones_leave_room_for_others() -> None:
    program = """
        .decl a(x: number)  .decl b(x: number)  .decl e(x: number)  .decl v(x: number)  .decl w(x: number)  .decl p()
        v(Z) :- e(X), b(_), Z = X - 1.  w(X) :- a(X), v(_).  p() :- a(X), w(Y), X <= Y + 1, X != Y - 2.
    """
    found = database(program, e=[(4,)]).realize({"p": [()]}, bounds=Bounds(new_constants=2, size=2))
    assert [(sorted(way.insert), way.conditions) for way in found] == [(["a", "b"], ())]


def test_values_that_are_stored_or_named_are_realizations_of_their_own() -> None:
    program = """
        .decl e(k: number, x: number)  .decl v(x: number)  .decl r(k: number)
        v(Z) :- e(1, X), Z = X + 1.  r(K) :- e(K, X), !v(X), X > 2.
    """
    found = list(database(program, e=[(2, 4)]).realize({"r": [(1,)]}))
    assert sorted(stated(found)) == [(["+e(1, 4)"], ()), (["+e(1, ?1)"], ("?1 > 2",))]


def test_new_values_of_types_that_have_a_first_and_a_last_stay_between() -> None:
    for type, value in (("date", 'date("2026-01-31")'), ("timestamp", 'timestamp("2026-01-31T00:00:00Z")')):
        program = f"""
            .decl cap(k: number, l: {type}) key(k)  .decl x(n: symbol, c: {type})  .decl fine(n: symbol)
            fine(N) :- x(N, C), cap(_, L), C <= L.
            .deny one(K) :- cap(K, L), L != {value}.
            cap(1, {value}).
        """
        (only,) = database(program).realize({"fine": [("a",)]})
        assert only.conditions == (f"?1 <= {value}",)


def test_new_values_lie_beside_stored_ones_that_they_are_compared_with() -> None:
    for type, bound in (("unsigned", "10u"), ("number", "10"), ("date", 'date("2026-01-31")'), ("symbol", '"k"')):
        program = f"""
            .decl lim(p: symbol, l: {type}) key(p)  .decl spend(p: symbol, s: {type}) key(p)  .decl fine(p: symbol)
            fine(P) :- spend(P, S), lim(P, L), S <= L.
            lim("a", {bound}).
        """
        found = database(program).realize({"fine": [("a",)]}, frozen=["lim"])
        assert [each.conditions for each in found] == [(f"?1 <= {bound}",)]
        assert found.status == "all"
    between = """
        .decl r(n: symbol, l: number, h: number) key(n)  .decl x(n: symbol, c: number)  .decl fine(n: symbol)
        fine(N) :- x(N, C), r(N, L, H), L < C, C < H.
        r("a", 3, 10).
    """
    (only,) = database(between).realize({"fine": [("a",)]}, frozen=["r"])
    assert only.conditions == ("?1 > 3", "?1 < 10")


def test_sums_of_new_values_are_said_in_whole_numbers() -> None:
    program = ".decl x(n: symbol, c: number, d: number) .decl fine(n: symbol) fine(N) :- x(N, C, D), 7*C + 3*D <= 24."
    found = database(program).realize({"fine": [("a",)]})
    assert [each.conditions for each in found] == [("7 * ?1 + 3 * ?2 <= 24",)]


def test_a_new_value_that_has_no_choice_does_not_make_another_realization() -> None:
    program = """
        .decl shift(w: symbol, s: number, e: number) key(w, s)  .decl works(w: symbol, h: number)  .decl day(h: number)
        .deny bad(W, S) :- shift(W, S, E), E <= S.
        .deny overlap(W) :- shift(W, S, E), shift(W, T, _), S < T, T < E.
        works(W, H) :- shift(W, S, E), day(H), S <= H, H < E.
        day(9). day(12). shift("ann", 8, 10). shift("ann", 13, 15).
    """
    found = list(database(program).realize({"works": [("ann", 12)]}))
    told = [(each.text(), each.conditions) for each in found]
    assert len(told) == len(set(told))
    assert found[0].text().splitlines()[0] == '+shift("ann", ?1, 13)'
    assert found[0].conditions == ("?1 >= 10", "?1 <= 12")


def test_values_that_do_not_fit_their_type_do_not_keep_others_from_being_tried() -> None:
    program = """
        .decl item(sku: symbol, price: decimal(8,2))  .decl cut(sku: symbol, off: decimal(8,2))
        .decl net(sku: symbol, price: decimal(8,2))
        net(S, P - O) :- item(S, P), cut(S, O).  net(S, P) :- item(S, P), !cut(S, _).
        .deny below(S, P) :- net(S, P), P < decimal("1").
    """
    found = database(program).realize({"net": [("lamp", Decimal(12))]})
    alone, reduced = found
    assert alone.insert == {"item": (("lamp", Decimal(12)),)}
    assert ({*reduced.insert}, reduced.conditions) == ({"item", "cut"}, ("?1 = ?2 - 12",))
    assert found.status == "all"


def test_rows_that_go_beside_a_new_value_are_told_without_looking_through_them(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
        .decl a(x: number)  .decl k(y: number)  .decl v(x: number, y: number)  v(X, Y) :- a(X), k(Y).
        .decl s(x: number, y: symbol)  .decl t(x: number)  t(X) :- s(X, _).
        .decl log(y: symbol)  .rule r(X, Y) on delete v(X, Y) do insert log("gone").
    """
    db = database(program, a=[(1,)], k=[(each,) for each in range(100)])
    way = next(db.realize({"t": [(1,)]}, delete={"v": [(1, 5)]}, frozen=["k"]))
    assert len(way.placeholders) == 1
    looked: list[object] = []
    monkeypatch.setattr(Rows, "__contains__", lambda rows, row: bool(looked.append(row)))  # type: ignore[func-returns-value]
    assert way.text().count("-v(1, ") == 100
    assert len(way.as_dict()["changes"]["v"]["delete"]) == 100
    assert looked == []


def test_a_computed_new_value_is_told_from_the_stored_rows_of_a_negated_literal() -> None:
    with upshot.connect() as db:
        db.define("""
            .decl a(x: number)
            .decl b(x: number)
            .decl w(x: number)
            .decl p()
            w(Z) :- b(X), Z = X + 1.
            p() :- w(X), !a(X).
        """)
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,)])
        (only,) = db.realize(insert={"p": [()]})
        assert only.lines() == ["+b(?1)"]
        assert only.conditions == ("?1 != 0", "?1 != 1")


def test_columns_that_nothing_compares_share_the_allowed_new_values() -> None:
    with upshot.connect() as db:
        db.define("""
            .decl e(x: number, y: number)
            .decl p()
            p() :- e(X, Y).
        """)
        (only,) = db.realize(insert={"p": [()]}, bounds=upshot.Bounds(new_constants=1))
        assert only.lines() == ["+e(?1, ?2)"]


def test_the_value_that_a_new_one_was_proven_with_is_not_taken_for_a_constant() -> None:
    program = """
        .decl a(x: number)  .decl b(x: number)  .decl p(x: number)
        p(X) :- a(Y), a(Z), b(X), Y != Z.
        p(X) :- p(Z), b(2), a(X).
    """
    found = database(program, b=[(1,)]).realize({"p": [(1,)]}, bounds=Bounds(new_constants=1, seconds=300))
    assert ways(found) == {frozenset(each) for each in (
        ("+a(1)", "+a(?1)"), ("+a(2)", "+a(?1)"), ("+a(1)", "+a(2)")
    )}  # fmt: skip
    assert found.reason == "3 found within 1 fresh value"


def test_a_new_value_is_not_proven_with_one_of_the_constants_that_are_tried_beside_it() -> None:
    program = """
        .decl b(x: number)  .decl e(x: number, y: number)  .decl p(x: number)
        p(X) :- e(1, Y), e(Y, Z), b(X), Y != Z.
    """
    found = database(program, b=[(1,)]).realize({"p": [(1,)]}, bounds=Bounds(new_constants=1, constants=(1, 2)))
    assert {("+e(1, 2)", "+e(2, 1)"), ("+e(1, 1)", "+e(1, 2)")} <= {tuple(sorted(way.lines())) for way in found}
    assert not {1, 2} & {each.witness for way in found for each in way.placeholders}


def test_a_constant_that_is_tried_stands_beside_new_values_in_every_column() -> None:
    program = ".decl a(x: number)  .decl b(x: number)  .decl s()  s() :- a(X), b(Y)."
    found = database(program).realize({"s": [()]}, bounds=Bounds(new_constants=1, constants=(1,)))
    assert ways(found) == {
        frozenset({f"+a({one})", f"+b({other})"}) for one, other in (("?1", "?2"), ("?1", 1), (1, "?1"), (1, 1))
    }
