"""For which new values a realisation is one: with all of them, and with no others, it does what it was proven to do.

The borders of its new values (`borders.py`) cut them into cells in which all are alike. One point of each cell is tried
(`cells.py`), outward from the values that the realisation was proven with, and what holds of all the cells that were
found good is what is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice
from typing import Any

from upshot.core.errors import DataError
from upshot.revise.borders import Found
from upshot.revise.branch import Branch, Update
from upshot.revise.cells import Point, TooManyBordersError, inside, points, unit
from upshot.revise.consequences import Consequences, consequences
from upshot.revise.formulas import shown_row
from upshot.revise.likeness import Known
from upshot.revise.linear import Linear, new_value, number_of
from upshot.revise.moving_columns import moving_columns
from upshot.revise.new_values import NewValues
from upshot.revise.placeholders import Placeholder, renamed
from upshot.revise.regions import EVERYWHERE, Region, Signs, moved, passes, side, without_implied
from upshot.revise.request import Key, Request, Row
from upshot.revise.rules import Column, Rules
from upshot.revise.text_witnesses import containing, matching
from upshot.revise.widening import Widening, tried_points
from upshot.revise.world import World

MOST_TRIALS = 60
"""Points that are tried for one realisation."""
MOST_PARTED = 4
"""Rows of a change of which all parts are tried."""
MOST_SAME = 12
"""Values that two new ones are tried to have both."""
MOST_APART = 12
"""Points that are looked at for one with which all rows that come are new."""

IsCovered = Callable[[Update, Sequence[Placeholder]], bool]
"""Whether a change with these new values contains a realisation that was found."""


@dataclass(frozen=True, slots=True)
class Range:
    """Where a realisation is one; all borders that were met; what may have been missed. With the values of `point` it
    inserts `insert`, and rows come that were not there before wherever they come with others; `rows` says how these
    move. Views `by_trial` may come to something else. New values that are `different` must not be the same."""

    region: Region
    borders: tuple[Linear, ...] = ()
    missing: tuple[str, ...] = ()
    point: Point = field(default_factory=dict)
    insert: frozenset[Key] = frozenset()
    rows: Mapping[Key, Sequence[Row]] = field(default_factory=dict)
    by_trial: frozenset[str] = frozenset()
    different: tuple[tuple[str, str], ...] = ()

    def given(self, branch: Branch, used: Sequence[Placeholder], conditions: Iterable[str]) -> Branch:
        """The branch as it is given: with the values of the point, of which those that are not `used` are the only
        ones, and all that it does for others; its new values have numbers from 1."""
        called = {each.name: f"?{number}" for number, each in enumerate(used, 1)}
        unlike = [f"{one} != {other}" for one, other in self.different if {one, other} <= called.keys()]
        stated = tuple(renamed(each, called) for each in dict.fromkeys((*conditions, *unlike)))
        if not self.point:
            named = tuple(replace(each, name=called[each.name]) for each in used)
            return replace(branch, placeholders=named, conditions=stated)
        moved = {each.name: replace(each, name=called[each.name], witness=self.point[each.name]) for each in used}
        return replace(
            branch,
            insert=self.insert,
            placeholders=tuple(moved.values()),
            conditions=stated,
            formulas={key: shown_row(rows[0], key[1], moved, self.point) for key, rows in self.rows.items()},
            by_trial=self.by_trial,
            is_followed=not (self.missing or self.by_trial),
        )


@dataclass(slots=True)
class Ranges:
    """Finds the ranges of realisations."""

    world: World
    rules: Rules
    constraints: Collection[str]
    request: Request
    new_values: NewValues
    counts: dict[str, int]
    _looked_around: set[object] = field(default_factory=set)

    def of(self, branch: Branch, others: Iterable[Known], is_covered: IsCovered) -> Range:
        """The range of a branch that is a realisation, and is staged. What `is_covered` by another, for the borders of
        `others`, is not part of it."""
        used = used_placeholders(branch)
        are_watched = any(self.new_values.borders.are_watched(each.columns or ()) for each in used)
        if not are_watched and len(used) < 2:
            return Range(EVERYWHERE)
        trials = _Trials(self, branch, used, is_covered)
        if not are_watched:
            trials.begin()
            found = Range(EVERYWHERE, different=tuple(trials.different(EVERYWHERE, ())))
            self.world.stage(branch.insert, branch.delete)
            return found
        for known in (Known((branch.insert, branch.delete), used), *others):
            for border in (*moved(known.region, known.placeholders, used), *self._named_in(known, used)):
                trials.found.add(border)
        found = trials.range()
        self.world.stage(branch.insert, branch.delete)
        return found

    def _named_in(self, known: Known, used: Sequence[Placeholder]) -> Iterable[Linear]:
        """The values of another realisation that new ones could be."""
        for name, row in known.update[0]:
            for column, value in _cells(name, row):
                for each in used:
                    number, is_open = number_of(value), any(p.stands_at(column, value) for p in known.placeholders)
                    if (
                        column in (each.columns or ())
                        and number is not None
                        and not is_open
                        and self.new_values.is_new(value, each)
                    ):
                        yield new_value(each.name).plus(Linear((), -number))

    def look_around(self, branch: Branch, *, is_stuck: bool) -> None:
        """Notes other new values for a branch, which is staged: those that rules for the rows it lacks would compare,
        and, if something is in its way, those that its own rows meet."""
        used = tuple(each for each in branch.placeholders if self.new_values.borders.are_watched(each.columns or ()))
        new = {each.witness for each in used}
        views = (key for key in branch.true if key not in branch.support and key[0] in self.rules.by_view)
        wanted = frozenset(key for key in views if not new.isdisjoint(key[1]) and key[0] not in self.rules.folds)
        place = branch.insert, branch.placeholders, wanted, is_stuck
        if not used or not (wanted or is_stuck) or place in self._looked_around:
            return
        self._looked_around.add(place)
        template, first = Template(branch, used), {each.name: each.witness for each in used}
        borders = self.new_values.borders.reached(template.insert, first).borders if is_stuck else {}
        for key in wanted:
            row = template.symbolic(key)
            if any(isinstance(value, Linear) for value in row):
                borders |= self.new_values.borders.asked(key[0], row, first).borders
        self.new_values.note_borders(borders, used)

    def points(self, found: Found, used: Sequence[Placeholder], first: Point) -> list[Point] | None:
        """The points to be tried; None if they are too many."""
        try:
            types = {each.name: each.type for each in used}
            made = points(found.borders, types, self._usable(used), self.newness(used), first)
        except TooManyBordersError:
            found.missing["what they are compared with"] = None
            return None
        for test, argument, name in found.tests:
            texts = list((matching if test == "match" else containing)(argument, 1))[:2]
            made += [{**first, name: text} for text in (*texts, "new value", "?")]
        return made

    def are_new(self, used: Sequence[Placeholder], point: Point) -> bool:
        return all(self.new_values.is_new(point[each.name], each) for each in used)

    def stage(self, update: Update) -> None:
        """Tries a change, which is counted."""
        self.counts["trials"] = self.counts.get("trials", 0) + 1
        self.world.stage(*update)

    def is_met(self) -> bool:
        """Whether the staged change is a realisation."""
        return (
            all(map(self.world.holds, self.request.insert))
            and not any(map(self.world.holds, self.request.delete))
            and not any(self.world.added(each) for each in self.constraints)
            and not self.world.key_conflicts()
        )

    def newness(self, used: Sequence[Placeholder]) -> Callable[[str, Any], bool]:
        """Says of values of these names whether they are new."""
        by_name = {each.name: each for each in used}
        return lambda name, value: self.new_values.is_new(value, by_name[name])

    def _usable(self, used: Sequence[Placeholder]) -> Callable[[str, Any, Point], bool]:
        by_name = {each.name: each for each in used}

        def usable(name: str, value: Any, known: Point) -> bool:
            here = by_name[name]
            return not any(value == other and here.is_linked(by_name[each]) for each, other in known.items())

        return usable


def used_placeholders(branch: Branch) -> tuple[Placeholder, ...]:
    """The new values that are in rows of the change."""
    places = {(column, value) for name, row in branch.insert for column, value in _cells(name, row)}
    return tuple(each for each in branch.placeholders if any(each.stands_at(*place) for place in places))


def _cells(name: str, row: Row) -> Iterable[tuple[Column, Any]]:
    return (((name, place), value) for place, value in enumerate(row))


class Template:
    """The changes of a branch with names for its new values."""

    def __init__(self, branch: Branch, used: Sequence[Placeholder]) -> None:
        self._used, self._delete = used, branch.delete
        self.insert = [(key[0], self.symbolic(key)) for key in branch.insert]

    def symbolic(self, key: Key) -> Row:
        """A row with what stands for its new values."""
        return tuple(
            next((new_value(each.name) for each in self._used if each.stands_at(column, value)), value)
            for column, value in _cells(*key)
        )

    def filled(self, point: Point) -> Update:
        def value_of(value: Any) -> Any:
            return point[value.parts[0][0]] if isinstance(value, Linear) else value

        return frozenset((name, tuple(map(value_of, row))) for name, row in self.insert), self._delete


@dataclass(slots=True)
class _Trials:
    """The points that are tried for one realisation."""

    ranges: Ranges
    branch: Branch
    used: Sequence[Placeholder]
    is_covered: IsCovered
    found: Found = field(default_factory=Found)
    _template: Template = field(init=False)
    _moving: frozenset[Column] = field(init=False)
    _seen: list[str] = field(init=False)
    """The relations that users know."""
    _good: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    """Whether it is a realisation with these values for the new ones."""
    _enough: dict[Update, bool] = field(default_factory=dict)
    """Which parts of the change are realisations."""
    _expected: Consequences = field(init=False)

    def __post_init__(self) -> None:
        self._template = Template(self.branch, self.used)
        self._moving = moving_columns(self.ranges.rules, frozenset().union(*(each.columns or () for each in self.used)))
        rules = self.ranges.rules
        views = [name for name in rules.by_view if name not in rules.serves]
        self._seen = [*views, *{name for name, _ in self.branch.insert | self.branch.delete}]
        self._good[tuple(each.witness for each in self.used)] = True

    def begin(self) -> Found:
        """Notes what the branch does, which is staged; what it meets."""
        found = self._collect({each.name: each.witness for each in self.used})
        self._expected = self._consequences(found)
        return found

    def different(self, region: Region, tried: Iterable[Point]) -> Iterator[tuple[str, str]]:
        """The new values that must not be the same, though rules may take one for the other; tried with values of
        points."""
        first = {each.name: each.witness for each in self.used}
        for one, other in combinations([each for each in self.used if not each.is_computed], 2):
            if one.type == other.type and one.is_linked(other):
                values = dict.fromkeys(point[name] for point in (first, *tried) for name in (one.name, other.name))
                points = ({**first, one.name: value, other.name: value} for value in values)
                same = (each for each in points if each in region and self.ranges.are_new(self.used, each))
                if not all(map(self._holds, islice(same, MOST_SAME))):
                    yield one.name, other.name

    def range(self) -> Range:
        first = {each.name: each.witness for each in self.used}
        met = self.begin()
        while True:
            tried = self.ranges.points(self.found, self.used, first)
            if tried is None:
                return self._range(without_implied(self._cell(first)), (), first, met)
            size = len(self.found.borders), len(self.found.tests)
            region = self._widest(first, tried)
            if (len(self.found.borders), len(self.found.tests)) == size:
                self._note_unsure()
                return self._range(region, tried, first, met)

    def _range(self, region: Region, tried: Iterable[Point], first: Point, found: Found) -> Range:
        borders, missing = tuple(self.found.borders), tuple(self.found.missing)
        different = tuple(self.different(region, tried))
        if self._expected.met:
            first, found = self._apart(region) or (first, found)
        update = self._template.filled(first)
        self.ranges.world.stage(*update)
        if found.missing:
            by_trial = frozenset(
                name for name in {name for name, _ in self._moving}.intersection(self.ranges.rules.by_view)
                if any((name, row) not in found.rows for row in self.ranges.world.added(name))
            )  # fmt: skip
            return Range(region, borders, missing, first, update[0], found.rows, by_trial, different)
        rows = {**self._not_followed(region, first, found), **found.rows}
        return Range(region, borders, missing, first, update[0], rows, different=different)

    def _not_followed(self, region: Region, point: Point, found: Found) -> dict[Key, list[Row]]:
        """The staged rows of views with values that are new, or look so, and that no rule looks at: those that stay
        when the new value is another only look so."""
        template = Template(self.branch, [replace(each, witness=point[each.name]) for each in self.used])
        world, made = self.ranges.world, dict[Key, Row]()
        for name in self._seen:
            for row in world.added(name):
                symbolic = template.symbolic((name, row))
                if symbolic != row and (name, row) not in found.rows:
                    made[name, row] = symbolic
        for each in self.used if made else ():
            moved = new_value(each.name)
            others = (p for p in self._others(region, point, each) if self._holds(p))
            if any(moved in row for row in made.values()) and (other := next(others, None)) is not None:
                world.stage(*self._template.filled(other))
                for (name, row), symbolic in made.items():
                    if row in world.added(name):
                        kept = (now if v == moved else v for v, now in zip(symbolic, row, strict=True))
                        made[name, row] = tuple(kept)
        return {key: [row] for key, row in made.items()}

    def _apart(self, region: Region) -> tuple[Point, Found] | None:
        """Values of a region with which no row that comes is there already, and what is met with them."""
        first = {each.name: each.witness for each in self.used}
        others = (point for each in self.used for point in self._others(region, first, each))
        for point in islice(others, MOST_APART):
            if self._holds(point):
                self.ranges.world.stage(*self._template.filled(point))
                found = self._collect(point)
                if not self._consequences(found).met:
                    return point, found
        return None

    def _others(self, region: Region, first: Point, each: Placeholder) -> Iterator[Point]:
        """Points of a region that differ from the first one in one new value."""
        roots = {-border.more for border in region.borders if border.parts == new_value(each.name).parts}
        here = number_of(first[each.name])
        if here is not None:
            low = max((root for root in roots if root < here), default=None)
            high = min((root for root in roots if root > here), default=None)
            for value in inside(low, high, each.type):
                point = {**first, each.name: value}
                if value != first[each.name] and point in region and self.ranges.are_new(self.used, point):
                    yield point

    def _cell(self, first: Point) -> Region:
        """The values that are on the same side of all borders as the first ones."""
        sides = {border: Signs((side(border, first),)) for border in self.found.borders}
        return Region(sides, {test: passes(test, first) for test in self.found.tests})

    def _note_unsure(self) -> None:
        if self.found.tests and len(self.found.tests) + len(self.found.borders) > 1:
            self.found.missing["the texts that they are tested for"] = None
        joint = [each for each in self.found.borders if len(each.parts) > 1]
        if any(abs(factor) != 1 for each in joint for _, factor in each.parts) or (joint and len(self.used) > 2):
            self.found.missing["how they are compared with each other"] = None

    def _widest(self, first: Point, tried: Sequence[Point]) -> Region:
        """The cell of the first point, widened border by border, the nearest first, as long as all points in it are
        good."""
        cell = self._cell(first)
        order = sorted(cell.borders, key=lambda border: abs(_distance(border, first)))
        beside = self._beside(order)
        steps = [step for border in order for step in ((border,), *(each for each in beside if each[0] == border))]
        points = tried_points(tried, cell, self.ranges.newness(self.used))
        return Widening(points, steps, self._holds).widest(cell)

    def _beside(self, borders: Sequence[Linear]) -> list[tuple[Linear, Linear]]:
        """Borders of one new value between which there is none: beyond one of them is only the other."""
        steps = {new_value(each.name).parts: unit(each.type) for each in self.used}
        return [
            (one, other) for one, other in combinations(borders, 2)
            if one.parts == other.parts and (step := steps.get(one.parts)) and abs(one.more - other.more) <= step
        ]  # fmt: skip

    # ---- one point ----------------------------------------------------------------------------------------------

    def _holds(self, point: Point) -> bool:
        tried = tuple(point[each.name] for each in self.used)
        if tried not in self._good:
            if len(self._good) > MOST_TRIALS:
                self.found.missing["those that were tried"] = None
                return False
            self._good[tried] = self._is_one(self._template.filled(point), point)
        return self._good[tried]

    def _is_one(self, update: Update, point: Point) -> bool:
        """Whether the change is a realisation with these values, and does the same."""
        placeholders = [Placeholder(e.name, e.type, point[e.name], e.columns) for e in self.used]
        if self.is_covered(update, placeholders):
            return False
        try:
            self.ranges.stage(update)
            found = self._collect(point)
            is_one = self.ranges.is_met() and self._consequences(found).are_like(self._expected)
        except DataError:
            self.ranges.world.undo()
            return False
        return is_one and not any(map(self._is_enough, self._parts(point)))

    def _parts(self, point: Point) -> Iterator[Update]:
        """Parts of the change with rows that have new values in them, which are no realisations with the first ones:
        all parts if the change is small, and otherwise those that leave out one row."""
        insert, delete = self._template.filled(point)
        moving = insert - self.branch.insert
        rows = [*sorted(insert, key=repr), *sorted(delete, key=repr)]
        least = 1 if len(rows) <= MOST_PARTED else len(rows) - 1
        for size in range(least, len(rows)):
            for part in map(frozenset, combinations(rows, size)):
                if not moving.isdisjoint(part):
                    yield insert & part, delete & part

    def _is_enough(self, part: Update) -> bool:
        if part not in self._enough:
            try:
                self.ranges.stage(part)
                self._enough[part] = self.ranges.is_met()
            except DataError:
                self.ranges.world.undo()
                self._enough[part] = False
        return self._enough[part]

    def _collect(self, point: Point) -> Found:
        """The borders that the staged change meets with these values, which are noted."""
        found = self.ranges.new_values.borders.reached(self._template.insert, point)
        self.found.borders |= found.borders
        self.found.tests |= found.tests
        self.found.missing |= found.missing
        return found

    def _consequences(self, found: Found) -> Consequences:
        return consequences(self.ranges.world, self._seen, self._moving, found)


def _distance(border: Linear, point: Point) -> Fraction:
    return border.at({name: number_of(point[name]) or Fraction(0) for name, _ in border.parts})
