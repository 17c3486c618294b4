"""Requests for groups: what an aggregate needs is known before any row comes to its group."""

from __future__ import annotations

import pytest

import upshot
from tests.revise.test_goldens import database, shown
from upshot import Bounds

EMP = ".decl emp(id: number, d: symbol, p: number) .decl boss(id: number) "
TABLE = "CREATE TABLE emp(id INTEGER NOT NULL, dept VARCHAR{}, pay INTEGER NOT NULL);\n"
ENDLESS = "a {} can use other values"


def by_department(function: str, *, guard: str = "emp(_, D, _)", test: str = "") -> str:
    head, type = ("s(D)", "") if test else ("s(D, S)", f", s: {'float' if function == 'mean' else 'number'}")
    return f"{EMP}.decl s(d: symbol{type}) {head} :- {guard}, S = {function} P : {{ emp(_, D, P) }}{test}."


def asked(answer: upshot.Realizations) -> tuple[list[set[str]], str]:
    return shown(answer), answer.status


@pytest.mark.parametrize("function", ["min", "max"])
def test_an_extreme_of_an_empty_group_comes_with_one_row(function: str) -> None:
    answer = database(by_department(function)).realize({"s": [("x", 12)]})
    assert asked(answer) == ([{'+emp(?1, "x", 12)'}], "all")


@pytest.mark.parametrize("function", ["min", "max"])
def test_values_of_other_groups_bring_no_useless_rows(function: str) -> None:
    answer = database(by_department(function), emp=[(1, "y", 3)]).realize({"s": [("x", 12)]})
    assert sorted(map(sorted, shown(answer))) == [['+emp(1, "x", 12)'], ['+emp(?1, "x", 12)']]
    assert answer.status == "all"


@pytest.mark.parametrize("function", ["sum", "mean"])
def test_a_total_of_an_empty_group_comes_with_one_row_or_with_endlessly_many_others(function: str) -> None:
    answer = database(by_department(function)).realize({"s": [("x", 12)]})
    assert shown(answer) == [{'+emp(?1, "x", 12)'}]
    assert answer.status == "bounds reached"
    assert ENDLESS.format(function) in answer.reason


@pytest.mark.parametrize("function", ["sum", "mean"])
@pytest.mark.parametrize("guard", ["emp(_, D, _)", "emp(I, D, _), boss(I)"])
def test_totals_beyond_a_bound_are_never_said_to_be_all(function: str, guard: str) -> None:
    program = by_department(function, guard=guard, test=f", S > {'5.0' if function == 'mean' else '5'}")
    answer = database(program, boss=[(7,)]).realize({"s": [("x",)]}, frozen=["boss"], bounds=Bounds(new_constants=2))
    assert shown(answer)
    assert answer.status == "bounds reached"
    assert ENDLESS.format(function) in answer.reason


def test_a_total_of_rows_that_were_asked_for_by_name_is_no_choice() -> None:
    program = ".decl emp(d: symbol, p: number) .decl s(d: symbol) s(D) :- S = sum P : { emp(D, P) }, emp(D, _), S > 5."
    answer = database(program).realize({"s": [("x",)], "emp": [("x", 7)]})
    assert asked(answer) == ([{'+emp("x", 7)'}], "all")


def test_an_extreme_may_be_the_row_that_another_literal_asks_for() -> None:
    program = by_department("max", guard="emp(I, D, _), boss(I)", test=", S > 5")
    answer = database(program, boss=[(7,)]).realize({"s": [("x",)]}, frozen=["boss"])
    assert shown(answer)[0] == {'+emp(7, "x", ?1)'}


@pytest.mark.parametrize(("function", "side"), [("min", ">"), ("max", "<")])
def test_other_rows_of_a_group_lie_on_one_side_of_its_extreme(function: str, side: str) -> None:
    program = by_department(function, guard="emp(I, D, _), boss(I)")
    answer = database(program, boss=[(7,)]).realize({"s": [("x", 12)]}, frozen=["boss"])
    ways = list(answer)
    assert set(ways[0].lines()) == {'+emp(7, "x", 12)'}
    assert {way.conditions for way in ways[1:]} == {(f"?2 {side} 12",)}
    assert {'+emp(7, "x", ?2)', '+emp(?1, "x", 12)'} in [set(way.lines()) for way in ways]


@pytest.mark.parametrize(("function", "status"), [("max", "all"), ("sum", "bounds reached"), ("avg", "bounds reached")])
def test_groups_of_sql_are_asked_for_by_their_aggregates(function: str, status: str) -> None:
    db = database(TABLE.format(" NOT NULL"), emp=[(1, "y", 3)])
    db.define("CREATE VIEW s AS SELECT dept, max(pay) AS c FROM emp GROUP BY dept;".replace("max", function))
    answer = db.realize({"s": [("x", 12.0 if function == "avg" else 12)]})
    found = [{*way} for way in shown(answer)]
    assert sorted(map(sorted, found)) == [['+emp(1, "x", 12)'], ['+emp(?1, "x", 12)']]
    assert answer.status == status


def test_a_group_of_null_is_one_in_sql() -> None:
    db = database(TABLE.format(""))
    db.define("CREATE VIEW n AS SELECT dept, count(*) AS c FROM emp GROUP BY dept;")
    answer = db.realize({"n": [(None, 1)]})
    assert {"+emp(?1, null, ?2)"} in shown(answer)
    assert answer.status == "all"
    with db.transaction() as tx:
        tx.insert("emp", [(1, None, 3)])
    assert {"-emp(1, null, 3)"} in shown(db.realize(delete={"n": [(None, 1)]}))


def test_a_condition_on_the_total_of_sql_is_met_by_one_row() -> None:
    db = database(TABLE.format(""))
    db.define("CREATE VIEW s AS SELECT dept, sum(pay) AS c FROM emp GROUP BY dept HAVING sum(pay) > 10;")
    answer = db.realize({"s": [("x", 12)]})
    assert shown(answer)[0] == {'+emp(?1, "x", 12)'}
    assert ENDLESS.format("sum") in answer.reason


# ---- other literals of the rule, and bounds on one row ----------------------------------------------------------


@pytest.mark.parametrize(("function", "value"), [("sum", 12), ("mean", 12.0)])
def test_a_row_that_another_literal_asks_for_makes_up_the_total(function: str, value: float) -> None:
    program = by_department(function, guard="emp(I, D, _), boss(I)")
    answer = database(program, boss=[(7,)]).realize({"s": [("x", value)]}, frozen=["boss"])
    assert shown(answer)[0] == {'+emp(7, "x", 12)'}


@pytest.mark.parametrize(("function", "value", "amount"), [("sum", 12, 7), ("mean", 12.0, 19)])
def test_a_row_that_another_literal_asks_for_makes_up_what_is_lacking(function: str, value: float, amount: int) -> None:
    program = by_department(function, guard="emp(I, D, _), boss(I)")
    answer = database(program, boss=[(7,)], emp=[(1, "x", 5)]).realize({"s": [("x", value)]}, frozen=["boss"])
    assert shown(answer)[0] == {f'+emp(7, "x", {amount})'}


def test_a_row_beyond_a_bound_makes_up_a_sum_by_itself_or_with_the_rest() -> None:
    program = by_department("sum", guard="emp(_, D, Q), Q > 5")
    assert shown(database(program).realize({"s": [("x", 12)]}))[0] == {'+emp(?1, "x", 12)'}
    below = next(database(program).realize({"s": [("x", 3)]}))
    assert len(below.insert["emp"]) == 2
    assert any("+ ?" in condition and "= 3" in condition for condition in below.conditions)


def test_a_row_that_is_compared_with_the_sum_leaves_a_rest() -> None:
    program = f"{EMP}.decl s(d: symbol, s: number) s(D, S) :- emp(_, D, Q), S = sum P : {{ emp(_, D, P) }}, Q < S."
    answer = database(program).realize({"s": [("x", 12)]})
    assert [(way.lines(), way.conditions) for way in answer] == [
        (['+emp(?1, "x", ?2)', '+emp(?1, "x", ?3)'], ("?3 > 0", "?2 + ?3 = 12", "?2 != ?3")),
        (['+emp(?1, "x", ?2)', '+emp(?3, "x", ?4)'], ("?4 > 0", "?2 + ?4 = 12", "?1 != ?3", "?2 != ?4")),
    ]


def test_a_group_that_is_compared_with_something_else_does_not_exist() -> None:
    program = f"{EMP}.decl s(d: symbol, s: number) "
    program += 's(D, S) :- emp(_, D, _), S = sum P : { emp(_, D, P) }, D != "x".'
    answer = database(program).realize({"s": [("x", 3)]})
    assert asked(answer) == ([], "none exists")


BOUNDED = {
    "by a constraint": " .deny big(I) :- emp(I, _, P), P > 100.",
    "by a rule": "",
}


@pytest.mark.parametrize("way", BOUNDED)
def test_a_sum_beyond_what_one_row_may_add_is_made_up_by_several(way: str) -> None:
    small = f"{EMP}.decl small(i: number, d: symbol, p: number) small(I, D, P) :- emp(I, D, P), P <= 100. "
    folded = "small" if way == "by a rule" else "emp"
    program = f"{small}.decl s(d: symbol, s: number) s(D, S) :- {folded}(_, D, _), S = sum P : {{ {folded}(_, D, P) }}."
    bounds = Bounds(new_constants=3, seconds=300)
    answer = database(program + BOUNDED[way]).realize({"s": [("x", 250)]}, bounds=bounds)
    listed = list(answer)
    assert listed
    for each in listed:
        amounts = [row[2] for row in each.filled(each.tried)[0]["emp"]]
        assert (len(amounts), sum(amounts)) == (3, 250)
        assert {f"{row[2]} <= 100" for row in each.insert["emp"]} <= {*each.conditions}
        assert any(condition.endswith(" = 250") for condition in each.conditions)
    assert ENDLESS.format("sum") in answer.reason


def test_a_mean_beyond_what_one_row_may_add_takes_several() -> None:
    program = by_department("mean") + " .deny big(I) :- emp(I, _, P), P > 100."
    answer = database(program, emp=[(1, "x", 0), (2, "x", 0)]).realize(
        {"s": [("x", 50.0)]}, frozen=["-emp"], bounds=Bounds(new_constants=2, size=2)
    )
    assert {'+emp(1, "x", 100)', '+emp(2, "x", 100)'} in shown(answer)


@pytest.mark.parametrize(("rows", "amount"), [([], 5), ([(1, None)], 5), ([(1, None), (1, 3)], 2)])
def test_a_total_of_sql_over_null_is_made_up_by_one_row(rows: list[tuple[int, int | None]], amount: int) -> None:
    db = database("CREATE TABLE e(x INTEGER NOT NULL, y INTEGER);", e=rows)
    db.define("CREATE VIEW s AS SELECT x, sum(y) AS t FROM e GROUP BY x;")
    answer = db.realize({"s": [(1, 5)]})
    assert shown(answer) == [{f"+e(1, {amount})"}]
    assert ENDLESS.format("sum") in answer.reason
