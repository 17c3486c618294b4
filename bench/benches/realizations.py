"""B11: requests to a view over a hundred thousand base facts."""

from __future__ import annotations

import json

from bench.process import Runner
from bench.report import Report, Scale, median, seconds
from bench.tasks import Task

COLUMNS = ("facts", "request", "realizations", "median", "slowest", "models", "propagations", "clingo, median")
TARGET = 100.0
"""Milliseconds for a request with at most ten realizations, all of them found."""
MEDIANS = {"take": 7.0, "lift": 4.0, "give": 48.0}
"""Milliseconds for the median request of a kind over 100,000 facts."""
FEW = 10
MOST_SECONDS = {"price list, all": 1.0, "revoke, fewest side effects": 0.2, "repairs": 5.0}
"""The time limit of requests at full size, in seconds."""
CLOSURES = {32: 0.5, 300: 2.0}
"""The same for the first ten realizations over a closure, by its edges."""


def view_updates(runner: Runner, scale: Scale) -> Report:
    """B11: all realizations of a request, compared with clingo's minimal models."""
    report = Report("B11 view updating: all realizations of a request, with their effects (processor time)", COLUMNS)
    for size in (10_000,) if scale.quick else (10_000, 100_000):
        task = Task("realizations", options={"facts": size, "each": 2 if scale.quick else 3})
        ours = report.ask(runner, "realizations", task, None)
        theirs = report.ask(runner, "clingo_realizations", task, None)
        if ours is None:
            continue
        found = json.loads(ours.notes["found"])
        if theirs is not None and found != json.loads(theirs.notes["found"]):
            report.wrong.append(f"{size:,} facts: the realizations are not clingo's minimal models")
        place, slowest = 0, 0.0
        for kind, times in ours.times.items():
            counts = [len(each) for each in found[place : place + len(times)]]
            place += len(times)
            slowest = max([slowest, *(spent for spent, count in zip(times, counts, strict=True) if count <= FEW)])
            if size == 100_000:
                report.at_most(f"{size:,} facts: {kind}, median", median(times) * 1e3, MEDIANS[kind], " ms")
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
    _targets(report, runner, scale)
    report.notes.append(
        "take: a right is to go; lift: a suspended one is to come; give: one is to come by grants alone"
    )
    report.notes.append("two requests of each kind come before the clock counts; clingo grounds the database for each")
    return report


def _targets(report: Report, runner: Runner, scale: Scale) -> None:
    """Add the requests over growing closures, grants and violations, each with its shortest time."""
    for edges, limit in CLOSURES.items():
        sizes = {"edges": edges, "grants": 1_000 if scale.quick else 50_000, "violations": 50 if scale.quick else 1_000}
        found = report.ask(runner, "realization_targets", Task("realization_targets", options=sizes), None)
        for name, times in (found.times if found is not None else {}).items():
            if name in MOST_SECONDS and edges != max(CLOSURES):
                continue
            label = f"{edges} edges: {name}" if name not in MOST_SECONDS else name
            report.rows.append((label, "first", "–", seconds(median(times)), seconds(max(times)), "–", "–", "–"))
            report.at_most(label, min(times), MOST_SECONDS.get(name, limit), " s")
