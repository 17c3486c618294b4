"""B12: programs that analyses run, loaded from empty and changed by one row."""

from __future__ import annotations

from bench.process import Runner
from bench.programs import WORKLOADS
from bench.report import Report, Scale, Verdict, median, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("program", "size", "tuples", "load", "clingo", "DuckDB", "probed / derived", "delete", "insert")
PEERS = {"clingo": "clingo", "duckdb": "DuckDB"}

LIMITS = (300.0, 60.0)
"""The time limits of a peer for a program of full and of quick size, in seconds, its start included."""

PROBES = 20
"""The most look-ups for each row that points-to derives."""


def programs(runner: Runner, scale: Scale) -> Report:
    """Clingo grounds the same rules; its number of rows is the expected one for all contenders."""
    report = Report("B12 programs that analyses run (processor time; one row out and in: median)", COLUMNS)
    for name, workload in WORKLOADS.items():
        size, limit = workload.sizes[scale.quick], LIMITS[scale.quick]
        task = Task("program", None, {"program": name, "size": size, "changes": 5 if scale.quick else 20})
        peers: dict[str, Answer | None] = {}
        right: int | None = None
        for peer in PEERS:
            peers[peer] = answer = report.ask(runner, peer, task, right, limit)
            right = answer.size if right is None and answer is not None else right
        ours = report.ask(runner, "programs", task, right)
        if ours is None:
            continue
        cells = []
        for peer, theirs in peers.items():
            is_late = theirs is None and bool(runner.ask(peer, task, limit).unfinished)
            cells.append(f"> {limit:.0f} s" if is_late else "–" if theirs is None else seconds(theirs.seconds))
            target = f"{name}: at most the time of {PEERS[peer]}"
            if is_late:
                report.verdicts.append(Verdict(target, f"not finished within {limit:.0f} s", ours.seconds < limit))
            elif theirs is not None:
                report.at_most(target, ratio(ours.seconds, theirs.seconds), 1)
        _row(report, name, size, ours, cells)
        if name.startswith("points-to"):
            probes = ours.figures["probed"] / ours.figures["derived"]
            report.at_most(f"{name}: at most {PROBES} look-ups for each derived row", probes, PROBES)
    return report


def _row(report: Report, name: str, size: int, ours: Answer, peers: list[str]) -> None:
    report.rows.append(
        (
            name,
            f"{size:,}",
            f"{ours.size:,}",
            seconds(ours.seconds),
            *peers,
            f"{ours.figures['probed'] / ours.figures['derived']:.1f}",
            *(seconds(median(ours.times[kind])) for kind in ("delete", "insert")),
        )
    )
