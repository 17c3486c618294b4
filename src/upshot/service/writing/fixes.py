"""Explanations of absent rows with realizations, both of one version, searched as realizations are."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from upshot.core.errors import DataError
from upshot.core.rows import Row
from upshot.database.database import Database
from upshot.database.queries.absence import SHOWN, Absence, fix_part, fixes_part, not_searched, usual_seconds
from upshot.database.realize import Realizations
from upshot.reasons.failure import Failure
from upshot.revise.request import Bounds
from upshot.service.access.scopes import Scopes
from upshot.service.routes.realizations import require_reach, rows_shown
from upshot.service.service import Service
from upshot.service.wire.answers import listed
from upshot.service.wire.errors import RequestError
from upshot.service.writing.searches import Hunt

_PASSING = ("too-busy", "too-many-rows")
"""Errors that omit the fixes, and not the rest of the answer."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """The requested number of fixes and seconds of search. By default some, if the token may see them."""

    count: int | None = None
    seconds: float | None = None

    def number(self, view: str, scopes: Scopes, database: Database) -> int:
        """The number of fixes to search for; `forbidden` if the request would show relations that may not be read."""
        if self.count == 0 or not is_fixable(view, database):
            return 0
        try:
            require_reach({view}, database, scopes)
        except RequestError:
            if self.count is not None:
                raise
            return 0
        return SHOWN if self.count is None else self.count

    def unsought(self, view: str, answer: Absence, database: Database) -> Failure:
        """The answer without a search for fixes, with the reason unless the client chose that."""
        if self.count == 0:
            return answer.with_last()
        if not is_fixable(view, database):
            return answer.with_fixes(SHOWN)
        return answer.with_last(not_searched("they would disclose data that this token may not read"))


def is_fixable(view: str, database: Database) -> bool:
    """Test whether rows of the view can be requested: not of conditions of rules, nor of constraints that reject."""
    return view in database.schemas and database.policies.get(view) != "reject"


async def with_fixes(
    service: Service,
    scopes: Scopes,
    key: tuple[str, Row],
    why_not: Callable[[Database], Absence],
    fixes: Fixes,
    is_given_up: Callable[[], Awaitable[bool]],
) -> tuple[int, Failure] | None:
    """The version, and why the row is not there with what would bring it about; nothing if the row is there by then,
    or the token may not see so much any more. `why_not` runs where nothing changes meanwhile."""
    try:
        return await _looked_for(service, scopes, key, why_not, fixes, is_given_up)
    except DataError as error:
        if error.code != "row-is-there":
            raise
        return None
    except _NotToBeSoughtError:
        return None


async def _looked_for(
    service: Service,
    scopes: Scopes,
    key: tuple[str, Row],
    why_not: Callable[[Database], Absence],
    fixes: Fixes,
    is_given_up: Callable[[], Awaitable[bool]],
) -> tuple[int, Failure]:
    database, bounds, answers = service.database, service.settings.bounds, list[Absence]()
    count = fixes.number(key[0], scopes, database)
    if not count:
        raise _NotToBeSoughtError

    def begin(held: Database) -> Realizations:
        answers.clear()
        with held.reading():
            # Rules may have been defined while others had their turn.
            if not fixes.number(key[0], scopes, held):
                raise _NotToBeSoughtError
            answer = why_not(held)
        ways = answer.fixes(bounds=Bounds(seconds=math.inf))
        answers.append(answer)
        return ways

    def hunt() -> Hunt:
        seconds = usual_seconds(database.placement) if fixes.seconds is None else fixes.seconds
        return Hunt(database, begin, min(seconds, bounds.seconds), count, bounds.rows, rows_shown(scopes))

    try:
        found = await service.searches.run(hunt, is_given_up)
        if answers:
            part = await service.run_read(lambda: _part(found, key, scopes))
            return found.version, answers[0].with_last(part)
        reason = found.reason
    except RequestError as refused:
        if refused.code not in _PASSING:
            raise
        reason = refused.message
    version, answer = await service.run_read(lambda: _read(database, why_not))
    return version, answer.with_last(not_searched(reason))


class _NotToBeSoughtError(Exception):
    """No fixes are searched in this version."""


def _part(found: Hunt, key: tuple[str, Row], scopes: Scopes) -> Failure:
    ways = [fix_part(each, scopes.may_read) for each in found.found]
    part = fixes_part(ways, found.status, found.reason)
    return replace(part, details={**part.details, "request": {"insert": {key[0]: listed([key[1]])}, "delete": {}}})


def _read(database: Database, why_not: Callable[[Database], Absence]) -> tuple[int, Absence]:
    with database.reading() as at:
        return at.version, why_not(database)
