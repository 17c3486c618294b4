"""A benchmark's result: figures in a table, targets met or missed, and wrong answers, which fail the run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from bench.process import Runner
from bench.tasks import Answer, Task


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a run: `quick` uses small inputs, `large` adds the largest ones, `rows` sets that of B7, B15, B19."""

    quick: bool = False
    large: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured figure; `met` is None without a comparison."""

    target: str
    measured: str
    met: bool | None


@dataclass(slots=True)
class Report:
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ask(
        self, runner: Runner, contender: str, task: Task, size: int | None, limit: float | None = None
    ) -> Answer | None:
        """The contender's answer, if it ran within the limit and its size is correct."""
        answer = runner.ask(contender, task, limit)
        where = f"{contender}, {task.kind} {task.graph or ''}".rstrip()
        if answer.error:
            self.wrong.append(f"{where}: {answer.error.strip()}")
        elif not answer.missing and size is not None and answer.size != size:
            self.wrong.append(f"{where}: {answer.size:,} tuples, exactly {size:,} expected")
        elif not answer.missing and not answer.unfinished:
            return answer
        return None

    def at_most(self, target: str, measured: float | None, bound: float, unit: str = "×") -> None:
        """A verdict on a figure that must not exceed `bound`; None without a comparison."""
        if measured is None:
            self.verdicts.append(Verdict(target, "nothing to compare with", None))
        else:
            self.verdicts.append(Verdict(target, f"{measured:.2f}{unit}", measured <= bound))

    def at_least(self, target: str, measured: float | None, bound: float, unit: str = "×") -> None:
        if measured is None:
            self.verdicts.append(Verdict(target, "nothing to compare with", None))
        else:
            self.verdicts.append(Verdict(target, f"{measured:.1f}{unit}", measured >= bound))


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def median(times: Sequence[float]) -> float:
    return statistics.median(times)


def percentile95(times: Sequence[float]) -> float:
    return sorted(times)[max(0, round(0.95 * len(times)) - 1)]


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.2f} ms"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"


def show(report: Report, console: Console) -> None:
    table = Table(title=report.title, title_justify="left", title_style="bold")
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="left" if number < 2 else "right")
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    for note in report.notes:
        console.print(f"  {note}", highlight=False, markup=False)
    for verdict in report.verdicts:
        word = {True: "[green]met[/]   ", False: "[red]missed[/]", None: "[yellow]open[/]  "}[verdict.met]
        console.print(f"  {word} {verdict.target}: {verdict.measured}", highlight=False)
    for wrong in report.wrong:
        console.print(f"  [bold red]WRONG[/] {wrong}", highlight=False)
    console.print()
