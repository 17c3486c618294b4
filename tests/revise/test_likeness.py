"""Updates that differ only in what their new values are called."""

from __future__ import annotations

import random
import time
from itertools import pairwise, permutations

import pytest

from upshot.core.types import NUMBER
from upshot.revise.branch import Branch, Update
from upshot.revise.likeness import Known, TooAlikeError, contains_one_of
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Key

NEW = 100


def update_of(rows: list[Key]) -> tuple[Update, tuple[Placeholder, ...]]:
    values = sorted({value for _, row in rows for value in row if value > NEW})
    names = tuple(Placeholder(f"?{n}", NUMBER, value) for n, value in enumerate(values, 1))
    return (frozenset(rows), frozenset()), names


def contains(large: list[Key], small: list[Key]) -> bool:
    (insert, delete), placeholders = update_of(large)
    return contains_one_of(Branch(insert=insert, delete=delete, placeholders=placeholders), [Known(*update_of(small))])


def contains_by_trying(large: list[Key], small: list[Key]) -> bool:
    (_, _), there = update_of(large)
    (_, _), names = update_of(small)
    for chosen in permutations(there, len(names)):
        renamed = {old.witness: new.witness for old, new in zip(names, chosen, strict=True)}
        if {(name, tuple(renamed.get(v, v) for v in row)) for name, row in small} <= {*large}:
            return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_all_ways_to_rename_come_to(seed: int) -> None:
    chance = random.Random(seed)
    values = [1, 2, *range(NEW + 1, NEW + 5)]

    def rows(most: int) -> list[Key]:
        made = {(chance.choice("ef"), (chance.choice(values), chance.choice(values))) for _ in range(most)}
        return sorted(made)

    outcomes = set()
    for _ in range(200):
        large, small = rows(12), rows(3)
        outcomes.add(contains_by_trying(large, small))
        assert contains(large, small) == contains_by_trying(large, small), (large, small)
    assert outcomes == {True, False}


def path(length: int, first: int) -> list[Key]:
    nodes = [1, *range(first, first + length - 1), 2]
    return [("e", pair) for pair in pairwise(nodes)]


def test_long_paths_are_told_apart_at_once() -> None:
    began = time.process_time()
    assert contains(path(60, 1_000), path(60, 5_000))
    assert not contains(path(60, 1_000), path(59, 5_000))
    assert time.process_time() - began < 1


def test_new_values_that_are_alike_in_all_respects_are_left_open_in_bounded_time() -> None:
    """Whether a graph has a clique is hard; a search must not find out in one go."""
    chance = random.Random(1)
    nodes = range(NEW + 1, NEW + 31)
    large = [("e", (a, b)) for a in nodes for b in nodes if a < b and chance.random() < 0.7]
    clique = [("e", (a, b)) for a in nodes[:15] for b in nodes[:15] if a < b]
    began = time.process_time()
    with pytest.raises(TooAlikeError):
        contains(large, clique)
    assert time.process_time() - began < 1
