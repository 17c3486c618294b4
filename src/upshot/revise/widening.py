"""How far a region can be widened about a point, as long as all points in it are good.

Borders are crossed one by one, the nearest first. First those are crossed that have points beyond them; one that has
none is left out only where that leads further, or where others say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from upshot.engine.time_limit import check_time
from upshot.revise.cells import Point
from upshot.revise.linear import Linear
from upshot.revise.regions import ANY, Region, Signs, TextTest, passes, side

Sides = Mapping[Linear, Signs]
Tests = Mapping[TextTest, bool]
Step = tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """A point, how it lies to all borders, which tests its texts pass, and the names whose values are not new."""

    point: Point
    sides: Mapping[Linear, int]
    tests: Tests
    stored: frozenset[str]

    @property
    def is_new(self) -> bool:
        return not self.stored

    def lies_in(self, sides: Sides, tests: Tests) -> bool:
        return all(self.sides[border] in signs for border, signs in sides.items()) and all(
            self.tests[test] is so for test, so in tests.items()
        )


@dataclass(frozen=True, slots=True)
class Widening:
    """`holds` says of a point whether it is good; `steps` are borders to be crossed together, in their order."""

    tried: Sequence[Tried]
    steps: Sequence[Step]
    holds: Callable[[Point], bool]

    def widest(self, cell: Region) -> Region:
        """The cell widened border by border, then without the tests that make no difference."""
        sides, tests = self._crossed(dict(cell.borders), cell.tests), dict(cell.tests)
        while (further := self._further(sides, tests)) is not None:
            sides = further
        for step in reversed(self.steps):
            if (fewer := self._without(step, sides, tests)) is not None:
                sides = fewer
        for test in list(tests):
            fewer_tests = {each: so for each, so in tests.items() if each != test}
            if self._is_good((sides, tests), (sides, fewer_tests)):
                tests = fewer_tests
        return Region(sides, tests)

    def _crossed(self, sides: Sides, tests: Tests) -> Sides:
        """The sides after all borders are crossed beyond which there are points, all of them good."""
        moved = True
        while moved:
            moved = False
            for step in self.steps:
                check_time()
                for wider in _widened(step, sides):
                    if self._is_good((sides, tests), (wider, tests)):
                        sides, moved = wider, True
                        break
        return sides

    def _further(self, sides: Sides, tests: Tests) -> Sides | None:
        """The sides after borders are left out beyond which nothing lies, if others can be crossed then."""
        for step in self.steps:
            fewer = self._without(step, sides, tests)
            if fewer is not None:
                sides = self._crossed(fewer, tests)
                if sides != fewer:
                    return sides
        return None

    def _without(self, step: Step, sides: Sides, tests: Tests) -> Sides | None:
        """The sides without borders, if they are all there and nothing lies beyond them."""
        fewer = {border: signs for border, signs in sides.items() if border not in step}
        if len(fewer) + len(step) > len(sides):
            return None
        return None if any(self._beyond((sides, tests), (fewer, tests))) else fewer

    def _beyond(self, inner: tuple[Sides, Tests], outer: tuple[Sides, Tests]) -> Iterator[Tried]:
        return (each for each in self.tried if each.lies_in(*outer) and not each.lies_in(*inner))

    def _is_good(self, inner: tuple[Sides, Tests], outer: tuple[Sides, Tests]) -> bool:
        """Whether a region has points beyond another, all of them good. Values that are not new count where there are
        no others alike, unless they are all that lies at a border with new ones on both sides."""
        beyond = list(self._beyond(inner, outer))
        cells = dict[tuple[object, ...], list[Tried]]()
        for each in beyond:
            cells.setdefault((*each.sides.values(), *each.tests.values()), []).append(each)
        new = [each for points in cells.values() for each in points if each.is_new]
        if not all(self.holds(each.point) for each in new):
            return False
        passed = _passed(each for each in self.tried if each.is_new and each.lies_in(*outer))
        stored = (points for points in cells.values() if not any(each.is_new for each in points))
        told = (points for points in stored if not _is_at(points[0], passed))
        return bool(beyond) and all(self.holds(each.point) for points in told for each in points)


def tried_points(points: Iterable[Point], cell: Region, is_new: Callable[[str, Any], bool]) -> list[Tried]:
    """The points, with how they lie to the borders of a cell."""
    return [
        Tried(
            point,
            {border: side(border, point) for border in cell.borders},
            {test: passes(test, point) for test in cell.tests},
            frozenset(name for name, value in point.items() if not is_new(name, value)),
        )
        for point in points
    ]


def _widened(step: Step, sides: Sides) -> Iterator[Sides]:
    for wider in product(*(_wider(sides.get(border, ANY)) for border in step)):
        made = {**sides, **dict(zip(step, wider, strict=True))}
        yield {border: signs for border, signs in made.items() if signs != ANY}


def _wider(signs: Signs) -> list[Signs]:
    """What may be allowed beyond these sides, the most first."""
    if signs == ANY:
        return []
    return [ANY, *(each for each in (signs | {0}, signs | {1}, signs | {-1}) if len(signs) < len(each) < 3)]


def _passed(points: Iterable[Tried]) -> frozenset[Linear]:
    """The borders that points lie on both sides of."""
    found = {(border, sign) for each in points for border, sign in each.sides.items()}
    return frozenset(border for border, sign in found if sign == 1 and (border, -1) in found)


def _is_at(tried: Tried, borders: frozenset[Linear]) -> bool:
    """Whether the values of a point that are not new lie at borders, and at no others than these."""
    found = (border for border, sign in tried.sides.items() if sign == 0)
    at = {border for border in found if not tried.stored.isdisjoint(name for name, _ in border.parts)}
    return bool(at) and at <= borders
