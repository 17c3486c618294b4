"""Warnings about rules that are right one by one, and doubtful together."""

from __future__ import annotations

from collections.abc import Mapping

from upshot.check.active.triggering import Triggering, triggering
from upshot.check.findings import Findings
from upshot.check.program import CheckedProgram
from upshot.core.span import Span


def warn_of_interplay(program: CheckedProgram, findings: Findings) -> None:
    """Reports cycles of rules, and rules whose order matters though they have none."""
    if not program.rules:
        return
    found = triggering(program)
    spans = {rule.name: rule.span for rule in program.rules}
    _cycles(found, spans, findings)
    for conflict in found.conflicts:
        findings.warn(
            "rule-order-matters",
            f"rules `{conflict.first}` and `{conflict.second}` have no order: {conflict.reason}",
            spans[conflict.second],
            label="runs second because it is defined later",
            help=f"set the order: `precedes={conflict.second}` for `{conflict.first}`, or a `priority`",
        )


def _cycles(found: Triggering, spans: Mapping[str, Span | None], findings: Findings) -> None:
    for cycle in found.cycles:
        alone = len(cycle) == 1
        findings.warn(
            "rules-may-not-terminate",
            ("rule" if alone else "rules")
            + f" {' → '.join(f'`{edge.source}`' for edge in cycle)} may not terminate: "
            + ", ".join(map(str, cycle)),
            spans[cycle[0].source],
            label="can trigger itself" if alone else "part of a cycle",
            help="let the action make the condition false; otherwise a limit on firings stops it",
        )
