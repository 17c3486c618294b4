"""B15: Spark over many base rows on this machine: a join that is not recursive, and a closure of as many rows."""

from __future__ import annotations

from bench import graphs
from bench.process import Runner
from bench.report import Report, Scale, mebibytes, seconds
from bench.tasks import Task

ROWS = 1_000_000
LARGE = 100_000_000
QUICK = 100_000
GRID = graphs.grid_closure_size(14)


def many_rows(runner: Runner, scale: Scale) -> Report:
    """The peak is that of Python, Java and the workers together; the disk holds tables, views and shuffles."""
    rows = scale.rows or (QUICK if scale.quick else LARGE if scale.large else ROWS)
    columns = ("work", "contender", "rows", "load", "insert", "delete", "count", "recompute", "memory", "disk")
    report = Report(f"B15: {rows:,} rows on Spark", columns)
    for kind, size in (("large_join", rows), ("large_closure", max(1, rows // GRID) * GRID)):
        answer = report.ask(runner, "large", Task(kind, options={"rows": rows}), size)
        if answer is None:
            continue
        times = [seconds(answer.times[k][0]) if k in answer.times else "–" for k in columns[3:8]]
        used = (mebibytes(answer.peak), mebibytes(answer.figures["disk peak"]))
        report.rows.append((kind.removeprefix("large_"), "upshot", f"{answer.size:,}", *times, *used))
    report.notes.append("insert, delete: a thousand rows of the join's view; one edge of the closure")
    return report
