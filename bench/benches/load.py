"""B1 and B2: initial computation of recursive views."""

from __future__ import annotations

from bench import graphs
from bench.process import Runner
from bench.report import Report, Scale, mebibytes, ratio, seconds
from bench.tasks import Answer, Graph, Task

G1K, G5K = Graph("random", (1000, 10)), Graph("random", (5000, 5))
COLUMNS = ("work", "contender", "time", "tuples", "peak growth", "bytes/tuple", "Upshot takes")
PEERS = ("duckdb", "souffle", "clingo")
CLINGO_AT_MOST = 2_000_000


def closure(runner: Runner, scale: Scale) -> Report:
    """B1: closure, and the same with wider values."""
    report = Report("B1 transitive closure, from nothing", COLUMNS)
    small = (G1K, Graph("grid", (50,)))
    full = () if scale.quick else (G5K, Graph("grid", (100,)))
    for graph in (*small, *full):
        _against_peers(report, runner, Task("closure", graph), graph.closure_size(), targets=graph in (full or small))
    _forms(report, runner, G1K if scale.quick else G5K)
    return report


def _against_peers(report: Report, runner: Runner, task: Task, size: int, *, targets: bool) -> None:
    ours = report.ask(runner, "upshot", task, size)
    theirs: dict[str, Answer | None] = {}
    _row(report, task, "upshot", ours, ours)
    for peer in PEERS:
        if peer == "clingo" and size > CLINGO_AT_MOST:
            continue  # about 3.5 µs and 300 bytes a tuple: it would take minutes and the machine's memory
        theirs[peer] = report.ask(runner, peer, task, size)
        if theirs[peer] is None and runner.ask(peer, task).missing:
            report.rows.append((str(task.graph), peer, runner.ask(peer, task).missing, "", "", "", ""))
        else:
            _row(report, task, peer, theirs[peer], ours)
    if not targets:
        return
    mine = ours.seconds if ours else None
    duckdb, souffle = (a.seconds if a else None for a in (theirs["duckdb"], theirs["souffle"]))
    report.at_most(f"{task.graph}: at most 0.15 × DuckDB's recursive CTE", ratio(mine, duckdb), 0.15)
    report.at_most(f"{task.graph}: at most 0.1 × Soufflé compiled", ratio(mine, souffle), 0.1)
    report.at_most(f"{task.graph}: at most 4 bytes a tuple", ours.bytes_per_tuple if ours else None, 4, " bytes")


def _forms(report: Report, runner: Runner, graph: Graph) -> None:
    """The cost per tuple of 64-bit numbers, text keys and a third column, compared with pairs of small integers."""
    base = report.ask(runner, "upshot", Task("closure", graph), graph.closure_size())
    for form, words in (("large", "ids above 2**32"), ("text", "text keys"), ("ternary", "a label as third column")):
        other = Graph(graph.kind, graph.measures, form)
        answer = report.ask(runner, "upshot", Task("closure", other), other.closure_size())
        _row(report, Task("closure", other), "upshot", answer, None)
        mine, pair = (a.seconds / a.size if a else None for a in (answer, base))
        report.at_most(f"{graph} with {words}: at most 2.5 × the integer pair", ratio(mine, pair), 2.5)


def same_generation(runner: Runner, scale: Scale) -> Report:
    """B2: same generation on a grid: a third of a million joins, few tuples."""
    report = Report("B2 same generation, from nothing", COLUMNS)
    for size in (50,) if scale.quick else (50, 100):
        task = Task("same_generation", Graph("grid", (size,)))
        expected = graphs.grid_same_generation_size(size)
        ours = report.ask(runner, "upshot", task, expected)
        _row(report, task, "upshot", ours, ours)
        theirs = report.ask(runner, "duckdb", task, expected)
        _row(report, task, "duckdb", theirs, ours)
        souffle = report.ask(runner, "souffle", task, expected)
        _row(report, task, "souffle", souffle, ours)
        compared = ratio(ours.seconds if ours else None, theirs.seconds if theirs else None)
        report.at_most(f"sg grid{size}: no slower than DuckDB", compared, 1.0)
    return report


def _row(report: Report, task: Task, contender: str, answer: Answer | None, ours: Answer | None) -> None:
    if answer is None:
        return
    compared = ratio(ours.seconds if ours else None, answer.seconds)
    report.rows.append(
        (
            str(task.graph),
            contender,
            seconds(answer.seconds),
            f"{answer.size:,}",
            mebibytes(answer.memory),
            f"{answer.bytes_per_tuple:.0f}",
            "" if compared is None or contender == "upshot" else f"{compared:.2f} ×",
        )
    )
