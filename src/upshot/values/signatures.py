"""Sets of kinds, and signatures of functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from upshot.core.types import Kind

KindSet = int
"""A set of kinds as bits: inference intersects these millions of times."""

_BIT = {kind: 1 << i for i, kind in enumerate(Kind)}
# If several kinds are possible, the first of these is chosen: `X = 1` makes X a number.
_PREFERRED = (
    Kind.NUMBER,
    Kind.FLOAT,
    Kind.UNSIGNED,
    Kind.DECIMAL,
    Kind.SYMBOL,
    Kind.BOOLEAN,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.RECORD,
)


def only(*kinds: Kind) -> KindSet:
    """The set of these kinds."""
    return sum(_BIT[k] for k in kinds)


def preferred(kinds: KindSet) -> Kind:
    """The preferred one of several possible kinds."""
    return next(k for k in _PREFERRED if _BIT[k] & kinds)


@cache
def spell(kinds: KindSet) -> str:
    """The kinds in words.

    >>> spell(only(Kind.NUMBER, Kind.FLOAT))
    '`number` or `float`'
    """
    names = [f"`{k.value}`" for k in Kind if _BIT[k] & kinds]
    if len(names) == len(Kind):
        return "of any type"
    if kinds == ORDERED:
        return "of any type but a record"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


ANY = only(*Kind)
ORDERED = ANY & ~only(Kind.RECORD)
"""The kinds whose values can be compared by `<`."""
INTEGER = only(Kind.NUMBER, Kind.UNSIGNED)
NUMERIC = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL)


@dataclass(frozen=True, slots=True)
class Signature:
    """`arguments` and `result` are kind sets; if `uniform`, all arguments and the result are of one kind.

    `most` is None if the number of arguments is unbounded; then the last of `arguments` is repeated.
    """

    arguments: tuple[KindSet, ...]
    result: KindSet
    uniform: bool = False
    least: int = 0
    most: int | None = 0

    def argument(self, position: int) -> KindSet:
        return self.arguments[min(position, len(self.arguments) - 1)]

    def arity_in_words(self) -> str:
        if self.most is None:
            return f"at least {self.least} arguments"
        if self.most > self.least:
            return f"{self.least} or {self.most} arguments"
        return "1 argument" if self.least == 1 else f"{self.least} arguments"


def uniform(kinds: KindSet, arity: int, *, or_more: bool = False) -> Signature:
    """Arguments and result of one kind among `kinds`."""
    return Signature((kinds,), kinds, True, arity, None if or_more else arity)


def fixed(result: KindSet, *arguments: KindSet) -> Signature:
    """Each argument and the result of kinds of its own."""
    return Signature(arguments, result, False, len(arguments), len(arguments))
