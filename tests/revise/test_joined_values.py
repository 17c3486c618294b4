"""Values of columns that rules join with that of a new value: where they are few they are tried, else it is said."""

from __future__ import annotations

from tests.revise.test_goldens import database, shown

ACCESS = """
    .decl role(u: symbol, r: symbol)  .decl inherits(a: symbol, b: symbol)
    .decl has(u: symbol, r: symbol)  .decl idle(u: symbol)
    has(U, R) :- role(U, R).  has(U, R) :- has(U, S), inherits(S, R).
    idle(U) :- role(U, _), !has(U, "adm").
"""


def test_a_value_that_only_a_joined_column_has_is_taken_and_what_it_meets_is_undone() -> None:
    program = """
        .decl p(u: symbol, r: symbol)  .decl q(r: symbol)  .decl v(u: symbol)
        v(U) :- p(U, _).  .deny no(U) :- p(U, R), q(R), U = "w".
    """
    found = database(program, p=[("x", "a")], q=[("b",)]).realize({"v": [("w",)]})
    listed = shown(found)
    assert sorted(map(sorted, listed[:2])) == [['+p("w", "a")'], ['+p("w", ?1)']]
    assert listed[2:] == [{'-q("b")', '+p("w", "b")'}]
    assert (found.status, found.reason) == ("all", "these are all 3")


def test_few_values_of_joined_columns_come_in_order_of_their_cost() -> None:
    found = database(ACCESS, role=[("ann", "dev")], inherits=[("dev", "adm"), ("ops", "aud")]).realize(
        {"idle": [("w",)]}
    )
    listed = shown(found)
    assert {frozenset(each) for each in listed[:3]} == {
        frozenset({f'+role("w", {each})'}) for each in ("?1", '"aud"', '"ops"')
    }
    assert listed[3:] == [{'-inherits("dev", "adm")', '+role("w", "dev")'}]
    assert found.status == "all"


def test_many_values_of_joined_columns_are_all_tried() -> None:
    many = [(f"a{each}", f"b{each}") for each in range(60)]
    found = database(ACCESS, role=[("ann", "dev")], inherits=many).realize({"idle": [("w",)]})
    values = ["?1", '"dev"', *(f'"{name}{each}"' for name in "ab" for each in range(60))]
    assert sorted(map(sorted, shown(found))) == sorted([f'+role("w", {value})'] for value in values)
    assert found.status == "all"


def test_a_stored_value_that_is_the_only_one_between_bounds_is_tried_where_rules_make_others() -> None:
    program = """
        .decl a(x: number)  .decl e(k: number, x: number)
        .decl v(x: number)  .decl w(x: number)  .decl p()
        v(X) :- e(1, X), e(1, Y), X < Y + 1.
        w(X) :- a(X), X >= 6, X < 7.  w(Z) :- v(X), X <= 6, X > 7, Z = X + 1.
        p() :- w(X), e(1, Y), X != Y.
    """
    found = database(program, e=[(1, 6)]).realize({"p": [()]})
    assert shown(found) == [{"+a(6)", "+e(1, ?1)"}]
    assert found.status == "all"
