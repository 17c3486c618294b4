"""Without being told of any constants, a search gives nothing that is not minimal, and loses nothing.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations, product

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import Update, minimal_realizations
from tests.revise.random_requests import VIEWS, Case, Fact, random_case
from tests.revise.test_brute_force import facts_of, opened
from upshot import Bounds, Placeholder, ProgramError, Realization

SECONDS = 4
RENAMED = dict(zip(VIEWS, ("zv", "yv", "xv", "wv"), strict=True))


def answered(case: Case) -> tuple[list[Realization], upshot.Realizations]:
    with opened(case) as db:
        asked: tuple[dict[str, list[tuple[int, ...]]], ...] = ({}, {})
        for given, facts in zip(asked, (case.insert, case.delete), strict=True):
            for name, row in facts:
                given.setdefault(name, []).append(row)
        answer = db.realize(*asked, bounds=Bounds(new_constants=1, rounds=200, seconds=SECONDS))
        return list(answer), answer


def instances(way: Realization, case: Case) -> set[Update]:
    """The realization with every choice of values for what is new in it."""
    found = set()
    for values in product(case.domain, repeat=len(way.placeholders)):
        names = {each.name: value for each, value in zip(way.placeholders, values, strict=True)}
        insert, _ = way.filled(names)
        found.add((facts_of(insert) - case.facts, facts_of(way.delete)))
    return found


@pytest.mark.slow
def test_what_is_found_without_constants_is_minimal_and_covers_all_minimal_realizations() -> None:
    compared = 0
    for number in range(case_count(10, least=12)):
        case = random_case(seed_of("offered values", number))
        try:
            ways, answer = answered(case)
        except ProgramError:
            continue
        minimal = minimal_realizations(case)
        for way in ways:
            insert, delete = facts_of(way.insert), facts_of(way.delete)
            below = {each for each in minimal if each[0] <= insert and each[1] <= delete}
            assert below <= {(insert, delete)}, (case, way.lines(), below)
        if answer.status in ("all", "none exists"):
            compared += 1
            covered = {each for way in ways for each in instances(way, case)}
            assert minimal <= covered, (case, minimal - covered)
    assert compared > 5


@pytest.mark.slow
def test_what_views_are_called_makes_no_difference() -> None:
    compared = 0
    for number in range(case_count(10, least=12)):
        case = random_case(seed_of("renamed views", number))
        try:
            ways, answer = answered(case)
            if answer.status not in ("all", "none exists"):
                continue
            others, other = answered(renamed(case))
        except ProgramError:
            continue
        if other.status in ("all", "none exists"):
            assert set(map(canonical, ways)) == set(map(canonical, others)), case
            compared += 1
    assert compared > 5


def renamed(case: Case) -> Case:
    text = re.sub(r"\b([pqrs])\(", lambda found: f"{RENAMED[found.group(1)]}(", case.text)
    insert, delete = (tuple((RENAMED[name], row) for name, row in each) for each in (case.insert, case.delete))
    return replace(case, text=text, insert=insert, delete=delete)


def canonical(way: Realization) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The realization, whatever its new values are called."""
    names = [each.name for each in way.placeholders]
    rows = [(name, row) for name, each in way.insert.items() for row in each]

    def inserted(places: tuple[int, ...]) -> tuple[Fact, ...]:
        called = {name: -1 - place for name, place in zip(names, places, strict=True)}
        return tuple(
            sorted((n, tuple(called[v.name] if isinstance(v, Placeholder) else v for v in r)) for n, r in rows)
        )

    return min(map(inserted, permutations(range(len(names))))), tuple(sorted(facts_of(way.delete)))
