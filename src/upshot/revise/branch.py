"""A branch of the search: base changes decided on, and what they are to bring about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Key, Row
from upshot.revise.spans import Span

Update = tuple[frozenset[Key], frozenset[Key]]
"""Insertions and deletions of base rows."""

Avoided = tuple[str, Row, Span]
"""A view of aggregates, a group of it, and values that it must not come to."""


@dataclass(frozen=True, slots=True)
class OpenInstance:
    """An instance of a rule that is to derive `head` once aggregates in its body come to values that its comparisons
    allow; the variables that have values until then are `known`. Without a head, it is to derive some row, but none of
    `unlike`. It lies as deep as the rows of its body."""

    rule: int
    known: tuple[tuple[str, Any], ...]
    head: Key | None = None
    unlike: frozenset[Row] = frozenset()
    depth: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """`true` and `false` are rows of any relation that must, and must not, be there in the end; of base relations this
    is decided already: what differs from the stored rows is in `insert` or `delete`. `support` has, for rows of views
    that a rule is to derive, the rows of the same recursion in its body; it has no cycles, so that no row supports
    itself. `open` and `avoided` are what is to become of aggregates whose values are not named; `brought` are the
    groups that a row was brought to.

    `depths` has, for rows that were decided on, how many rules and repairs lead to them, each resting on the one
    before: 0, and not named, for what was asked for. What is seen to at the moment lies at `depth`; a row that is
    brought for it lies one deeper, and one that goes as deep, since rows that are stored come to an end.

    Of a realisation, `formulas` has the rows of views that move with its new values, by what they come to with those
    that it was proven with; `by_trial` are the views that may come to something else with others, and it `is_followed`
    if all is known that follows from those."""

    insert: frozenset[Key] = frozenset()
    delete: frozenset[Key] = frozenset()
    true: frozenset[Key] = frozenset()
    false: frozenset[Key] = frozenset()
    support: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict, hash=False)
    placeholders: tuple[Placeholder, ...] = ()
    conditions: tuple[str, ...] = ()
    open: frozenset[OpenInstance] = frozenset()
    avoided: frozenset[Avoided] = frozenset()
    brought: frozenset[Key] = frozenset()
    depths: Mapping[Key, int] = field(default_factory=dict, hash=False)
    depth: int = 0
    formulas: Mapping[Key, Row] = field(default_factory=dict, hash=False)
    by_trial: frozenset[str] = frozenset()
    is_followed: bool = True

    @property
    def size(self) -> int:
        return len(self.insert) + len(self.delete)

    @property
    def state(self) -> object:
        """What tells branches apart that would be continued differently. A new value that is tried as 6 is not 6."""
        decided = self.insert, self.delete, self.true, self.false
        new = frozenset(each.witness for each in self.placeholders)
        return *decided, frozenset(self.support.items()), self.open, self.avoided, self.brought, new

    def seeing_to(self, about: Key, because: Iterable[Key] = ()) -> Branch:
        """The branch in which what is decided next is for the sake of a row, or of rows that were changed before."""
        changed = (key for key in because if key in self.insert or key in self.delete)
        return replace(self, depth=max(self.depths.get(key, 0) for key in (about, *changed)))

    def supported(self, head: Key, body: Iterable[Key]) -> Branch | None:
        """The branch in which a rule derives `head` from these rows of views; None if one of them rests on it."""
        body = tuple(dict.fromkeys(body))
        seen, left = set(body), list(body)
        while left:
            key = left.pop()
            if key == head:
                return None
            new = [below for below in self.support.get(key, ()) if below not in seen]
            seen.update(new)
            left += new
        return replace(self, support={**self.support, head: body})
