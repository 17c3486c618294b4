"""The realisations found are clingo's minimal ones, on databases too large for brute force.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import pytest

from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import minimal_realizations as by_brute_force
from tests.revise.clingo_realizations import minimal_realizations
from tests.revise.random_requests import random_case
from tests.revise.test_brute_force import found, opened
from upshot import Bounds, ProgramError

MOST = 200
"""Cases with more realisations are left to others: there the search would be measured, not compared."""


@pytest.mark.slow
def test_realizations_are_clingos_minimal_ones() -> None:
    compared = 0
    for number in range(case_count(15, least=12)):
        case = random_case(seed_of("clingo", number), size=3)
        expected = minimal_realizations(case)
        if len(expected) > MOST:
            continue
        try:
            db = opened(case)
        except ProgramError:
            continue
        with db:
            listed = found(db, case, Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=600))
        assert set(listed) == expected, (case, set(listed) ^ expected)
        assert len(listed) == len(set(listed))
        compared += 1
    assert compared > 5


@pytest.mark.slow
def test_clingo_and_brute_force_agree() -> None:
    for number in range(10):
        case = random_case(seed_of("both", number))
        try:
            opened(case).close()
        except ProgramError:
            continue
        assert minimal_realizations(case) == by_brute_force(case), case
