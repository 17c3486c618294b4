"""Which values variables were offered, and which they should have been: those that a change brings later on.

A variable of a rule takes the values that its columns have, those that the branch has brought to them, and new ones. A
row that is asked for afterwards may bring another, which nobody knew of: `w(X) :- e(X, _)` has made up `e(1, ?1)` when
`v(1, 2)` asks for `e(1, 2)`. Such values are noted here, and the search begins again with them, until no branch brings
any. In the same way new values connect columns: where `f(?1)` is wanted for the sake of `e(?1)`, the values that `f`
has will do for `e`. And where a new value is part of a realisation, a value of a column that rules join its column with
may make another one, which undoes what it meets there: such values are offered too, where they are few.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.revise.alternatives import Limits
from upshot.revise.branch import Branch
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Key
from upshot.revise.rules import Column
from upshot.revise.world import World

Columns = frozenset[Column]

FEW = 50
"""Rows of a relation whose values are offered for columns that rules join with its own."""


@dataclass(slots=True)
class OfferedValues:
    """`constants` are offered everywhere. `linked` are columns whose values meet in rules, `named` the constants that
    rules compare the values of a column with, `sources` gives the base columns of a column. `brought` are values that
    are offered for columns beside the stored ones, `links` columns whose values are offered for a column as well."""

    world: World
    constants: Collection[Any]
    linked: Mapping[Column, Columns]
    named: Mapping[Column, frozenset[Any]]
    sources: Callable[[Column], Columns]
    limits: Limits
    brought: dict[Column, dict[Any, None]] = field(default_factory=dict)
    links: dict[Column, Columns] = field(default_factory=dict)
    _asked: dict[Columns, None] = field(default_factory=dict)
    _judged: dict[object, bool] = field(default_factory=dict)
    _late: dict[tuple[Column, Any], None] = field(default_factory=dict)
    _connected: dict[Columns, None] = field(default_factory=dict)

    def columns(self, sources: Columns) -> Columns:
        """The columns whose values a variable is offered that takes them from these."""
        return sources.union(*(self.links.get(each, ()) for each in sources)) if self.links else sources

    def ask(self, columns: Columns) -> None:
        """Notes that the values of these columns were offered to a variable."""
        if columns not in self._asked:
            self._asked[columns] = None
            self._judged.clear()

    def values(self, columns: Columns) -> Iterator[Any]:
        """The values that are offered for variables of these columns beside those that are stored there."""
        if self.brought:
            yield from dict.fromkeys(value for each in sorted(columns) for value in self.brought.get(each, ()))

    def bring(self, keys: Iterable[Key]) -> None:
        """From now on the values of these rows are offered."""
        for column, value in _values(keys):
            for source in self.sources(column):
                self.brought.setdefault(source, {})[value] = None

    def note(self, branch: Branch) -> bool:
        """Whether the branch brings values, or connects columns, that variables should have been offered; noted."""
        if not self._asked:
            return False
        new = {each.witness: set[Column]() for each in branch.placeholders}
        late: dict[tuple[Column, Any], None] = {}
        for place in _values(branch.insert):
            if place[1] in new:
                new[place[1]].add(place[0])
            elif self._is_late(*place):
                late[place] = None
        parts = (columns & self.linked.get(each, frozenset()) for columns in new.values() for each in columns)
        connected = {each: None for each in map(frozenset, parts) if self._is_connected(each)}
        self._late |= late
        self._connected |= connected
        return bool(late or connected)

    def note_meeting(self, branch: Branch, keys: Iterable[Key]) -> None:
        """Notes that new values of a branch are in the way together with these rows: another value that the columns of
        the rows have, or that a rule names, might not be."""
        new = {each.witness for each in branch.placeholders}
        if not new or not self._asked:
            return
        values = [(source, value) for column, value in _values(keys) for source in self.sources(column)]
        every = frozenset(column for column, _ in values)
        parts = {every & self.linked.get(column, frozenset()) for column, value in values if value in new}
        self._connected |= {each: None for each in parts if self._is_connected(each)}
        named = ((column, other) for column, value in values if value in new for other in self.named.get(column, ()))
        self._late |= {each: None for each in named if self._is_late(*each)}

    def note_joined(self, insert: Iterable[Key], placeholders: Iterable[Placeholder]) -> bool:
        """Whether columns that rules join with those of new values have values that should be offered for these; noted,
        also where they are too many for that."""
        places, noted = list(_values(insert)), len(self._connected)
        for each in placeholders:
            own = frozenset(place[0] for place in places if each.stands_at(*place))
            offered, joined = self.columns(own), frozenset().union(*(self.linked.get(column, ()) for column in own))
            new = {column for column in joined - offered if self.brought.get(column) or self.world.size(column[0])}
            many = {column for column in new if self.world.size(column[0]) > FEW}
            for column in own:
                self.limits.untried.setdefault(column, {}).update(dict.fromkeys(sorted(many)))
            parts = own | (new - many)
            if len(parts) > len(own) and self._is_connected(parts):
                self._connected[parts] = None
        return len(self._connected) > noted

    def note_value(self, columns: Iterable[Column], value: Any) -> None:
        """Notes that a value should be offered for these base columns."""
        self._late |= {(each, value): None for each in columns if self._is_late(each, value)}

    def offer(self, columns: Columns, value: Any) -> None:
        """Offers a value for these base columns: at once, or, where others were offered before, from when it is taken
        in."""
        for each in columns:
            if self._is_late(each, value):
                self._late[each, value] = None
            elif not self._is_offered(value, frozenset({each})):
                self.brought.setdefault(each, {})[value] = None

    @property
    def has_news(self) -> bool:
        """Whether anything was noted that is not offered yet."""
        return bool(self._late or self._connected)

    @property
    def news(self) -> Columns:
        """The columns that it was noted of."""
        return frozenset(column for column, _ in self._late).union(*self._connected)

    def take_in(self) -> bool:
        """Whether anything was noted; from now on it is offered."""
        is_new = self.has_news
        for column, value in self._late:
            self.brought.setdefault(column, {})[value] = None
        for columns in self._connected:
            self.links |= {each: self.links.get(each, frozenset()) | columns for each in columns}
        for noted in (self._late, self._connected, self._asked, self._judged):
            noted.clear()
        return is_new

    def _is_late(self, column: Column, value: Any) -> bool:
        place = column, value
        if place not in self._judged:
            asked = (columns for columns in self._asked if column in columns)
            self._judged[place] = any(not self._is_offered(value, columns) for columns in asked)
        return self._judged[place]

    def _is_offered(self, value: Any, columns: Columns) -> bool:
        return (
            value is None
            or value in self.constants
            or any(value in self.brought.get(each, ()) for each in columns)
            or self.world.occurs(value, columns)
        )

    def _is_connected(self, columns: Columns) -> bool:
        if len(columns) < 2:
            return False
        if columns not in self._judged:
            asked = (each for each in self._asked if not columns.isdisjoint(each))
            others = ({name for name, _ in columns - each} for each in asked)
            self._judged[columns] = any(self.world.size(name) for names in others for name in names)
        return self._judged[columns]


def _values(keys: Iterable[Key]) -> Iterator[tuple[Column, Any]]:
    for name, row in keys:
        yield from (((name, place), value) for place, value in enumerate(row))
