"""Properties of a plan for the assembler: how its heads are emitted, whether workers may share it, and the variables of
its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile

from upshot.engine.local.components.externs import needs_python
from upshot.engine.local.kernel import layout as op
from upshot.plan.rule_plan import (
    Absent,
    Action,
    Change,
    Check,
    Compare,
    Compute,
    Drive,
    Probe,
    RulePlan,
    Same,
    State,
    Step,
)
from upshot.syntax.ast import Call, Variable

STATE_BIT = {State.OLD: op.OLD, State.NEW: op.NEW, State.KEPT: op.OLD | op.NEW, State.PROVEN: op.PROVEN}
"""The state bits of the rows in each state."""

_EMITTED = {
    Action.INSERT: op.INSERT,
    Action.DELETE: op.DELETE,
    Action.REDERIVE: op.REDERIVE,
    Action.ASK: op.DELETE,
    Action.PROVE: op.PROVE,
    Action.GAIN: op.GAIN,
    Action.LOSE: op.LOSE,
}

_OF_ROW = {Action.REDERIVE: op.RETURN, Action.PROVE: op.PROVE_ROW}


def emitted(plan: RulePlan) -> int:
    """The kernel's action on the plan's heads; a head that is the driving row itself is not looked up."""
    of_head = plan.driver is not None and plan.driver.of_head and plan.action in _OF_ROW
    if of_head and not any(needs_python(step, plan.types) for step in plan.steps):
        return _OF_ROW[plan.action]
    return _EMITTED[plan.action]


def can_share(plan: RulePlan) -> bool:
    """Test whether workers may run the plan side by side: it inserts, needs no Python, and reads no relation row by
    row."""
    if plan.action is not Action.INSERT or any(needs_python(step, plan.types) for step in plan.steps):
        return False
    return all(step.whole or step.match.key for step in plan.steps if isinstance(step, Probe))


def driving_bits(driver: Drive) -> tuple[int, int]:
    """Mask and value of a driving row's state bits: deleted rows are in the old state (rows to be rederived: and
    neither rederived nor proven yet), inserted and rederived rows in the new one."""
    if driver.change is Change.ALL:
        return STATE_BIT[driver.match.state], STATE_BIT[driver.match.state]
    if driver.change is Change.DELETED:
        return (op.OLD | op.NEW | op.PROVEN if driver.of_head else op.OLD | op.PROVEN), op.OLD
    bits = STATE_BIT[driver.match.state] if driver.change is Change.REDERIVED else op.NEW
    return bits, bits


def used_names(steps: Iterable[Step]) -> set[str]:
    names: set[str] = set()
    for step in steps:
        match step:
            case Probe(match):
                names |= {o.name for _, o in match.key if isinstance(o, Variable)}
            case Absent(_, _, operands):
                names |= {o.name for o in operands if isinstance(o, Variable)}
            case Compare(_, left, right) | Same(left, right):
                names |= {o.name for o in (left, right) if isinstance(o, Variable)}
            case Compute(_, value):
                args = value.args if isinstance(value, Call) else (value,)
                names |= {o.name for o in args if isinstance(o, Variable)}
            case Check(test):
                names |= {o.name for o in test.args if isinstance(o, Variable)}
    return names


def prefix(steps: list[Step], condition: Callable[[Step], bool]) -> list[Step]:
    """The steps before the first one that does not satisfy the condition."""
    return list(takewhile(condition, steps))
