"""The realizations found are the minimal ones among all base updates over a finite domain.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import Update, minimal_realizations
from tests.revise.random_requests import Case, Fact, random_case
from upshot.core.errors import ProgramError
from upshot.revise.request import Bounds


def opened(case: Case) -> upshot.Database:
    """A database with the facts of the case; violations that are there from the start are kept."""
    rules, _, constraint = case.text.partition(".deny")
    db = upshot.connect()
    db.define(rules)
    with db.transaction() as tx:
        for name, row in sorted(case.facts):
            tx.insert(name, [row])
    if constraint:
        db.define(f".deny{constraint}\n.deny d existing=keep")
    return db


def found(db: upshot.Database, case: Case, bounds: Bounds) -> list[Update]:
    answer = db.realize(rows_of(case.insert), rows_of(case.delete), bounds=bounds)
    return [(facts_of(each.insert), facts_of(each.delete)) for each in answer]


def rows_of(facts: tuple[Fact, ...]) -> dict[str, list[tuple[int, ...]]]:
    rows: dict[str, list[tuple[int, ...]]] = {}
    for name, row in facts:
        rows.setdefault(name, []).append(row)
    return rows


def facts_of(rows: object) -> frozenset[Fact]:
    return frozenset((name, row) for name, each in rows.items() for row in each)  # type: ignore[attr-defined]


def compare(case: Case) -> int:
    """How many realizations there are; fails if they are not those of brute force, smallest first."""
    try:
        db = opened(case)
    except ProgramError:
        return -1
    with db:
        listed = found(db, case, Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=300))
    expected = minimal_realizations(case)
    assert len(listed) == len(set(listed)), "each once"
    assert set(listed) == expected, (case, set(listed) ^ expected)
    sizes = [len(insert) + len(delete) for insert, delete in listed]
    assert sizes == sorted(sizes), "the smallest first"
    return len(listed)


@pytest.mark.slow
def test_realizations_are_the_minimal_ones_among_all_base_updates() -> None:
    counts = [compare(random_case(seed_of("brute force", number))) for number in range(case_count(8, least=10))]
    assert sum(count > 0 for count in counts) > len(counts) // 4, "most cases say something"
