"""A branch of the search: base changes decided on, and what they are to bring about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Key

Update = tuple[frozenset[Key], frozenset[Key]]
"""Insertions and deletions of base rows."""


@dataclass(frozen=True, slots=True)
class Branch:
    """`true` and `false` are rows of any relation that must, and must not, be there in the end; of base relations this
    is decided already: what differs from the stored rows is in `insert` or `delete`. `support` has, for rows of views
    that a rule is to derive, the rows of views in its body; it has no cycles, so that no row supports itself."""

    insert: frozenset[Key] = frozenset()
    delete: frozenset[Key] = frozenset()
    true: frozenset[Key] = frozenset()
    false: frozenset[Key] = frozenset()
    support: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict, hash=False)
    placeholders: tuple[Placeholder, ...] = ()
    conditions: tuple[str, ...] = ()
    rounds: int = 0

    @property
    def size(self) -> int:
        return len(self.insert) + len(self.delete)

    @property
    def state(self) -> object:
        """What tells branches apart that would be continued alike."""
        return self.insert, self.delete, self.true, self.false, frozenset(self.support.items())

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


def contains_update(branch: Branch, update: Update, names: tuple[Placeholder, ...]) -> bool:
    """Whether an update is part of what the branch has decided on, whatever its new values are called."""
    insert, delete = update
    if len(insert) > len(branch.insert) or not delete <= branch.delete:
        return False
    if not names:
        return insert <= branch.insert
    if len(names) > len(branch.placeholders):
        return False
    for chosen in permutations(branch.placeholders, len(names)):
        renamed = {old.witness: new.witness for old, new in zip(names, chosen, strict=True)}
        if all((name, tuple(renamed.get(v, v) for v in row)) in branch.insert for name, row in insert):
            return True
    return False
