"""The value of an expression without variables, as facts may contain."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from upshot.check.constants import fit
from upshot.check.findings import Findings
from upshot.check.variables import fold
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.syntax.ast import Call, Constant, Term


class _NoValue(Exception):
    """Carries slug and message of what went wrong."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message


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
            args = [p for p in parts if p is not None]
            return Constant(_apply(current.function, args), None, span=current.span)
        except _NoValue as problem:
            failed = True
            findings.error(problem.slug, problem.message, current.span, label="has no value", help=_HELP[problem.slug])
            return None

    result = fold(term, visit)
    if result is None:
        return None
    value, problem = fit(result.value, type)
    if problem:
        findings.error("overflow", f"the value {problem}", term.span, label="has no value", help=_HELP["overflow"])
        return None
    return Constant(value, type.optional() if value is None else type.required(), span=term.span)


_HELP = {
    "overflow": "integers have 64 bits and decimals 18 digits; use smaller values or a float",
    "division-by-zero": "divide by something else",
    "negative-exponent": "use an exponent of at least 0, or floats",
    "not-a-number": "write digits in the text",
}


def _apply(function: str, args: list[Constant]) -> Any:
    values = [a.value for a in args]
    if any(v is None for v in values):
        return None
    first = values[0]
    if isinstance(first, float):
        return _FLOATS[function](*values) if function in _FLOATS else _ANY[function](*values)
    if isinstance(first, Decimal):
        return _ANY[function](*values)
    if isinstance(first, int) and not isinstance(first, bool) and function in _INTEGERS:
        unsigned = any(a.type is not None and a.type.kind is Kind.UNSIGNED for a in args)
        return _in_range(_INTEGERS[function](*values), function, unsigned)
    return _ANY[function](*values)


def _in_range(value: int, function: str, unsigned: bool) -> int:
    if unsigned and function == "bnot":
        return value % 2**64
    if value not in (UNSIGNED_RANGE if unsigned else NUMBER_RANGE):
        raise _NoValue("overflow", f"`{function}` leaves the range of 64-bit integers")
    return value


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise _NoValue("division-by-zero", "an integer is divided by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


def _power(a: int, b: int) -> int:
    if b < 0:
        raise _NoValue("negative-exponent", "an integer is raised to a negative power")
    if abs(a) > 1 and b > 64:
        raise _NoValue("overflow", "`^` leaves the range of 64-bit integers")
    if abs(a) > 1:
        return int(a**b)
    return 1 if b == 0 or a == 1 or (a == -1 and b % 2 == 0) else a


def _shift_left(a: int, b: int) -> int:
    if not 0 <= b < 64:
        raise _NoValue("overflow", f"cannot shift a 64-bit integer by {b}")
    return a << b


def _shift_right(a: int, b: int) -> int:
    if not 0 <= b < 64:
        raise _NoValue("overflow", f"cannot shift a 64-bit integer by {b}")
    return a >> b


def _float_divide(a: float, b: float) -> float:
    if b == 0.0:
        return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def _float_power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _to_number(text: str) -> int:
    try:
        return _in_range(int(text.strip()), "to_number", False) if len(text) < 64 else _not_a_number(text)
    except ValueError:
        return _not_a_number(text)


def _not_a_number(text: str) -> int:
    raise _NoValue("not-a-number", f'`to_number("{text[:40]}")`: the text is not a number')


def _substr(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length > 0 else ""


def _cat(*texts: str) -> str:
    return "".join(texts)


_INTEGERS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _remainder,
    "^": _power,
    "neg": lambda a: -a,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "bshl": _shift_left,
    "bshr": _shift_right,
}

_FLOATS: dict[str, Callable[..., Any]] = {"/": _float_divide, "^": _float_power}

_ANY: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "neg": lambda a: -a,
    "max": max,
    "min": min,
    "cat": _cat,
    "strlen": len,
    "substr": _substr,
    "ord": lambda text: ord(text[0]) if text else -1,
    "to_number": _to_number,
    "to_string": str,
}
