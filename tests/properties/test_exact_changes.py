"""Exactness: for every random program and transaction, the engine reports and holds what recomputation gives.

UPSHOT_CASES sets how many cases run in all, UPSHOT_SEED which ones; a failing case is shrunk and printed as a script.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import upshot
from tests.engine.kernels import cells_without_room, dense
from tests.properties.cases import Case
from tests.properties.engines import using
from tests.properties.exactness import check_late_views, check_splits, check_transactions
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_slice, seed_of
from tests.properties.shrinking import as_script, shrink
from tests.properties.strategies import STRATEGIES
from upshot.core.errors import ProgramError
from upshot.engine.local.components import walks
from upshot.plan.walks import Walk

FOCUSES: dict[str, Features] = {
    "everything": Features(),
    "recursion": Features(recursion=1, nonlinear=0.5, mutual=0.5, aggregates=0.05, arithmetic=0.1, constants=0.05),
    "negation": Features(negation=0.9, views=5, wildcards=0.3, aggregates=0.05, arithmetic=0.1, symbols=0.1),
    "aggregates": Features(aggregates=0.8, mean=0.3, recursion=0.2, negation=0.2),
    "alternatives": Features(aggregates=0.8, alternatives=0.8, nullable=0.2, recursion=0.2, negation=0.2),
    "ranges": Features(ranges=0.7, aggregates=0.3, symbols=0, nullable=0.1, exotic=0),
    "arithmetic": Features(arithmetic=0.9, division=0.5, symbols=0, aggregates=0.2),
    "nulls": Features(nullable=0.6, symbols=0.2, negation=0.5),
    "types": Features(exotic=0.6, strings=0.3, symbols=0.5),
    # Wide heads keep the variables of every atom: a row mixed up between a functor and a negation shows.
    "functors": Features(
        strings=1,
        arithmetic=0.5,
        division=0.8,
        negation=1,
        aggregates=0,
        constants=0.02,
        comparisons=0,
        disjunction=0,
        zero_arity=0,
        recursion=0.2,
        wildcards=0.05,
        repeated=0.25,
        symbols=0.5,
        columns=(2, 3, 3),
        views=2,
        rows=10,
    ),
    "truth": Features(zero_arity=0.7, views=6, negation=0.6),
    "derivations": Features(constants=0.02, wildcards=0.3, disjunction=0.4, symbols=0, comparisons=0.1, views=5),
}
QUICK = ("recursion",)
"""What `make check` looks at."""
DEAR = dict.fromkeys(("rod", "epf", "propagation", "differencing"), 2)
"""Strategies whose rules are made anew for every program get one case in so many."""
FAILING = Features(errors=1, arithmetic=0.1, views=2, symbols=0.1, nullable=0.05, exotic=0)
CLOSURES = Features(
    recursion=1, nonlinear=0.4, mutual=0, negation=0.1, aggregates=0.05, comparisons=0.05, arithmetic=0, constants=0,
    wildcards=0, zero_arity=0, disjunction=0, symbols=0.2, strings=0, exotic=0, nullable=0, columns=(2,), rows=12,
)  # fmt: skip
LABELED = replace(CLOSURES, columns=(2, 3, 3))
PARTS = len(FOCUSES) * len(STRATEGIES) + len(STRATEGIES) + 6


# ---- running them -----------------------------------------------------------------------------


def run(property: Any, name: str, features: Features, strategy: str, *, least: int = 1) -> None:
    """The property for this suite's share of the cases, at least so many; the first failure is shrunk and shown."""

    def violation(case: Case) -> str | None:
        try:
            property(case, strategy)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the engine raises is a finding, to be shrunk like any other
            return f"{type(error).__name__}: {error}"
        return None

    for number in range(case_count(DEAR.get(strategy, 1) * PARTS, least=least)):
        case = random_case(seed_of(name, number), features)
        if violation(case) is not None:
            small = shrink(case, lambda each: violation(each) is not None, seconds=10)
            words = f"seed {case.seed}, strategy {strategy}\n{violation(small)}"
            pytest.fail(f"{words}\n\nas a script:\n\n{as_script(small)}", pytrace=False)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "focus", [focus if focus in QUICK else pytest.param(focus, marks=pytest.mark.slow) for focus in FOCUSES]
)
def test_changes_and_states_equal_the_oracles(focus: str, strategy: str) -> None:
    """A slice cuts the transactions of every third case into smaller ones, which costs as much as all the rest."""
    is_cut = not is_slice() or ([*FOCUSES].index(focus) + STRATEGIES.index(strategy)) % 3 == 0

    def both(case: Case, strategy: str) -> None:
        check_transactions(case, strategy)
        if is_cut:
            check_splits(case, strategy)

    run(both, focus, FOCUSES[focus], strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transaction_fails_where_the_oracle_fails_and_then_changes_nothing(strategy: str) -> None:
    run(check_transactions, "errors", FAILING, strategy)


@pytest.mark.parametrize("focus", ["everything", "recursion", "negation", "aggregates", "nulls"])
def test_unstored_views_of_production_rules_equal_the_oracles(focus: str) -> None:
    run(check_transactions, f"started {focus}", FOCUSES[focus], "production materialized=false")


@pytest.mark.parametrize("features", [CLOSURES, LABELED], ids=["pairs", "labeled"])
@pytest.mark.parametrize("form", ["hash", "dense"])
@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute"])
def test_changes_of_closures_loaded_by_walks_equal_the_oracles(
    strategy: str, form: str, features: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[str] = []
    load = walks.load_by_walks

    def counted(walk: Walk, *rest: Any) -> None:
        walked.append(walk.view)
        load(walk, *rest)

    monkeypatch.setattr(walks, "load_by_walks", counted)
    if form == "dense":
        with using(lambda: dense(upshot.connect())), cells_without_room():
            run(check_transactions, "closures", features, strategy, least=30)
    else:
        with using(walking):
            run(check_transactions, "closures", features, strategy, least=30)
    assert len(walked) >= min(5, case_count(PARTS, least=30) // 6)


def walking() -> upshot.Database:
    """A database in which every closure is loaded by walks, however small it is."""
    db = upshot.connect()
    runner = db._state.engine._runner  # type: ignore[attr-defined]
    runner.worth_walking = runner.most_cells = 0
    return db


def test_views_defined_over_loaded_relations_equal_the_oracles() -> None:
    run(check_late_views, "late", Features(), "maintenance")
