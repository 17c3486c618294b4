"""Live queries that clients follow, and selections of views whose changes are not computed.

`.view closure materialized=false events=none` stores nothing and reports nothing. A subscription to `closure("a", Y)`
follows the query `closure(V0, V1), V0 = $c0` with `"a"`: all such selections share one plan, and the cost of a commit
depends on the subscribed values that it affects.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.engine.time_limit import time_limit
from upshot.service.access.scopes import STANDING
from upshot.service.feed.selections import Selection, selection
from upshot.service.wire.errors import RequestError, nervous_view, not_reported

log = logging.getLogger("upshot.service")

if TYPE_CHECKING:
    from upshot.database.database import Database
    from upshot.database.live.follow import LiveHandle


MOST_SHAPES = 256
"""The number of live queries with different plans: those that differ in more than parameter values."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a subscription: a view, or the part of it that `where` selects; or a query, with parameters as
    JSON."""

    view: str
    where: str | None = None
    parameters: str | None = None

    @property
    def is_query(self) -> bool:
        return self.parameters is not None

    @property
    def values(self) -> dict[str, Any]:
        return json.loads(self.parameters) if self.parameters else {}


class LiveSelections:
    """The live queries of clients. Used on the event loop; queries are evaluated on another thread."""

    def __init__(self, database: Database, seconds: float) -> None:
        """`seconds`: the time limit for the first evaluation of a query."""
        self._database, self._seconds = database, seconds
        self._held: dict[Selection, tuple[LiveHandle, float]] = {}
        self._guard = threading.Lock()
        self._making = asyncio.Lock()

    async def chosen(self, subject: Subject) -> Selection:
        """A selection with the rows of the subject, whose net changes are reported."""
        if subject.is_query:
            return await self._live(subject.view, subject.values)
        return await self.reported(selection(subject.view, subject.where, self._database.schemas))

    async def reported(self, selection: Selection) -> Selection:
        """A selection with the same rows whose net changes are reported: itself, or that of a live query."""
        if not self._database.reports_net_changes(selection.view):
            raise nervous_view(selection.view)
        if self._database.reports_changes(selection.view):
            return selection
        if not selection.columns:
            raise not_reported(selection.view)
        return await self._live(*as_query(selection, self._database.schemas[selection.view]))

    async def _live(self, text: str, values: Mapping[str, Any]) -> Selection:
        async with self._making:
            handle = await asyncio.to_thread(self._held_query, text, values)
            width = len(handle.parameters)
            if handle.relation not in {each.view for each in self._held} and self._shapes() >= MOST_SHAPES:
                await asyncio.to_thread(handle.close)
                hint = "follow queries that differ in their parameters only, or fewer of them"
                raise RequestError(409, "too-many-queries", f"{MOST_SHAPES} different queries are followed", help=hint)
            made = Selection(handle.relation, tuple(range(width)), handle.parameters, hidden=width)
            with self._guard:
                earlier = self._held.get(made)
                self._held[made] = (handle, asyncio.get_running_loop().time())
            if earlier is not None:
                await asyncio.to_thread(earlier[0].close)
        return made

    def _held_query(self, text: str, values: Mapping[str, Any]) -> LiveHandle:
        # No transaction is committed during the evaluation.
        with time_limit(self._seconds):
            return self._database.hold_query(text, **values)

    def refuse_failed(self, selection: Selection) -> None:
        """Raises the error that ended the live query of the selection, if one did."""
        with self._guard:
            found = self._held.get(selection)
        if found is not None and found[0].failure is not None:
            raise found[0].failure

    def holds(self, selection: Selection) -> bool:
        """Test whether the selection is that of a live query."""
        with self._guard:
            return selection in self._held

    def _shapes(self) -> int:
        return len({each.view for each in self._held})

    def schema(self, selection: Selection) -> Schema | None:
        """The columns of a live query; None if the selection is of a relation, or the query has ended."""
        with self._guard:
            found = self._held.get(selection)
        return found[0].schema if found is not None and found[0].is_current else None

    def rows(self, selection: Selection) -> tuple[int, Rows] | None:
        """The version and the answers of a live query; None if the selection is of a relation."""
        with self._guard:
            found = self._held.get(selection)
        return None if found is None else found[0].rows()

    def changes(self, selection: Selection, since: int, until: int) -> tuple[Rows, Rows] | None:
        """The net change of the answers between two versions; None if the selection is of a relation."""
        with self._guard:
            found = self._held.get(selection)
        return None if found is None else found[0].changes(since, until)

    def reads(self, subject: Subject) -> frozenset[str]:
        """The relations that a query reads."""
        return self._database.query_reads(subject.view, subject.values)

    async def drop_unused(self, followed: set[Selection], after: float) -> None:
        """Close queries without followers for this many seconds."""
        now = asyncio.get_running_loop().time()
        async with self._making:
            with self._guard:
                for each in followed & self._held.keys():
                    self._held[each] = (self._held[each][0], now)
                gone = [each for each, (_, used) in self._held.items() if now - used > after]
                handles = [self._held.pop(each)[0] for each in gone]
            for handle in handles:
                await asyncio.to_thread(handle.close)


def drop_standing(database: Database) -> None:
    """Drop views that earlier versions of Upshot defined for selections."""
    for name in [each for each in database.schemas if STANDING.fullmatch(each)]:
        try:
            database.drop(name)
        except UsageError as error:
            log.info("`%s` stays: %s", name, error.message)


def as_query(selection: Selection, schema: Schema) -> tuple[str, dict[str, Any]]:
    """The query whose answers are the whole rows of a selection, and its parameters."""
    terms = [f"V{column}" for column in range(schema.arity)]
    repeated = [f"V{group[0]} = V{column}" for group in selection.same for column in group[1:]]
    values = {f"c{column}": value for column, value in zip(selection.columns, selection.values, strict=True)}
    bound = [f"V{column} = ${name}" for column, name in zip(selection.columns, values, strict=True)]
    return ", ".join([f"{selection.view}({', '.join(terms)})", *bound, *repeated]), values
