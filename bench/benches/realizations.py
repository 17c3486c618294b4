"""B11: requests to a view over a hundred thousand base facts."""

from __future__ import annotations

import json

from bench.process import Runner
from bench.report import Report, Scale, median, seconds
from bench.tasks import Task

COLUMNS = ("facts", "request", "realisations", "median", "slowest", "models", "propagations", "clingo, median")
TARGET = 100.0
"""Milliseconds for a request with at most ten realisations, all of them found."""
FEW = 10


def view_updates(runner: Runner, scale: Scale) -> Report:
    """B11: all realisations of a request, compared with clingo's minimal models."""
    report = Report("B11 view updating: all realisations of a request, with their effects (processor time)", COLUMNS)
    for size in (10_000,) if scale.quick else (10_000, 100_000):
        task = Task("realizations", options={"facts": size, "each": 2 if scale.quick else 3})
        ours = report.ask(runner, "realizations", task, None)
        theirs = report.ask(runner, "clingo_realizations", task, None)
        if ours is None:
            continue
        found = json.loads(ours.notes["found"])
        if theirs is not None and found != json.loads(theirs.notes["found"]):
            report.wrong.append(f"{size:,} facts: the realisations are not clingo's minimal models")
        place, slowest = 0, 0.0
        for kind, times in ours.times.items():
            counts = [len(each) for each in found[place : place + len(times)]]
            place += len(times)
            slowest = max([slowest, *(spent for spent, count in zip(times, counts, strict=True) if count <= FEW)])
            compared = seconds(median(theirs.times[kind])) if theirs is not None else "–"
            report.rows.append(
                (
                    f"{ours.size:,}",
                    kind,
                    f"{min(counts)} to {max(counts)}",
                    seconds(median(times)),
                    seconds(max(times)),
                    f"≤ {ours.figures['models']:.0f}",
                    f"≤ {ours.figures['propagations']:.0f}",
                    compared,
                )
            )
        report.at_most(f"{size:,} facts: at most {TARGET:.0f} ms", slowest * 1e3, TARGET, " ms")
    report.notes.append(
        "take: a right is to go; lift: a suspended one is to come; give: one is to come by grants alone"
    )
    report.notes.append("two requests of each kind come before the clock counts; clingo grounds the database for each")
    return report
