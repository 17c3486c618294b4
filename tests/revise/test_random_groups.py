"""Realizations through groups of three columns are the minimal ones among all base updates over a finite domain.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from itertools import combinations

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.revise.random_groups import base_rows, random_groups
from tests.revise.random_requests import Fact
from tests.revise.test_brute_force import facts_of
from upshot import Bounds

MOST = 3
"""Changes of a realization that are looked for."""


def opened(program: str, facts: frozenset[Fact]) -> upshot.Database:
    db = upshot.connect()
    db.define(program)
    with db.transaction() as tx:
        for name, row in sorted(facts):
            tx.insert(name, [row])
    return db


def by_trying(db: upshot.Database, facts: frozenset[Fact], wanted: Fact, there: bool) -> set[frozenset[Fact]]:
    """The minimal sets of base rows to change, each tried by itself."""
    held = wanted[1] in db.query("s(D, S)").sorted()
    found: list[frozenset[Fact]] = []
    for size in range(MOST + 1):
        for changed in map(frozenset, combinations(base_rows(), size)):
            if any(smaller <= changed for smaller in found):
                continue
            insert, delete = _rows(changed - facts), _rows(changed & facts)
            tried = db.what_if(insert=insert, delete=delete) if changed else None
            if tried is not None and tried.violations:
                continue
            change = tried[wanted[0]] if tried is not None else None
            came, went = (change.inserted, change.deleted) if change is not None else ((), ())
            after = (held or wanted[1] in came) and wanted[1] not in went
            if after == there:
                found.append(changed)
    return set(found)


def _rows(facts: frozenset[Fact]) -> dict[str, list[tuple[int, ...]]]:
    rows: dict[str, list[tuple[int, ...]]] = {}
    for name, row in facts:
        rows.setdefault(name, []).append(row)
    return rows


def compare(seed: int, *, in_sql: bool) -> int:
    """How many realizations there are; fails if they are not those of trying."""
    program, facts, wanted, there = random_groups(seed, in_sql=in_sql)
    with opened(program, facts) as db:
        request = {wanted[0]: [wanted[1]]}
        bounds = Bounds(new_constants=0, constants=(1, 2), size=MOST, rounds=1000, seconds=300)
        answer = db.realize(request, bounds=bounds) if there else db.realize(delete=request, bounds=bounds)
        listed = [facts_of(each.insert) | facts_of(each.delete) for each in answer]
        within = [each for each in listed if {value for _, row in each for value in row} <= {1, 2}]
        expected = by_trying(db, facts, wanted, there)
    assert len(listed) == len(set(listed)), (seed, "each once")
    assert set(within) == expected, (seed, program, sorted(facts), wanted, there, set(within) ^ expected)
    assert answer.status != "none exists" or not expected, (seed, "there are some")
    return len(listed)


@pytest.mark.slow
@pytest.mark.parametrize("in_sql", [False, True], ids=["rules", "sql"])
def test_realizations_through_groups_of_three_columns_are_the_minimal_ones(in_sql: bool) -> None:
    counts = [compare(seed_of("groups", number), in_sql=in_sql) for number in range(case_count(8, least=10))]
    assert any(counts), "some cases say something"
