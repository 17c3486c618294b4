"""For which values of a variable a term comes to a given value: all of them where they are few, else some.

`Y = X * X` has two answers for 9 and none for 8; `Y = X % 3` has endlessly many for 1, of which some are made up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from upshot.check.variables import variables
from upshot.core.types import Kind, Type
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.rewrite.term_type import term_type
from upshot.syntax.ast import Call, Term, Variable

MOST = 64
"""Values that are listed."""
LARGEST = 10**6
"""Numbers whose divisors are looked for."""
_FAR = 1_000_000
"""Where values lie that are made up."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Values for which something comes to a value: `are_all` of them, or some. Where they are all, there may be others
    among them for which it does not."""

    values: tuple[Any, ...] = ()
    are_all: bool = False


NONE, SOME = Roots((), are_all=True), Roots()


def _all(*values: Any) -> Roots:
    return Roots(values, are_all=True)


def _some(*values: Any) -> Roots:
    return Roots(values)


def _few(values: range) -> Roots:
    return Roots(tuple(values[:MOST]), are_all=len(values) <= MOST)


def roots(
    term: Term, value: Any, name: str, known: Mapping[str, Any], types: Mapping[str, Type], number: int = 1
) -> Roots:
    """The values of the variable for which the term comes to this value. For each `number` others are made up."""
    match term:
        case Variable(other) if other == name:
            return _all(value)
        case Call(function, args):
            places = [place for place, arg in enumerate(args) if name in variables(arg)]
            found = _argument(function, args, places, value, known, types, number)
            made = [roots(args[places[0]], each, name, known, types, number) for each in found.values]
            values = dict.fromkeys(each for one in made for each in one.values)
            return Roots(tuple(values), found.are_all and all(each.are_all for each in made))
        case _:
            return SOME


def _argument(
    function: str,
    args: tuple[Term, ...],
    places: list[int],
    value: Any,
    known: Mapping[str, Any],
    types: Mapping[str, Type],
    number: int,
) -> Roots:
    """What the first of these arguments, which has the variable in it, has to come to."""
    type = term_type(args[places[0]], types)
    others = [value_of(arg, known, types) for arg in args]
    rest = [each for place, each in enumerate(others) if place not in places]
    if None in rest:
        return NONE
    if function == "cat":
        return _parts(value, others, places[0])
    if len(places) > 1:
        alike = len(args) == 2 and args[0] == args[1]
        return _doubled(function, value, type) if alike else SOME
    if UNKNOWN in rest:
        return _divisors(value) if function == "*" and isinstance(value, int) and value else SOME
    if function in ("min", "max"):
        return _chosen(function, value, max(rest) if function == "max" else min(rest))
    if type.kind is Kind.SYMBOL:
        return _TEXTS[function](value, *rest, number) if places == [0] and function in _TEXTS else SOME
    if function == "substr":
        return _positions(value, others, places[0])
    if type.kind in (Kind.NUMBER, Kind.UNSIGNED):
        return _of_integers(function, value, rest, places[0], type, number)
    if type.kind in (Kind.DECIMAL, Kind.FLOAT) and function in ("+", "-", "neg", "*", "/"):
        return _of_fractions(function, value, rest, places[0], type)
    return SOME


def _doubled(function: str, value: Any, type: Type) -> Roots:
    """Where both arguments are the same."""
    whole = type.kind in (Kind.NUMBER, Kind.UNSIGNED)
    match function:
        case "*" if whole:
            return _of_integers("^", value, [2], 0, type, 1)
        case "+" if whole:
            return _all(value // 2) if value % 2 == 0 else NONE
        case "+" if type.kind is Kind.DECIMAL:
            return _all(value / 2)
        case "-" if type.kind is not Kind.FLOAT:
            return SOME if value == 0 else NONE
        case "min" | "max":
            return _all(value)
        case _:
            return SOME


def _chosen(function: str, value: Any, other: Any) -> Roots:
    """The least or greatest of two."""
    if value == other:
        return _some(value)
    return _all(value) if (value > other) == (function == "max") else NONE


# ---- numbers ------------------------------------------------------------------------------------------------------


def _of_integers(function: str, value: Any, rest: list[Any], place: int, type: Type, number: int) -> Roots:
    if function == "to_string":
        is_number = value.lstrip("-").isdecimal() and len(value) < 24 and str(int(value)) == value
        return _all(int(value)) if is_number else NONE
    if function == "bnot":
        return _all(~value % 2**64 if type.kind is Kind.UNSIGNED else ~value)
    if function == "neg":
        return _all(-value)
    made = _INTEGERS.get((function, place))
    return made(value, rest[0], number) if made is not None else SOME


def _factor(value: int, other: int, _: int) -> Roots:
    if other == 0:
        return SOME if value == 0 else NONE
    return _all(value // other) if value % other == 0 else NONE


def _dividend(value: int, other: int, _: int) -> Roots:
    """Quotients are cut off towards 0."""
    if other == 0:
        return NONE
    size = abs(other)
    if value == 0:
        return _few(range(1 - size, size))
    sizes = range(abs(value) * size, abs(value) * size + size)
    return _few(sizes if (value > 0) == (other > 0) else range(-sizes[-1], -sizes[0] + 1))


def _divisor(value: int, other: int, number: int) -> Roots:
    if value == 0:
        return _some(abs(other) + number, -abs(other) - number)
    sizes = range(abs(other) // (abs(value) + 1) + 1, abs(other) // abs(value) + 1)
    if not sizes:
        return NONE
    return _few(sizes if (value > 0) == (other > 0) else range(-sizes[-1], -sizes[0] + 1))


def _reduced(value: int, other: int, number: int) -> Roots:
    """What leaves a remainder, which has the sign of what is divided."""
    if abs(value) >= abs(other):
        return NONE
    more = abs(other) * (_FAR + number)
    return _some(*([value + more] if value >= 0 else []), *([value - more] if value <= 0 else []))


def _modulus(value: int, other: int, number: int) -> Roots:
    if value == other:
        return _some(abs(other) + number, -abs(other) - number)
    if value and (value > 0) != (other > 0):
        return NONE
    found = _divisors(other - value)
    return Roots(tuple(each for each in found.values if abs(each) > abs(value)), found.are_all)


def _divisors(value: int) -> Roots:
    """Of both signs."""
    if not 0 < abs(value) <= LARGEST:
        return SOME
    small = [each for each in range(1, math.isqrt(abs(value)) + 1) if value % each == 0]
    sizes = sorted({*small, *(abs(value) // each for each in small)})
    return _all(*sizes, *(-each for each in sizes))


def _base(value: int, exponent: int, _: int) -> Roots:
    if exponent <= 0:
        return SOME if exponent == 0 and value == 1 else NONE
    if exponent == 1:
        return _all(value)
    if exponent > 64:
        return _all(*(each for each in (0, 1, -1) if each ** (2 - exponent % 2) == value))
    near = round(abs(value) ** (1 / exponent))
    sizes = [each for each in range(max(near - 2, 0), near + 3) if each**exponent == abs(value)]
    return _all(*(each for size in sizes for each in dict.fromkeys((size, -size)) if each**exponent == value))


def _exponent(value: int, base: int, _: int) -> Roots:
    if abs(base) > 1:
        return _all(*(each for each in range(65) if base**each == value))
    if base == 0 and value == 1:
        return _all(0)
    return SOME if value in (base, base * base) else NONE


def _without_bits(value: int, bits: int, _: int) -> Roots:
    """What has all bits of the value, but for some of those that come to it anyhow."""
    if bits & ~value:
        return NONE
    free = [1 << place for place in range(64) if bits >> place & 1]
    if 2 ** len(free) > MOST:
        return SOME
    chosen = (each for size in range(len(free) + 1) for each in combinations(free, size))
    return _all(*(value & ~bits | sum(each) for each in chosen))


def _shifted_left(value: int, by: int, _: int) -> Roots:
    return _all(value >> by) if 0 <= by < 64 and value % 2**by == 0 else NONE


def _shifted_right(value: int, by: int, _: int) -> Roots:
    return _few(range(value << by, (value + 1) << by)) if 0 <= by < 64 else NONE


_Inverse = Callable[[int, int, int], Roots]
_INTEGERS: Mapping[tuple[str, int], _Inverse] = {
    ("+", 0): lambda value, other, _: _all(value - other),
    ("+", 1): lambda value, other, _: _all(value - other),
    ("-", 0): lambda value, other, _: _all(value + other),
    ("-", 1): lambda value, other, _: _all(other - value),
    ("*", 0): _factor,
    ("*", 1): _factor,
    ("/", 0): _dividend,
    ("/", 1): _divisor,
    ("%", 0): _reduced,
    ("%", 1): _modulus,
    ("^", 0): _base,
    ("^", 1): _exponent,
    ("bxor", 0): lambda value, other, _: _all(value ^ other),
    ("bxor", 1): lambda value, other, _: _all(value ^ other),
    ("bor", 0): _without_bits,
    ("bor", 1): _without_bits,
    ("band", 0): lambda value, other, _: NONE if value & ~other else _some(value),
    ("band", 1): lambda value, other, _: NONE if value & ~other else _some(value),
    ("bshl", 0): _shifted_left,
    ("bshl", 1): lambda value, other, _: _all(*range(64)),
    ("bshr", 0): _shifted_right,
    ("bshr", 1): lambda value, other, _: _all(*range(64)),
}


def _of_fractions(function: str, value: Any, rest: list[Any], place: int, type: Type) -> Roots:
    """Decimals add up exactly; of floats, the neighbours of a root may be roots as well."""
    try:
        found = _FRACTIONS[function, place](value, *rest)
    except ArithmeticError:
        return SOME
    return Roots((found,), are_all=type.kind is Kind.DECIMAL and function in ("+", "-", "neg"))


_FRACTIONS: Mapping[tuple[str, int], Callable[..., Any]] = {
    ("neg", 0): lambda value: -value,
    ("+", 0): lambda value, other: value - other,
    ("+", 1): lambda value, other: value - other,
    ("-", 0): lambda value, other: value + other,
    ("-", 1): lambda value, other: other - value,
    ("*", 0): lambda value, other: value / other,
    ("*", 1): lambda value, other: value / other,
    ("/", 0): lambda value, other: value * other,
    ("/", 1): lambda value, other: other / value,
}


# ---- texts --------------------------------------------------------------------------------------------------------


def _parts(text: str, parts: list[Any], place: int) -> Roots:
    """What one of the parts of a text can be, of which some may be unknown."""
    first = next(at for at, part in enumerate(parts) if part is UNKNOWN)
    last = max(at for at, part in enumerate(parts) if part is UNKNOWN)
    start, end = "".join(parts[:first]), "".join(parts[last + 1 :])
    if len(start) + len(end) > len(text) or not text.startswith(start) or not text.endswith(end):
        return NONE
    middle = text[len(start) : len(text) - len(end)]
    if first == last:
        return _all(middle)
    if len(middle) >= MOST:
        return SOME
    begins = range(len(middle) + 1) if place != first else (0,)
    ends = range(len(middle) + 1) if place != last else (len(middle),)
    return _all(*dict.fromkeys(middle[begin:end] for begin in begins for end in ends if begin <= end))


def _positions(text: str, others: list[Any], place: int) -> Roots:
    """Where a part of a text begins, or how long it is; what is cut off has no end."""
    whole, start, length = others
    if whole is UNKNOWN:
        return SOME
    if not text:
        return _some(*((len(whole),) if place == 1 else (0,)))
    if place == 1:
        return _all(*(each for each in range(len(whole)) if whole[each : each + max(length, 0)] == text))
    return _some(len(text)) if start + len(text) == len(whole) else _all(len(text))


def _of_length(length: int, number: int) -> Roots:
    if length <= 0:
        return _all("") if length == 0 else NONE
    tail = f"{number}"[-length:]
    return _some(f"{'x' * (length - len(tail))}{tail}", *(letter * length for letter in "abcdefgh"))


def _cut(text: str, start: int, length: int, number: int) -> Roots:
    """What a part of is this text."""
    if start < 0 or length <= 0:
        return NONE if text else _some(f"new value {number}")
    if len(text) > length:
        return NONE
    before = f"{number:0{start}}"[-start:] if start else ""
    return _some(f"{before}{text}", *([f"{before}{text} {number}"] if len(text) == length else []))


def _beginning(code: int, number: int) -> Roots:
    if code == -1:
        return _all("")
    return _some(f"{chr(code)}{number}") if 0 < code < 0xD800 else SOME if 0 <= code < 0x110000 else NONE


_TEXTS: Mapping[str, Callable[..., Roots]] = {
    "strlen": _of_length,
    "substr": _cut,
    "ord": _beginning,
    "to_number": lambda value, number: _some(f"{value}", f"{'0' * number}{value}") if value >= 0 else _some(f"{value}"),
}
