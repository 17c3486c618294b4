"""Why a row is there: its smallest derivation."""

from __future__ import annotations

from dataclasses import dataclass

from upshot.check.program import CheckedProgram
from upshot.reasons.concrete import concrete_rules
from upshot.reasons.derivation import Derivation
from upshot.reasons.search import MOST_INSTANCES, Key, Search, World, used
from upshot.reasons.telling import Telling


@dataclass(frozen=True, slots=True)
class Reasons:
    """What can be said about the rows of one state: `search` finds, `telling` makes trees of it."""

    program: CheckedProgram
    search: Search
    telling: Telling

    def why(self, key: Key) -> Derivation | None:
        """The smallest derivation of a row; a row of a base relation is its own. None if no rule derives it."""
        if key[0] not in self.search.rules:
            return self.telling.base(key)
        best = self.search.best(key)
        if best is None:
            return None
        rows = sorted(used(best, key), key=lambda each: best[each].height)
        self.telling.prepare(best[each].instance for each in rows)
        made: dict[Key, Derivation] = {}
        for each in rows:
            made[each] = self.telling.derivation(best[each].instance, made)
        return made[key]


def reasons_in(world: World, program: CheckedProgram, bounds: int | None = None) -> Reasons:
    """The reasons for rows in one state of a database; `bounds` is how many rule instances are looked at."""
    most = MOST_INSTANCES if bounds is None else bounds
    return Reasons(program, Search(world, concrete_rules(program), program.schemas, most), Telling(program, world))
