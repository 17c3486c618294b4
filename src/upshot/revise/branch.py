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
    `unlike`."""

    rule: int
    known: tuple[tuple[str, Any], ...]
    head: Key | None = None
    unlike: frozenset[Row] = frozenset()


@dataclass(frozen=True, slots=True)
class Branch:
    """`true` and `false` are rows of any relation that must, and must not, be there in the end; of base relations this
    is decided already: what differs from the stored rows is in `insert` or `delete`. `support` has, for rows of views
    that a rule is to derive, the rows of the same recursion in its body; it has no cycles, so that no row supports
    itself. `open` and `avoided` are what is to become of aggregates whose values are not named; `brought` are the
    groups that a row was brought to."""

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
    rounds: int = 0

    @property
    def size(self) -> int:
        return len(self.insert) + len(self.delete)

    @property
    def state(self) -> object:
        """What tells branches apart that would be continued alike."""
        decided = self.insert, self.delete, self.true, self.false
        return *decided, frozenset(self.support.items()), self.open, self.avoided, self.brought

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
