"""One point for each way in which new values can lie to each other and to the borders between which all are alike."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, islice, pairwise
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.engine.time_limit import check_time
from upshot.revise.linear import EPOCH, LETTERS, LONGEST, Linear, number_of
from upshot.revise.text_witnesses import between

Point = Mapping[str, Any]
"""Values of new ones, by name."""

Usable = Callable[[str, Any, Point], bool]
"""Whether a value may be that of a name, given those of others."""
IsNew = Callable[[str, Any], bool]
Lands = Callable[[Any], bool]
"""Whether a value leaves another one at a border."""

MOST = 400
"""Borders that are looked at."""
MOST_POINTS = 600
"""Points that are made."""
TRIES = 40
"""Values between two borders among which a usable one is looked for."""


class TooManyBordersError(Exception):
    """They are not all looked at."""


def points(
    borders: Iterable[Linear], names: Mapping[str, Type], usable: Usable, is_new: IsNew, first: Point
) -> list[Point]:
    """A point for each way in which the borders can be met or passed, as far as usable values can do it; between them
    only new ones, unless all are stored. The values of `first` are taken where they would do."""
    order = list(names)
    levels = [list(dict.fromkeys(each.scaled() for each in borders))]
    for name in reversed(order[1:]):
        levels.insert(0, without(name, levels[0]))
    made = list(islice(_points(levels, order, names, usable, is_new, first, {}), MOST_POINTS + 1))
    if len(made) > MOST_POINTS:
        raise TooManyBordersError
    return made


def _points(
    levels: Sequence[Sequence[Linear]],
    order: Sequence[str],
    names: Mapping[str, Type],
    usable: Usable,
    is_new: IsNew,
    first: Point,
    known: Point,
) -> Iterator[Point]:
    check_time()
    place = len(known)
    if place == len(order):
        yield known
        return
    name = order[place]
    numbers = {each: number for each, value in known.items() if (number := number_of(value)) is not None}
    roots: dict[Fraction, None] = {}
    for border in levels[place]:
        parts = dict(border.parts)
        factor = parts.pop(name, None)
        if factor and numbers.keys() >= parts.keys():
            rest = Linear(tuple(parts.items()), border.more)
            roots[-rest.at(numbers) / factor] = None
    is_last = place == len(order) - 1
    lands = list(_landing(name, levels[-1], names, numbers))
    for value in _values(sorted(roots), names[name], name, usable, is_new, first[name], known, lands, is_last=is_last):
        yield from _points(levels, order, names, usable, is_new, first, {**known, name: value})


def _values(
    roots: Sequence[Fraction],
    type: Type,
    name: str,
    usable: Usable,
    is_new: IsNew,
    first: Any,
    known: Point,
    lands: Sequence[Lands],
    *,
    is_last: bool,
) -> Iterator[Any]:
    """A usable value for each root and each gap between two; if others are to be chosen after it, also those at the
    ends of a gap, which leave no room there, and such that leave another a value at a border."""
    here = number_of(first)
    ends: list[Fraction | None] = [None, *roots, None]
    for low, high in pairwise(ends):
        found = dict[Any, None]()
        if here is not None and (low is None or here > low) and (high is None or here < high):
            found |= {first: None} if usable(name, first, known) else {}
        if not found or not is_last:
            tried = (each for each in inside(low, high, type) if usable(name, each, known) and is_new(name, each))
            found |= dict.fromkeys(islice(tried, 1 if is_last else 3))
            if not found:
                found |= dict.fromkeys(each for each in _all_between(low, high, type) if usable(name, each, known))
            for land in (each for each in lands if not any(map(each, found))):
                near = (
                    each for each in _near(low, high, here, type) if usable(name, each, known) and is_new(name, each)
                )
                found |= dict.fromkeys(islice(filter(land, near), 1))
        yield from found
        at = None if high is None else value_at(high, type)
        if at is not None and usable(name, at, known):
            yield at


def _all_between(low: Fraction | None, high: Fraction | None, type: Type) -> Iterator[Any]:
    """The values between two places, if they are few."""
    step = unit(type)
    if step is not None and low is not None and high is not None and high - low <= TRIES * step:
        yield from dict.fromkeys(inside(low, high, type))


def _near(low: Fraction | None, high: Fraction | None, here: Fraction | None, type: Type) -> Iterator[Any]:
    """Values between two places, near to one of them, to a value there is, or to the first of their type."""
    starts = [each for each in (low, high, here, Fraction(0)) if each is not None]
    for distance in range(TRIES):
        for place in (start + sign * distance * (unit(type) or 1) for start in starts for sign in (1, -1)):
            if (low is None or place > low) and (high is None or place < high):
                value = value_at(place, type)
                if value is not None:
                    yield value


def _landing(
    name: str, borders: Iterable[Linear], names: Mapping[str, Type], numbers: Mapping[str, Fraction]
) -> Iterator[Lands]:
    """For each border at which one other name is to lie: whether it has a value there, with this one of the name."""
    for border in borders:
        parts = dict(border.parts)
        factor = parts.pop(name, None)
        others = [each for each in parts if each not in numbers]
        if factor and len(others) == 1 and unit(names[others[0]]) is not None:
            much = parts.pop(others[0])
            rest = Linear(tuple(parts.items()), border.more).at(numbers)
            yield partial(_lands, factor / much, rest / much, names[others[0]])


def _lands(factor: Fraction, rest: Fraction, type: Type, value: Any) -> bool:
    number = number_of(value)
    return number is not None and value_at(-factor * number - rest, type) is not None


def without(name: str, borders: Sequence[Linear]) -> list[Linear]:
    """The borders that say how those with a name in them lie to each other."""
    here = [(each, factor) for each in borders if (factor := dict(each.parts).get(name))]
    found = dict.fromkeys(each for each in borders if name not in dict(each.parts))
    for (one, first), (other, second) in combinations(here, 2):
        made = one.times(second).minus(other.times(first))
        if made.parts:
            found[made.scaled()] = None
        if len(found) > MOST:
            raise TooManyBordersError
    return list(found)


# ---- values of types -------------------------------------------------------------------------------------------------


def unit(type: Type) -> Fraction | None:
    """The distance between two values of a type that follow each other; None where there are always others between."""
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED | Kind.DATE | Kind.TIMESTAMP:
            return Fraction(1)
        case Kind.DECIMAL:
            return Fraction(1, 10**type.scale)
        case _:
            return None


def extent(type: Type) -> tuple[Fraction | None, Fraction | None]:
    """The least and the greatest value of a type."""
    match type.kind:
        case Kind.NUMBER:
            return Fraction(NUMBER_RANGE[0]), Fraction(NUMBER_RANGE[-1])
        case Kind.UNSIGNED:
            return Fraction(UNSIGNED_RANGE[0]), Fraction(UNSIGNED_RANGE[-1])
        case Kind.DATE:
            return Fraction(1), Fraction(datetime.date.max.toordinal())
        case Kind.TIMESTAMP:
            return number_of(_FIRST), number_of(_LAST)
        case Kind.DECIMAL:
            most = Fraction(10**type.precision - 1, 10**type.scale)
            return -most, most
        case _:
            return None, None


_FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def value_at(number: Fraction, type: Type) -> Any:
    """The value of a type at a place of its order; None if it has none there."""
    low, high = extent(type)
    if (low is not None and number < low) or (high is not None and number > high):
        return None
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            return int(number) if number.denominator == 1 else None
        case Kind.FLOAT:
            value = _float(number)
            return value if value is not None and Fraction(value) == number else None
        case Kind.DECIMAL:
            scaled = number * 10**type.scale
            return Decimal(int(scaled)).scaleb(-type.scale) if scaled.denominator == 1 else None
        case Kind.DATE:
            return datetime.date.fromordinal(int(number)) if number.denominator == 1 else None
        case Kind.TIMESTAMP:
            return EPOCH + datetime.timedelta(microseconds=int(number)) if number.denominator == 1 else None
        case Kind.SYMBOL:
            return text_at(number)
        case Kind.BOOLEAN:
            return None


def text_at(number: Fraction) -> str | None:
    """The text with this place in the order of texts."""
    letters = list[str]()
    while number:
        number *= LETTERS
        letter = int(number)
        if not 1 <= letter <= LETTERS - 1 or len(letters) > LONGEST:
            return None
        letters.append(chr(letter - 1))
        number -= letter
    return "".join(letters)


def _float(number: Fraction) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def inside(low: Fraction | None, high: Fraction | None, type: Type) -> Iterator[Any]:
    """Values between two places, neither included: the one that follows the lower, the one before the higher, one far
    from both, then others."""
    if type.kind is Kind.SYMBOL:
        yield from between(None if low is None else text_at(low), None if high is None else text_at(high))
        return
    step, (least, most) = unit(type), extent(type)
    if step is None:
        yield from _dense(low, high)
        return
    start = math.floor(low / step) + 1 if low is not None and (least is None or low >= least) else None
    end = math.ceil(high / step) - 1 if high is not None and (most is None or high <= most) else None
    for at in _whole(start, end, least, most, step):
        value = value_at(at * step, type)
        if value is not None:
            yield value


def _whole(
    start: int | None, end: int | None, least: Fraction | None, most: Fraction | None, step: Fraction
) -> Iterator[int]:
    assert least is not None, "types with steps have a first value"
    assert most is not None, "and a last one"
    first = math.ceil(least / step) if start is None else start
    last = math.floor(most / step) if end is None else end
    if first > last:
        return
    if start is None and end is None:
        # Not so far out that what is computed from them leaves the range of its type.
        start = 0 if first <= 0 <= last else (first + last) // 2
        distance = min(_FAR, (last - start) // (2 * TRIES))
        sides = (start + sign * distance * each for each in range(1, TRIES) for sign in (-1, 1))
        yield from (each for each in sides if first <= each <= last)
    elif start is None:
        yield from (
            last - each for each in (0, 1, min(_FAR, (last - first) // 2), *range(2, TRIES)) if each <= last - first
        )
    elif end is None:
        yield from (
            first + each for each in (0, 1, min(_FAR, (last - first) // 2), *range(2, TRIES)) if each <= last - first
        )
    else:
        yield from dict.fromkeys((first, last, (first + last) // 2))
        yield from range(first + 1, min(last, first + TRIES))


_FAR = 1_000_000


def _dense(low: Fraction | None, high: Fraction | None) -> Iterator[float]:
    if low is None and high is None:
        yield from (each + 0.5 for each in range(TRIES))
    elif low is None or high is None:
        end, sign = (high, -1) if low is None else (low, 1)
        assert end is not None, "one of them is there"
        near = _float(end)
        step = Fraction(1) if near is None else max(Fraction(1), 2 * Fraction(math.ulp(near)))
        for each in range(1, TRIES):
            value = _float(end + sign * each * step)
            if value is not None and (Fraction(value) - end) * sign > 0:
                yield value
    else:
        for each in range(1, TRIES):
            value = _float(low + (high - low) * Fraction(each, TRIES))
            if value is not None and low < Fraction(value) < high:
                yield value
