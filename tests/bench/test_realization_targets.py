"""The requests whose times are bounded have the answers that they should, at small sizes."""

from __future__ import annotations

from bench.benches.realizations import MOST_SECONDS
from bench.contenders.realization_targets import run
from bench.tasks import Task


def test_requests_with_bounded_times_are_answered_at_small_sizes() -> None:
    answer = run(Task("realization_targets", options={"edges": 16, "grants": 100, "violations": 10}))
    assert answer.times.keys() > MOST_SECONDS.keys()
    assert sum("first ten" in name for name in answer.times) == 4
