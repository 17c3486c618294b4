"""The answer of `why_not`: the near misses of rules for an absent row, and the realizations that would insert it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from upshot.core.errors import Error, UsageError
from upshot.core.search_bounds import is_amount
from upshot.database.placement import Placement, placement_of
from upshot.database.realization import Realization
from upshot.database.realize import ALL, BOUNDED, NONE, OPEN, Realizations
from upshot.database.search_arguments import bounds_of, limit_of, preferences_of
from upshot.database.state import DatabaseState
from upshot.reasons.failure import FIX, FIXES, Failure
from upshot.revise.request import Bounds, Key, Request

SHOWN = 3
"""The default number of realizations in the answer."""
SECONDS, SECONDS_ON_SPARK = 2.0, 30.0
NAMED = 2
"""The most changes of other views that are named; of more only their number is shown."""


def usual_seconds(placement: Placement) -> float:
    """The default time of a search for fixes."""
    return SECONDS if placement.engine == "local" else SECONDS_ON_SPARK


class Fixing:
    """The search for realizations of a row, in the state in which it was absent."""

    def __init__(self, state: DatabaseState, key: Key) -> None:
        self._state, self._key, self._version = state, key, state.version
        self._fixes: dict[tuple[int, float | None], Failure] = {}

    def realizations(
        self, limit: int | None, frozen: Iterable[str], cost: Mapping[str, float] | None, bounds: Bounds | None
    ) -> Realizations:
        state = self._state
        state.open()
        if self._key[0] not in state.schemas:
            message = "the condition of a rule has no rows to insert"
            raise UsageError(message, code="wrong-argument", help="query the relations that it reads")
        if state.in_consistent_read:
            message = "cannot search for realizations inside a `with db.reading()` block"
            raise UsageError(message, code="transaction-open", help="end the block first")
        if state.version != self._version:
            message = "the database has changed since the query"
            raise UsageError(message, code="state-changed", help="call `why_not` again")
        request = Request(frozenset([self._key]), frozenset())
        preferences = preferences_of(state, frozen, cost)
        return Realizations(state, request, preferences, bounds_of(bounds), limit=limit_of(limit))

    def with_fixes(self, count: int, seconds: float | None) -> Failure:
        """The first realizations as a part of the answer; searched once."""
        if (count, seconds) not in self._fixes:
            try:
                self._fixes[count, seconds] = self._found(count, seconds)
            except Error as error:
                # Printing an answer does not fail: it shows why there are no fixes.
                return not_searched(error.message)
        return self._fixes[count, seconds]

    def _found(self, count: int, seconds: float | None) -> Failure:
        constraint = self._state.compiled.checked.constraints.get(self._key[0])
        if constraint is not None and constraint.on_violation == "reject":
            note = f"`{self._key[0]}` is a constraint: a transaction that makes this row true is rejected"
            return Failure(FIXES, "would be rejected", note=note, details={"status": NONE, "reason": note})
        if seconds is None:
            seconds = usual_seconds(placement_of(self._state.engine))
        realizations = self.realizations(count, (), {}, Bounds(seconds=seconds))
        return fixes_part(tuple(map(fix_part, realizations)), realizations.status, realizations.reason)


@dataclass(frozen=True, slots=True, eq=False)
class Absence(Failure):
    """The answer of `why_not`: the rules that could derive an absent row, and the realizations that would. As text,
    JSON or a picture it includes the first `fixes` realizations. The search for them starts then, takes at most
    `seconds` (default 2, on Spark 30), and uses the state that the answer is about."""

    fixing: Fixing | None = None

    def __repr__(self) -> str:
        return Failure.__repr__(self)

    def fixes(
        self,
        limit: int | None = None,
        *,
        frozen: Iterable[str] = (),
        cost: Mapping[str, float] | None = None,
        bounds: Bounds | None = None,
    ) -> Realizations:
        """The realizations that would insert the row, as from `db.realize`: each computed on demand, and `db.apply`
        commits one."""
        assert self.fixing is not None, "made by `of`"
        return self.fixing.realizations(limit, frozen, cost, bounds)

    def with_fixes(self, fixes: int = SHOWN, seconds: float | None = None) -> Failure:
        """The answer with the first realizations as its last part."""
        if isinstance(fixes, bool) or not isinstance(fixes, int) or fixes < 0:
            message = "`fixes` must be a non-negative integer"
            raise UsageError(message, code="wrong-argument", help="as in fixes=3; `.fixes()` gives them")
        if seconds is not None and not is_amount(seconds):
            message = "`seconds` must be a non-negative number"
            raise UsageError(message, code="wrong-argument", help="as in seconds=10")
        return self.with_last(*([self.fixing.with_fixes(fixes, seconds)] if fixes and self.fixing is not None else []))

    def with_last(self, *parts: Failure) -> Failure:
        """The answer with these as its last parts."""
        plain = {each.name: getattr(self, each.name) for each in fields(Failure)}
        return Failure(**{**plain, "parts": (*self.parts, *parts)})

    def text(self, *, depth: int | None = None, fixes: int = SHOWN, seconds: float | None = None) -> str:
        """The tree as indented text, to a depth if given."""
        return self.with_fixes(fixes, seconds).text(depth=depth)

    def json(self, *, fixes: int = SHOWN, seconds: float | None = None) -> str:
        return self.with_fixes(fixes, seconds).json()

    def as_dict(self, *, fixes: int = SHOWN, seconds: float | None = None) -> dict[str, Any]:
        """The tree as JSON values."""
        return self.with_fixes(fixes, seconds).as_dict()

    def svg(self, *, fixes: int = SHOWN, seconds: float | None = None) -> str:
        return self.with_fixes(fixes, seconds).svg()


def absence(failure: Failure, state: DatabaseState, key: Key) -> Absence:
    """The answer for an absent row, with a search for its fixes."""
    kept = {each.name: getattr(failure, each.name) for each in fields(Failure)}
    return Absence(**kept, fixing=Fixing(state, key))


def fixes_part(found: Sequence[Failure], status: str, reason: str) -> Failure:
    """The result of a search for fixes, as the last part of an answer."""
    details = {"status": status, "reason": reason}
    if not found:
        words = "no base changes were found" if status == BOUNDED else "no base changes make it true"
        note = reason.removeprefix("none found ").removeprefix("none exists: ")
        return Failure(FIXES, words, note=note, details=details)
    words = reason
    if status == ALL:
        words = "the only realization" if len(found) == 1 else f"all {len(found)} realizations"
    elif status == OPEN:
        words = f"the first {len(found)}; there may be more" if len(found) > 1 else "the first; there may be more"
    return Failure(FIXES, _WOULD, parts=tuple(found), note=words, details=details)


def not_searched(reason: str) -> Failure:
    """The last part of an answer if there was no search."""
    return Failure(FIXES, _WOULD, note=f"not searched: {reason}")


_WOULD = "becomes true with"


def fix_part(way: Realization, shows: Callable[[str], bool] = lambda name: True) -> Failure:
    """One realization on a line: its base changes, with notes. `shows` selects the relations and rules that are
    shown."""
    notes = [f"{each.name} is a fresh {each.type}" for each in way.placeholders]
    notes += [f"where {condition}" for condition in way.conditions]
    beside = [(sign, name, row) for sign, name, row, asked in way.view_changes() if not asked and shows(name)]
    if beside:
        others = len(beside) - NAMED
        named = ", ".join(f"{sign}{way.fact(name, row)}" for sign, name, row in beside[:NAMED])
        notes.append(f"also {named}" + f" and {others} more row{'s' * (others > 1)} of views" * (others > 0))
    notes += [f"rule {name} fires" for name in dict.fromkeys(each.rule for each in way.effects.firings) if shows(name)]
    return Failure(FIX, ", ".join(way.lines()), note="; ".join(notes), details=way.as_dict(shows))
