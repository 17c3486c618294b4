"""B3 and B4: an edge is deleted and inserted; the closure is maintained."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, mebibytes, median, percentile95, ratio, seconds
from bench.tasks import Answer, Graph, Task

COLUMNS = ("work", "contender", "load", "tuples", "peak growth", "delete", "p95", "insert", "p95")
SMALL = (2000, 6000)
MILLISECOND = 1e-3


def _task(measures: tuple[int, int], scale: Scale, form: str = "integer") -> Task:
    return Task("changes", Graph("blocks", measures, form), {"edges": 50 if scale.quick else 200})


def changes_small(runner: Runner, scale: Scale) -> Report:
    """B3: against Pathway in the same run."""
    report = Report("B3 one-edge changes of a materialized closure (median over the edges; deltas read)", COLUMNS)
    size = Graph("blocks", SMALL).closure_size()
    answers = {}
    for form in ("integer", "text", "ternary"):
        answers[form] = report.ask(runner, "upshot", _task(SMALL, scale, form), size)
        _row(report, _task(SMALL, scale, form), "upshot", answers[form])
    pathway = report.ask(runner, "pathway", _task(SMALL, scale), size)
    _row(report, _task(SMALL, scale), "pathway", pathway)
    if pathway is None:
        report.rows.append(("", "pathway", runner.ask("pathway", _task(SMALL, scale)).missing, *[""] * 6))
    for form, answer in answers.items():
        for kind in ("delete", "insert"):
            middle = median(answer.times[kind]) * 1e3 if answer else None
            report.at_most(f"{form} keys, {kind}: median at most 1 ms", middle, 1.0, " ms")
    _against_pathway(report, answers["integer"], pathway)
    return report


def _against_pathway(report: Report, ours: Answer | None, pathway: Answer | None) -> None:
    """Compared with the best case of Pathway: deletions are sent without waiting for previous answers."""
    delete = median(ours.times["delete"]) if ours else None
    pipelined = pathway.figures["pipelined delete"] if pathway else None
    if pathway and pipelined is not None:
        report.rows.append(("", "pathway, pipelined", "", "", "", seconds(pipelined), "", "", ""))
    report.at_most("delete: under half of Pathway's (pipelined)", ratio(delete, pipelined), 0.5)
    speedup = ratio(pathway.seconds if pathway else None, ours.seconds if ours else None)
    report.at_least("load: at least 20 × faster than Pathway", speedup, 20)


def changes_follow_the_change(runner: Runner, scale: Scale) -> Report:
    """B4: the same changes in a graph a hundred times larger."""
    report = Report("B4 the same, the untouched part grown", COLUMNS)
    base = report.ask(runner, "upshot", _task(SMALL, scale), Graph("blocks", SMALL).closure_size())
    _row(report, _task(SMALL, scale), "upshot", base)
    for factor in (10,) if scale.quick else (10, 100):
        measures = (SMALL[0] * factor, SMALL[1] * factor)
        task = _task(measures, scale)
        answer = report.ask(runner, "upshot", task, Graph("blocks", measures).closure_size())
        _row(report, task, "upshot", answer)
        for kind in ("delete", "insert"):
            large, small = (median(a.times[kind]) if a else None for a in (answer, base))
            report.at_most(f"{kind}, graph × {factor}: median at most 1.5 × B3's", ratio(large, small), 1.5)
    return report


def _row(report: Report, task: Task, contender: str, answer: Answer | None) -> None:
    if answer is None:
        return
    figures = [f(answer.times[kind]) for kind in ("delete", "insert") for f in (median, percentile95)]
    report.rows.append(
        (
            str(task.graph),
            contender,
            seconds(answer.seconds),
            f"{answer.size:,}",
            mebibytes(answer.memory),
            *(seconds(figure) for figure in figures),
        )
    )
