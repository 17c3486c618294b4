"""Backward/forward: what is looked at and deleted, and the traps of proofs that lean on each other."""

from __future__ import annotations

import random

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import both_forms, kernel
from upshot.check import check
from upshot.core.errors import OverflowError_
from upshot.rewrite import normal_form
from upshot.strategies.bf import bf
from upshot.strategies.maintenance_rules import RuleStage
from upshot.syntax import parse

EDGE = ".decl edge(x: number, y: number) .decl closure(x: number, y: number) .view closure strategy=bf policy=strict\n"
RIGHT = EDGE + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- edge(X, Z), closure(Z, Y)."
LEFT = EDGE + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), edge(Z, Y)."
BOTH = EDGE + "closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), closure(Z, Y)."
forms = pytest.mark.parametrize("text", [RIGHT, LEFT, BOTH], ids=["right", "left", "both"])


@forms
def test_a_cycle_that_is_cut_off_does_not_prove_itself(text: str) -> None:
    it = Driver(text)
    it.insert("edge", (0, 1), (1, 2), (2, 3), (3, 1))
    assert it.delete("edge", (0, 1))["closure"] == (set(), {(0, 1), (0, 2), (0, 3)})
    assert it.delete("edge", (2, 3))["closure"][1] == {(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 3)}
    it.assert_exact()


@forms
def test_only_what_is_lost_is_deleted(text: str) -> None:
    it = Driver(text)
    it.insert("edge", *((i, j) for i in range(12) for j in range(12) if i != j), (11, 12))
    changes = it.delete("edge", (3, 4))
    assert "closure" not in changes
    assert it.work.deleted == it.work.rederived == 0
    assert 0 < it.work.asked == it.work.answered < 13 * 13
    assert it.delete("edge", (11, 12))["closure"][1] == {(i, 12) for i in range(12)}
    assert it.work.deleted == 12


@both_forms
@forms
def test_no_row_is_looked_at_twice_and_deletions_are_net(text: str, form: str) -> None:
    with kernel(form):
        it = Driver(text)
        rng = random.Random(5)
        edges = {(rng.randrange(10), rng.randrange(10)) for _ in range(24)}
        it.insert("edge", *sorted(edges))
        for _ in range(6):
            gone = rng.sample(sorted(edges), 2)
            edges -= set(gone)
            before = len(it.state()["closure"])
            changes = it.delete("edge", *gone)
            lost = changes.get("closure", (set(), set()))[1]
            assert it.work.deleted == len(lost)
            assert len(lost) + it.work.answered == it.work.asked <= before
            it.assert_exact()


def test_a_row_that_comes_back_through_an_insertion_is_no_change() -> None:
    it = Driver(RIGHT)
    it.insert("edge", (1, 2), (2, 3))
    assert it.change(delete={"edge": [(1, 2)]}, insert={"edge": [(1, 4), (4, 2)]})["closure"] == (
        {(1, 4), (4, 2), (4, 3)},
        set(),
    )


def test_mutually_recursive_views_prove_each_other() -> None:
    it = Driver(
        """
        .decl edge(x: number, y: number) .decl start(x: number) .decl even(x: number) .decl odd(x: number)
        .view even strategy=bf
        even(X) :- start(X). even(Y) :- odd(X), edge(X, Y). odd(Y) :- even(X), edge(X, Y).
        """
    )
    it.insert("start", (0,))
    it.insert("edge", (0, 1), (1, 2), (2, 3), (3, 0), (0, 2))
    it.assert_exact()
    assert it.plan.strategies["odd"].strategy == "bf"
    for edge in ((0, 2), (3, 0), (1, 2)):
        it.delete("edge", edge)
        it.assert_exact()
    it.delete("start", (0,))
    assert it.state()["even"] == it.state()["odd"] == set()


def test_what_enters_a_negated_relation_takes_proofs_away() -> None:
    it = Driver(
        EDGE.replace("closure(x", "closed(x: number) .decl closure(x", 1)
        + "closure(X, Y) :- edge(X, Y), !closed(Y). closure(X, Y) :- edge(X, Z), closure(Z, Y), !closed(Z)."
    )
    it.insert("edge", (1, 2), (2, 4), (1, 3), (3, 4))
    assert it.insert("closed", (2,))["closure"] == (set(), {(1, 2)})
    assert it.change(insert={"closed": [(3,)]}, delete={"closed": [(2,)]})["closure"] == ({(1, 2)}, {(1, 3)})
    it.assert_exact()


def test_null_is_proven_as_itself() -> None:
    it = Driver(
        """
        .decl e(x: number?, y: number?) .decl p(x: number?, y: number?) .view p strategy=bf
        p(X, Y) :- e(X, Y). p(X, X) :- e(X, _). p(X, Y) :- p(X, _), p(_, Y).
        """
    )
    it.insert("e", (None, 1), (1, None), (None, None))
    for row in ((None, 1), (None, None), (1, None)):
        it.delete("e", row)
        it.assert_exact()


def test_rows_of_two_states_are_never_computed_with_together() -> None:
    """The old row of `big` beside the new one of `grow` would leave the range; no state has both."""
    it = Driver(
        """
        .decl start(x: number) .decl factor(x: number, f: number) .decl limit(x: number) .decl p(x: number)
        .view p strategy=bf
        p(X) :- start(X). p(Y) :- p(X), factor(X, F), limit(L), X < L, Y = X * F.
        """
    )
    big = 2**40
    it.change(insert={"start": [(1,), (2,)], "factor": [(1, big), (2, big)], "limit": [(2**62,)]}, delete={})
    it.change(delete={"start": [(1,)], "factor": [(1, big)]}, insert={"factor": [(big, 1)]})
    it.assert_exact()
    before = it.state()
    it.engine.delete("start", [(7,)])
    it.engine.insert("factor", [(2 * big, 2**30)])
    with pytest.raises(OverflowError_):
        it.engine.propagate()
    it.engine.rollback()
    assert it.state() == before


def test_a_removed_rule_takes_only_what_has_no_other_proof() -> None:
    text = RIGHT.replace(".view", ".decl road(x: number, y: number) .view", 1)
    it = Driver(text + " closure(X, Y) :- road(X, Y).")
    it.insert("edge", *((i, j) for i in range(5) for j in range(5) if i != j), (7, 8))
    it.insert("road", (0, 3), (1, 2), (4, 9))
    assert it.install(text, ["closure"])["closure"] == (set(), {(i, 9) for i in range(5)})
    assert it.work.deleted == 5
    assert it.work.rederived == 0 < it.work.answered
    it.assert_exact()


def test_the_rules_lead_back_to_their_clauses() -> None:
    program = normal_form(check(parse(BOTH)))
    rules = bf(program).rules
    checks = [rule for rule in rules if rule.stage is RuleStage.CHECK]
    assert [rule.name for rule in checks] == ["C1", "C2"]
    assert {rule.source for rule in checks} == {program.clauses[1]}
    assert not any(rule.stage is RuleStage.REDERIVE for rule in rules)
