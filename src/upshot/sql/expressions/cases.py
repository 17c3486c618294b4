"""CASE, COALESCE, NULLIF, GREATEST and LEAST: a case for each thing they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import Type
from upshot.sql.expressions.coercion import operands
from upshot.sql.expressions.formulas import FALSE, conjunction, conjuncts, disjunction, is_given, is_null
from upshot.sql.expressions.values import Case, TooManyCases, Value, call, combined
from upshot.syntax.ast import Constant, Formula

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block


def _case(block: Block, node: exp.Expression) -> Value:
    """CASE in both forms, and IF."""
    subject = node.args.get("this") if isinstance(node, exp.Case) else None
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    results = [branch.args["true"] for branch in branches] + [default if default is not None else exp.Null()]
    values, type_ = operands(block, results)
    before: list[Formula] = []
    cases: list[Case] = []
    for branch, value in zip(branches, values, strict=False):
        condition = branch.this if subject is None else exp.EQ(this=subject.copy(), expression=branch.this.copy())
        when = block.holds(condition, value=True, certain=True)
        cases += _under([*before, when], value)
        before.append(block.holds(condition, value=False, certain=False))
    cases += _under(before, values[-1])
    nullable = any(value.nullable for value in values)
    return Value(tuple(cases), None if type_ is None else replace(type_, nullable=nullable))


def _under(when: Sequence[Formula], value: Value) -> list[Case]:
    """The cases of the value that are left under further conditions."""
    found = [Case(conjuncts(conjunction((*when, *case.when))), case.term) for case in value.cases]
    if len(found) > 256:
        raise TooManyCases
    return [case for case in found if FALSE not in case.when]


def _coalesce(block: Block, node: exp.Expression) -> Value:
    nodes = [node.this, *node.expressions]
    values, type_ = operands(block, nodes)
    before: list[Formula] = []
    cases: list[Case] = []
    for position, value in enumerate(values):
        last = position == len(values) - 1 or not value.nullable
        if last:
            cases += _under(before, value)
            break
        given, missing = _given_or_not(value)
        cases += [Case(conjuncts(conjunction((*before, *case.when))), case.term) for case in given]
        before.append(missing)
    nullable = all(value.nullable for value in values)
    return Value(tuple(cases), None if type_ is None else replace(type_, nullable=nullable))


def _given_or_not(value: Value) -> tuple[list[Case], Formula]:
    """The cases in which the value is not NULL, and the condition under which it is."""
    given = [
        Case((*case.when, is_given(case.term)), case.term)
        for case in value.cases
        if not (isinstance(case.term, Constant) and case.term.value is None)
    ]
    missing = [
        conjunction(case.when)
        if isinstance(case.term, Constant) and case.term.value is None
        else conjunction((*case.when, is_null(case.term)))
        for case in value.cases
    ]
    return given, disjunction(missing)


def _nullif(block: Block, node: exp.Expression) -> Value:
    same = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    value = block.value(node.this)
    equal = block.holds(same, value=True, certain=True)
    other = block.holds(same, value=False, certain=False)
    cases = [Case(conjuncts(equal), Constant(None)), *_under([other], value)]
    return Value(tuple(cases), None if value.type is None else value.type.optional())


def _extreme(block: Block, node: exp.Expression) -> Value:
    """GREATEST and LEAST, which skip NULL."""
    function = "max" if isinstance(node, exp.Greatest) else "min"
    values, type_ = operands(block, [node.this, *node.expressions])
    result = values[0]
    for value in values[1:]:
        result = _larger(function, result, value, type_)
    return result


def _larger(function: str, left: Value, right: Value, type_: Type | None) -> Value:
    both = combined([left, right], lambda terms: call(function, terms), type_)
    if type_ is None or not (left.nullable or right.nullable):
        return both
    cases: list[Case] = []
    left_given, left_missing = _given_or_not(left)
    right_given, right_missing = _given_or_not(right)
    for case in left_given:
        for other in right_given:
            cases.append(Case((*case.when, *other.when), call(function, (case.term, other.term))))
        cases.append(Case(conjuncts(conjunction((*case.when, right_missing))), case.term))
    cases += [Case(conjuncts(conjunction((left_missing, *case.when))), case.term) for case in right_given]
    cases.append(Case(conjuncts(conjunction((left_missing, right_missing))), Constant(None)))
    return Value(tuple(cases), replace(type_, nullable=left.nullable and right.nullable))


CASES: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    exp.Case: _case,
    exp.If: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
}
