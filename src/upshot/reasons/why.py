"""Why a row is there: its smallest derivation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from upshot.check.program import CheckedProgram
from upshot.reasons.concrete import concrete_rules
from upshot.reasons.derivation import Derivation
from upshot.reasons.enumeration import Enumeration
from upshot.reasons.layers import Layers
from upshot.reasons.search import MOST_INSTANCES, Best, Key, Search, World, used
from upshot.reasons.telling import Telling


@dataclass(frozen=True, slots=True)
class Reasons:
    """What can be said about the rows of one state: `search` finds, `telling` makes trees of it."""

    program: CheckedProgram
    search: Search
    telling: Telling
    layers: Layers | None = None
    """For the rows of recursions that a search by levels would not get to the bottom of."""

    def best(self, key: Key) -> Mapping[Key, Best] | None:
        """The smallest derivations of a row of a view and of what it rests on; None if no rule derives it."""
        found = None if self.layers is None else self.layers.best(key, self.search.bounds)
        return found or self.search.best(key)

    def why(self, key: Key, best: Mapping[Key, Best]) -> Derivation:
        """The smallest derivation of a row, as a tree."""
        rows = sorted(used(best, key), key=lambda each: best[each].height)
        self.telling.prepare(best[each].instance for each in rows)
        made: dict[Key, Derivation] = {}
        for each in rows:
            instance = best[each].instance
            made[each] = self.telling.derivation(instance, [made[premise] for premise in instance.premises])
        return made[key]

    def others(self, key: Key, best: Mapping[Key, Best]) -> Iterator[Derivation]:
        """All derivations of a row but its smallest, by height."""
        return Enumeration(self.search, self.telling, key).others(best)

    def is_derived(self, key: Key) -> bool:
        """Whether the row is one of a view, which rules derive."""
        return key[0] in self.search.rules


def reasons_in(world: World, program: CheckedProgram, bounds: int | None = None) -> Reasons:
    """The reasons for rows in one state of a database; `bounds` is how many rule instances are looked at."""
    most = MOST_INSTANCES if bounds is None else bounds
    rules = concrete_rules(program)
    layers = Layers(world, rules, program) if world.is_local else None
    return Reasons(program, Search(world, rules, program.schemas, most), Telling(program, world), layers)
