"""Equivalence relations and choices: all pairs of a class, one row of a group, with exact changes."""

from __future__ import annotations

import random

import pytest

import upshot
from tests.properties.settings import case_count, seed_of

EQREL = """
.decl link(x: symbol, y: symbol)
.decl same(x: symbol, y: symbol) eqrel
same(X, Y) :- link(X, Y).
"""
RECURSIVE = (
    EQREL
    + """
.decl feature(x: symbol, f: symbol)
same(X, Y) :- same(A, B), feature(A, X), feature(B, Y).
"""
)
CHOICE = """
.decl bid(item: number, price: number, who: symbol)
.decl won(item: number, price: number, who: symbol) choice-domain item
won(I, P, W) :- bid(I, P, W).
.decl first(item: number, price: number) choice-domain (item)
first(I, P) :- bid(I, P, _).
"""


def _classes(links: set[tuple[str, str]]) -> set[tuple[str, str]]:
    pairs = {(a, b) for x, y in links for a in (x, y) for b in (x, y)}
    while True:
        more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
        if not more:
            return pairs
        pairs |= more


@pytest.mark.parametrize("text", [EQREL, RECURSIVE])
def test_an_equivalence_relation_holds_all_pairs_of_its_classes(text: str) -> None:
    for number in range(case_count(50)):
        chance = random.Random(seed_of("eqrel", number))
        db = upshot.connect()
        db.define(text)
        links: set[tuple[str, str]] = set()
        before: set[tuple[str, str]] = set()
        for _ in range(8):
            come = {(chance.choice("abcdef"), chance.choice("abcdef")) for _ in range(2)} - links
            go = {each for each in links if chance.random() < 0.3}
            with db.transaction() as tx:
                tx.insert("link", sorted(come))
                tx.delete("link", sorted(go))
            links = (links - go) | come
            after = _classes(links)
            assert set(db.rows("same")) == after
            assert set(tx.changes["same"].inserted) == after - before
            assert set(tx.changes["same"].deleted) == before - after
            before = after
        db.verify()


def test_classes_join_through_rules_that_read_the_relation() -> None:
    db = upshot.connect()
    db.define(RECURSIVE)
    with db.transaction() as tx:
        tx.insert("link", [("a", "b")])
        tx.insert("feature", [("a", "p"), ("b", "q")])
    assert ("p", "q") in set(db.rows("same"))
    with db.transaction() as tx:
        tx.delete("link", [("a", "b")])
    assert not list(db.rows("same"))


def test_facts_and_loaded_rows_are_pairs_too() -> None:
    db = upshot.connect()
    db.define('.decl same(x: symbol, y: symbol) eqrel  same("a", "b").')
    assert len(db.rows("same")) == 4
    db.define('.decl link(x: symbol, y: symbol)  .input same  same(X, Y) :- link(X, Y).  same("a", "b").')
    with db.transaction() as tx:
        tx.insert("same", [("b", "c")])
    assert len(db.rows("same")) == 9


def test_a_choice_keeps_the_smallest_row_of_each_group() -> None:
    db = upshot.connect()
    db.define(CHOICE)
    with db.transaction() as tx:
        tx.insert("bid", [(1, 5, "b"), (1, 5, "a"), (1, 7, "c"), (2, 3, "d")])
    assert set(db.rows("won")) == {(1, 5, "a"), (2, 3, "d")}
    assert set(db.rows("first")) == {(1, 5), (2, 3)}
    with db.transaction() as tx:
        tx.delete("bid", [(1, 5, "a"), (2, 3, "d")])
    assert set(tx.changes["won"].inserted) == {(1, 5, "b")}
    assert set(tx.changes["won"].deleted) == {(1, 5, "a"), (2, 3, "d")}
    db.verify()


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".decl s(x: symbol, y: number) eqrel", "eqrel-columns"),
        (".decl s(x: symbol) eqrel", "eqrel-columns"),
        (".decl s(x: symbol, y: symbol) choice-domain z", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain (x, y)", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain x, y", "unsupported-choice-domain"),
    ],
)
def test_what_cannot_be_kept_is_refused(text: str, slug: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert slug in [each.slug for each in caught.value.diagnostics]


def test_declarations_print_as_they_read() -> None:
    from upshot.syntax import parse, print_program  # noqa: PLC0415

    program = parse(EQREL + CHOICE)
    assert parse(print_program(program)) == program
