"""Explanations of missing rows with realizations that insert them, both of one version."""

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
from upshot.service.writing.searches import SlicedSearch

_PASSING = ("too-busy", "too-many-rows")
"""Errors of the search after which the answer has no fixes."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """The requested number of fixes and the time limit of their search. By default there are some, if the token may
    read them."""

    count: int | None = None
    seconds: float | None = None

    def number(self, view: str, scopes: Scopes, database: Database) -> int:
        """The number of fixes to search for; `forbidden` if they were requested and would disclose relations."""
        if self.count == 0 or not is_fixable(view, database):
            return 0
        try:
            require_reach({view}, database, scopes)
        except RequestError:
            if self.count is not None:
                raise
            return 0
        return SHOWN if self.count is None else self.count

    def without_search(self, view: str, answer: Absence, database: Database) -> Failure:
        """The explanation without fixes, and with the reason if the client did not exclude them."""
        if self.count == 0:
            return answer.with_last()
        if not is_fixable(view, database):
            return answer.with_fixes(SHOWN)
        return answer.with_last(not_searched("they would disclose data that this token may not read"))


def is_fixable(view: str, database: Database) -> bool:
    """Test whether rows of the view can be requested. Rows of active rules and of rejecting constraints cannot."""
    return view in database.schemas and database.policies.get(view) != "reject"


async def with_fixes(
    service: Service,
    scopes: Scopes,
    key: tuple[str, Row],
    why_not: Callable[[Database], Absence],
    fixes: Fixes,
    is_disconnected: Callable[[], Awaitable[bool]],
) -> tuple[int, Failure] | None:
    """A version, and the explanation of a row that is missing in it, with fixes. None if the row exists by then, or the
    token may no longer read fixes. `why_not` is called while nothing can be committed."""
    try:
        return await _search(service, scopes, key, why_not, fixes, is_disconnected)
    except DataError as error:
        if error.code != "row-is-there":
            raise
        return None
    except _NoSearchError:
        return None


async def _search(
    service: Service,
    scopes: Scopes,
    key: tuple[str, Row],
    why_not: Callable[[Database], Absence],
    fixes: Fixes,
    is_disconnected: Callable[[], Awaitable[bool]],
) -> tuple[int, Failure]:
    database, bounds, answers = service.database, service.settings.bounds, list[Absence]()
    count = fixes.number(key[0], scopes, database)
    if not count:
        raise _NoSearchError

    def begin(state: Database) -> Realizations:
        answers.clear()
        with state.reading():
            # Rules may have been defined since the previous slice.
            if not fixes.number(key[0], scopes, state):
                raise _NoSearchError
            answer = why_not(state)
        found = answer.fixes(bounds=Bounds(seconds=math.inf))
        answers.append(answer)
        return found

    def search() -> SlicedSearch:
        seconds = usual_seconds(database.placement) if fixes.seconds is None else fixes.seconds
        return SlicedSearch(database, begin, min(seconds, bounds.seconds), count, bounds.rows, rows_shown(scopes))

    try:
        found = await service.searches.run(search, is_disconnected)
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


class _NoSearchError(Exception):
    """In this version, no fixes are searched for."""


def _part(found: SlicedSearch, key: tuple[str, Row], scopes: Scopes) -> Failure:
    listed_fixes = [fix_part(each, scopes.may_read) for each in found.found]
    part = fixes_part(listed_fixes, found.status, found.reason)
    return replace(part, details={**part.details, "request": {"insert": {key[0]: listed([key[1]])}, "delete": {}}})


def _read(database: Database, why_not: Callable[[Database], Absence]) -> tuple[int, Absence]:
    with database.reading() as at:
        return at.version, why_not(database)
