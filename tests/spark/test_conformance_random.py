"""Random programs and transactions on Spark, packed, against the oracle.

The same cases and properties as `tests/properties`; UPSHOT_CASES and UPSHOT_SEED choose. A failing case is run alone,
shrunk for a while and printed as a script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.properties.cases import Case
from tests.properties.engines import Make, using
from tests.properties.evolution import Evolution, Version, random_evolution
from tests.properties.exactness import check_evolution, check_late_views, check_splits, check_transactions
from tests.properties.random_programs import random_case
from tests.properties.settings import case_count, is_slice, is_soak, seed_of
from tests.properties.shrinking import as_script, shrink
from tests.properties.strategies import STRATEGIES
from tests.properties.test_evolving_programs import FOCUSES as EVOLVING
from tests.properties.test_exact_changes import FAILING, FOCUSES
from tests.spark.packing import Part, failures
from upshot.strategies.strategy import on_demand

pytestmark = pytest.mark.slow
"""Every commit is a handful of Spark jobs."""

Property = Callable[[Case, str], None]

SHARE = 160
"""One case in so many of those the local engine gets: a commit here costs a thousand times as much."""
PACK = 20
"""Cases in one database. More would save jobs and lose time in Spark's optimizer, which sees one plan per round."""
SECONDS_TO_SHRINK = 60.0
HISTORIES = 500
"""One history in so many: each change of rules is a commit by itself."""

Trial = tuple[Property, Case, str]

PROPERTIES: dict[str, tuple[Property, int]] = {
    "transactions": (check_transactions, 7),
    "late views": (check_late_views, 2),
    "splits": (check_splits, 1),
}
"""With how many of ten cases: each way to cut the changes costs as much as all transactions together."""
SHORT = 2
"""Transactions of a case in `make test`, which cuts them in no other way: each is a commit of the whole pack."""


def packs(name: str) -> list[list[Trial]]:
    """This run's share of the cases, cut into packs; properties, focuses and strategies take turns."""
    properties = [each for each, times in PROPERTIES.values() for _ in range(times)]
    if is_slice():
        properties.remove(check_splits)
    wanted = case_count(SHARE, least=12)
    trials: list[Trial] = []
    # Four strides without a common factor: before anything comes round again, everything has met everything.
    for number in range(wanted):
        focus, strategy = list(FOCUSES)[number % 10 - number // 10 % 10], STRATEGIES[number % len(STRATEGIES)]
        if strategy in on_demand() and number % 3:
            # Reading a view that is not stored is a job; a copy must be as exact.
            strategy += " materialized=true"
        case = random_case(seed_of(f"spark {name} {focus}", number), FOCUSES[focus])
        trials.append((properties[number % len(properties)], shortened(case), strategy))
    return [trials[start : start + PACK] for start in range(0, len(trials), PACK)]


def shortened(case: Case) -> Case:
    """The case as far as this run follows it."""
    return replace(case, transactions=case.transactions[:SHORT]) if is_slice() else case


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


@pytest.mark.parametrize("pack", numbered(packs("memory")))
def test_changes_and_states_equal_the_oracles(on_spark: Make, pack: list[Trial]) -> None:
    """Also views defined late and, in a soak, changes cut into transactions this way and that."""
    agree(on_spark, pack)


def histories(name: str) -> dict[str, Part]:
    """Databases whose rules change too, each with its own, and whose views are kept in every way."""
    found: dict[str, Part] = {}
    for number in range(case_count(HISTORIES, least=4)):
        focus = list(EVOLVING)[number % len(EVOLVING)]
        case = random_evolution(seed_of(f"spark histories {name} {focus}", number), EVOLVING[focus], reopen=0)
        short = replace(case, steps=case.steps[:3]) if is_slice() else case
        found[f"history {case.seed}, {focus}"] = partial(check_evolution, lenient(short))
    return found


def lenient(case: Evolution) -> Evolution:
    """The history without policies that refuse a definition: one part's refusal would be that of the whole pack."""

    def version(each: Version) -> Version:
        return replace(each, options=tuple(line.replace("policy=strict", "policy=auto") for line in each.options))

    steps = tuple(version(step) if isinstance(step, Version) else step for step in case.steps)
    return replace(case, first=version(case.first), steps=steps)


def test_histories_of_programs_and_transactions_equal_the_oracles(on_spark: Make) -> None:
    parts = histories("memory")
    for start in range(0, len(parts), PACK):
        found = failures(on_spark, dict(list(parts.items())[start : start + PACK]))
        if found:
            pytest.fail("\n\n".join(f"{name}\n{words}" for name, words in found.items()), pytrace=False)


@pytest.mark.parametrize("pack", numbered(packs("files")))
def test_they_do_so_when_every_set_of_rows_is_in_files(on_files: Make, pack: list[Trial]) -> None:
    """A slice of it in `make test`: each set costs a file, each round a scan."""
    agree(on_files, pack if is_soak() else pack[:2])


@pytest.mark.parametrize("pack", numbered(packs("parts")))
def test_they_do_so_when_the_driver_holds_no_relation_whole(in_parts: Make, pack: list[Trial]) -> None:
    """Recursion in parts or by rounds, demand programs by rounds: a slice of it in `make test`."""
    agree(in_parts, pack if is_soak() else pack[:3])


@pytest.mark.parametrize("strategy", on_demand() if is_soak() else on_demand()[1:2])
def test_they_do_so_when_nobody_may_hold_a_relation(by_rounds: Make, strategy: str) -> None:
    """A view on demand takes some dozens of rounds, each a job."""
    seeds = [seed_of(f"spark rounds {strategy}", number) for number in range(case_count(20 * SHARE))]
    focuses = [FOCUSES[name] for name in FOCUSES]
    cases = [shortened(random_case(seed, focuses[number % len(focuses)])) for number, seed in enumerate(seeds)]
    agree(by_rounds, [(check_transactions, case, f"{strategy} materialized=true") for case in cases])


FEW = ("maintenance", "production", "epf")
"""Strategies whose failing cases `make test` takes: rows in the driver, rows of rules, and rows that are not stored."""


@pytest.mark.parametrize(
    "strategy", [each if each in FEW else pytest.param(each, marks=pytest.mark.deep) for each in STRATEGIES]
)
def test_a_transaction_fails_where_the_oracle_fails_and_then_changes_nothing(on_spark: Make, strategy: str) -> None:
    """Not packed: the failure of one would be the failure of all."""
    for number in range(case_count(20 * SHARE * len(STRATEGIES))):
        case = random_case(seed_of(f"spark errors {strategy}", number), FAILING)
        try:
            with using(on_spark):
                check_transactions(case, strategy)
        except Exception as error:  # noqa: BLE001 - whatever the engine raises is a finding
            words = f"seed {case.seed}, {strategy}\n{type(error).__name__}: {error}"
            script = small_script(on_spark, check_transactions, case, strategy)
            pytest.fail(f"{words}\n\nas a script:\n\n{script}", pytrace=False)
