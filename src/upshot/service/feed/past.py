"""Snapshots and past changes of selections, read from the database: for new followers and for slow ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow

from upshot.core.errors import UsageError
from upshot.core.row_order import RowOrder
from upshot.core.rows import Row, Rows
from upshot.core.schema import Role, Schema
from upshot.database.changes import NetChange
from upshot.database.database import Database
from upshot.service.feed.selections import Selection
from upshot.service.feed.standing import LiveSelections
from upshot.service.wire.errors import RequestError, not_found

MOST_COPIED = 1_000_000
"""The number of base rows of an earlier version that is reconstructed for a request."""
MOST_ROWS = 20_000
"""The number of past rows that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class SelectionSnapshot:
    """All rows of a selection at a version."""

    version: int
    schema: Schema
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The change of a selection in one version."""

    version: int
    inserted: list[Row]
    deleted: list[Row]


@dataclass(frozen=True, slots=True)
class PastSteps:
    """All steps up to version `through`, in order."""

    steps: list[VersionChange]
    through: int


class Forgotten(Exception):
    """The changes since a version are not kept. `reason` is the code that followers receive."""

    def __init__(self, reason: str = "history-not-kept") -> None:
        super().__init__(reason)
        self.reason = reason


def read_snapshot(
    database: Database, selection: Selection, most: int, live: LiveSelections | None = None
) -> SelectionSnapshot:
    """All rows of the selection, at one version; `too-many-rows` if there are more than `most`."""
    version, rows = (live and live.rows(selection)) or read_selection(database, selection)
    if len(rows) > most:
        message = f"the selection has {len(rows):,} rows; at most {most:,} are sent"
        hint = f"select a part with `where`, or read `GET /views/{selection.view}` and follow it `since` its version"
        raise RequestError(413, "too-many-rows", message, help=hint)
    return SelectionSnapshot(version, rows.schema, list(rows))


def read_selection(database: Database, selection: Selection) -> tuple[int, Rows]:
    """The current version, and the rows of the selection, which are decoded on access."""
    with database.reading() as at:
        version, schema = at.version, schema_of(at.schemas, selection.view)
        if not (selection.columns or selection.same):
            return version, at.rows(selection.view)
        question, values = selection.query(schema.arity)
        return version, Rows(schema, _Selected(schema, selection, at.query(question, **values)))


def past_selection(database: Database, selection: Selection, version: int) -> Rows:
    """The rows of the selection at an earlier version. Called while nothing can be committed."""
    then, schema = database.at(version), schema_of(database.schemas, selection.view)
    if not (selection.columns or selection.same):
        return then.rows(selection.view)
    question, values = selection.query(schema.arity)
    return Rows(schema, _Selected(schema, selection, then.query(question, **values)))


def past_database(database: Database, version: int) -> Database:
    """A copy in memory of an earlier version. Called while nothing can be committed."""
    base = (name for name, schema in database.schemas.items() if schema.role is Role.BASE)
    if (count := sum(len(database.rows(name)) for name in base)) > MOST_COPIED:
        message = f"the database has {count:,} rows; a version of at most {MOST_COPIED:,} can be looked at again"
        raise RequestError(422, "too-many-rows", message, help="omit `at`")
    return database.at(version).database


class _Selected:
    """The rows of a selection, computed from the answers to its query."""

    def __init__(self, schema: Schema, selection: Selection, answers: Rows) -> None:
        self._schema, self._selection, self._answers = schema, selection, answers

    def __len__(self) -> int:
        return len(self._answers)

    def tuples(self) -> list[Row]:
        if not self._answers.schema.columns:
            # All columns have constants: at most one row.
            return [self._selection.values] if len(self._answers) else []
        return self._selection.whole(self._answers, self._schema.arity)

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]:
        """The first rows after a row, by the order of the columns without a constant."""
        chosen, arity = self._selection, self._schema.arity
        shown = chosen.free_columns(arity)
        if not shown or (after is not None and not chosen.holds(after)):
            return order.page(self.tuples(), after, limit)
        first = {column: group[0] for group in chosen.same for column in group}
        keys: dict[int, bool] = {}
        for place, descends in zip(order.places, order.descending, strict=True):
            if place not in chosen.columns:
                keys.setdefault(shown.index(first.get(place, place)), descends)
        inner = RowOrder(tuple(keys), tuple(keys.values()))
        start = None if after is None else tuple(after[place] for place in shown)
        return chosen.whole(self._answers.page(limit, inner, start), arity)

    def part(self, first: int, last: int) -> _Selected:
        return _Selected(self._schema, self._selection, self._answers.part(first, last))

    def arrow(self) -> pyarrow.Table:
        return Rows.of(self._schema, self.tuples()).to_arrow()


def schema_of(schemas: Mapping[str, Schema], view: str) -> Schema:
    if view not in schemas:
        raise not_found()
    return schemas[view]


def read_past(
    database: Database, selection: Selection, since: int, until: int, live: LiveSelections | None = None
) -> PastSteps:
    """The changes of the selection after `since`, up to `until` or as far as fits into memory; raises `Forgotten`."""
    if since > database.version:
        raise Forgotten
    steps: list[VersionChange] = []
    rows, through = 0, until
    try:
        net = None if live is None else live.changes(selection, since, until)
        if net is not None:
            inserted, deleted = map(list, net)
            return PastSteps([VersionChange(until, inserted, deleted)] if inserted or deleted else [], until)
        for event in database.past_events(selection.view, since, until):
            if event.snapshot:
                raise Forgotten("view-changed")
            came, went = selection.of(event.inserted), selection.of(event.deleted)
            if came or went:
                steps.append(VersionChange(event.version, came, went))
            rows += len(event.inserted) + len(event.deleted)
            if rows > MOST_ROWS:
                through = event.version
                break
        # The log may have been shortened while it was read.
        database.past_events(selection.view, since, until)
    except UsageError as error:
        if error.code in ("history-not-kept", "not-durable"):
            raise Forgotten from None
        if error.code in ("program-changed", "query-ended"):
            raise Forgotten("view-changed") from None
        raise
    return PastSteps(steps, through)


def read_net(
    database: Database, selection: Selection, since: int, until: int, live: LiveSelections | None = None
) -> NetChange:
    """The net change after `since`, up to `until`; raises `Forgotten`."""
    net = NetChange()
    while since < until:
        past = read_past(database, selection, since, until, live)
        for step in past.steps:
            net.add(step.inserted, step.deleted)
        since = past.through
    return net
