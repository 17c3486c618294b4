"""B5 and B9: views that are not stored, and eighty constraints in one propagation."""

from __future__ import annotations

from collections.abc import Sequence

from bench.modules import PAPER
from bench.process import Runner
from bench.report import Report, Scale, median, ratio, seconds
from bench.tasks import Answer, Graph, Task
from upshot.strategies.strategy import on_demand

BLOCKS = (2000, 6000)
FLAT = 1.5
"""The highest cost of the same change in a database a hundred times larger, as a multiple."""
SHARED = 3.0
"""The highest cost of eighty constraints, as a multiple of the most expensive one."""


def without_stored_views(runner: Runner, scale: Scale) -> Report:
    """B5: no view tuple is stored, and the cost of a change does not depend on the size of the database."""
    columns = ("work", "strategy", "delete", "insert", "first", "probed", "asked", "answered", "recomputed", "ratio")
    report = Report("B5 one-row changes, no view stored (median processor time; deltas read)", columns)
    for strategy in on_demand():
        _blocks(report, runner, scale, strategy)
    for view in PAPER:
        for strategy in on_demand():
            _view(report, runner, scale, view, strategy)
    report.notes.append("stored view tuples: 0, asserted after every change")
    report.notes.append("recomputed: all rows of the view and of what it rests on, bottom up; both threads count")
    return report


def _sizes(scale: Scale) -> Sequence[int]:
    return (1, 10) if scale.quick else (1, 10, 100)


def _blocks(report: Report, runner: Runner, scale: Scale, strategy: str) -> None:
    base = None
    for factor in _sizes(scale):
        graph = Graph("blocks", (BLOCKS[0] * factor, BLOCKS[1] * factor))
        options = {"strategy": strategy, "edges": 20 if scale.quick else 60}
        answer = report.ask(runner, "on_demand", Task("edges", graph, options), None)
        whole = report.ask(runner, "on_demand", Task("edges", graph, {"strategy": "recompute", "edges": 3}), None)
        recomputed = median(whole.times["insert"]) if whole else None
        _row(report, str(graph), strategy, answer, recomputed)
        base = base or answer
        if factor > 1:
            _flat(report, f"blocks × {factor}", strategy, answer, base)


def _view(report: Report, runner: Runner, scale: Scale, view: str, strategy: str) -> None:
    base = None
    for copies in _sizes(scale):
        answer = _changes(report, runner, scale, view, strategy, copies)
        again = _changes(report, runner, scale, view, "recompute", copies)
        recomputed = median(again.times["insert"]) if again else None
        _row(report, f"{view} × {copies}", strategy, answer, recomputed)
        if copies == 1:
            base = answer
            _against_the_paper(report, view, strategy, answer, recomputed)
        else:
            _flat(report, f"{view} × {copies}", strategy, answer, base)


def _changes(report: Report, runner: Runner, scale: Scale, view: str, strategy: str, copies: int) -> Answer | None:
    links = 10 if scale.quick else 30
    if strategy == "recompute":
        links = min(links, 200 // copies)
    options = {"strategy": strategy, "view": view, "copies": copies, "links": links}
    return report.ask(runner, "on_demand", Task("modules", options=options), None)


def _against_the_paper(
    report: Report, view: str, strategy: str, answer: Answer | None, recomputed: float | None
) -> None:
    ours = ratio(recomputed, median(answer.times["insert"]) if answer else None)
    report.at_least(
        f"{view}, {strategy}: at least the paper's {PAPER[view]:.1f} × over recomputation", ours, PAPER[view]
    )
    if answer is not None:
        asked = median(answer.times["asked again"])
        report.notes.append(f"{view}, {strategy}: asking for all its rows again takes {seconds(asked)}")


def _flat(report: Report, work: str, strategy: str, answer: Answer | None, base: Answer | None) -> None:
    for kind in ("delete", "insert"):
        large, small = (median(each.times[kind]) if each else None for each in (answer, base))
        report.at_most(f"{work}, {strategy}, {kind}: at most {FLAT} × the small one", ratio(large, small), FLAT)


def _row(report: Report, work: str, strategy: str, answer: Answer | None, recomputed: float | None) -> None:
    if answer is None:
        return
    delete, insert = (median(answer.times[kind]) for kind in ("delete", "insert"))
    times = ratio(recomputed, insert)
    report.rows.append(
        (
            work,
            strategy,
            seconds(delete),
            seconds(insert),
            seconds(answer.figures["first"]),
            *(f"{answer.figures[counter]:,.0f}" for counter in ("probed", "asked", "answered")),
            seconds(recomputed) if recomputed is not None else "",
            f"{times:.1f}×" if times is not None else "",
        )
    )


def eighty_constraints(runner: Runner, scale: Scale) -> Report:
    """B9: one new import, seen by eighty integrity views at once."""
    columns = ("work", "strategy", "all 80, insert", "delete", "dearest one", "insert", "delete", "ratio")
    report = Report("B9 eighty integrity views on one propagation (median processor time; deltas read)", columns)
    right: str | None = None
    for strategy in ("recompute", "auto", *on_demand()):
        dearest: list[str] = []
        for copies in (1,) if strategy == "recompute" else _sizes(scale):
            if copies > 10 and strategy != "auto" and not scale.large:
                continue
            options = {"strategy": strategy, "copies": copies, "links": 6 if scale.quick else 16, "dearest": dearest}
            answer = report.ask(runner, "on_demand", Task("integrity", options=options), None)
            if answer is None:
                continue
            right = right or answer.notes["digest"]
            if answer.notes["digest"] != right:
                report.wrong.append(f"{strategy}, modules × {copies}: other changes than by recomputation")
            dearest = [_constraints(report, strategy, copies, answer)]
    report.notes.append(
        "×100 for stored views and the strategies of the target: a load that reports its changes is slow"
    )
    report.notes.append("every strategy reports the same changes, row by row, as recomputation does")
    return report


def _constraints(report: Report, strategy: str, copies: int, answer: Answer) -> str:
    """A row and a verdict; the answer is that of the most expensive constraint."""
    names = answer.notes["dearest"].split()
    one = max(names, key=lambda name: median(answer.times[f"insert {name}"] + answer.times[f"delete {name}"]))
    every = [median(answer.times[kind]) for kind in ("insert", "delete")]
    single = [median(answer.times[f"{kind} {one}"]) for kind in ("insert", "delete")]
    shared = sum(every) / sum(single)
    figures = (*map(seconds, every), one, *map(seconds, single), f"{shared:.2f}×")
    report.rows.append((f"modules × {copies}", strategy, *figures))
    if strategy != "recompute":
        report.at_most(f"modules × {copies}, {strategy}: at most {SHARED:g} × the dearest one", shared, SHARED)
    return one
