"""The value of an expression without variables, as facts may contain."""

from __future__ import annotations

from upshot.check.findings import Findings
from upshot.check.names.variables import fold
from upshot.check.types.constants import fit
from upshot.core.errors import DataError
from upshot.core.types import Type
from upshot.syntax.ast import Call, Constant, Term
from upshot.values.functions import FUNCTIONS


def evaluate(term: Term, type: Type, findings: Findings) -> Constant | None:
    """The constant that a ground, typed term stands for; None when it has no value, which is reported."""
    if isinstance(term, Constant):
        return term
    failed = False

    def visit(current: Term, parts: tuple[Constant | None, ...]) -> Constant | None:
        nonlocal failed
        if isinstance(current, Constant):
            return current
        if not isinstance(current, Call) or failed:
            return None
        try:
            return _applied(current, [part for part in parts if part is not None])
        except DataError as problem:
            failed = True
            findings.error(problem.code, problem.message, current.span, label="has no value", help=problem.help)
            return None

    result = fold(term, visit)
    if result is None:
        return None
    value, problem = fit(result.value, type)
    if problem:
        findings.error("overflow", f"the value {problem}", term.span, label="has no value", help=_HELP)
        return None
    return Constant(value, type.optional() if value is None else type.required(), span=term.span)


_HELP = "integers have 64 bits, decimals 18 digits, or 38 with more than 18 places; use smaller values or a float"


def _applied(call: Call, args: list[Constant]) -> Constant:
    """The value of a call on constants, as rules compute it."""
    function, types = FUNCTIONS[call.function], [each.type for each in args if each.type is not None]
    assert len(types) == len(args), "constants among operands are typed"
    type = function.result(types)
    values = [each.value for each in args]
    value = None if None in values else function.call(types[0].kind, type)(*values)
    return Constant(value, type.optional() if value is None else type, span=call.span)
