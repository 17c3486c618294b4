"""Selections of views whose own changes nobody computes.

`.view closure materialized=false events=none` stores nothing and reports nothing. Whoever follows `closure("a", Y)` is
given a view of its own, `closure_where_…("a", Y) :- closure("a", Y).`, not stored either. Partial evaluation pushes
the constant into copies of the rules below it, so that a change costs what it has to do with "a".
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

from upshot.core.errors import UsageError
from upshot.core.json_values import type_to_json
from upshot.core.schema import Schema
from upshot.database.database import Database
from upshot.service.access.scopes import STANDING
from upshot.service.feed.selections import Selection
from upshot.service.wire.errors import Refused, nervous_view, not_reported
from upshot.syntax.ast import Constant, Term, Variable
from upshot.syntax.printing import print_term

log = logging.getLogger("upshot.service")

MOST = 64
"""Standing selections at a time: as many copies as partial evaluation makes."""


class StandingSelections:
    """The selections that views were defined for. Belongs to the event loop; definitions run on another thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used: dict[str, float] = {}
        self._defining = asyncio.Lock()

    async def reported(self, selection: Selection) -> Selection:
        """A selection with the same rows whose net changes are reported: itself, or all of the view defined for it."""
        if not self._database.reports_net_changes(selection.view):
            raise nervous_view(selection.view)
        if self._database.reports_changes(selection.view):
            return selection
        if not selection.columns:
            raise not_reported(selection.view)
        async with self._defining:
            schema = self._database.schemas[selection.view]
            name = standing_name(selection, schema)
            if name not in self._database.schemas:
                standing = [each for each in self._database.schemas if STANDING.fullmatch(each)]
                if len(standing) >= MOST:
                    hint = "follow the whole view, defined with `events=all`, or fewer selections"
                    raise Refused(409, "too-many-selections", f"there are already {MOST} selections", help=hint)
                await asyncio.to_thread(self._database.define, standing_text(name, selection, schema))
            # From here on, however long that took: who asked for it has not begun to follow it yet.
            self._used[name] = asyncio.get_running_loop().time()
        return Selection(name)

    async def drop_unused(self, followed: set[str], after: float) -> None:
        """Takes views out of the program that nobody has followed for so many seconds."""
        now = asyncio.get_running_loop().time()
        for name in followed & self._used.keys():
            self._used[name] = now
        async with self._defining:
            for name in [name for name, at in self._used.items() if now - at > after]:
                del self._used[name]
                await asyncio.to_thread(_drop, self._database, name)


def standing_name(selection: Selection, schema: Schema) -> str:
    """The same for the same selection of a view with the same columns."""
    told = repr((selection.columns, selection.values, selection.same, [str(type) for type in schema.types]))
    return f"{selection.view}_where_{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def standing_text(name: str, selection: Selection, schema: Schema) -> str:
    """The definition of a view with the rows of the selection."""
    terms: list[Term] = [Variable(f"V{column}") for column in range(schema.arity)]
    for group in selection.same:
        for column in group:
            terms[column] = Variable(f"V{group[0]}")
    for column, value in zip(selection.columns, selection.values, strict=True):
        terms[column] = Constant(value, schema.types[column].required())
    columns = ", ".join(f"{column.name}: {type_to_json(column.type)}" for column in schema.columns)
    args = ", ".join(map(print_term, terms))
    return f".decl {name}({columns})\n{name}({args}) :- {selection.view}({args}).\n.view {name} materialized=false\n"


def drop_standing(database: Database) -> None:
    """Takes all of them out of the program: those who follow define them again."""
    for name in [each for each in database.schemas if STANDING.fullmatch(each)]:
        _drop(database, name)


def _drop(database: Database, name: str) -> None:
    try:
        database.drop(name)
    except UsageError as error:
        log.info("`%s` stays: %s", name, error.message)
