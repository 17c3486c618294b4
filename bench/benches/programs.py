"""B12: programs that analyses run, loaded from empty and changed by one row."""

from __future__ import annotations

from bench.process import Runner
from bench.programs import WORKLOADS
from bench.report import Report, Scale, median, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("program", "size", "tuples", "load", "clingo", "DuckDB", "probed / derived", "delete", "insert")

PROBES = 20
"""The most look-ups for each row that points-to derives."""


def programs(runner: Runner, scale: Scale) -> Report:
    """Clingo grounds the same rules, so that its number of rows is the right one for everybody."""
    report = Report("B12 programs that analyses run (processor time; one row out and in: median)", COLUMNS)
    for name, workload in WORKLOADS.items():
        size = workload.sizes[scale.quick]
        task = Task("program", None, {"program": name, "size": size, "changes": 5 if scale.quick else 20})
        clingo = report.ask(runner, "clingo", task, None)
        right = clingo.size if clingo is not None else None
        duckdb = report.ask(runner, "duckdb", task, right)
        ours = report.ask(runner, "programs", task, right)
        if ours is None:
            continue
        _row(report, name, size, ours, (clingo, duckdb))
        for peer, theirs in (("clingo", clingo), ("DuckDB", duckdb)):
            if theirs is not None:
                report.at_most(f"{name}: at most the time of {peer}", ratio(ours.seconds, theirs.seconds), 1)
        if name.startswith("points-to"):
            probes = ours.figures["probed"] / ours.figures["derived"]
            report.at_most(f"{name}: at most {PROBES} look-ups for each derived row", probes, PROBES)
    return report


def _row(report: Report, name: str, size: int, ours: Answer, peers: tuple[Answer | None, ...]) -> None:
    report.rows.append(
        (
            name,
            f"{size:,}",
            f"{ours.size:,}",
            seconds(ours.seconds),
            *(seconds(peer.seconds) if peer is not None else "–" for peer in peers),
            f"{ours.figures['probed'] / ours.figures['derived']:.1f}",
            *(seconds(median(ours.times[kind])) for kind in ("delete", "insert")),
        )
    )
