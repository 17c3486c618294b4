"""Expressions as terms, with cases where a term cannot say it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import BOOLEAN, SYMBOL, Kind, Type
from upshot.sql.expressions.coercion import NUMERIC, cast, coerced, common_type, literal
from upshot.sql.expressions.column_types import column_type
from upshot.sql.expressions.formulas import FALSE, conjunction, conjuncts, disjunction, is_given, is_null
from upshot.sql.expressions.like import like_pattern
from upshot.sql.expressions.values import NULL, Case, TooManyCases, Value, combined, plain
from upshot.syntax.ast import Call, Constant, Formula, Term
from upshot.values.functions import FUNCTIONS
from upshot.values.signatures import only, spell

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
BOOLEANS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like,
    exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Escape, exp.Xor,
)  # fmt: skip
_FIELDS = "use a column, or arithmetic, CASE, COALESCE, NULLIF, ||, SUBSTRING, LENGTH, ABS, GREATEST, LEAST or CAST"


def value_of(block: Block, node: exp.Expression) -> Value:
    """What the expression stands for in the rows of the block."""
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
            return _negated(block, node)
        case exp.Subquery():
            return block.scalar(node)
        case exp.Cast() if not isinstance(node, exp.TryCast):
            wanted = column_type(statement, node.args["to"], node)
            return cast(statement, value_of(block, node.this), wanted, node)
    if isinstance(node, BOOLEANS):
        return _truth_value(block, node)
    if (made := _FUNCTIONS.get(type(node))) is not None:
        return made(block, node)
    if type(node) in _BUILT_IN:
        return _called(block, node)
    name = node.sql(statement.dialect)
    return statement.unsupported(f"`{name if len(name) < 60 else name[:57] + '…'}`", node, help=_FIELDS)


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


# ---- arithmetic -------------------------------------------------------------------------------


def _operands(block: Block, nodes: Sequence[exp.Expression]) -> tuple[list[Value], Type | None]:
    """The values as values of one type."""
    values = [value_of(block, node) for node in nodes]
    type = common_type(block.statement, values, nodes)
    return [coerced(block.statement, v, type, n) for v, n in zip(values, nodes, strict=True)], type


def _numeric(block: Block, node: exp.Expression, values: Sequence[Value], kinds: Sequence[Kind] = NUMERIC) -> None:
    for value in values:
        if value.type is not None and value.kind not in kinds:
            block.statement.refuse(
                "type-mismatch",
                f"`{value.type.required()}` cannot be used in arithmetic here",
                node,
                help="use numbers of one type" if value.kind not in NUMERIC else "decimals cannot be divided",
            )


def _arithmetic(block: Block, node: exp.Expression) -> Value:
    function = _ARITHMETIC[type(node)]
    if function == "*":
        values = [value_of(block, each) for each in (node.this, node.expression)]
        if {value.kind for value in values} <= {Kind.DECIMAL, Kind.NUMBER} and any(
            value.kind is Kind.DECIMAL for value in values
        ):
            return _product(block, node, values)
    values, type_ = _operands(block, (node.this, node.expression))
    _numeric(block, node, values)
    if type_ is None:
        return NULL
    wide = replace(type_, name="").widest() if type_.kind is Kind.DECIMAL else Type(type_.kind)
    return combined(values, lambda terms: Call(function, tuple(terms)), wide)


def _product(block: Block, node: exp.Expression, values: Sequence[Value]) -> Value:
    """The product of decimals, which has the digits of both behind the point."""
    as_decimals = []
    for value, each in zip(values, (node.this, node.expression), strict=True):
        if value.kind is Kind.NUMBER:
            if value.constant is None:
                block.statement.refuse(
                    "type-mismatch", "`number` and `decimal` cannot be mixed", each, help="declare both as decimals"
                )
            value = coerced(block.statement, value, Type(Kind.DECIMAL, precision=18), each)
        as_decimals.append(value)
    scale = sum(value.type.scale for value in as_decimals if value.type is not None)
    if scale > 18:
        block.statement.unsupported("a product with too many decimal places", node, help="use columns of smaller scale")
    wide = Type(Kind.DECIMAL, precision=18, scale=scale)
    return combined(as_decimals, lambda terms: Call("*", tuple(terms)), wide)


def _division(block: Block, node: exp.Expression) -> Value:
    values, type_ = _operands(block, (node.this, node.expression))
    _numeric(block, node, values, (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT))
    if type_ is None:
        return NULL
    whole = type_.kind is not Kind.FLOAT
    if whole and isinstance(node, exp.Div) and not node.args.get("typed"):
        block.statement.unsupported("division of integers", node, help="write `a DIV b` for integer division")
    if not whole and isinstance(node, exp.IntDiv):
        block.statement.unsupported("DIV of floats", node, help="divide with `/`")
    return combined(values, lambda terms: Call("/", tuple(terms)), Type(type_.kind))


def _modulo(block: Block, node: exp.Expression) -> Value:
    values, type_ = _operands(block, (node.this, node.expression))
    _numeric(block, node, values, (Kind.NUMBER, Kind.UNSIGNED))
    return NULL if type_ is None else combined(values, lambda terms: Call("%", tuple(terms)), Type(type_.kind))


def _negated(block: Block, node: exp.Neg) -> Value:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return literal(block.statement, inner, negative=True)
    value = value_of(block, inner)
    _numeric(block, node, [value], (Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL))
    return combined([value], lambda terms: Call("neg", tuple(terms)), value.type)


def _absolute(block: Block, node: exp.Expression) -> Value:
    value = value_of(block, node.this)
    _numeric(block, node, [value], (Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL))
    return combined([value], lambda terms: Call("max", (terms[0], Call("neg", (terms[0],)))), value.type)


# ---- cases ------------------------------------------------------------------------------------


def _case(block: Block, node: exp.Expression) -> Value:
    """CASE in both forms, and IF."""
    subject = node.args.get("this") if isinstance(node, exp.Case) else None
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    results = [branch.args["true"] for branch in branches] + [default if default is not None else exp.Null()]
    values, type_ = _operands(block, results)
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
    values, type_ = _operands(block, nodes)
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
    value = value_of(block, node.this)
    equal = block.holds(same, value=True, certain=True)
    other = block.holds(same, value=False, certain=False)
    cases = [Case(conjuncts(equal), Constant(None)), *_under([other], value)]
    return Value(tuple(cases), None if value.type is None else value.type.optional())


def _extreme(block: Block, node: exp.Expression) -> Value:
    """GREATEST and LEAST, which skip NULL."""
    function = "max" if isinstance(node, exp.Greatest) else "min"
    values, type_ = _operands(block, [node.this, *node.expressions])
    result = values[0]
    for value in values[1:]:
        result = _larger(function, result, value, type_)
    return result


def _larger(function: str, left: Value, right: Value, type_: Type | None) -> Value:
    both = combined([left, right], lambda terms: Call(function, tuple(terms)), type_)
    if type_ is None or not (left.nullable or right.nullable):
        return both
    cases: list[Case] = []
    left_given, left_missing = _given_or_not(left)
    right_given, right_missing = _given_or_not(right)
    for case in left_given:
        for other in right_given:
            cases.append(Case((*case.when, *other.when), Call(function, (case.term, other.term))))
        cases.append(Case(conjuncts(conjunction((*case.when, right_missing))), case.term))
    cases += [Case(conjuncts(conjunction((left_missing, *case.when))), case.term) for case in right_given]
    cases.append(Case(conjuncts(conjunction((left_missing, right_missing))), Constant(None)))
    return Value(tuple(cases), replace(type_, nullable=left.nullable and right.nullable))


# ---- text -------------------------------------------------------------------------------------


def _text(block: Block, node: exp.Expression) -> Value:
    value = value_of(block, node)
    if value.type is not None and value.kind is not Kind.SYMBOL:
        block.statement.refuse(
            "type-mismatch", f"`{value.type.required()}` is not text", node, help="use CAST(… AS TEXT)"
        )
    return value


def _joined(block: Block, node: exp.Expression) -> Value:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    values = [_text(block, part) for part in parts]
    if isinstance(node, exp.Concat) and any(value.nullable for value in values):
        block.statement.unsupported(
            "CONCAT of nullable values", node, help="use `||`, and COALESCE(…, '') for nullable values"
        )
    if len(values) == 1:
        return values[0]
    return combined(values, lambda terms: Call("cat", tuple(terms)), SYMBOL)


def _called(block: Block, node: exp.Expression) -> Value:
    """A function of SQL that is a built-in and nothing else: its arguments in their order."""
    function, nodes = FUNCTIONS[_BUILT_IN[type(node)]], list(node.iter_expressions())
    signature = function.signature
    if signature.uniform:
        values, _ = _operands(block, nodes)
    else:
        values = [value_of(block, each) for each in nodes]
    for position, (value, each) in enumerate(zip(values, nodes, strict=True)):
        wanted = signature.argument(position)
        if value.type is not None and not only(value.type.kind) & wanted:
            message = f"`{value.type.required()}` is not {spell(wanted)}"
            hint = "use CAST(… AS TEXT)" if wanted == only(Kind.SYMBOL) else "use a value of that type"
            block.statement.refuse("type-mismatch", message, each, help=hint)
    types = [value.type for value in values if value.type is not None]
    if len(types) < len(values):
        return NULL
    return combined(values, lambda terms: Call(function.name, tuple(terms)), function.result(types))


def _substring(block: Block, node: exp.Expression) -> Value:
    text = _text(block, node.this)
    start, length = (_whole(block, node.args.get(key), node) for key in ("start", "length"))
    if start is None or start < 1:
        block.statement.unsupported("this start of SUBSTRING", node, help="the first character is 1")

    def part(terms: Sequence[Term]) -> Term:
        size: Term = Call("strlen", (terms[0],)) if length is None else Constant(length)
        return Call("substr", (terms[0], Constant(start - 1), size))

    return combined([text], part, SYMBOL)


def _whole(block: Block, node: exp.Expression | None, whole: exp.Expression) -> int | None:
    if node is None:
        return None
    constant = value_of(block, node).constant
    if constant is None or not isinstance(constant.value, int) or constant.value < 0:
        block.statement.unsupported("this SUBSTRING position", whole, help="give its positions as numbers")
    return constant.value


def like_test(block: Block, node: exp.Expression) -> tuple[Value, Constant]:
    """The text that LIKE tests, and the pattern as `match` has it."""
    escape = None
    if isinstance(node, exp.Escape):
        escape = node.expression.name
        node = node.this
    pattern = value_of(block, node.expression).constant
    if pattern is None or not isinstance(pattern.value, str):
        block.statement.unsupported("LIKE with a computed pattern", node, help="write the pattern as text")
    return _text(block, node.this), Constant(like_pattern(pattern.value, escape), SYMBOL)


_FUNCTIONS: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.Div: _division,
    exp.IntDiv: _division,
    exp.Mod: _modulo,
    exp.Abs: _absolute,
    exp.Case: _case,
    exp.If: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.DPipe: _joined,
    exp.Concat: _joined,
    exp.Substring: _substring,
}
_BUILT_IN: dict[type[exp.Expression], str] = {
    getattr(exp, spelling): name for name, function in FUNCTIONS.items() for spelling in function.sql
}
