"""B10: a thousand subscribers of one view, and a hundred commits a second."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, seconds
from bench.tasks import Task

COLUMNS = ("subscribers", "commits", "rate", "events", "lost", "median", "p99", "max", "commit p99")
P99 = 250.0
"""Milliseconds from sending a transaction to its event at 99 of 100 subscribers."""


def thousand_subscribers(runner: Runner, scale: Scale) -> Report:
    """B10: every subscriber gets every delta in order; from the sending of a transaction to its arrival."""
    report = Report("B10 one view followed over HTTP: from the transaction to its event", COLUMNS)
    for subscribers in (100,) if scale.quick else (100, 1000):
        options = {"subscribers": subscribers, "rate": 100, "seconds": 3.0 if scale.quick else 20.0}
        expected = round(subscribers * options["rate"] * options["seconds"])
        answer = report.ask(runner, "subscribers", Task("subscribers", options=options), expected)
        if answer is None:
            continue
        found = answer.figures
        if found["losses"]:
            report.wrong.append(f"{subscribers:,} subscribers: {found['losses']:.0f} lost; {answer.notes['wrong']}")
        report.rows.append(
            (
                f"{subscribers:,}",
                f"{found['commits']:,.0f}",
                f"{found['rate']:.1f}/s",
                f"{answer.size:,}",
                f"{found['losses']:,.0f}",
                *(seconds(found[name]) for name in ("p50", "p99", "max", "commit p99")),
            )
        )
        report.at_most(
            f"{subscribers:,} subscribers, {options['rate']} commits/s: p99 at most {P99:.0f} ms",
            found["p99"] * 1e3, P99, " ms",
        )  # fmt: skip
    report.notes.append("server, and subscribers with the committing client, are a process each on the same machine")
    report.notes.append("commits are durable (one fsync for those that wait together) before anybody hears of them")
    return report
