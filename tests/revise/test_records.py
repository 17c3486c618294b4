"""View updates through records and branches, which are made from their fields and taken apart into them."""

from __future__ import annotations

from typing import Any

import pytest

import upshot

TYPES = """
.type P = [v: number]
.type Pair = [v: number, w: number]
.type Nested = [p: Pair, s: symbol]
.type S = C {r: number} | E {}
.decl b(v: number) .decl b2(v: number, w: number)
.decl p(x: P) .decl pair(x: Pair) .decl nested(x: Nested) .decl s(x: S)
"""
TAKEN_APART = [
    (".decl q(v: number) q(V) :- p([V]).", (7,), {"p": (("[7]",),)}),
    (".decl q(v: number) q(V) :- s($C(V)).", (7,), {"s": (("$C(7)",),)}),
    (".decl q(v: number) q(1) :- s($E).", (1,), {"s": (("$E",),)}),
    (".decl q(v: number) q(V) :- pair([V, V]).", (7,), {"pair": (("[7, 7]",),)}),
    (".decl q(v: number) q(V) :- pair([V, 5]).", (7,), {"pair": (("[7, 5]",),)}),
    ('.decl q(v: number, w: number) q(V, W) :- nested([[V, W], "a"]).', (4, 5), {"nested": (('[[4, 5], "a"]',),)}),
    (".decl m(x: Pair) m([V, W]) :- b(V), b(W). .decl q(v: number) q(V) :- m([V, _]).", (7,), {"b": ((7,),)}),
]
MADE = [
    (".decl q(v: P) q([V]) :- b(V).", ((4,),), {"b": ((4,),)}),
    (".decl q(v: P) q([V]) :- b(V).", ("nil",), None),
    (".decl q(v: P) q([V + 1]) :- b(V).", ([4],), {"b": ((3,),)}),
    (".decl q(v: Pair) q([V, W]) :- b2(V, W).", ((4, 5),), {"b2": ((4, 5),)}),
    (".decl q(v: Pair) q([V, V]) :- b(V).", ((4, 4),), {"b": ((4,),)}),
    (".decl q(v: Pair) q([V, V]) :- b(V).", ((4, 5),), None),
    ('.decl q(v: Nested) q([[V, W], "a"]) :- b2(V, W).', (((4, 5), "a"),), {"b2": ((4, 5),)}),
    (".decl q(v: S) q($C(V)) :- b(V).", ({"C": [1]},), {"b": ((1,),)}),
    (".decl q(v: S) q($C(V)) :- b(V).", ({"E": []},), None),
]


@pytest.mark.parametrize(("rule", "row", "expected"), TAKEN_APART + MADE)
def test_a_row_is_realized_through_a_record(rule: str, row: tuple[Any, ...], expected: Any) -> None:
    with upshot.connect() as db:
        db.define(TYPES + rule)
        found = list(db.realize(insert={"q": [row]}))
        assert [(each.insert, each.delete) for each in found] == ([] if expected is None else [(expected, {})])
        for each in found:
            db.apply(each)
            assert len(db.rows("q")) == 1


def test_a_field_that_the_request_leaves_open_is_a_condition() -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl q(v: number) q(V) :- pair([V, _]).")
        (found,) = db.realize(insert={"q": [(7,)]})
        assert found.conditions == ("?1 = [7, ?2]",)
        with pytest.raises(upshot.DataError) as caught:
            db.apply(found, {"?1": "[8, 1]"})
        assert caught.value.code == "not-a-realization"
        db.apply(found, {"?1": (7, 1)})
        assert list(db.rows("pair")) == [("[7, 1]",)]


def test_an_open_field_may_be_a_record() -> None:
    with upshot.connect() as db:
        db.define(".type L = [h: number, t: L] .decl l(x: L) .decl q(h: number) q(H) :- l([H, _]).")
        found = next(db.realize(insert={"q": [(7,)]}))
        assert found.conditions == ("?1 = [7, ?2]",)
        assert found.placeholders[0].witness == "[7, nil]"


def test_a_field_that_is_compared_keeps_its_condition() -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl q(v: number) q(V) :- pair([V, W]), W > 3.")
        (found,) = db.realize(insert={"q": [(7,)]})
        assert set(found.conditions) == {"?1 = [7, ?2]", "?2 > 3"}
        assert found.placeholders[0].witness == "[7, 4]"


def test_a_row_is_deleted_through_a_record() -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl q(v: number) q(V) :- pair([V, W]), b(W).")
        with db.transaction() as tx:
            tx.insert("pair", [((7, 1),), ((7, 2),)])
            tx.insert("b", [(1,)])
        found = sorted((each.delete for each in db.realize(delete={"q": [(7,)]})), key=repr)
        assert found == [{"b": ((1,),)}, {"pair": (("[7, 1]",),)}]
