"""B8: a quantity falls below its threshold; a view changes, and a rule fires."""

from __future__ import annotations

from bench.inventory import Inventory
from bench.process import Runner
from bench.report import Report, Scale, mebibytes, median, percentile95, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("items", "contender", "load", "low at first", "peak growth", "updates", "median", "p95")


CONTENDERS = {
    "": "upshot, view `low`",
    "insert": "upshot, rule inserts an order",
    "call": "upshot, rule calls a function",
}


def inventory(runner: Runner, scale: Scale) -> Report:
    """B8: from the update to the changed view, to the order that a rule inserts, and to the call that it makes."""
    report = Report("B8 inventory: a quantity falls under its threshold, and a rule answers", COLUMNS)
    items = 10**5 if scale.quick else 10**6
    found = {rule: _measure(report, runner, items, rule) for rule in CONTENDERS}
    peer = report.ask(runner, "duckdb", Task("inventory", options={"items": items, "repeat": 10}), None)
    if peer is not None:
        middle, late = median(peer.times["1"]), percentile95(peer.times["1"])
        report.rows.append((f"{items:,}", "duckdb, asked again", "", "", "", "1", seconds(middle), seconds(late)))
    times = {rule: median(answer.times["1"]) if answer else None for rule, answer in found.items()}
    for rule, one in times.items():
        words = f"{items:,} items, one update, {CONTENDERS[rule]}: at most 1 ms"
        report.at_most(words, one * 1e3 if one else None, 1.0, " ms")
    if scale.large:
        for rule in ("", "insert"):
            ten = _measure(report, runner, items * 10, rule)
            grown = ratio(median(ten.times["1"]) if ten else None, times[rule])
            report.at_most(f"{items * 10:,} items, {CONTENDERS[rule]}: within 20 % of that", grown, 1.2)
    return report


def _measure(report: Report, runner: Runner, items: int, rule: str) -> Answer | None:
    batches = [[1, 200], [10, 50], [1000, 10]]
    task = Task("inventory", options={"items": items, "batches": batches, "rule": rule})
    answer = report.ask(runner, "upshot", task, int(Inventory(items).low.sum()))
    for batch, times in answer.times.items() if answer else ():
        assert answer is not None
        first = batch == "1"
        report.rows.append(
            (
                f"{items:,}",
                CONTENDERS[rule],
                seconds(answer.seconds) if first else "",
                f"{answer.size:,}" if first else "",
                mebibytes(answer.memory) if first else "",
                batch,
                seconds(median(times)),
                seconds(percentile95(times)),
            )
        )
    return answer
