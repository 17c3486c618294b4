"""The oracle's values: records, equality, order, and exact numbers."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

from upshot.core.errors import DataError, OverflowError_
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type

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


ABSENT: Mapping[str, Any] = {
    "number": 0, "unsigned": 0, "float": 0.0, "symbol": "", "boolean": False, "record": "nil",
    "date": dt.date(1970, 1, 1), "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
}  # fmt: skip
"""By kind, the result for a field that the value does not have; no rule uses it."""


def field(kind: str, text: str, place: int, _: Type) -> Any:
    """The field of a value, or the entry of `ABSENT`."""
    tree = read(text)
    if tree is None or place + 1 >= len(tree):
        return ABSENT[kind]
    value = tree[place + 1]
    if kind == "record":
        return unread(value)
    return float(value) if kind == "float" else value


def has_tag(tag: str, text: str) -> bool:
    tree = read(text)
    return tree is not None and tree[0] == tag


def unread(value: Any) -> str:
    """The text of a value that `read` returned."""
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


NAN = math.nan
"""The only NaN in sets: they compare identity first, so NaN equals NaN."""

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def canonical(value: Any) -> Any:
    """The one representative of equal values: there is one NaN, and -0.0 is 0.0."""
    return value if not isinstance(value, float) else NAN if math.isnan(value) else value + 0.0


def order(value: Any) -> tuple[bool, Any]:
    return (True, 0.0) if value is NAN else (False, value)


def compare(op: str, left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(COMPARISONS[op](order(left), order(right)))


def rounded_sum(values: Sequence[Any]) -> float:
    """The float nearest to the exact sum, like `math.fsum`, but without its overflow in intermediate results."""
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


def postgres_quotient(a: Decimal | Fraction, b: Decimal | Fraction | int) -> Decimal:
    """The quotient with the number of places of PostgreSQL: at least 16 significant digits, counted in groups of four,
    at least the places of the operands, and at most 20 or the places of the operands."""
    first, second = abs(Fraction(a)), abs(Fraction(b))
    if not second:
        raise DataError("a division by zero has no value", code="division-by-zero")
    (power, digit), (other, divisor) = _first_of_four(first), _first_of_four(second)
    shown = max(next(n for n in range(99) if (each * 10**n).denominator == 1) for each in (first, second))
    places = 16 - 4 * (power - other) + (4 if digit <= divisor else 0)
    places = min(max(places, shown), max(20, shown))
    found = math.floor(first / second * 10**places + Fraction(1, 2))
    return Decimal(f"{found if (a < 0) == (b < 0) else -found}E-{places}")


def _first_of_four(value: Fraction) -> tuple[int, int]:
    if not value:
        return 0, 0
    power = 0
    while value >= 10000:
        value, power = value / 10000, power + 1
    while value < 1:
        value, power = value * 10000, power - 1
    return power, math.floor(value)
