"""What a search says of its end before it begins, from the rules alone."""

from __future__ import annotations

import time

import pytest

from tests.revise.goldens import ENDLESS
from tests.revise.test_goldens import database

PATH = """
    .decl e(x: number, y: number)  .decl p(x: number, y: number)
    p(X, Y) :- e(X, Y).  p(X, Z) :- p(X, Y), e(Y, Z).
"""
LED = """
    .decl person(x: number)  .decl leads(x: number, y: number)  .decl led(x: number)
    led(X) :- leads(Y, X), person(Y).
    .deny leaderless(X) :- person(X), !led(X).
"""
ORDERS = """
    .decl order(o: number)  .decl line(o: number, part: number)
    .deny orphan(O) :- line(O, _), !order(O).
"""
EMPTY = " .deny empty(O) :- order(O), !line(O, _)."
FEW = " .deny few(O) :- order(O), N = count : { line(O, _) }, N < 2."


def unbounded(program: str, insert: str = "", delete: str = "", frozen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The views named for a request of one row of a relation."""
    db = database(program)
    asked = {name: [(1, 2)[: db.schemas[name].arity]] for name in (insert, delete) if name}
    wanted = {name: rows for name, rows in asked.items() if name == insert}
    return db.realize(wanted, {n: rows for n, rows in asked.items() if n == delete}, frozen=frozen).unbounded


def test_recursion_can_need_any_number_of_new_values() -> None:
    assert unbounded(PATH, "p") == ("p",)
    assert unbounded(PATH, delete="p") == ()


def test_recursion_under_a_negation_can_need_any_number_of_new_values() -> None:
    program = PATH + ".decl a(x: number)  .decl v(x: number)  v(X) :- a(X), !p(X, 9).  a(1)."
    assert unbounded(program, delete="v") == ("p",)
    assert unbounded(program, "v") == ()


def test_negations_that_lead_back_can_need_any_number_of_new_values() -> None:
    assert unbounded(ENDLESS, "h") == ("j",)


def test_repairs_that_follow_each_other_can_need_any_number_of_new_values() -> None:
    assert unbounded(LED, "person") == ("led",)
    assert unbounded(LED, delete="leaderless") == ("led",)
    counted = ".decl person(x: number)  .decl leads(x: number, y: number)  .deny unknown(Y) :- leads(Y, _), !person(Y)."
    few = ".deny few(X) :- person(X), N = count : { leads(_, X) }, N < 2."
    assert unbounded(counted + few, "person") == ("few",)


def test_values_that_rules_compute_for_repairs_of_repairs_are_new() -> None:
    rules = ".decl a(x: number)  .decl s(x: number)  s(Y) :- a(X), Y = X + 1.  .deny gap(Y) :- s(Y), !a(Y)."
    assert unbounded(rules, "a") == ("gap",)


@pytest.mark.parametrize("program", [ORDERS + EMPTY, ORDERS + FEW], ids=["a line", "two lines"])
def test_repairs_that_lead_back_without_new_values_are_bounded(program: str) -> None:
    assert unbounded(program, "order") == ()


def test_constraints_that_only_deletions_repair_are_bounded() -> None:
    assert unbounded(PATH + ".deny cyclic(X) :- p(X, X).", "e") == ()


def test_recursion_that_keeps_its_value_is_bounded() -> None:
    rules = ".decl a(x: number, y: number)  .decl b(x: number)  .decl v(x: number)  .decl w(x: number, y: number)"
    assert unbounded(rules + " v(X) :- b(X).  v(X) :- w(X, Y).  w(X, Y) :- v(X), a(X, Y).", "v") == ()


def test_frozen_relations_bring_no_new_values() -> None:
    assert unbounded(PATH, "p", frozen=("e",)) == ()
    assert unbounded(LED, "person", frozen=("+leads",)) == ()


def test_it_is_told_of_hundreds_of_views_in_a_moment() -> None:
    columns = "(x: number, y: number, z: number)"
    text = f".decl b0{columns}  .decl w0{columns}  w0(X, Y, Z) :- b0(X, Y, Z).\n"
    for i in range(1, 400):
        text += f".decl b{i}{columns}  .decl w{i}{columns}  w{i}(X, Y, Z) :- b{i}(X, Y, Z).\n"
        text += f"w{i}(X, Y, Z) :- w{i - 1}(X, Y, U), b{i}(U, Z, _), !b{i - 1}(X, U, Z).\n"
    db = database(f"{text}.deny c(X) :- w399(X, Y, Z), X > 5, !b0(X, _, _).")
    begun = time.process_time()
    assert db.realize({"w399": [(1, 2, 3)]}).unbounded == ()
    assert time.process_time() - begun < 4
