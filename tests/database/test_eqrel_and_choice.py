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


@pytest.mark.parametrize("declared", ["eqrel", "choice-domain x, y"])
@pytest.mark.parametrize("fact", ["", "r(8, 9)."])
def test_a_relation_without_rules_takes_rows_from_files(declared: str, fact: str) -> None:
    db = upshot.connect()
    db.define(f".decl r(x: number, y: number) {declared}  {fact}")
    with pytest.raises(upshot.DataError) as caught, db.transaction() as tx:
        tx.insert("r", [(1, 2)])
    assert fact or "`.input r`" in str(caught.value)
    assert not db.define(f".decl r(x: number, y: number) {declared}  .input r  {fact}").warnings
    for rows in ([(1, 2), (2, 3)], [(1, 3)]):
        with db.transaction() as tx:
            tx.insert("r", rows)
    assert set(db.rows("r")) >= {(1, 2), (2, 3)}
    with db.transaction() as tx:
        tx.delete("r", [(1, 2), (1, 3), (2, 3)])
    assert {x for x, _ in db.rows("r")} <= {8, 9}
    db.verify()


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


SEVERAL = """
.decl offer(x: number, y: number, z: symbol)
.decl pair(x: number, y: number, z: symbol) choice-domain x, y
pair(X, Y, Z) :- offer(X, Y, Z).
.decl wide(x: number, y: number, z: symbol) choice-domain (x, z), (y, z)
wide(X, Y, Z) :- offer(X, Y, Z).
.decl single(line: number, key_0: number, z: symbol) choice-domain line, key_0, z
single(X, Y, Z) :- offer(X, Y, Z).
"""
DOMAINS = {"pair": [(0,), (1,)], "wide": [(0, 2), (1, 2)], "single": [(0,), (1,), (2,)]}


def _in_turn(rows: set[tuple], domains: list[tuple[int, ...]]) -> set[tuple]:
    kept: list[tuple] = []
    for row in sorted(rows):
        if not any(all(row[p] == other[p] for p in domain) for other in kept for domain in domains):
            kept.append(row)
    return set(kept)


def test_no_two_rows_of_a_choice_agree_on_one_of_several_domains() -> None:
    for number in range(case_count(15)):
        chance = random.Random(seed_of("choices", number))
        db = upshot.connect()
        db.define(SEVERAL)
        offers: set[tuple] = set()
        before = {view: set[tuple]() for view in DOMAINS}
        for _ in range(6):
            come = {(chance.randint(-2, 5), chance.randint(-2, 5), chance.choice("ab|\t")) for _ in range(4)} - offers
            go = {each for each in offers if chance.random() < 0.25}
            with db.transaction() as tx:
                tx.insert("offer", sorted(come))
                tx.delete("offer", sorted(go))
            offers = (offers - go) | come
            for view, domains in DOMAINS.items():
                after = _in_turn(offers, domains)
                assert set(db.rows(view)) == after
                assert set(tx.changes[view].inserted) == after - before[view]
                assert set(tx.changes[view].deleted) == before[view] - after
                before[view] = after
        db.verify()


def test_facts_can_be_chosen_by_several_domains() -> None:
    db = upshot.connect()
    db.define(".decl r(x: number, y: number) choice-domain x, y  r(1, 2). r(2, 1). r(2, 2). r(1, 1).")
    assert set(db.rows("r")) == {(1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".decl s(x: symbol, y: number) eqrel", "eqrel-columns"),
        (".decl s(x: symbol) eqrel", "eqrel-columns"),
        (".decl s(x: symbol, y: symbol) choice-domain z", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain (x, y)", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain x, (x, y)", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain x, z", "choice-domain"),
        (".decl s(x: symbol, y: symbol?, z: symbol) choice-domain x", "choice-domain"),
        (".decl s(x: symbol?, y: symbol) choice-domain x, y", "choice-domain"),
        (".type P = [a: symbol]  .decl s(x: symbol, y: P) choice-domain x, y", "choice-domain"),
        (".decl s(x: symbol, y: symbol) choice-domain x, y  s(X, Y) :- s(Y, X).", "choice-domain"),
        (".decl s(x: symbol, y: symbol, z: symbol) choice-domain x  s(X, Y, Z) :- s(X, Z, Y).", "choice-domain"),
    ],
)
def test_what_cannot_be_kept_is_refused(text: str, slug: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert slug in [each.slug for each in caught.value.diagnostics]


def test_declarations_print_as_they_read() -> None:
    from upshot.syntax import parse, print_program  # noqa: PLC0415

    program = parse(EQREL + CHOICE + SEVERAL)
    assert parse(print_program(program)) == program
