"""Translate expressions to values: terms, with cases if one term is not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.diagnostic import did_you_mean
from upshot.core.types import BOOLEAN, SYMBOL, Kind, Type
from upshot.sql.expressions.arithmetic import ARITHMETIC, negated
from upshot.sql.expressions.coercion import NUMERIC, cast, coerced, literal, operands, to_any_decimal
from upshot.sql.expressions.column_types import column_type, is_any_decimal
from upshot.sql.expressions.dates import DATES
from upshot.sql.expressions.formulas import FALSE, conjunction, conjuncts, disjunction, is_given, is_null
from upshot.sql.expressions.texts import TEXTS
from upshot.sql.expressions.values import NULL, Case, TooManyCases, Value, applied, call, combined, plain
from upshot.sql.spellings import OUTPUT
from upshot.syntax.ast import Call, Constant, Formula
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import MARK, signature_of
from upshot.values.signatures import only, spell

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block


# ---- CASE, COALESCE, NULLIF, GREATEST and LEAST ------------------------------------------------------------


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
        condition = branch.this if subject is None else subject.eq(branch.this)
        when = block.holds(condition, value=True, certain=True)
        cases += _under([*before, when], value)
        before.append(block.holds(condition, value=False, certain=False))
    cases += _under(before, values[-1])
    nullable = any(value.nullable for value in values)
    return Value(tuple(cases), None if type_ is None else replace(type_, nullable=nullable))


def _under(when: Sequence[Formula], value: Value) -> list[Case]:
    """The cases of the value under further conditions, without impossible ones."""
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
    """The cases in which the value is not NULL, and the condition for its being NULL."""
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
    same = node.this.eq(node.expression)
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
    both = applied(function, [left, right], type_)
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


# ---- expressions -------------------------------------------------------------------------------------------


BOOLEANS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like,
    exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape, exp.Xor, exp.ILike,
)  # fmt: skip
SORT_KEY = "sort key"
"""The function that orders the rows of SEARCH and identifies those of CYCLE; its name cannot be written in SQL."""
_FIELDS = "use columns, arithmetic, CASE, CAST or a function that the SQL reference lists"


_CURES: dict[type[exp.Expression], str] = {
    exp.ArrayAgg: "there is no array type: use string_agg, or select a row for each element",
    exp.Array: "there is no array type: write VALUES, or a table with a row for each element",
    exp.Rand: "a view must give the same rows for the same tables: draw the numbers in the program",
}
"""Help for functions without a counterpart."""


def value_of(block: Block, node: exp.Expression) -> Value:
    """The value of the expression in the rows of the block."""
    if (known := block.grouped_value(node)) is not None:
        return known
    try:
        return _value(block, node)
    except TooManyCases:
        block.statement.refuse(
            "too-many-alternatives",
            "the expression has too many alternatives",
            node,
            help="compute a part of it in a view",
        )


def _value(block: Block, node: exp.Expression) -> Value:
    statement = block.statement
    match node:
        case exp.Paren() | exp.Alias():
            return value_of(block, node.this)
        case exp.Column():
            return block.column(node)
        case exp.Literal():
            return literal(statement, node)
        case exp.Boolean():
            return plain(Constant(bool(node.this), BOOLEAN), BOOLEAN)
        case exp.Null():
            return NULL
        case exp.Placeholder() | exp.Parameter():
            return block.parameter(node)
        case exp.Neg():
            return negated(block, node)
        case exp.Subquery():
            return block.scalar(node)
        case exp.Cast() if not isinstance(node, exp.TryCast):
            if is_any_decimal(statement, node.args["to"]):
                return to_any_decimal(statement, value_of(block, node.this), node)
            return _cast(block, node)
    if isinstance(node, BOOLEANS):
        return _truth_value(block, node)
    if (made := _FUNCTIONS.get(type(node))) is not None:
        return made(block, node)
    if type(node) in _BUILT_IN:
        return _called(block, node)
    name = node.sql(statement.dialect)
    if isinstance(node, exp.Anonymous):
        return _own_function(block, node)
    if (cure := _CURES.get(type(node))) is not None:
        statement.unsupported(f"`{name}`", node, help=cure)
    return statement.unsupported(f"`{name if len(name) < 60 else name[:57] + '…'}`", node, help=_FIELDS)


def _cast(block: Block, node: exp.Cast) -> Value:
    value, expected = value_of(block, node.this), column_type(block.statement, node.args["to"], node)
    if value.kind is Kind.BOOLEAN and expected.kind is Kind.NUMBER:
        return _case(block, exp.case().when(node.this, "1").when(exp.not_(node.this), "0"))
    made = cast(block.statement, value, expected, node)
    if value.kind is Kind.BOOLEAN and node.meta.get(OUTPUT):
        return combined([made], lambda terms: call("left", (terms[0], Constant(1))), SYMBOL)
    return made


def _truth_value(block: Block, node: exp.Expression) -> Value:
    """A condition as a value: true, false or NULL."""
    cases = [
        Case(conjuncts(block.holds(node, value=value, certain=True)), Constant(value, BOOLEAN))
        for value in (True, False)
    ]
    unknown = block.can_be_unknown(node)
    if unknown:
        neither = (block.holds(node, value=value, certain=False) for value in (True, False))
        cases.append(Case(conjuncts(conjunction(neither)), Constant(None)))
    return Value(tuple(cases), replace(BOOLEAN, nullable=unknown))


# ---- functions ----------------------------------------------------------------------------------


def _called(block: Block, node: exp.Expression) -> Value:
    """A function of SQL that is a built-in function with the same arguments."""
    function, nodes = FUNCTIONS[_BUILT_IN[type(node)]], list(node.iter_expressions())
    signature = function.signature
    if signature.uniform:
        values, _ = operands(block, nodes)
    else:
        values = [block.value(each) for each in nodes]
    for position, (value, each) in enumerate(zip(values, nodes, strict=True)):
        expected = signature.argument(position)
        if value.type is not None and not only(value.type.kind) & expected:
            message = f"`{value.type.required()}` is not {spell(expected)}"
            hint = "use CAST(… AS TEXT)" if expected == only(Kind.SYMBOL) else "use a value of that type"
            block.statement.refuse("type-mismatch", message, each, help=hint)
    types = [value.type for value in values if value.type is not None]
    if len(types) < len(values):
        return NULL
    return combined(values, lambda terms: call(function.name, terms), function.result(types))


def _own_function(block: Block, node: exp.Anonymous) -> Value:
    """A function of the user, which the program declares with `.functor`."""
    statement, functors = block.statement, block.translation.functors
    if node.name == SORT_KEY:
        return applied("sort_key", [block.value(node.expressions[0])], SYMBOL)
    names = [name for name in functors if name.lower() == f"{MARK}{node.name.lower()}"]
    if not names:
        hint = did_you_mean(node.name, [name.removeprefix(MARK) for name in functors]) or (
            f"declare one of your own: `.functor {node.name.lower()}(x: number): number`, or use a function that the "
            "SQL reference lists"
        )
        statement.refuse("sql-unsupported", f"there is no function `{node.name}`", node, help=hint)
    name = f"{MARK}{node.name}" if f"{MARK}{node.name}" in names else names[0]
    expected, result = signature_of(functors[name])
    if len(expected) != len(node.expressions):
        statement.refuse(
            "wrong-arity", f"`{node.name}` takes {len(expected)} arguments, not {len(node.expressions)}", node,
            help=f"it is declared as `{functors[name]}`",
        )  # fmt: skip
    values = [argument_of(block, each, type) for each, type in zip(node.expressions, expected, strict=True)]
    # In a rule of a view the checker adds the types: it knows when the function is replaced.
    called = name if block.translation.is_view else functors[name]
    return combined(values, lambda terms: Call(called, tuple(terms)), result)


def argument_of(block: Block, node: exp.Expression, expected: Type) -> Value:
    """An argument of a function of the user, converted to the declared type; numbers can be converted to floats."""
    value = block.value(node)
    if value.type is None or value.kind is expected.kind:
        return value
    numbers = expected.kind is Kind.FLOAT and value.kind in NUMERIC
    literal_of = value.constant is not None and (value.kind, expected.kind) in (
        (Kind.NUMBER, Kind.UNSIGNED), (Kind.SYMBOL, Kind.DATE), (Kind.SYMBOL, Kind.TIMESTAMP),
    )  # fmt: skip
    if not (numbers or literal_of):
        block.statement.refuse(
            "type-mismatch", f"`{value.type.required()}` is not `{expected}`", node, help=f"use CAST(… AS {expected})"
        )
    return coerced(block.statement, value, expected, node)


_FUNCTIONS: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    **ARITHMETIC, **CASES, **DATES, **TEXTS
}  # fmt: skip
_BUILT_IN: dict[type[exp.Expression], str] = {
    getattr(exp, spelling): name for name, function in FUNCTIONS.items() for spelling in function.sql
}
