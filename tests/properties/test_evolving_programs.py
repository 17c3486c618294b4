"""Exactness of databases whose program changes: rules are added, removed, doubled and rewritten between transactions,
every view is kept in another way, and the database is closed and opened again.

UPSHOT_CASES sets how many histories run, UPSHOT_SEED which ones; a failing one is shrunk and printed.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

import upshot
from tests.engine.kernels import cells_without_room, dense
from tests.properties.engines import using
from tests.properties.evolution import Evolution, Reopening, random_evolution, simplifications, sound
from tests.properties.exactness import check_evolution
from tests.properties.random_programs import Features
from tests.properties.settings import case_count, seed_of

FOCUSES: dict[str, Features] = {
    "counted": Features(
        recursion=0,
        aggregates=0.05,
        negation=0.1,
        disjunction=0.3,
        constants=0.02,
        wildcards=0.3,
        comparisons=0.1,
        arithmetic=0.1,
        symbols=0.1,
        views=2,
    ),
    "recursion": Features(recursion=0.8, mutual=0.5, aggregates=0.05, arithmetic=0.1),
    "aggregates": Features(aggregates=0.6, recursion=0.1, negation=0.2),
    "negation": Features(negation=0.8, wildcards=0.3, zero_arity=0.3),
    "types": Features(exotic=0.6, nullable=0.3, symbols=0.5),
}
SHARE = {focus: 100 if focus != "counted" else 33 for focus in FOCUSES}
"""One history in so many of the cases of one program: each has several. How often a row is derived only counts know."""


def violation(case: Evolution) -> str | None:
    """The words of what goes wrong, if anything does."""
    try:
        if any(isinstance(step, Reopening) for step in case.steps):
            with tempfile.TemporaryDirectory() as folder:
                check_evolution(case, Path(folder) / "store")
        else:
            check_evolution(case)
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is a finding, to be shrunk like any other
        return f"{type(error).__name__}: {error}"
    return None


def shrunk(case: Evolution, seconds: float = 20.0) -> Evolution:
    """A history that still goes wrong and from which little can be taken away."""
    end = time.monotonic() + seconds
    smaller: Evolution | None = case
    while smaller is not None and time.monotonic() < end:
        case = smaller
        tried = (each for each in simplifications(case) if time.monotonic() < end)
        smaller = next((each for each in tried if sound(each) and violation(each) is not None), None)
    return case


@pytest.mark.parametrize("focus", FOCUSES)
def test_histories_of_programs_and_transactions_equal_the_oracles(focus: str) -> None:
    for number in range(case_count(SHARE[focus], least=4)):
        case = random_evolution(seed_of(f"evolution {focus}", number), FOCUSES[focus])
        if violation(case) is not None:
            small = shrunk(case)
            pytest.fail(f"seed {case.seed}\n{violation(small)}\n\n{small}", pytrace=False)


@pytest.mark.parametrize("columns", [(2,), (2, 3, 3)], ids=["pairs", "labeled"])
def test_histories_of_closures_in_cells_equal_the_oracles(columns: tuple[int, ...]) -> None:
    features = replace(
        FOCUSES["recursion"], mutual=0, aggregates=0, arithmetic=0, columns=columns, constants=0, symbols=0.2
    )
    with using(lambda: dense(upshot.connect())), cells_without_room():
        for number in range(case_count(SHARE["recursion"], least=8)):
            case = random_evolution(seed_of("evolution in cells", number), features)
            if violation(case) is not None:
                small = shrunk(case)
                pytest.fail(f"seed {case.seed}\n{violation(small)}\n\n{small}", pytrace=False)
