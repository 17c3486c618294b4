"""B13: many followers of one query with different parameters."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, median, ratio, seconds
from bench.tasks import Task

COLUMNS = ("followers", "subscribe, median", "commit before", "commit beside", "commit of ten", "probes of ten")
SUBSCRIBE = 5.0
"""The time limit of a subscription, in milliseconds."""
BESIDE = 1.5
"""The highest factor by which followers that a commit does not affect may slow it down."""
TOUCHED = 10


def hundred_thousand_followers(runner: Runner, scale: Scale) -> Report:
    """B13: the cost of following a query, and its cost in commits that do not affect it (processor time)."""
    report = Report("B13 live queries: followers of one unstored recursive view, each with a value of its own", COLUMNS)
    for followers in (1_000,) if scale.quick else (1_000, 100_000):
        task = Task("live_queries", options={"followers": followers})
        found = report.ask(runner, "live_queries", task, TOUCHED)
        if found is None:
            continue
        middle = {name: median(times) for name, times in found.times.items()}
        shown = [seconds(middle[name]) for name in ("subscribe", "commit before", "commit beside", "commit of ten")]
        report.rows.append((f"{followers:,}", *shown, f"{found.figures['probed']:.0f}"))
        if found.figures["beside"]:
            report.wrong.append(f"{followers:,} followers: one heard of a commit that does not concern it")
        report.at_most(f"{followers:,}: subscribe in {SUBSCRIBE:.0f} ms", middle["subscribe"] * 1e3, SUBSCRIBE, " ms")
        beside = ratio(middle["commit beside"], middle["commit before"])
        report.at_most(f"{followers:,}: a commit beside them within {BESIDE}×", beside, BESIDE)
    report.notes.append("each follower has the rows that its value reaches; the commit of ten touches ten of them")
    return report
