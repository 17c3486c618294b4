"""The worked examples of view updating: exactly these realizations."""

from __future__ import annotations

import pytest

import upshot
from tests.revise.goldens import COMPENSATED, ENDLESS, GOLDENS, Golden, name
from upshot import Bounds


def database(text: str, **facts: list[tuple[int, ...]]) -> upshot.Database:
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    return db


def shown(found: upshot.Realizations) -> list[set[str]]:
    """The changes of each, as they are printed."""
    return [{line for line in each.text().splitlines() if not line.startswith("//")} for each in found]


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_the_worked_examples_have_exactly_their_realizations(golden: Golden) -> None:
    found = database(golden.text).realize(
        golden.asked("+"), golden.asked("-"), frozen=golden.frozen, bounds=Bounds(new_constants=golden.new_values)
    )
    assert golden.agrees(shown(found))
    assert (found.status, found.reason) == (golden.status, golden.reason)


def test_a_side_effect_in_the_way_is_compensated_with_a_new_value() -> None:
    (only,) = database(COMPENSATED, p=[(1,)]).realize({"h": [(1,)]})
    assert "// ?1: a fresh number" in only.text().splitlines()
    assert [each.name for each in only.placeholders] == ["?1"]


def test_what_the_realizations_have_in_common_is_the_model_state_of_the_disjunctive_program() -> None:
    (golden,) = (each for each in GOLDENS if each.number == 3)
    found = database(golden.text).realize({"some": [()]}, frozen=golden.frozen)
    assert len(list(found)) == 7
    expected = set()
    for replaced in range(8):
        parts = {'+r("1")'}
        for place, x in enumerate("abc"):
            parts |= {f'+s("{x}")', f'+t("{x}")'} if replaced >> place & 1 else {f'+r("{x}")'}
        expected.add(tuple(sorted(parts)))
    assert set(found.disjunctions()) == expected
    assert sorted(map(len, expected)) == [4, 5, 5, 5, 6, 6, 6, 7]


def test_a_single_removal_is_not_enough_to_tell_a_minimal_realization() -> None:
    program = ".decl a() .decl b() .decl c() .decl p() p() :- a(), !b(), !c(). p() :- a(), b(), c()."
    assert shown(database(program).realize({"p": [()]})) == [{"+a()"}]
    both = database(program, b=[()], c=[()]).realize({"p": [()]})
    assert shown(both) == [{"+a()"}]


@pytest.mark.parametrize("new", [0, 1])
def test_the_endless_request_ends_whatever_the_bound_on_new_values(new: int) -> None:
    found = database(ENDLESS).realize({"h": [()]}, bounds=Bounds(new_constants=new, seconds=5))
    assert list(found) == []
    assert found.status == "bounds reached"
