"""Rule plans that look at changed rows alone: which of them can some literal match?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upshot.check.program import Clause
from upshot.plan.order_body import Resolved
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import driven_plan
from upshot.plan.statistics import Statistics

MATCHED = "'matched"
"""The relation of the changed rows that some literal matches; no relation of a user is called so."""


def guard_plans(guards: Iterable[Clause], statistics: Statistics) -> Iterator[RulePlan]:
    """The guards of `rewrite.screening`, each driven by the rows that go and by those that come."""
    for guard in guards:
        for change, state in ((Change.DELETED, State.OLD), (Change.INSERTED, State.NEW)):
            yield driven_plan(
                "guard", guard, None, 0, change, Action.INSERT,
                lambda name, state=state: Resolved(name, state),  # type: ignore[misc]
                statistics, head=MATCHED, seed=True,
            )  # fmt: skip
