"""The goldens on Spark: the very functions of `tests/goldens`, packed, each with every strategy it asks for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from tests.goldens import test_closure, test_modules, test_stock, test_trains, test_traps
from tests.properties.engines import Make, using
from tests.properties.settings import is_soak
from tests.spark.packing import Part, failures

pytestmark = pytest.mark.slow
"""Every commit is a handful of Spark jobs."""

LEFT_OUT = {
    "test_over_deletion_and_rederivation_go_round_by_round_as_in_the_paper": "looks into the local engine",
    "test_the_counters_say_what_was_over_deleted_and_what_came_back": "a pack has one set of counters",
    "test_nothing_inside_g0_is_touched_however_large_it_is": "counts the probes of the local engine",
    "test_a_change_below_no_view_is_screened_out": "a pack has one set of counters",
    "test_a_crossing_undone_in_the_same_transaction_did_not_happen": "a pack has one set of counters",
    "test_a_constraint_over_them_warns_or_rejects_as_it_says": "a rejection would be that of the pack; it runs alone",
}
LONG = {
    "test_one_batch_and_its_parts_in_any_order_end_alike",
    "test_random_timetables_follow_the_oracle",
    "test_a_cycle_closed_and_opened_again",
    "test_mutual_recursion_over_deletes_and_rederives_across_views",
}
"""A dozen transactions in a row and more; these wait for `make soak`."""
MODULES = {"papers": (test_closure, test_modules, test_trains), "stock": (test_stock,), "traps": (test_traps,)}


def parts(modules: Sequence[ModuleType]) -> dict[str, Part]:
    """The tests that use nothing but their parameters: with all combinations of these, or with one, taken in turn."""
    found: dict[str, Part] = {}
    for number, (name, function) in enumerate(golden_functions(modules)):
        every = list(combinations(function))
        for words, arguments in every if is_soak() else [every[number % len(every)]]:
            found[f"{name}[{words}]"] = partial(function, **arguments)
    return found


def golden_functions(modules: Sequence[ModuleType]) -> Iterator[tuple[str, Callable[..., None]]]:
    for module in modules:
        for name, function in vars(module).items():
            if name.startswith("test_") and name not in LEFT_OUT and (is_soak() or name not in LONG):
                yield name, function


def combinations(function: Callable[..., None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parameters that pytest would call the function with."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    names = [mark.args[0] for mark in marks]
    for chosen in itertools.product(*(mark.args[1] for mark in marks)):
        yield " ".join(str(value).strip()[:30] for value in chosen), dict(zip(names, chosen, strict=True))


@pytest.mark.parametrize("name", MODULES if is_soak() else ["all"])
def test_the_goldens_hold_on_spark(on_spark: Make, name: str) -> None:
    """`make soak` runs them with every strategy."""
    modules = MODULES.get(name) or [module for each in MODULES.values() for module in each]
    found = failures(on_spark, parts(modules))
    assert not found, "\n\n".join(f"{each}\n{words}" for each, words in found.items())


def test_a_constraint_warns_or_rejects_on_spark_as_it_says(on_spark: Make) -> None:
    with using(on_spark):
        test_modules.test_a_constraint_over_them_warns_or_rejects_as_it_says()
