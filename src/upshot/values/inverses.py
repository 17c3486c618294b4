"""Inverses of functions: the values of an argument for which a call has a certain value.

`Y = X * X` has two roots for 9 and none for 8; `Y = X % 3` has infinitely many for 1, of which some are generated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from upshot.core.types import Kind, Type

MOST = 64
"""The most roots that are enumerated."""
LARGEST = 10**6
"""The largest number whose divisors are enumerated."""
_FAR = 1_000_000
"""The distance of generated values from known ones."""


class _Unknown:
    """The value of an unknown argument."""


UNKNOWN = _Unknown()


@dataclass(frozen=True, slots=True)
class Roots:
    """Values of an argument for which a call has a certain value: if `are_all`, a superset of them; otherwise some."""

    values: tuple[Any, ...] = ()
    are_all: bool = False


NONE, SOME = Roots((), are_all=True), Roots()


@dataclass(frozen=True, slots=True)
class Image:
    """A call that must have `value`, and the argument to solve for: the one at `place`, of this type.

    `arguments` are the values of all arguments, `UNKNOWN` for unknown ones; none is NULL. `repeated`: the unknown is
    also part of other arguments; `squared`: both arguments of the call are the same term. Generated values differ for
    each `number`.
    """

    value: Any
    arguments: tuple[Any, ...]
    place: int
    type: Type
    number: int = 1
    repeated: bool = False
    squared: bool = False

    @property
    def rest(self) -> tuple[Any, ...]:
        """The other arguments."""
        return self.arguments[: self.place] + self.arguments[self.place + 1 :]


Inverse = Callable[[Image], Roots]
"""The roots of an image. Of a function without an inverse nothing is known: `SOME`."""


def _all(*values: Any) -> Roots:
    return Roots(values, are_all=True)


def _some(*values: Any) -> Roots:
    return Roots(values)


def _few(values: range) -> Roots:
    return Roots(tuple(values[:MOST]), are_all=not values[MOST:])


def unary(inverse: Callable[[Any, Type], Roots]) -> Inverse:
    """The inverse of a function of one argument, from its value and the type of the argument."""
    return lambda image: inverse(image.value, image.type)


_OfTwo = Callable[[Any, Any, int], Roots]


def binary(first: _OfTwo, second: _OfTwo | None = None, squared: Callable[[Any], Roots] | None = None) -> Inverse:
    """The inverse of a function of two arguments, for either of them from the value, the other argument and a number;
    `second` is `first` where the function commutes. `squared`: where both arguments are the same."""

    def inverse(image: Image) -> Roots:
        if image.squared:
            return SOME if squared is None else squared(image.value)
        if image.repeated or UNKNOWN in image.rest:
            return SOME
        return (first if image.place == 0 or second is None else second)(image.value, image.rest[0], image.number)

    return inverse


def extreme(pick: Callable[..., Any]) -> Inverse:
    """The inverse of the least or greatest of several values."""

    def inverse(image: Image) -> Roots:
        if image.squared:
            return _all(image.value)
        if image.repeated or UNKNOWN in image.rest:
            return SOME
        other = pick(image.rest)
        if image.value == other:
            return _some(image.value)
        return _all(image.value) if pick(image.value, other) == image.value else NONE

    return inverse


# ---- numbers ------------------------------------------------------------------------------------------------------


def _factor(value: int, other: int, _: int) -> Roots:
    if other == 0:
        return SOME if value == 0 else NONE
    return _all(value // other) if value % other == 0 else NONE


def _dividend(value: int, other: int, _: int) -> Roots:
    """Quotients are truncated toward 0."""
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
    """Dividends that leave a remainder, which has the sign of the dividend."""
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
    """The divisors of both signs."""
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
    """The numbers with all bits of the value, except for any of those of the other argument."""
    if bits & ~value:
        return NONE
    free = [1 << place for place in range(64) if bits >> place & 1]
    if 2 ** len(free) > MOST:
        return SOME
    chosen = (each for size in range(len(free) + 1) for each in combinations(free, size))
    return _all(*(value & ~bits | sum(each) for each in chosen))


def _shifted_left(value: int, by: int, _: int) -> Roots:
    return _all(value >> (by & 63)) if value % 2 ** (by & 63) == 0 else NONE


def _shifted_right(value: int, by: int, _: int) -> Roots:
    return _few(range(value << (by & 63), (value + 1) << (by & 63)))


def _distance(_value: int, _other: int, _: int) -> Roots:
    # Distances count modulo 64, so there are infinitely many more.
    return _some(*range(64))


def _number_written(value: str, _: Type) -> Roots:
    is_number = value.lstrip("-").isdecimal() and len(value) < 24 and str(int(value)) == value
    return _all(int(value)) if is_number else NONE


def _product(image: Image) -> Roots:
    if not image.repeated and UNKNOWN in image.rest and image.value:
        return _divisors(image.value)
    return _PRODUCT(image)


_PRODUCT = binary(_factor, squared=lambda value: _base(value, 2, 1))

INTEGERS: Mapping[str, Inverse] = {
    "+": binary(lambda value, other, _: _all(value - other), squared=lambda v: _all(v // 2) if v % 2 == 0 else NONE),
    "-": binary(
        lambda value, other, _: _all(value + other),
        lambda value, other, _: _all(other - value),
        lambda value: SOME if value == 0 else NONE,
    ),
    "*": _product,
    "/": binary(_dividend, _divisor),
    "%": binary(_reduced, _modulus),
    "^": binary(_base, _exponent),
    "neg": unary(lambda value, _: _all(-value)),
    "bnot": unary(lambda value, type: _all(~value % 2**64 if type.kind is Kind.UNSIGNED else ~value)),
    "band": binary(lambda value, other, _: NONE if value & ~other else _some(value)),
    "bor": binary(_without_bits),
    "bxor": binary(lambda value, other, _: _all(value ^ other)),
    "bshl": binary(_shifted_left, _distance),
    "bshr": binary(_shifted_right, _distance),
    "to_string": unary(_number_written),
}


def _fraction(first: Callable[..., Any], second: Callable[..., Any] | None = None, *, exact: bool = False) -> Inverse:
    """Sums of decimals are exact; for floats, products and quotients, neighbors of a root may be roots too."""

    def inverse(image: Image) -> Roots:
        if image.repeated or UNKNOWN in image.rest:
            return SOME
        solve = first if image.place == 0 or second is None else second
        try:
            return Roots((solve(image.value, *image.rest),), are_all=exact and image.type.kind is Kind.DECIMAL)
        except ArithmeticError:
            return SOME

    return inverse


def _repeated_decimal(squared: Callable[[Any], Roots], inverse: Inverse) -> Inverse:
    return lambda image: squared(image.value) if image.squared and image.type.kind is Kind.DECIMAL else inverse(image)


FRACTIONS: Mapping[str, Inverse] = {
    "+": _repeated_decimal(lambda value: _all(value / 2), _fraction(lambda value, other: value - other, exact=True)),
    "-": _repeated_decimal(
        lambda value: SOME if value == 0 else NONE,
        _fraction(lambda value, other: value + other, lambda value, other: other - value, exact=True),
    ),
    "*": _fraction(lambda value, other: value / other),
    "/": _fraction(lambda value, other: value * other, lambda value, other: other / value),
    "neg": _fraction(lambda value: -value, exact=True),
}


# ---- texts --------------------------------------------------------------------------------------------------------


def _parts(image: Image) -> Roots:
    """The values of one part of a text; other parts may be unknown too."""
    text, parts, place = image.value, image.arguments, image.place
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


def _positions(image: Image) -> Roots:
    """The start of a part of a text, or its length; of a part up to the end, any greater length is a root too."""
    (whole, start, length), text, place = image.arguments, image.value, image.place
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
    """Texts with this text as a part."""
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


def _part(image: Image) -> Roots:
    if image.repeated or UNKNOWN in image.rest:
        return SOME
    if image.place != 0:
        return _positions(image)
    start, length = image.rest
    return _cut(image.value, start, length, image.number)


def _written(image: Image) -> Roots:
    value, number = image.value, image.number
    return _some(f"{value}", f"{'0' * number}{value}") if value >= 0 else _some(f"{value}")


TEXTS: Mapping[str, Inverse] = {
    "cat": _parts,
    "substr": _part,
    "strlen": lambda image: _of_length(image.value, image.number),
    "ord": lambda image: _beginning(image.value, image.number),
    "to_number": _written,
}
