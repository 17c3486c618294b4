"""B14: the queries of TPC-H as views; orders are inserted and deleted."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, mebibytes, median, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("scale", "contender", "definition", "load", "peak growth", "orders", "RF1 inserts", "RF2 deletes")


def tpch_refreshes(runner: Runner, scale: Scale) -> Report:
    """B14: from a refresh to all changed answers; DuckDB recomputes the queries that it may have changed."""
    report = Report(
        "B14 TPC-H: 22 queries as views through refreshes, against DuckDB answering 19 of them again", COLUMNS
    )
    factor = 0.01 if scale.quick else 0.1
    orders = [1, round(1500 * factor)]
    for count in orders:
        peer = _measure(report, runner, "duckdb", (factor, count), None)
        ours = _measure(report, runner, "upshot", (factor, count), peer.size if peer else None)
        for step in ("insert", "delete"):
            gained = ratio(
                median(peer.times[step][1:]) if peer else None, median(ours.times[step][1:]) if ours else None
            )
            report.at_least(f"scale {factor}, {count} orders, {step}: faster than DuckDB", gained, 1.0)
    return report


def _measure(
    report: Report, runner: Runner, system: str, size: tuple[float, int], expected: int | None
) -> Answer | None:
    factor, count = size
    options = {"system": system, "scale": factor, "orders": count, "steps": 8}
    answer = report.ask(runner, "tpch", Task("tpch", options=options), expected)
    if answer is not None:
        # The first refresh builds what the later ones find.
        report.rows.append(
            (
                f"{factor}",
                "upshot, views" if system == "upshot" else "duckdb, asked again",
                seconds(answer.figures["define"]) if "define" in answer.figures else "",
                seconds(answer.seconds),
                mebibytes(answer.memory),
                f"{count:,}",
                seconds(median(answer.times["insert"][1:])),
                seconds(median(answer.times["delete"][1:])),
            )
        )
    return answer
