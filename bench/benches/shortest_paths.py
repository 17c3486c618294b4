"""B16: an edge of a weighted graph is deleted and inserted; all shortest paths from one node are maintained."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, median, percentile95, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("graph", "kept by", "load", "nodes reached", "delete", "p95", "insert", "p95")


def shortest_paths(runner: Runner, scale: Scale) -> Report:
    """Against recomputation by the same engine; every contender compares its distances with Dijkstra's algorithm."""
    report = Report(
        "B16 one-edge changes of shortest paths on a cyclic graph (median over the edges; deltas read)", COLUMNS
    )
    edges = 100_000 if scale.quick else 1_000_000
    kept = _answer(report, runner, edges, "policy=strict", 100)
    anew = _answer(report, runner, edges, "strategy=recompute", 3)
    peer = _answer(report, runner, edges, "Differential Dataflow", 100, contender="differential")
    for kind in ("delete", "insert"):
        ours, theirs = (median(each.times[kind]) if each else None for each in (kept, anew))
        report.at_least(f"{kind}: at least 100 × faster than recomputation", ratio(theirs, ours), 100)
        its = median(peer.times[kind]) if peer else None
        report.at_most(f"{kind}: at most the time of Differential Dataflow", ratio(ours, its), 1)
    if kept and peer and kept.size != peer.size:
        report.wrong.append(f"differential: {peer.size:,} nodes reached, exactly {kept.size:,} expected")
    return report


def _answer(
    report: Report, runner: Runner, edges: int, option: str, changes: int, contender: str = "shortest_paths"
) -> Answer | None:
    options = {"nodes": edges // 5, "edges": edges, "changes": changes, "option": option}
    answer = report.ask(runner, contender, Task("shortest_paths", None, options), None)
    if answer is not None:
        figures = [f(answer.times[kind]) for kind in ("delete", "insert") for f in (median, percentile95)]
        row = (f"{edges:,} edges", option, seconds(answer.seconds), f"{answer.size:,}", *map(seconds, figures))
        report.rows.append(row)
    return answer
