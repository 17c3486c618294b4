"""B17: one rule activated for many values."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, median, ratio, seconds
from bench.tasks import Task

COLUMNS = (
    "activations", "activate", "deactivate", "commit asleep", "commit of one", "commit beside", "probes of one",
    "probes beside",
)  # fmt: skip
BESIDE = 1.5
"""The highest cost of many activations that a commit does not affect, as a multiple of one."""
GROWTH = 2.0
"""The highest cost of the last of many activations, as a multiple of the last of a thousand."""


def hundred_thousand_activations(runner: Runner, scale: Scale) -> Report:
    """B17: the cost of an activation, and its cost in commits that do not affect it (processor time)."""
    report = Report("B17 activations: one active rule, activated for one value after the other", COLUMNS)
    first = None
    for count in (1_000,) if scale.quick else (1_000, 100_000):
        task = Task("activations", options={"activations": count})
        found = report.ask(runner, "activations", task, 1)
        if found is None:
            continue
        middle = {name: median(times) for name, times in found.times.items()}
        times = ("activate", "deactivate", "commit asleep", "commit of one", "commit beside")
        shown = [seconds(middle[name]) for name in times]
        probes = [f"{found.figures[name]:.0f}" for name in ("probed", "probed beside")]
        report.rows.append((f"{count:,}", *shown, *probes))
        if found.figures["beside"]:
            report.wrong.append(f"{count:,} activations: the rule fired for a value that it is not active for")
        first = first or middle["activate"]
        report.at_most(f"{count:,}: activating within {GROWTH}× of the first size", middle["activate"] / first, GROWTH)
        beside = ratio(middle["commit beside"], middle["commit of one"])
        report.at_most(f"{count:,}: a commit beside them within {BESIDE}×", beside, BESIDE)
    return report
