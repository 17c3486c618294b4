"""Views in evaluation order, and the circles that have none."""

from __future__ import annotations

import random

import pytest

from tests.check.programs import checked, slugs
from tests.properties.settings import base_seed
from upshot.check import Clause, stratify
from upshot.check.strata import Need, order
from upshot.core.errors import ProgramError
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER
from upshot.syntax.ast import Atom, Not, Variable


def test_components_come_after_what_they_use_and_else_in_order_of_declaration() -> None:
    text = """
.decl top(x: number)
.decl even(x: number)
.decl odd(x: number)
.decl e(x: number)
.decl alone(x: number)
.decl all(x: number)
top(X) :- all(X), !odd(X).
even(X) :- e(X), !alone(X).
even(X) :- odd(Y), X = Y + 1, X < 9.
odd(X) :- even(Y), X = Y + 1, X < 9.
alone(X) :- e(X).
all(N) :- N = count : { even(_) }.
.deny never(X) :- top(X).
"""
    assert checked(text).strata == (("alone",), ("even", "odd"), ("all",), ("top",), ("never",))


def test_base_relations_are_in_no_stratum() -> None:
    assert checked(".decl e(x: number)\ne(1).").strata == ()


def test_a_circle_through_two_negations_is_refused() -> None:
    text = ".decl e(x: number)\n.decl p(x: number)\n.decl q(x: number)\np(X) :- e(X), !q(X).\nq(X) :- e(X), !p(X)."
    assert slugs(text) == ["unstratified"]


def test_double_negation_is_no_negation() -> None:
    assert slugs(".decl e(x: number)\n.decl p(x: number)\np(X) :- e(X), !(!p(X)).") == []


def test_a_circle_is_shown_although_its_rules_have_other_mistakes() -> None:
    text = ".decl p(x: number)\np(X) :- unknown(X), !p(X)."
    assert slugs(text) == ["unknown-relation", "unstratified"]


def test_the_shown_circle_is_as_short_as_possible() -> None:
    text = """
.decl e(x: number)
.decl a(x: number)
.decl b(x: number)
.decl c(x: number)
a(X) :- e(X), !b(X).
b(X) :- c(X).
c(X) :- a(X).
b(X) :- e(X), !c(X), a(X).
c(X) :- e(X), b(X).
"""
    with pytest.raises(ProgramError) as caught:
        checked(text)
    (circle,) = caught.value.diagnostics
    assert [words for _, words in circle.notes] == ["`a` needs `!b` here", "`b` needs `a` here"]
    assert [span.text for span, _ in circle.notes if span] == ["!b(X)", "a(X)"]


def test_stratify_serves_generated_clauses_without_places() -> None:
    x = (Variable("X"),)
    schemas = {n: Schema(n, (Column("x", NUMBER),), Role.VIEW) for n in ("p", "q")}
    good = [Clause(Atom("p", x), (Atom("q", x),), {"X": NUMBER}), Clause(Atom("q", x), (Atom("e", x),), {"X": NUMBER})]
    assert stratify(schemas, good) == (("q",), ("p",))
    bad = [*good, Clause(Atom("q", x), (Atom("e", x), Not(Atom("p", x))), {"X": NUMBER})]
    with pytest.raises(ProgramError, match="depends on itself through negation"):
        stratify(schemas, bad)


def test_the_order_is_right_on_random_graphs() -> None:
    draw = random.Random(base_seed())
    for _ in range(200):
        views = [f"v{i}" for i in range(draw.randint(1, 12))]
        found = [Need(draw.choice(views), draw.choice(views), "", None) for _ in range(draw.randint(0, 20))]
        reaches = {v: {v} for v in views}
        for _ in views:
            for need in found:
                reaches[need.head] |= reaches[need.relation]
        components = order(views, found)
        assert sorted(v for c in components for v in c) == sorted(views)
        place = {v: i for i, c in enumerate(components) for v in c}
        for a in views:
            for b in views:
                assert (place[a] == place[b]) == (b in reaches[a] and a in reaches[b])
        assert all(place[need.relation] <= place[need.head] for need in found)


def test_a_chain_of_many_thousand_views_is_ordered_without_recursion() -> None:
    count = 20_000
    views = [f"v{i}" for i in range(count)]
    chain = [Need(f"v{i}", f"v{i + 1}", "", None) for i in range(count - 1)]
    assert order(views, chain)[0] == (f"v{count - 1}",)
    circle = [*chain, Need(f"v{count - 1}", "v0", "", None)]
    assert order(views, circle) == (tuple(views),)
