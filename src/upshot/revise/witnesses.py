"""Witnesses: values of fresh constants that satisfy conditions; and bounds, which refute conditions.

Candidates are values on the borders and between them, those next to a border first, and solutions of tests and
equations that are not linear.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, islice, pairwise, product
from typing import Any

from upshot.check.names.variables import variables
from upshot.core.structures import NEUTRAL, NIL, Structure, composed, structures
from upshot.core.types import Kind, Type
from upshot.engine.time_limit import check_time
from upshot.revise.built_ins import UNKNOWN, roots, value_of
from upshot.revise.conditions import ANY, Conditions, Signs, Subject, names_of, sign_of
from upshot.revise.families import of_type
from upshot.revise.ordered_values import Linear, extent, number_of, text_at, unit, value_at
from upshot.syntax.ast import Call, Comparison, Constant, Term, Test, Variable
from upshot.values.patterns import pattern as compiled
from upshot.values.structures import MAKE

Ends = tuple[Fraction | None, Fraction | None]

ROUNDS = 8
"""Rounds in which bounds are propagated."""
MOST_TRIED, MOST_STEPS = 60, 600
"""The most values that are tried for one symbol, and for all together."""
TRIES = 40
"""The most values between two borders that are tried."""
FAR = 1_000_000
"""The distance between values without bounds."""
LONGEST_TEXT, SHORT, MOST_TEXTS = 12, 3, 4000
"""The greatest lengths of texts of one repeated letter, and of any letters; the most texts that are tried."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The conditions on a witness: signs of subjects over typed symbols; symbols in one set of `apart` differ."""

    signs: Conditions
    types: Mapping[str, Type]
    apart: Sequence[Collection[str]] = ()
    is_usable: Callable[[str, Any], bool] = field(default=lambda name, value: True, compare=False)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def bounds_of(stated: Conditions, types: Mapping[str, Type]) -> dict[str, Ends]:
    """The least and the greatest values of symbols that can satisfy conditions; not all values between them need do.

    >>> from upshot.core.types import NUMBER
    >>> from upshot.revise.ordered_values import new_value, number
    >>> above, below = (new_value("?1").minus(number(Fraction(each))) for each in (1, 3))
    >>> bounds_of({above: frozenset({1}), below: frozenset({-1})}, {"?1": NUMBER})
    {'?1': (Fraction(2, 1), Fraction(2, 1))}
    """
    borders = [(subject, signs) for subject, signs in stated.items() if isinstance(subject, Linear)]
    found: dict[str, Ends] = {name: extent(type) for name, type in types.items()}
    for _ in range(ROUNDS):
        before = dict(found)
        for border, signs in borders:
            for name, factor in border.parts:
                other, step = border.solved(name), unit(types[name])
                (low, high), (start, end) = found[name], (_end(other, found, 0), _end(other, found, 1))
                if (-1 if factor > 0 else 1) not in signs and start is not None:
                    least = _least(start, step, is_met=0 in signs)
                    low = least if low is None else max(low, least)
                if (1 if factor > 0 else -1) not in signs and end is not None:
                    most = -_least(-end, step, is_met=0 in signs)
                    high = most if high is None else min(high, most)
                if 0 not in signs and start is not None and start == end and step is not None:
                    low = start + step if low == start else low
                    high = start - step if high == start else high
                found[name] = low, high
        if found == before:
            break
    return found


def _end(value: Linear, known: Mapping[str, Ends], which: int) -> Fraction | None:
    total = value.more
    for name, factor in value.parts:
        end = known[name][which if factor > 0 else 1 - which]
        if end is None:
            return None
        total += factor * end
    return total


def _least(bound: Fraction, step: Fraction | None, *, is_met: bool) -> Fraction:
    """The least value of a type not below a bound; greater than the bound unless `is_met`."""
    if step is None:
        return bound
    return (math.ceil(bound / step) if is_met else math.floor(bound / step) + 1) * step


def _only(ends: Ends) -> Fraction | None:
    low, high = ends
    return low if low == high else None


def is_refuted(stated: Conditions, types: Mapping[str, Type]) -> bool:
    """Test whether bounds prove that no values satisfy the conditions."""
    ends = bounds_of(stated, types)
    is_empty = any(low is not None and high is not None and low > high for low, high in ends.values())
    if is_empty or not all(stated.values()):
        return True
    fixed = {name: value for name, each in ends.items() if (value := _only(each)) is not None}
    return any(
        isinstance(border, Linear) and fixed.keys() >= {*names_of(border)} and _sign(border.at(fixed)) not in signs
        for border, signs in stated.items()
    )


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def pinned(stated: Conditions, types: Mapping[str, Type]) -> dict[str, Any]:
    """The symbols for which conditions leave only one value, with the value."""
    only = {name: _only(ends) for name, ends in bounds_of(stated, types).items()}
    values = {name: value_at(place, types[name]) for name, place in only.items() if place is not None}
    return {name: value for name, value in values.items() if value is not None}


def without_implied(stated: Conditions, types: Mapping[str, Type]) -> dict[Subject, Signs]:
    """Drop conditions that another condition on the same symbols implies, or on several symbols that their bounds
    imply."""
    left = dict(stated)
    for subject, signs in stated.items():
        if not isinstance(subject, Linear):
            continue
        rest = {each: own for each, own in left.items() if each != subject}
        alike = [each for each in rest if isinstance(each, Linear) and each.parts == subject.parts]
        if any(_implies(each, rest[each], subject, signs) for each in alike) or (
            len(subject.parts) > 1 and all(is_refuted({**rest, subject: Signs((side,))}, types) for side in ANY - signs)
        ):
            left = rest
    return left


def _implies(one: Linear, signs: Signs, other: Linear, other_signs: Signs) -> bool:
    """Test whether a condition implies another one on the same symbols."""
    places = sorted((-one.more, -other.more))
    tried = (places[0] - 1, places[0], (places[0] + places[1]) / 2, places[1], places[1] + 1)
    return all(_sign(each + other.more) in other_signs for each in tried if _sign(each + one.more) in signs)


# ---- the search ------------------------------------------------------------------------------------------------------


def witnesses(wanted: Assignment) -> Iterator[dict[str, Any]]:
    """Values of the symbols that satisfy all conditions; the search for them is bounded."""
    if is_refuted(wanted.signs, wanted.types):
        return
    ends = bounds_of(wanted.signs, wanted.types)
    # A record is constructed from its fields.
    made = {s.left.name for s in wanted.signs if isinstance(s, Comparison) and isinstance(s.left, Variable)
            and isinstance(s.right, Call) and s.right.function == MAKE}  # fmt: skip
    order = sorted(wanted.types, key=lambda name: (name in made, _freedom(ends[name]), name))
    yield from _witnesses(wanted, order, ends, {}, iter(range(MOST_STEPS)))


def _freedom(ends: Ends) -> int:
    low, high = ends
    return (low is None) + (high is None) + (low != high)


def _witnesses(
    wanted: Assignment, order: Sequence[str], ends: Mapping[str, Ends], known: dict[str, Any], steps: Iterator[int]
) -> Iterator[dict[str, Any]]:
    check_time()
    if len(known) == len(order):
        yield known
        return
    name = order[len(known)]
    for each in islice(_candidates(wanted, name, ends[name], known), MOST_TRIED):
        if next(steps, None) is None:
            return
        value = of_type(each, wanted.types[name])
        found = {**known, name: value}
        if value is not UNKNOWN and wanted.is_usable(name, value) and _agrees(wanted, name, found):
            yield from _witnesses(wanted, order, ends, found, steps)


def _agrees(wanted: Assignment, name: str, known: Mapping[str, Any]) -> bool:
    for family in wanted.apart:
        if name in family and any(other != name and known.get(other) == known[name] for other in family):
            return False
    return all(
        sign_of(subject, known, wanted.types) in signs
        for subject, signs in wanted.signs.items()
        if name in (names := names_of(subject)) and known.keys() >= {*names}
    )


def _candidates(wanted: Assignment, name: str, ends: Ends, known: Mapping[str, Any]) -> Iterator[Any]:
    """Values of a symbol: solutions of its tests, values between its borders and on them."""
    type, (low, high), places = wanted.types[name], ends, set[Fraction]()
    numbers = {each: place for each, value in known.items() if (place := number_of(value)) is not None}
    for subject in wanted.signs:
        if isinstance(subject, Linear) and name in names_of(subject):
            other = subject.solved(name)
            if numbers.keys() >= {*names_of(other)}:
                places.add(other.at(numbers))
            elif numbers.keys().isdisjoint(names_of(other)):
                places.add(other.more)
    yield from _tested(wanted, name, known)
    if type.kind is Kind.RECORD:
        yield from new_records(type)
    least, most = extent(type)
    step = unit(type) or Fraction(1, 2**20)
    between = sorted(each for each in places if (low is None or each >= low) and (high is None or each <= high))
    marks = [None if low is None or low == least else low - step, *between]
    marks.append(None if high is None or high == most else high + step)
    gaps = [inside(first, last, type) for first, last in pairwise(marks)]
    firsts = [list(islice(gap, 3)) for gap in gaps]
    if (only := _only(ends)) is not None:
        yield value_at(only, type)
    yield from (value for rank in range(3) for each in reversed(firsts) for value in each[rank : rank + 1])
    yield from (value_at(each, type) for each in between)
    for gap in gaps:
        yield from islice(gap, 12)


def _tested(wanted: Assignment, name: str, known: Mapping[str, Any]) -> Iterator[Any]:
    """Values for which tests and equations that are not linear can hold."""
    for subject, signs in wanted.signs.items():
        match subject:
            case Test("match", (Constant(pattern), Variable(other))) if other == name and 1 in signs:
                yield from islice(_matching(pattern), 8)
            case Test("contains", (Constant(needle), Variable(other))) if other == name and 1 in signs:
                yield f"{needle} 1"
            case Test("contains", (Variable(other), Constant(text))) if other == name and 1 in signs:
                yield from (text, text[:1], text[1:2], "")
            case Comparison(_, left, right):
                for side, value in ((left, right), (right, left)):
                    if name in variables(side) and name not in variables(value):
                        there = value_of(value, known, wanted.types)
                        if there is not UNKNOWN and there is not None:
                            yield from _around(side, there, name, known, wanted.types)


def _around(side: Term, value: Any, name: str, known: Mapping[str, Any], types: Mapping[str, Type]) -> Iterator[Any]:
    """Values for which a term has a value, or one near it."""
    near = [value]
    if isinstance(value, int) and not isinstance(value, bool):
        near += [value + 1, value - 1, value * 2 + 7, value * 2 - 7, value + 1000, value - 1000]
    elif isinstance(value, float):
        near += [value + 1, value - 1]
    for each in near:
        for number in (1, 2, 3):
            found = roots(side, each, name, known, types, number)
            yield from found.values
            if found.are_all:
                break
    if isinstance(value, int):
        yield from (sign * (abs(value) + step) for step in (0, 1, 2, 10) for sign in (1, -1))


# ---- values between others -------------------------------------------------------------------------------------------


def inside(low: Fraction | None, high: Fraction | None, type: Type) -> Iterator[Any]:
    """Values between two numbers, exclusive: those next to them first, then one far from both, then others."""
    step, (least, most) = unit(type), extent(type)
    if type.kind is Kind.SYMBOL:
        yield from _texts(None if low is None else text_at(low), None if high is None else text_at(high))
    elif step is None or least is None or most is None:
        yield from _dense(low, high)
    else:
        first = math.floor(low / step) + 1 if low is not None and low >= least else None
        last = math.ceil(high / step) - 1 if high is not None and high <= most else None
        for at in _whole(first, last, math.ceil(least / step), math.floor(most / step)):
            if (value := value_at(at * step, type)) is not None:
                yield value


def _whole(first: int | None, last: int | None, least: int, most: int) -> Iterator[int]:
    start, end = least if first is None else first, most if last is None else last
    far = min(FAR, (end - start) // (2 * TRIES))
    steps = (0, 1, far, *range(2, TRIES))
    sides = [(start, 1)] * (first is not None) + [(end, -1)] * (last is not None)
    if not sides:
        # Not so far away that values computed from them overflow.
        steps = tuple(far * each for each in range(1, TRIES))
        middle = 0 if start <= 0 <= end else (start + end) // 2
        sides = [(middle, -1), (middle, 1)]
    for step in steps:
        yield from (at for side, sign in sides if start <= (at := side + sign * step) <= end)


def _dense(low: Fraction | None, high: Fraction | None) -> Iterator[float]:
    for each in range(1, TRIES):
        if low is not None and high is not None:
            place = low + (high - low) * Fraction(each, TRIES)
        elif low is not None:
            place = low + each * _wide(low)
        else:
            place = Fraction(2 * each - 1, 2) if high is None else high - each * _wide(high)
        value = _float(place)
        if value is not None and (low is None or low < Fraction(value)) and (high is None or Fraction(value) < high):
            yield value


def _wide(at: Fraction) -> Fraction:
    """A distance at which floats differ."""
    near = _float(at)
    return Fraction(1) if near is None else max(Fraction(1), 2 * Fraction(math.ulp(near)))


def _float(number: Fraction) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _texts(low: str | None, high: str | None) -> Iterator[str]:
    """Some texts after one text and before another."""
    start = low or ""
    longer = chain((f"{start} {number}" for number in range(1, 9)), (f"{start}!", f"{start}\0", f"{start}\0\0"))
    shorter = chain.from_iterable(_just_below(high, number) for number in range(1, 9)) if high else ()
    named = (f"{start}new value {number}" for number in range(1, 9))
    prefixes = (high[:size] for size in range(len(high))) if high else ()
    for text in dict.fromkeys(chain(named, longer, shorter, prefixes)):
        if (low is None or text > low) and (high is None or text < high):
            yield text


def _just_below(text: str, number: int) -> Iterator[str]:
    """A text before another one, with the same beginning if possible."""
    start, last = text[:-1], ord(text[-1])
    if last > ord("!"):
        yield f"{start}{chr(last - 1)} {number}"
    elif start:
        yield start


def _matching(pattern: str) -> Iterator[str]:
    """Short texts of the letters of a pattern that match it."""
    letters = dict.fromkeys(each for each in f"{pattern}aA0 " if each.isalnum() or each in " -_.@/:")
    alike = (letter * length for length in range(1, LONGEST_TEXT) for letter in letters)
    mixed = ("".join(each) for length in range(2, SHORT + 1) for each in product(letters, repeat=length))
    # A pattern with repetition can take long to reject a long text.
    plain = () if re.search(r"[*+{]", pattern) else (re.sub(r"[\\^$()?]", "", pattern),)
    yield from (text for text in islice(chain(plain, alike, mixed), MOST_TEXTS) if compiled(pattern).matches(text))


def new_records(type: Type) -> Iterator[str]:
    """Different values of a record type, the smallest first."""
    known = structures(type.definition)
    if not known:
        return
    structure = next(iter(known.values()))
    if structure.is_record:
        yield NIL
    for number in range(1, TRIES):
        yield from _composed(structure, known, number, frozenset())


def _composed(
    structure: Structure, known: Mapping[str, Structure], number: int, above: frozenset[str]
) -> Iterator[str]:
    for branch in structure.branches:
        fields = [_smallest(name, known, number, above) for _, name in branch.fields]
        if None not in fields:
            kinds = tuple(Kind.RECORD if name in known else Kind(name) for _, name in branch.fields)
            yield composed(branch.tag, tuple(fields), kinds)


def _smallest(name: str, known: Mapping[str, Structure], number: int, above: frozenset[str]) -> Any:
    """A small value of a field, another for each number if possible; None if the type is endless."""
    structure = known.get(name)
    if structure is None:
        return next(islice(inside(None, None, Type(Kind(name))), number, None), NEUTRAL[Kind(name)])
    if structure.is_record:
        return NIL
    return next(_composed(structure, known, number, above | {name}), None) if name not in above else None
