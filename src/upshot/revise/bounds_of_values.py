"""Between which values new ones lie, given on which sides of borders: what one has to be says something of others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from upshot.core.types import Type
from upshot.revise.cells import extent, unit
from upshot.revise.linear import Linear

Ends = tuple[Fraction | None, Fraction | None]
"""The least and the greatest value; None where there is none."""

ROUNDS = 8
"""How often what is known of some is used for others."""


def bounds_of(borders: Mapping[Linear, frozenset[int]], types: Mapping[str, Type]) -> dict[str, Ends]:
    """The ends of new values, by name, that lie on these sides of borders: no others can be met, though not all between
    them need to do.

    >>> from upshot.core.types import NUMBER
    >>> from upshot.revise.linear import new_value
    >>> above, below = (new_value("?1").plus(Linear((), Fraction(-each))) for each in (1, 3))
    >>> bounds_of({above: frozenset({1}), below: frozenset({-1})}, {"?1": NUMBER})
    {'?1': (Fraction(2, 1), Fraction(2, 1))}
    """
    found: dict[str, Ends] = {name: extent(type) for name, type in types.items()}
    for _ in range(ROUNDS):
        before = dict(found)
        for border, signs in borders.items():
            for name, factor in border.parts:
                others = Linear(tuple(each for each in border.parts if each[0] != name), border.more).times(-1 / factor)
                sides = signs if factor > 0 else frozenset(-each for each in signs)
                found[name] = _narrowed(found[name], _span(others, found), sides, unit(types[name]))
        if found == before:
            break
    return found


def _span(value: Linear, known: Mapping[str, Ends]) -> Ends:
    """Between what a value lies that is computed from others."""
    return _end(value, known, 0), _end(value, known, 1)


def _end(value: Linear, known: Mapping[str, Ends], which: int) -> Fraction | None:
    total = value.more
    for name, factor in value.parts:
        end = known[name][which if factor > 0 else 1 - which]
        if end is None:
            return None
        total += factor * end
    return total


def _narrowed(ends: Ends, other: Ends, signs: frozenset[int], step: Fraction | None) -> Ends:
    """The ends of a value that lies on these sides of another, of which the ends are known."""
    low, high = ends
    if -1 not in signs and other[0] is not None:
        low = max([_least(other[0], step, is_met=0 in signs), *_known(low)])
    if 1 not in signs and other[1] is not None:
        high = min([-_least(-other[1], step, is_met=0 in signs), *_known(high)])
    if 0 not in signs and other[0] is not None and other[0] == other[1] and step is not None:
        low = low + step if low == other[0] else low
        high = high - step if high == other[0] else high
    return low, high


def _known(end: Fraction | None) -> Iterator[Fraction]:
    if end is not None:
        yield end


def _least(bound: Fraction, step: Fraction | None, *, is_met: bool) -> Fraction:
    """The least value of a type from a bound on, or beyond it."""
    if step is None:
        return bound
    return (math.ceil(bound / step) if is_met else math.floor(bound / step) + 1) * step
