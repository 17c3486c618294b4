"""B6: initial computation of recursive views on Spark, compared with hand-written Spark programs."""

from __future__ import annotations

from bench import graphs
from bench.benches.load import G1K, G5K
from bench.process import Runner
from bench.report import Report, Scale, ratio, seconds
from bench.tasks import Answer, Graph, Task

GRID50 = Graph("grid", (50,))
PROGRAMS = ("right-linear", "left-linear", "non-linear")
COLUMNS = ("work", "contender", "time", "tuples", "Upshot is faster")
CAP = 180.0
"""The time limit of the plain loop, in seconds; a time beyond it is printed with a `≥`."""


def spark_recursion(runner: Runner, scale: Scale) -> Report:
    """B6: closure in three forms and two kinds of keys, same generation, and the large closure."""
    report = Report("B6 recursion on Spark, from nothing, in one session (local[2])", COLUMNS)
    grid = Graph("grid", (10,)) if scale.quick else GRID50
    for graph, bound in ((grid, 30.0), (G1K, 5.0)):
        for form in ("integer", "text"):
            _closure(report, runner, Graph(graph.kind, graph.measures, form), bound, cte=form == "integer")
    _same_generation(report, runner, grid)
    if not scale.quick:
        _large(report, runner)
    _components(report, runner, Graph("blocks", (400, 900) if scale.quick else (20_000, 60_000)))
    return report


def _closure(report: Report, runner: Runner, graph: Graph, bound: float, *, cte: bool) -> None:
    size = graph.closure_size()
    options = {"programs": list(PROGRAMS), "loop": CAP, "cte": cte, "size": size}
    answer = report.ask(runner, "spark", Task("spark_closure", graph, options), size)
    if answer is None:
        _absent(report, runner, Task("spark_closure", graph, options))
        return
    for name in PROGRAMS:
        faster = ratio(answer.figures["loop"], answer.figures[name])
        shown = f"{faster:.0f} ×" if faster else ""
        report.rows.append((f"{graph} {name}", "upshot", seconds(answer.figures[name]), f"{size:,}", shown))
        report.at_least(f"{graph} {name}: at least {bound:.0f} × faster than the plain loop", faster, bound)
    _loop_row(report, str(graph), answer, size)
    for union in ("UNION", "UNION ALL"):
        if union in answer.notes:
            shown = "an error" if answer.notes[union].startswith("[") else answer.notes[union]
            report.rows.append((str(graph), f"recursive CTE, {union}", shown, "", ""))
            report.notes.append(f"{graph}, recursive CTE, {union}: {answer.notes[union]}")


def _loop_row(report: Report, work: str, answer: Answer, size: int) -> None:
    stopped = answer.notes.get("loop", "")
    shown = f"{'≥ ' if stopped else ''}{seconds(answer.figures['loop'])}"
    rounds = f"plain loop, {answer.figures['loop rounds']:.0f} rounds"
    report.rows.append((work, rounds, shown, stopped or f"{size:,}", ""))


def _same_generation(report: Report, runner: Runner, graph: Graph) -> None:
    size = graphs.grid_same_generation_size(*graph.measures)
    task = Task("spark_same_generation", graph, {"loop": CAP, "size": size})
    answer = report.ask(runner, "spark", task, size)
    if answer is None:
        return
    faster = ratio(answer.figures["loop"], answer.figures["upshot"])
    shown = f"{faster:.1f} ×" if faster else ""
    report.rows.append((f"sg {graph}", "upshot", seconds(answer.figures["upshot"]), f"{size:,}", shown))
    _loop_row(report, f"sg {graph}", answer, size)
    report.at_least(f"sg {graph}: at least 3 × faster than the plain loop", faster, 3.0)


def _large(report: Report, runner: Runner) -> None:
    size = G5K.closure_size()
    task = Task("spark_closure", G5K, {"programs": ["right-linear"], "size": size})
    ours = report.ask(runner, "spark", task, size)
    theirs = report.ask(runner, "duckdb", Task("closure", G5K), size)
    mine = ours.figures["right-linear"] if ours else None
    if mine is not None:
        report.rows.append((f"{G5K} right-linear", "upshot", seconds(mine), f"{size:,}", ""))
    faster = ratio(theirs.seconds if theirs else None, mine)
    if theirs:
        shown = f"{faster:.1f} ×" if faster else ""
        report.rows.append((str(G5K), "duckdb, recursive CTE", seconds(theirs.seconds), f"{size:,}", shown))
    report.at_least(f"{G5K}: faster than DuckDB's recursive CTE", faster, 1.0)


def _components(report: Report, runner: Runner, graph: Graph) -> None:
    """One row for every node that has an edge; no target, since GraphFrames' algorithm needs no closure."""
    edges = graph.edges()
    size = len({*edges[:, 0].tolist(), *edges[:, 1].tolist()})
    task = Task("spark_components", graph, {"size": size})
    for contender, figure in (("spark", "upshot"), ("graphframes", "")):
        answer = report.ask(runner, contender, task, size)
        if answer is None:
            _absent(report, runner, task, contender)
        else:
            spent = answer.figures[figure] if figure else answer.seconds
            report.rows.append((f"components {graph}", figure or contender, seconds(spent), f"{size:,}", ""))


def _absent(report: Report, runner: Runner, task: Task, contender: str = "spark") -> None:
    reason = runner.ask(contender, task).missing
    if reason:
        report.rows.append((str(task.graph), contender, "left out", "", ""))
        report.notes.append(f"{contender}: {reason}")
