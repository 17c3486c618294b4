"""Random programs and transactions on Spark, packed, against the oracle.

The same cases and properties as `tests/properties`; UPSHOT_CASES and UPSHOT_SEED choose. A failing case is run alone,
shrunk for a while and printed as a script.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from tests.properties.cases import Case
from tests.properties.engines import Make, using
from tests.properties.exactness import check_late_views, check_splits, check_transactions
from tests.properties.random_programs import random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.shrinking import as_script, shrink
from tests.properties.strategies import STRATEGIES
from tests.properties.test_exact_changes import FAILING, FOCUSES
from tests.spark.packing import Part, failures

pytestmark = pytest.mark.slow
"""Every commit is a handful of Spark jobs."""

Property = Callable[[Case, str], None]

SHARE = 50
"""One case in fifty of those the local engine gets: a commit here costs a thousand times as much."""
PACK = 20
"""Cases in one database. More would save jobs and lose time in Spark's optimiser, which sees one plan per round."""
SECONDS_TO_SHRINK = 60.0

Trial = tuple[Property, Case, str]


def packs(name: str, property: Property, share: int = SHARE) -> list[list[Trial]]:
    """This property's share of the cases, focuses and strategies in turn, cut into packs."""
    kinds = itertools.cycle(itertools.product(STRATEGIES, FOCUSES))
    wanted = max(PACK, case_count(2_000) // share)
    trials = [
        (property, random_case(seed_of(f"spark {name} {focus}", number), FOCUSES[focus]), strategy)
        for number, (strategy, focus) in zip(range(wanted), kinds, strict=False)
    ]
    return [trials[start : start + PACK] for start in range(0, len(trials), PACK)]


def named(trials: list[Trial]) -> dict[str, Part]:
    return {f"seed {case.seed}, {strategy}": partial(check, case, strategy) for check, case, strategy in trials}


def agree(make: Make, trials: list[Trial]) -> None:
    found = failures(make, named(trials))
    if not found:
        return
    name = next(iter(found))
    listed = "\n\n".join(f"{each}\n{words}" for each, words in found.items())
    shown = [(check, case, strategy) for check, case, strategy in trials if name == f"seed {case.seed}, {strategy}"]
    script = "\n\nas a script:\n\n" + small_script(make, *shown[0]) if shown else ""
    pytest.fail(f"{len(found)} of {len(trials)} cases differ\n\n{listed}{script}", pytrace=False)


def small_script(make: Make, check: Property, case: Case, strategy: str) -> str:
    def fails(smaller: Case) -> bool:
        try:
            with using(make):
                check(smaller, strategy)
        except Exception:  # noqa: BLE001 - whatever the engine raises is what is being made small
            return True
        return False

    return as_script(shrink(case, fails, seconds=SECONDS_TO_SHRINK))


def numbered(made: list[list[Trial]]) -> list[object]:
    return [pytest.param(pack, id=f"pack {number}") for number, pack in enumerate(made)]


@pytest.mark.parametrize("pack", numbered(packs("transactions", check_transactions)))
def test_changes_and_states_equal_the_oracles(on_spark: Make, pack: list[Trial]) -> None:
    agree(on_spark, pack)


@pytest.mark.parametrize("pack", numbered(packs("splits", check_splits, 10 * SHARE)))
def test_however_the_changes_are_cut_the_end_and_the_net_change_are_the_same(on_spark: Make, pack: list[Trial]) -> None:
    agree(on_spark, pack)


@pytest.mark.parametrize("pack", numbered(packs("late", check_late_views, 10 * SHARE)))
def test_views_defined_over_loaded_relations_equal_the_oracles(on_spark: Make, pack: list[Trial]) -> None:
    agree(on_spark, pack)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transaction_fails_where_the_oracle_fails_and_then_changes_nothing(on_spark: Make, strategy: str) -> None:
    """Not packed: the failure of one would be the failure of all."""
    for number in range(max(1, case_count(2_000) // (10 * SHARE * len(STRATEGIES)))):
        case = random_case(seed_of("spark errors", number), FAILING)
        agree(on_spark, [(check_transactions, case, strategy)])
