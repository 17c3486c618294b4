"""B19: a view that joins three tables, loaded from DataFrames."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, mebibytes, ratio, seconds
from bench.tasks import Task

ROWS = 10_000_000
QUICK = 300_000
FACTOR = 5
"""The most times that a load may take as long as the join by plain Spark."""
NAMES = {"plain": "plain Spark", "auto": "upshot, auto", "spark": "upshot, engine=spark"}


def loads_from_frames(runner: Runner, scale: Scale) -> Report:
    """From Parquet tables as DataFrames until the view is there; plain Spark writes its rows to Parquet."""
    rows = scale.rows or (QUICK if scale.quick else ROWS)
    columns = ("contender", "rows", "load", "processor time", "memory")
    report = Report(f"B19: a join of three tables loaded from DataFrames, {rows:,} rows", columns)
    answer = report.ask(runner, "frames", Task("frames", options={"rows": rows}), rows)
    if answer is None:
        return report
    for kind, name in NAMES.items():
        spent, memory = answer.figures[f"{kind} processor"], answer.figures[f"{kind} memory"]
        report.rows.append((name, f"{rows:,}", seconds(answer.times[kind][0]), seconds(spent), mebibytes(memory)))
    for kind in ("auto", "spark"):
        cost = ratio(answer.times[kind][0], answer.times["plain"][0])
        report.at_most(f"{NAMES[kind]}: at most {FACTOR} times plain Spark", cost, FACTOR)
        work = ratio(answer.figures[f"{kind} processor"], answer.figures["plain processor"])
        report.notes.append(f"{NAMES[kind]}: {work:.1f} times the processor time of plain Spark")
    return report
