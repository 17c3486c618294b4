"""Where maintenance goes wrong if a detail is missed: each gave a wrong answer in some reading of the rules."""

from __future__ import annotations

import itertools

import pytest

from tests.goldens.follower import NOTHING, Follower, Row
from tests.properties.strategies import STRATEGIES

CLOSURE = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
"""
LINEAR = CLOSURE + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- edge(X, Z), closure(Z, Y)."
NONLINEAR = CLOSURE + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), closure(Z, Y)."

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
recursive = pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute", "production"])
forms = pytest.mark.parametrize("text", [LINEAR, NONLINEAR], ids=["linear", "nonlinear"])


@every_strategy
def test_a_fact_derived_by_two_rules_survives_the_loss_of_one(strategy: str) -> None:
    text = ".decl a(x: number) .decl b(x: number) .decl p(x: number) p(X) :- a(X). p(X) :- b(X)."
    it = Follower(text, strategy, {"a": [(1,), (2,)], "b": [(1,)]})
    assert it.change(delete={"a": [(1,)]})["p"] == NOTHING
    assert it.change(delete={"a": [(2,)], "b": [(1,)]})["p"] == (set(), {(1,), (2,)})


@every_strategy
def test_a_fact_that_changes_its_rule_within_a_transaction_does_not_change(strategy: str) -> None:
    text = ".decl a(x: number) .decl b(x: number) .decl p(x: number) p(X) :- a(X). p(X) :- b(X)."
    it = Follower(text, strategy, {"a": [(1,)]})
    assert it.change(delete={"a": [(1,)]}, insert={"b": [(1,)]})["p"] == NOTHING
    assert it.rows("p") == {(1,)}


@every_strategy
def test_a_rederived_fact_gives_no_phantom_insertion_above_a_negation(strategy: str) -> None:
    text = """
    .decl a(x: number) .decl b(x: number) .decl c(x: number) .decl p(x: number) .decl u(x: number)
    p(X) :- a(X). p(X) :- b(X). u(X) :- c(X), !p(X).
    """
    it = Follower(text, strategy, {"a": [(1,)], "b": [(1,)], "c": [(1,)]})
    changes = it.change(delete={"a": [(1,)]})
    assert changes == {"p": NOTHING, "u": NOTHING}
    assert it.change(delete={"b": [(1,)]}) == {"p": (set(), {(1,)}), "u": ({(1,)}, set())}


@every_strategy
def test_a_reinserted_fact_gives_no_phantom_insertion_above_a_negation(strategy: str) -> None:
    text = """
    .decl a(x: number) .decl b(x: number) .decl c(x: number) .decl p(x: number) .decl u(x: number)
    p(X) :- a(X). p(X) :- b(X). u(X) :- c(X), !p(X).
    """
    it = Follower(text, strategy, {"a": [(1,)], "c": [(1,)]})
    assert it.change(delete={"a": [(1,)]}, insert={"b": [(1,)]}) == {"p": NOTHING, "u": NOTHING}


@every_strategy
def test_an_idle_insertion_under_a_negation_deletes_nothing(strategy: str) -> None:
    it = Follower(".decl a() .decl b() .decl u() u() :- a(), !b().", strategy, {"a": [()]})
    assert it.rows("u") == {()}
    with it.db.transaction() as tx:
        tx.insert("b", [()])
        tx.delete("b", [()])
    assert "u" not in tx.changes
    it.change(insert={"b": [()]})
    assert it.change(insert={"b": [()]})["u"] == NOTHING
    assert it.change(delete={"b": [()]})["u"] == ({()}, set())
    assert it.change(delete={"b": [()]})["u"] == NOTHING


@recursive
@forms
def test_a_fact_over_deleted_and_inserted_again_is_not_lost(strategy: str, text: str) -> None:
    it = Follower(text, strategy, {"edge": [(1, 2), (2, 3), (3, 4)]})
    changes = it.change(delete={"edge": [(2, 3)]}, insert={"edge": [(2, 5), (5, 3)]})
    assert changes["closure"] == ({(2, 5), (1, 5), (5, 3), (5, 4)}, set())


@recursive
@forms
def test_a_cycle_does_not_support_itself(strategy: str, text: str) -> None:
    it = Follower(text, strategy, {"edge": [(1, 2), (2, 3), (3, 2), (3, 4)]})
    assert it.change(delete={"edge": [(1, 2)]})["closure"] == (set(), {(1, 2), (1, 3), (1, 4)})
    assert it.change(delete={"edge": [(3, 2)]})["closure"] == (set(), {(2, 2), (3, 2), (3, 3)})


@recursive
@forms
def test_a_cycle_closed_and_opened_again(strategy: str, text: str) -> None:
    ring = [(i, (i + 1) % 6) for i in range(6)]
    it = Follower(text, strategy, {"edge": ring})
    for row in ring:
        it.change(delete={"edge": [row]})
        it.change(insert={"edge": [row]})
    assert len(it.rows("closure")) == 36
    assert it.change(delete={"edge": ring[:2]}, insert={"edge": [(0, 2)]})["closure"][0] == set()


@every_strategy
def test_a_self_join_that_changes_on_both_sides_loses_nothing(strategy: str) -> None:
    text = ".decl e(x: number, y: number) .decl p(x: number, y: number) p(X, Z) :- e(X, Y), e(Y, Z)."
    it = Follower(text, strategy)
    assert it.change(insert={"e": [(1, 1), (1, 2), (2, 1)]})["p"][0] == set(itertools.product((1, 2), repeat=2))
    changes = it.change(delete={"e": [(1, 1), (2, 1)]}, insert={"e": [(2, 2)]})
    assert changes["p"] == (set(), {(1, 1), (2, 1)})


@every_strategy
def test_a_difference_of_views_that_change_together(strategy: str) -> None:
    text = """
    .decl a(x: number, y: number) .decl b(x: number) .decl q(x: number) .decl r(x: number) .decl d(x: number)
    q(X) :- a(X, _). r(X) :- b(X). r(X) :- a(_, X). d(X) :- q(X), !r(X).
    """
    it = Follower(text, strategy, {"a": [(1, 1), (1, 2), (2, 3)], "b": [(2,)]})
    it.change(delete={"a": [(1, 1)]}, insert={"b": [(1,)]})
    it.change(delete={"a": [(1, 2)], "b": [(2,)]}, insert={"a": [(2, 4)]})
    it.change(delete={"a": [(2, 3), (2, 4)]}, insert={"a": [(3, 2)]})


@every_strategy
def test_negation_above_negation_turns_the_sign_twice(strategy: str) -> None:
    text = """
    .decl n(x: number) .decl a(x: number) .decl p(x: number) .decl q(x: number) .decl r(x: number)
    p(X) :- n(X), !a(X). q(X) :- n(X), !p(X). r(X) :- n(X), !q(X).
    """
    it = Follower(text, strategy, {"n": [(1,), (2,), (3,)], "a": [(1,)]})
    changes = it.change(delete={"a": [(1,)], "n": [(3,)]}, insert={"a": [(2,)]})
    assert changes == {"p": ({(1,)}, {(2,), (3,)}), "q": ({(2,)}, {(1,)}), "r": ({(1,)}, {(2,), (3,)})}


@recursive
def test_mutual_recursion_over_deletes_and_rederives_across_views(strategy: str) -> None:
    text = """
    .decl edge(x: number, y: number) .decl start(x: number) .decl even(x: number) .decl odd(x: number)
    even(X) :- start(X). even(Y) :- odd(X), edge(X, Y). odd(Y) :- even(X), edge(X, Y).
    """
    edges: list[Row] = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    it = Follower(text, strategy, {"start": [(0,)], "edge": edges})
    for row in edges:
        it.change(delete={"edge": [row]})
        it.change(insert={"edge": [row]})
    assert it.change(delete={"start": [(0,)]})["even"][0] == set()


@recursive
def test_negation_below_recursion_deletes_and_inserts_through_it(strategy: str) -> None:
    text = """
    .decl edge(x: number, y: number) .decl shut(x: number) .decl open(x: number, y: number)
    .decl closure(x: number, y: number) .decl cut(x: number, y: number)
    open(X, Y) :- edge(X, Y), !shut(X), !shut(Y).
    closure(X, Y) :- open(X, Y). closure(X, Y) :- open(X, Z), closure(Z, Y).
    cut(X, Y) :- edge(X, _), edge(_, Y), !closure(X, Y).
    """
    it = Follower(text, strategy, {"edge": [(1, 2), (2, 3), (3, 4), (1, 5), (5, 4)]})
    assert it.change(insert={"shut": [(3,)]})["closure"] == (set(), {(1, 3), (2, 3), (2, 4), (3, 4)})
    assert it.change(insert={"shut": [(5,)]}, delete={"shut": [(3,)]})["closure"] == (
        {(1, 3), (2, 3), (2, 4), (3, 4)},
        {(1, 5), (5, 4)},
    )


@every_strategy
def test_one_batch_and_its_parts_in_any_order_end_alike(strategy: str) -> None:
    text = """
    .decl a(x: number) .decl b(x: number) .decl p(x: number) .decl u(x: number)
    p(X) :- a(X). p(X) :- b(X), X > 1. u(X) :- b(X), !a(X).
    """
    start = {"a": [(1,), (2,)], "b": [(2,), (3,)]}
    parts = [("delete", "a", (2,)), ("insert", "b", (1,)), ("delete", "b", (3,)), ("insert", "a", (3,))]
    ends = set()
    for order in itertools.permutations(parts):
        it = Follower(text, strategy, start)
        for kind, name, row in order:
            it.change(**{kind: {name: [row]}})
        ends.add((frozenset(it.rows("p")), frozenset(it.rows("u"))))
        it.db.close()
    whole = Follower(text, strategy, start)
    changes = whole.change(delete={"a": [(2,)], "b": [(3,)]}, insert={"b": [(1,)], "a": [(3,)]})
    assert changes == {"p": NOTHING, "u": ({(2,)}, {(3,)})}
    assert ends == {(frozenset(whole.rows("p")), frozenset(whole.rows("u")))}
