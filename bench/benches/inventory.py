"""B8, the data path: one quantity falls under its threshold, and the condition says so."""

from __future__ import annotations

from bench.inventory import Inventory
from bench.process import Runner
from bench.report import Report, Scale, mebibytes, median, percentile95, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("items", "contender", "load", "low at first", "peak growth", "updates", "median", "p95")


def inventory(runner: Runner, scale: Scale) -> Report:
    """B8 up to the changed view; the rule that fires on it is not part of this version."""
    report = Report("B8 inventory: a quantity update to the changed `low` view", COLUMNS)
    items = 10**5 if scale.quick else 10**6
    base = _measure(report, runner, items)
    peer = report.ask(runner, "duckdb", Task("inventory", options={"items": items, "repeat": 10}), None)
    if peer is not None:
        middle, late = median(peer.times["1"]), percentile95(peer.times["1"])
        report.rows.append((f"{items:,}", "duckdb, asked again", "", "", "", "1", seconds(middle), seconds(late)))
    one = median(base.times["1"]) if base else None
    report.at_most(f"{items:,} items, one update: at most 1 ms", one * 1e3 if one else None, 1.0, " ms")
    if scale.large:
        ten = _measure(report, runner, items * 10)
        grown = ratio(median(ten.times["1"]) if ten else None, one)
        report.at_most(f"{items * 10:,} items: within 20 % of that", grown, 1.2)
    return report


def _measure(report: Report, runner: Runner, items: int) -> Answer | None:
    task = Task("inventory", options={"items": items, "batches": [[1, 200], [10, 50], [1000, 10]]})
    answer = report.ask(runner, "upshot", task, int(Inventory(items).low.sum()))
    for batch, times in answer.times.items() if answer else ():
        assert answer is not None
        first = batch == "1"
        report.rows.append(
            (
                f"{items:,}",
                "upshot",
                seconds(answer.seconds) if first else "",
                f"{answer.size:,}" if first else "",
                mebibytes(answer.memory) if first else "",
                batch,
                seconds(median(times)),
                seconds(percentile95(times)),
            )
        )
    return answer
