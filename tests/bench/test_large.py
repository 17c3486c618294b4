"""B15 compares what it measures with its targets, at the size that they are for."""

from __future__ import annotations

from typing import Any

import pytest

from bench.benches.large import GRID, LARGE, many_rows
from bench.report import Scale
from bench.tasks import Answer, Task


class Measured:
    """A runner that answers every task at once; changes take as long at any size."""

    def __init__(self, insert: float, gibibytes: float) -> None:
        self._insert, self._peak = insert, int(gibibytes * 2**30)

    def ask(self, contender: str, task: Task, limit: float | None = None) -> Answer:
        rows = task.options["rows"]
        answer = Answer(size=rows if task.kind == "large_join" else rows // GRID * GRID, peak=self._peak)
        times = {"load": 100.0, "insert": self._insert, "delete": 1.0, "count": 1.0, "recompute": 100.0}
        answer.times = {name: [seconds] for name, seconds in times.items()}
        answer.figures["disk peak"] = 1.0
        return answer


@pytest.mark.parametrize(("insert", "gibibytes", "missed"), [(4.0, 15, set()), (6.0, 17, {"insert", "GiB"})])
def test_a_batch_that_costs_too_much_and_memory_beyond_the_bound_miss_the_target(
    insert: float, gibibytes: float, missed: set[str]
) -> None:
    runner: Any = Measured(insert, gibibytes)
    report = many_rows(runner, Scale(large=True))
    assert report.wrong == []
    assert len(report.rows) == 4, "each work at the size, and at a tenth of it"
    assert len(report.verdicts) == 6
    for verdict in report.verdicts:
        assert verdict.met is not any(word in verdict.target for word in missed), verdict
    assert f"join, insert: 1.0 × the time at {LARGE // 10:,} rows" in report.notes


def test_at_other_sizes_the_verdict_is_open() -> None:
    runner: Any = Measured(6.0, 17)
    report = many_rows(runner, Scale(rows=1_000_000))
    assert {verdict.met for verdict in report.verdicts} == {None}
    assert report.verdicts[0].measured == "0.06× at 1,000,000"
