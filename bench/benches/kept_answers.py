"""B18: repeated queries on an unstored view."""

from __future__ import annotations

from bench.contenders.live_queries import CHAIN
from bench.process import Runner
from bench.report import Report, Scale, median, seconds
from bench.tasks import Task

COLUMNS = ("parameters", "on demand", "second query", "kept", "probes beside", "probes of ten", "rows kept")
BESIDE = 4.0
"""The number of probes of a commit that affects no kept answer."""


def kept_answers(runner: Runner, scale: Scale) -> Report:
    """B18: a query computed, repeated, and kept; the cost of kept answers in a commit (processor time)."""
    report = Report(
        "B18 kept answers: an unstored recursive view, asked for one value after the other, three times", COLUMNS
    )
    for count in (1_000,) if scale.quick else (1_000, 10_000):
        task = Task("kept_answers", options={"parameters": count})
        found = report.ask(runner, "kept_answers", task, CHAIN)
        if found is None:
            continue
        shown = [seconds(median(found.times[name])) for name in ("on demand", "begin", "kept")]
        report.rows.append(
            (f"{count:,}", *shown, *(f"{found.figures[name]:,.0f}" for name in ("beside", "of ten", "rows")))
        )
        if (found.figures["kept"], found.figures["hits"]) != (count, 2 * count):
            report.wrong.append(
                f"{count:,} parameters: {found.figures['kept']:.0f} kept, {found.figures['hits']:.0f} hits"
            )
        report.at_most(f"{count:,}: probes of a commit beside them", found.figures["beside"], BESIDE, " probes")
    return report
