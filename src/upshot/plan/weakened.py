"""Weaken a rule plan: the result never fails, and derives at least the heads of the original."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from upshot.plan.rule_plan import Absent, Check, Compare, Compute, Match, Operand, Probe, RulePlan, Same, Step
from upshot.syntax.ast import Call, Variable
from upshot.values.conditions import TESTS


def weakened(plan: RulePlan, kept: Sequence[int], never_left_out: Collection[str]) -> RulePlan:
    """The plan without computations and pattern matches, and without the steps that need their results, with only the
    arguments `kept` of its head. Relations in `never_left_out` are always probed, with the remaining columns of the
    key; the variables of the kept arguments occur in literals of these relations."""
    lost: set[str] = set()
    steps: list[Step] = []
    for step in plan.steps:
        match step:
            case Compute(target, value):
                if isinstance(value, Call) or _uses((value,), lost):
                    lost.add(target)
                    continue
            case Probe(match):
                key = tuple(pair for pair in match.key if not _uses((pair[1],), lost))
                if len(key) < len(match.key):
                    if match.relation not in never_left_out:
                        lost.update(name for _, name in match.binds)
                        continue
                    step = Probe(replace(match, key=key))
            case Absent(_, _, operands):
                if _uses(operands, lost):
                    continue
            case Compare(_, left, right) | Same(left, right):
                if _uses((left, right), lost):
                    continue
            case Check(test):
                operands = tuple(arg for arg in test.args if isinstance(arg, Variable))
                if TESTS[test.name].fails or _uses(operands, lost):
                    continue
        steps.append(step)
    return replace(plan, steps=tuple(steps), arguments=tuple(plan.arguments[place] for place in kept))


def reads_any(plan: RulePlan, relations: Collection[str]) -> bool:
    """Test whether the plan looks rows up in one of the relations."""
    probed: list[Match] = [step.match for step in plan.steps if isinstance(step, Probe)]
    return any(match.relation in relations for match in probed)


def _uses(operands: Sequence[Operand], names: Collection[str]) -> bool:
    return any(isinstance(operand, Variable) and operand.name in names for operand in operands)
