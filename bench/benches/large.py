"""B15: Spark over many base rows on one machine: a non-recursive join, and a closure of as many rows."""

from __future__ import annotations

from bench import graphs
from bench.process import Runner
from bench.report import Report, Scale, Verdict, mebibytes, ratio, seconds
from bench.tasks import Answer, Task

ROWS = 1_000_000
LARGE = 100_000_000
QUICK = 200_000
GRID = graphs.grid_closure_size(14)


def many_rows(runner: Runner, scale: Scale) -> Report:
    """The peak of Python, Java and the workers together; the disk has tables, views and shuffles."""
    rows = scale.rows or (QUICK if scale.quick else LARGE if scale.large else ROWS)
    columns = ("work", "contender", "rows", "load", "insert", "delete", "count", "recompute", "memory", "disk")
    report = Report(f"B15: {rows:,} rows on Spark", columns)
    for kind in ("join", "closure"):
        small, large = (_measured(report, runner, kind, each) for each in (rows // 10, rows))
        if large is None:
            continue
        for change in ("insert", "delete"):
            cost = ratio(large.times[change][0], large.times["recompute"][0])
            _judged(report, rows, f"{kind}, {change}: at most 1/20 of recomputation", cost, 1 / 20, "×")
            if small is not None:
                grown = large.times[change][0] / small.times[change][0]
                report.notes.append(f"{kind}, {change}: {grown:.1f} × the time at {rows // 10:,} rows")
        _judged(report, rows, f"{kind}: within 16 GiB", large.peak / 2**30, 16, " GiB")
    report.notes.append(
        "insert, delete: a batch of 1,000 changes; of the join's customers as many as have 1,000 orders"
    )
    report.notes.append("recompute: the join by plain Spark, the closure loaded by Upshot once more")
    return report


def _measured(report: Report, runner: Runner, kind: str, rows: int) -> Answer | None:
    size = rows if kind == "join" else max(1, rows // GRID) * GRID
    answer = report.ask(runner, "large", Task(f"large_{kind}", options={"rows": rows}), size)
    if answer is not None:
        times = [seconds(answer.times[k][0]) for k in report.columns[3:8]]
        used = (mebibytes(answer.peak), mebibytes(answer.figures["disk peak"]))
        report.rows.append((kind, "upshot", f"{answer.size:,}", *times, *used))
    return answer


def _judged(report: Report, rows: int, target: str, measured: float | None, bound: float, unit: str) -> None:
    """A verdict at the size of the target; at other sizes there is only the figure."""
    if rows >= LARGE or measured is None:
        report.at_most(target, measured, bound, unit)
    else:
        report.verdicts.append(Verdict(f"{target}, at {LARGE:,} rows", f"{measured:.2f}{unit} at {rows:,}", None))
