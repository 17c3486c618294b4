"""Requests through aggregates on the Spark engine: the same realizations as in process."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.properties.engines import Make
from upshot import Bounds

PROGRAM = """
    .decl orders(c: number, id: number)
    .deny too_many(C, N) :- orders(C, _), N = count : { orders(C, _) }, N > 2.
    .decl entry(id: number, n: number, amount: number)
    .decl cheapest(n: number)
    cheapest(N) :- N = min V : { entry(_, _, V) }.
"""

Request = tuple[dict[str, list[tuple[Any, ...]]], dict[str, list[tuple[Any, ...]]]]

REQUESTS: list[Request] = [
    ({"orders": [(1, 9)]}, {}),
    ({"cheapest": [(1,)]}, {}),
]
"""Few: a branch is several jobs."""


def _answers(db: upshot.Database) -> list[tuple[set[str], str]]:
    db.define(PROGRAM)
    with db.transaction() as tx:
        tx.insert("orders", [(1, 1), (1, 2), (2, 3)])
        tx.insert("entry", [(1, 1, 4), (2, 2, -3), (2, 3, 1)])
    answers = []
    for insert, delete in REQUESTS:
        found = db.realize(insert, delete, bounds=Bounds(seconds=300, new_constants=0, size=2))
        answers.append(({way.text() for way in found}, found.status))
    return answers


@pytest.mark.slow
def test_requests_through_aggregates_come_to_the_same_on_spark(on_spark: Make) -> None:
    with upshot.connect() as local:
        expected = _answers(local)
    assert all(ways for ways, _ in expected)
    with on_spark() as db:
        assert _answers(db) == expected
