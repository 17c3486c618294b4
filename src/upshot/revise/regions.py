"""New values between borders: which they are, and how that is said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from upshot.core.types import Type
from upshot.revise.bounds_of_values import bounds_of
from upshot.revise.built_ins import holds
from upshot.revise.cells import Point, unit, value_at
from upshot.revise.linear import Linear, new_value, number_of
from upshot.revise.placeholders import Placeholder
from upshot.syntax.ast import Constant, Test, Variable
from upshot.syntax.printing import print_term

Signs = frozenset[int]
"""On which sides of a border values may lie: below it (-1), at it (0), above it (1)."""
ANY: Signs = frozenset((-1, 0, 1))
_WORDS = {
    Signs((-1,)): "<", Signs((-1, 0)): "<=", Signs((0,)): "=", Signs((0, 1)): ">=", Signs((1,)): ">",
    Signs((-1, 1)): "!=",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", "=": "=", "!=": "!=", ">=": "<=", ">": "<"}

TextTest = tuple[str, str, str]
"""A test, its first argument, the new value that is tested."""


@dataclass(frozen=True, slots=True)
class Region:
    """New values between borders, whose texts pass tests, or do not."""

    borders: Mapping[Linear, Signs] = field(default_factory=dict)
    tests: Mapping[TextTest, bool] = field(default_factory=dict)

    def __contains__(self, point: Point) -> bool:
        return all(side(border, point) in signs for border, signs in self.borders.items()) and all(
            passes(test, point) is so for test, so in self.tests.items()
        )


EVERYWHERE = Region()


def side(border: Linear, point: Point) -> int:
    """On which side of a border a point lies; 2 if that cannot be said."""
    numbers = {name: number for name, _ in border.parts if (number := number_of(point[name])) is not None}
    if len(numbers) < len(border.parts):
        return 2
    found = border.at(numbers)
    return (found > 0) - (found < 0)


def passes(test: TextTest, point: Point) -> bool:
    """Whether the text of a point passes a test."""
    name, first, tested = test
    return holds(Test(name, (Constant(first), Variable("X"))), {"X": point[tested]}, {})


def without_pinned(region: Region, used: Sequence[Placeholder]) -> tuple[Region, tuple[Placeholder, ...]]:
    """The region without new values that can only be what they were proven with, and the others."""
    ends = bounds_of(region.borders, {each.name: each.type for each in used})
    numbers = {each.name: number for each in used if (number := number_of(each.witness)) is not None}
    fixed = {name: number for name, number in numbers.items() if ends[name] == (number, number)}
    if not fixed:
        return region, tuple(used)
    borders: dict[Linear, Signs] = {}
    for border, signs in region.borders.items():
        made = Linear((), border.more)
        for name, factor in border.parts:
            made = made.plus((Linear((), fixed[name]) if name in fixed else new_value(name)).times(factor))
        if made.parts:
            is_turned = made.parts[0][1] < 0
            borders[made.scaled()] = Signs(-each for each in signs) if is_turned else signs
    tests = {test: so for test, so in region.tests.items() if test[2] not in fixed}
    left = tuple(each for each in used if each.name not in fixed)
    for was in (each for each in used if each.name in fixed):
        for each in left:
            # Two that are linked are different.
            border = new_value(each.name).plus(Linear((), -fixed[was.name]))
            if each.is_linked(was) and _allows(borders, each.name, was.witness):
                borders[border] = borders.get(border, ANY) - {0}
    return Region(borders, tests), left


def without_implied(region: Region) -> Region:
    """The same region without borders that another one, of the same values, leaves nothing to say."""
    borders = dict(region.borders)
    for border in region.borders:
        others = ((each, signs) for each, signs in borders.items() if each != border and each.parts == border.parts)
        if any(_implies(*other, border, borders[border]) for other in others):
            del borders[border]
    return Region(borders, region.tests)


def _implies(one: Linear, signs: Signs, other: Linear, other_signs: Signs) -> bool:
    """Whether all that lies on the sides of one border lies on those of another, of the same values."""
    places = sorted((-one.more, -other.more))
    for place in (places[0] - 1, places[0], sum(places) / 2, places[1], places[1] + 1):
        first, second = place + one.more, place + other.more
        if (first > 0) - (first < 0) in signs and (second > 0) - (second < 0) not in other_signs:
            return False
    return True


def _allows(borders: Mapping[Linear, Signs], name: str, value: Any) -> bool:
    """Whether a new value may be this one, as far as it is not compared with others."""
    own = {border: signs for border, signs in borders.items() if border.parts == new_value(name).parts}
    return {name: value} in Region(own)


def moved(region: Region, names: Sequence[Placeholder], used: Sequence[Placeholder]) -> Iterator[Linear]:
    """The borders of a region with other new values in the places of its own, wherever those may be the same."""
    choices = [[each for each in used if name.type == each.type and name.is_linked(each)] for name in names]
    for chosen in product(*choices):
        called = {name.name: each.name for name, each in zip(names, chosen, strict=True)}
        for border in region.borders:
            made = Linear((), border.more)
            for name, factor in border.parts:
                made = made.plus(new_value(called[name]).times(factor))
            yield made


# ---- in words --------------------------------------------------------------------------------------------------------


def words(region: Region, used: Sequence[Placeholder]) -> tuple[str, ...]:
    """What a region asks of new values, one new value after the other."""
    types = {each.name: each.type for each in used}
    made = [(_order(border), _border_words(border, signs, types)) for border, signs in region.borders.items()]
    found = [text for _, text in sorted(made, key=lambda each: each[0]) if text]
    for (test, first, name), so in region.tests.items():
        found.append(f"{'' if so else '!'}{test}({print_term(Constant(first, types[name]))}, {name})")
    return tuple(dict.fromkeys(found))


def _order(border: Linear) -> tuple[object, ...]:
    return len(border.parts) > 1, [(int(name[1:]), factor) for name, factor in border.parts], -border.more


def _border_words(border: Linear, signs: Signs, types: Mapping[str, Type]) -> str:
    op = _WORDS[signs]
    (name, _), *rest = border.parts
    if not rest:
        return _bound_words(name, op, -border.more, types[name])
    if len(rest) == 1 and rest[0][1] == -1:
        more = -border.more
        shift = f" {'+' if more > 0 else '-'} {_number(abs(more))}" if more else ""
        return f"{name} {op} {rest[0][0]}{shift}"
    numbers = border.more, *(factor for _, factor in border.parts)
    border = border.times(Fraction(math.lcm(*(each.denominator for each in numbers))))
    left = " + ".join(_part(*each) for each in border.parts if each[1] > 0)
    right = [_part(each, -factor) for each, factor in border.parts if factor < 0]
    more = -border.more
    if more or not right:
        right.append(_number(more))
    return f"{left} {op} {' + '.join(right)}"


def _part(name: str, factor: Fraction) -> str:
    return name if factor == 1 else f"{_number(factor)} * {name}"


def _number(value: Fraction) -> str:
    return str(int(value)) if value.denominator == 1 else str(float(value))


def _bound_words(name: str, op: str, at: Fraction, type: Type) -> str:
    """A bound of one value; one that no value of the type meets is said by the value beside it."""
    value, step = value_at(at, type), unit(type)
    if value is None and step is not None:
        if op == "!=":
            return ""
        op, at = (">=", math.ceil(at / step) * step) if op[0] == ">" else ("<=", math.floor(at / step) * step)
        value = value_at(Fraction(at), type)
    if value is None:
        return ""
    return f"{name} {op} {print_term(Constant(value, type))}"
