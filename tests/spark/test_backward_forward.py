"""`bf` on Spark: a row goes only after a search for another proof has failed, in parts and by rounds of joins."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.test_backward_forward import BOTH, LEFT, RIGHT
from tests.properties.engines import Make
from tests.properties.exactness import check_transactions
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_soak, seed_of
from tests.spark.conftest import Place
from tests.spark.engine_driver import IN_FILES, SparkDriver
from tests.spark.test_conformance_random import agree, shortened
from tests.spark.test_engine_failures import Unreliable
from upshot.core.errors import OverflowError_

pytest.importorskip("pyspark")

from upshot.engine.spark.rounds.backward_forward import BackwardForwardPropagation

pytestmark = pytest.mark.slow
"""Every step of a search is a Spark job."""

SAME_GENERATION = """
.decl up(x: number, y: number) .decl sg(x: number, y: number) .view sg strategy=bf policy=strict
sg(X, X) :- up(X, _). sg(X, X) :- up(_, X). sg(X, Y) :- up(X, A), sg(A, B), up(Y, B).
"""
MUTUAL = """
.decl edge(x: number, y: number) .decl start(x: number) .decl even(x: number) .decl odd(x: number)
.view even strategy=bf policy=strict
.view odd policy=strict
even(X) :- start(X). even(Y) :- odd(X), edge(X, Y). odd(Y) :- even(X), edge(X, Y).
"""
ROUNDS = 0
"""Bytes that a worker may share: with so few nothing is decomposed."""

sizes = pytest.mark.parametrize(
    "small", [1000, IN_FILES][: 1 + is_soak()], ids=["in the driver", "in files"][: 1 + is_soak()]
)
"""With every set of rows in files a search takes minutes: `make soak` does that too."""


def dense(nodes: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(nodes) for j in range(nodes) if i != j]


# ---- recursion in parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [RIGHT, LEFT, BOTH], ids=["right", "left", "both"])
def test_parts_search_before_they_delete(text: str, spark: Any) -> None:
    with SparkDriver(spark, text, driver=0) as it:
        it.insert("edge", *dense(8), (7, 8))
        told = it.engine.describe("closure")
        assert "load and change each in one job over the parts" in told
        assert "check:" in told
        assert "prove:" in told
        assert "maintenance" not in told
        assert "closure" not in it.delete("edge", (3, 4))
        assert it.work.deleted == it.work.rederived == 0
        assert 0 < it.work.asked == it.work.answered < 9 * 9
        assert it.delete("edge", (7, 8))["closure"] == (set(), {(i, 8) for i in range(8)})
        assert it.work.deleted == 8
        it.assert_exact()


def test_on_a_dense_graph_less_is_deleted_than_by_maintenance_in_parts_and_by_rounds(spark: Any) -> None:
    found = {}
    for strategy in ("bf", "maintenance"):
        for way, shared in (("parts", 1 << 20), ("rounds", ROUNDS)):
            text = LEFT.replace("strategy=bf", f"strategy={strategy}")
            with SparkDriver(spark, text, most_shared=shared, driver=0) as it:
                it.insert("edge", *dense(9))
                it.delete("edge", (3, 4))
                it.assert_exact()
                found[strategy, way] = it.work.views["closure"]
    for way in ("parts", "rounds"):
        kept, over = found["bf", way], found["maintenance", way]
        assert kept.deleted == kept.rederived == 0 < over.deleted == over.rederived
        assert 0 < kept.answered <= kept.asked < over.deleted


# ---- by rounds of joins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "small"), [(RIGHT, 1000), (BOTH, 1000), pytest.param(RIGHT, IN_FILES, marks=pytest.mark.deep)]
)
def test_a_cycle_that_is_cut_off_does_not_prove_itself(text: str, small: int, spark: Any) -> None:
    with SparkDriver(spark, text, small=small, most_shared=ROUNDS) as it:
        it.insert("edge", (0, 1), (1, 2), (2, 3), (3, 1))
        assert it.delete("edge", (0, 1))["closure"] == (set(), {(0, 1), (0, 2), (0, 3)})
        assert it.delete("edge", (2, 3))["closure"][1] == {(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 3)}
        it.assert_exact()


def test_a_row_that_comes_back_through_an_insertion_is_no_change(spark: Any) -> None:
    with SparkDriver(spark, RIGHT, most_shared=ROUNDS) as it:
        it.insert("edge", (1, 2), (2, 3))
        changes = it.change(delete={"edge": [(1, 2)]}, insert={"edge": [(1, 4), (4, 2)]})
        assert changes["closure"] == ({(1, 4), (4, 2), (4, 3)}, set())


@sizes
def test_same_generation_is_searched_by_rounds(small: int, spark: Any) -> None:
    rng = random.Random(3)
    up = sorted({(child, rng.randrange(child // 2, child)) for child in range(1, 10) for _ in range(2)})
    with SparkDriver(spark, SAME_GENERATION, small=small, most_shared=ROUNDS) as it:
        it.insert("up", *up)
        assert "load and change by rounds of joins on Spark" in it.engine.describe("sg")
        for row in rng.sample(up, 1 if small == IN_FILES else 3):
            lost = it.delete("up", row).get("sg", (set(), set()))[1]
            assert it.work.views["sg"].deleted == len(lost)
            assert it.work.views["sg"].asked >= len(lost) + it.work.views["sg"].answered
            it.assert_exact()


@sizes
def test_mutually_recursive_views_prove_each_other(small: int, spark: Any) -> None:
    with SparkDriver(spark, MUTUAL, small=small, most_shared=ROUNDS) as it:
        it.change(insert={"start": [(0,)], "edge": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]})
        it.delete("edge", (0, 2))
        assert it.work.views["even, odd"].deleted == 4
        it.assert_exact()
        it.change(delete={"edge": [(3, 0)]}, insert={"edge": [(3, 1)]})
        it.assert_exact()
        it.delete("start", (0,))
        assert it.state()["even"] == it.state()["odd"] == set()


def test_what_enters_a_negated_relation_takes_proofs_away(spark: Any) -> None:
    text = RIGHT.split("closure(X, Y)")[0].replace(".decl closure(x", ".decl closed(x: number) .decl closure(x", 1)
    text += "closure(X, Y) :- edge(X, Y), !closed(Y). closure(X, Y) :- edge(X, Z), closure(Z, Y), !closed(Z)."
    with SparkDriver(spark, text, most_shared=ROUNDS) as it:
        it.insert("edge", (1, 2), (2, 4), (1, 3), (3, 4))
        assert it.insert("closed", (2,))["closure"] == (set(), {(1, 2)})
        changes = it.change(insert={"closed": [(3,)]}, delete={"closed": [(2,)]})
        assert changes["closure"] == ({(1, 2)}, {(1, 3)})
        it.assert_exact()


def test_null_is_proven_as_itself(spark: Any) -> None:
    text = """
    .decl e(x: number?, y: number?) .decl p(x: number?, y: number?) .view p strategy=bf policy=strict
    p(X, Y) :- e(X, Y). p(X, X) :- e(X, _). p(X, Y) :- p(X, _), p(_, Y).
    """
    with SparkDriver(spark, text) as it:
        it.insert("e", (None, 1), (1, None), (None, None))
        for row in ((None, 1), (None, None), (1, None)):
            it.delete("e", row)
            it.assert_exact()


def test_views_without_columns_prove_each_other(spark: Any) -> None:
    text = """
    .decl a(x: number) .decl on() .decl lit() .view on strategy=bf policy=strict .view lit policy=strict
    on() :- a(1). on() :- lit(), a(_). lit() :- on(), a(2).
    """
    with SparkDriver(spark, text) as it:
        it.insert("a", (1,), (2,), (3,))
        it.delete("a", (3,))
        it.assert_exact()
        assert it.delete("a", (1,))["on"] == (set(), {()})
        it.assert_exact()


# ---- rules that change, changes that fail -----------------------------------------------------------------------


@sizes
def test_a_removed_rule_takes_only_what_has_no_other_proof(small: int, spark: Any) -> None:
    with_road = RIGHT.replace(".view", ".decl road(x: number, y: number) .view", 1)
    rule = " closure(X, Y) :- road(X, Y)."
    with SparkDriver(spark, with_road + rule, small=small) as it:
        it.change(insert={"edge": [*dense(5), (7, 8)], "road": [(0, 3), (1, 2), (4, 9)]})
        changes = it.install(with_road, ["closure"])
        assert changes["closure"] == (set(), {(i, 9) for i in range(5)})
        work = it.work.views["closure"]
        assert work.deleted == 5
        assert work.rederived == 0 < work.answered
        it.assert_exact()
        assert it.install(with_road + rule, ["closure"])["closure"] == ({(i, 9) for i in range(5)}, set())
        it.assert_exact()


def test_a_search_that_loses_a_worker_is_made_again(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with SparkDriver(spark, LEFT, most_shared=ROUNDS) as it:
        it.insert("edge", *dense(5), (4, 5))
        with monkeypatch.context() as patch:
            unreliable = Unreliable(patch, 3, 6)
            it.delete("edge", (4, 5), (0, 1))
            assert unreliable.jobs > 6
        it.assert_exact()


@sizes
def test_a_change_that_fails_after_the_search_leaves_nothing_behind(small: int, spark: Any, place: Place) -> None:
    text = """
    .decl start(x: number) .decl factor(x: number, f: number) .decl p(x: number) .view p strategy=bf policy=strict
    p(X) :- start(X). p(Y) :- p(X), factor(X, F), Y = X * F.
    """
    big = 2**40
    with SparkDriver(spark, text, small=small, location=place.uri) as it:
        it.change(insert={"start": [(1,), (2,)], "factor": [(1, 3), (2, big), (3, 5)]})
        before, files = it.state(), place.files()
        it.engine.delete("start", [(1,)])
        it.engine.insert("factor", [(2 * big, 2**30)])
        with pytest.raises(OverflowError_):
            it.engine.propagate()
        it.engine.rollback()
        assert it.state() == before
        assert place.files() <= files, "a failed change leaves a file behind"
        assert it.delete("start", (1,))["p"] == (set(), {(1,), (3,), (15,)})
        it.assert_exact()


def test_the_search_looks_at_no_more_than_it_needs_when_much_is_lost(spark: Any) -> None:
    """Rows that are proven early do not go on searching for the sake of those that are not."""
    chain = [(100 + i, 101 + i) for i in range(6)]
    with SparkDriver(spark, LEFT, most_shared=ROUNDS) as it:
        it.insert("edge", *dense(9), *chain)
        it.delete("edge", *((0, j) for j in range(2, 6)), (102, 103))
        work = it.work.views["closure"]
        assert work.deleted == 3 * 4
        assert work.asked < 9 * 9
        it.assert_exact()


# ---- against the oracle ------------------------------------------------------------------------------------------

FOCUSES = (
    Features(recursion=1, nonlinear=0.5, mutual=0.5, aggregates=0.05, arithmetic=0.1, constants=0.05),
    Features(recursion=0.8, mutual=0.4, nullable=0.4, negation=0.5, aggregates=0.05, zero_arity=0.2),
)


@pytest.mark.parametrize("way", ["by_rounds", "on_files"][: 1 + is_soak()])
def test_random_programs_search_and_change_as_the_oracle_says(
    way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No policy leaves it open to compute everything anew: every lost derivation is searched for."""
    searches = []
    search = BackwardForwardPropagation._search

    def counted(propagation: BackwardForwardPropagation, lost: Any) -> Any:
        searches.append(lost)
        return search(propagation, lost)

    monkeypatch.setattr(BackwardForwardPropagation, "_search", counted)
    make: Make = request.getfixturevalue(way)
    number, at_once = 0, case_count(120, least=4)
    while len(searches) <= at_once:
        assert number < 10 * at_once, "many cases lose derivations"
        seeds = [seed_of(f"spark bf {way}", n) for n in range(number, number + at_once)]
        cases = [shortened(random_case(seed, FOCUSES[n % 2])) for n, seed in enumerate(seeds)]
        agree(make, [(check_transactions, case, "bf policy=strict") for case in cases])
        number += at_once
