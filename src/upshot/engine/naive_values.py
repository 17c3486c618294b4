"""The oracle's values: equality, order, functors, folds and records, one value at a time."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
import string
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from upshot.core.errors import DataError, OverflowError_
from upshot.core.types import FLOAT as FLOAT_TYPE
from upshot.core.types import NUMBER, NUMBER_RANGE, UNSIGNED, UNSIGNED_RANGE, Kind, Type
from upshot.engine.naive_functions import FUNCTIONS, kth, postgres_quotient
from upshot.engine.naive_windows import functions as window_functions

_ATOM = re.compile(r'(date|timestamp)\("([^"]*)"\)|[^\s,\[\]()]+')
_ESCAPE = re.compile(r"\\(x..|u....|U........|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def make(form: str, *fields: Any) -> str:
    """The text of a value whose form is `P(number, record)` or `$Tag(symbol)`."""
    name, kinds = form[:-1].split("(")
    shown = [show(each, kind) for each, kind in zip(fields, kinds.split(", "), strict=False)]
    if not name.startswith("$"):
        return "[" + ", ".join(shown) + "]"
    return name + ("(" + ", ".join(shown) + ")" if shown else "")


def show(value: Any, kind: str) -> str:
    match value:
        case str() if kind == "record":
            return value
        case str():
            return '"' + "".join(map(_escaped, value)) + '"'
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else f"{value}"
        case dt.datetime():
            return f'timestamp("{value.replace(tzinfo=None).isoformat()}Z")'
        case dt.date():
            return f'date("{value}")'
    return repr(value)


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    for name, meant in _LETTERS.items():
        if letter == meant:
            return "\\" + name
    code = ord(letter)
    if letter.isprintable():
        return letter
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def field(kind: str, text: str, place: int) -> Any:
    """The field of a value; where there is none, some value of the kind that nobody looks at."""
    tree = read(text)
    if tree is None or place + 1 >= len(tree):
        return {"number": 0, "unsigned": 0, "float": 0.0, "symbol": "", "boolean": False, "record": "nil",
                "date": dt.date(1970, 1, 1), "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}[kind]  # fmt: skip
    value = tree[place + 1]
    if kind == "record":
        return unread(value)
    return float(value) if kind == "float" else value


def has_tag(tag: str, text: str) -> bool:
    tree = read(text)
    return tree is not None and tree[0] == tag


def unread(value: Any) -> str:
    """The text of what `read` has given."""
    if value is None:
        return "nil"
    shown = [unread(each) if each is None or isinstance(each, tuple) else show(each, "") for each in value[1:]]
    if not value[0]:
        return "[" + ", ".join(shown) + "]"
    return f"${value[0]}" + ("(" + ", ".join(shown) + ")" if shown else "")


def read(text: str) -> Any:
    value, end = _value(text, 0)
    assert end == len(text), text
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] == "[":
        fields, at = _fields(text, at + 1, "]")
        return ("", *fields), at
    if text[at] == "$":
        found = re.compile(r"\$([\w?.]+)").match(text, at)
        assert found
        if text[found.end() : found.end() + 1] != "(":
            return (found[1],), found.end()
        fields, at = _fields(text, found.end() + 1, ")")
        return (found[1], *fields), at
    if text[at] == '"':
        end = at + 1
        while text[end] != '"':
            end += 2 if text[end] == "\\" else 1
        return _ESCAPE.sub(_letter, text[at + 1 : end]), end + 1
    found = _ATOM.match(text, at)
    assert found, text
    return _atom(found), found.end()


def _fields(text: str, at: int, closing: str) -> tuple[list[Any], int]:
    fields = []
    while text[at] != closing:
        value, at = _value(text, at)
        fields.append(value)
        if text[at] == ",":
            at += 2
    return fields, at + 1


def _letter(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _LETTERS.get(code, code)


def _atom(found: re.Match[str]) -> Any:
    if found[1]:
        return (dt.date if found[1] == "date" else dt.datetime).fromisoformat(found[2])
    match found[0]:
        case "nil":
            return None
        case "true" | "false" as word:
            return word == "true"
        case word if re.fullmatch(r"-?[0-9]+", word):
            return int(word)
        case word:
            return float(word)


Functions = Mapping[str, Callable[..., Any]]

NAN = math.nan
"""The only NaN that enters a set: sets look at identity first, so NaN equals NaN."""

COMPARISONS: Functions = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "punct": re.escape(string.punctuation),
    "space": r"\s",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


def python_pattern(pattern: str) -> str:
    """The usual part of Soufflé's patterns in Python's spelling; `std::regex` judges all of them in the tests."""
    named = {".": r"[^\n\r]", "^": r"\A", "$": r"\Z"}

    def piece(found: re.Match[str]) -> str:
        return named.get(found[0]) or re.sub(r"\[:(\w+):\]", lambda name: CLASSES[name[1]], found[0])

    return re.sub(r"\[\^?(?:\[:\w+:\]|\\.|[^]\\])*\]|\\.|[.^$]", piece, pattern, flags=re.DOTALL)


LIBRARY: Functions = {**FUNCTIONS, **window_functions()}

TESTS: Functions = {
    "true": lambda: True,
    "false": lambda: False,
    "contains": lambda needle, text: needle in text,
    "[]": has_tag,
    "match": lambda pattern, text: re.fullmatch(python_pattern(pattern), text, re.ASCII) is not None,
}
FUNCTORS: Functions = {
    "cat": lambda *parts: "".join(parts),
    "strlen": len,
    "substr": lambda text, start, length: text[start : start + length] if start >= 0 and length >= 0 else "",
    "ord": lambda text: ord(text[0]) if text else -1,
    "reverse": lambda text: "".join(reversed(text)),
    "to_string": str,
    "[]": make,
    **{f".{kind.value}": partial(field, kind.value) for kind in Kind},
}
RESULTS = {
    **dict.fromkeys(("strlen", "ord", "to_number", "utoi", "ftoi"), NUMBER),
    **dict.fromkeys(("to_unsigned", "itou", "ftou"), UNSIGNED),
    **dict.fromkeys(("to_float", "itof", "utof"), FLOAT_TYPE),
}
"""The types of what conversions give."""


def whole(value: Any) -> int:
    """The integer toward zero, or that of a text."""
    if isinstance(value, str):
        return to_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError_(f"{value} is not an integer", code="overflow")
    return int(value)


def fraction(value: Any) -> float:
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", value, re.ASCII):
        raise DataError(f"`to_float` of {value!r}, which is no number", code="not-a-number")
    return float(value)


ANALYSIS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("log", "log2", "log10"),
)


def analysis(function: str, args: Sequence[float]) -> float:
    """A function of floats: NumPy says where it has no finite value, `math` gives the digits elsewhere."""
    names = {"atan2": "arctan2"} | {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    with np.errstate(all="ignore"):
        nearly = float(getattr(np, names.get(function, function))(*args))
    return float(getattr(math, function)(*args)) if math.isfinite(nearly) else nearly


TRUTHS: Functions = {
    "land": lambda a, b: 1 if a and b else 0,
    "lor": lambda a, b: 1 if a or b else 0,
    "lxor": lambda a, b: 1 if (a == 0) != (b == 0) else 0,
    "lnot": lambda a: 0 if a else 1,
}
BITS: Functions = {
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "bnot": operator.invert,
    "bshr": lambda value, places: value >> (places & 63),
    "bshru": lambda value, places: int(format(value % 2**64, "064b")[: 64 - (places & 63)] or "0", 2),
}
FLOAT: Functions = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": operator.pow,
    "neg": np.negative,
}


def spread(bounds: Sequence[Any], type: Type) -> list[Any]:
    """The values of `range(from, to, step)`; a float that is too large to grow ends it."""
    if None in bounds:
        return []
    first, last, *steps = bounds
    rises = compare("<", first, last)
    if compare("=", first, last) or (steps and steps[0] and compare(">", steps[0], 0) != rises):
        return []
    if steps and not steps[0]:
        return [first]
    sign, step = ("+", steps[0]) if steps else ("+" if rises else "-", 1)
    found = [first]
    while True:
        more = canonical(apply(sign, [found[-1], step], type))
        if not compare("<" if rises else ">", more, last) or more in found:
            return found
        found.append(more)


def canonical(value: Any) -> Any:
    """The one representative of equal values: there is one NaN, and -0.0 is 0.0."""
    return value if not isinstance(value, float) else NAN if math.isnan(value) else value + 0.0


def order(value: Any) -> tuple[bool, Any]:
    return (True, 0.0) if value is NAN else (False, value)


def compare(op: str, left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(COMPARISONS[op](order(left), order(right)))


def holds(name: str, args: Sequence[Any]) -> bool:
    """Test whether a built-in test is true; with a NULL argument only `is_null` is."""
    return args[0] is None if name == "is_null" else None not in args and bool(TESTS[name](*args))


FOLDS: dict[str, Callable[[Sequence[Any]], Any]] = {}
"""Folds of users, by their names with types; tests enter theirs."""


def aggregate(function: str, values: Sequence[Any], type: Type) -> Any:
    """The fold of values none of which is NULL; None if there is nothing to tell."""
    if function in FOLDS:
        return FOLDS[function](values) if values else None
    match function:
        case "sum" if type.kind is Kind.FLOAT:
            return rounded_sum(values)
        case "sum":
            return exactly(lambda: sum(values, Decimal(0) if type.kind is Kind.DECIMAL else 0), type)
        case "average":
            total = sum(map(Fraction, values), Fraction(0))
            return postgres_quotient(total, len(values)) if values else None
        case "mean":
            return rounded_sum(values) / len(values) if values else None
        case "kth":
            return kth(values) if values else None
        case "sequence":
            return "\n".join(sorted({*values})) if values else None
        case "median":
            ranked = sorted(values, key=order)
            middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
            return rounded_sum(middle) / len(middle) if ranked else None
    return (max if function == "max" else min)(values, key=order, default=None)


def rounded_sum(values: Sequence[Any]) -> float:
    """The float nearest to the exact sum: what `math.fsum` gives, also where that overflows on the way."""
    if endless := [float(value) for value in values if not math.isfinite(value)]:
        return sum(endless)
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def exactly(compute: Callable[[], Any], type: Type) -> Any:
    """The result of the computation, if the type can hold it: 64 bits, or 18 decimal digits."""
    with localcontext(prec=200):
        value = compute()
        if type.kind is Kind.DECIMAL and type.scale > 18:
            value = value.quantize(Decimal(10) ** -type.scale, ROUND_HALF_UP)
        match type.kind:
            case Kind.NUMBER:
                fits = value in NUMBER_RANGE
            case Kind.UNSIGNED:
                fits = value in UNSIGNED_RANGE
            case _:
                fits = abs(value) * 10**type.scale < 10 ** (18 if type.scale <= 18 else 38)
    if not fits:
        raise OverflowError_(f"{value} is outside the range of `{type}`", code="overflow")
    return value


def apply(function: str, args: Sequence[Any], type: Type) -> Any:
    """The value of a functor or operator whose arguments are not NULL and whose result has this type."""
    if function in FUNCTORS:
        return FUNCTORS[function](*args)
    if function in RESULTS:
        return fraction(args[0]) if type.kind is Kind.FLOAT else exactly(lambda: whole(args[0]), type)
    if function in ANALYSIS:
        return analysis(function, args)
    if function in TRUTHS:
        return TRUTHS[function](*args)
    if function in LIBRARY:
        made = LIBRARY[function]
        exact = type.kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL)
        return exactly(lambda: made(*args, type), type) if exact else made(*args, type)
    if function in ("min", "max"):
        chosen = aggregate(function, args, type)
        # A decimal may be too large for the scale of the other.
        return exactly(lambda: chosen, type) if type.kind is Kind.DECIMAL else chosen
    if type.kind is Kind.FLOAT:
        with np.errstate(all="ignore"):
            return float(FLOAT[function](*map(np.float64, args)))
    if function in BITS:
        bits = BITS[function](*args) % 2**64
        return bits - 2**64 if type.kind is Kind.NUMBER and bits >= 2**63 else bits
    return exactly(lambda: EXACT[function](*args), type)


def to_number(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text, re.ASCII):
        raise DataError(f"`to_number` of {text!r}, which is no number", code="not-a-number")
    return int(text)


def power(base: int, exponent: int) -> int:
    if exponent < 0:
        raise DataError(f"{base} ^ {exponent} has a negative exponent", code="negative-exponent")
    # Beyond 64 only the parity of the exponent matters: the result is -1, 0, 1, or too large anyway.
    result: int = base ** min(exponent, 64 + exponent % 2)
    return result


def divide(dividend: int, divisor: int) -> int:
    """The quotient, rounded toward zero."""
    if divisor == 0:
        raise DataError(f"{dividend} is divided by zero", code="division-by-zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


EXACT: Functions = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "neg": operator.neg,
    "/": divide,
    "%": lambda dividend, divisor: dividend - divisor * divide(dividend, divisor),
    "^": power,
    "bshl": lambda value, places: value << (places & 63),
}
