"""What there is, and what has happened, read from the database: for those who begin to follow, and those who lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow

from upshot.core.errors import UsageError
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.database.database import Database
from upshot.service.feed.selections import Selection
from upshot.service.feed.streams import NetChange
from upshot.service.wire.errors import Refused, not_found

MOST_ROWS = 20_000
"""Rows of the past that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows of a selection at a version."""

    version: int
    schema: Schema
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Step:
    """What a version did to a selection."""

    version: int
    inserted: list[Row]
    deleted: list[Row]


@dataclass(frozen=True, slots=True)
class Past:
    """Steps in order; they are all there are up to version `through`."""

    steps: list[Step]
    through: int


class Forgotten(Exception):
    """What has happened since a version cannot be told. `reason` is what those who follow are told."""

    def __init__(self, reason: str = "history-not-kept") -> None:
        super().__init__(reason)
        self.reason = reason


def read_snapshot(database: Database, selection: Selection, most: int) -> Snapshot:
    """All rows of the selection, at one version; `too-many-rows` if there are more than `most`."""
    version, rows = read_selection(database, selection)
    if len(rows) > most:
        message = f"the selection has {len(rows):,} rows; at most {most:,} are sent"
        hint = f"select a part with `where`, or read `GET /views/{selection.view}` and follow it `since` its version"
        raise Refused(413, "too-many-rows", message, help=hint)
    return Snapshot(version, rows.schema, list(rows))


def read_selection(database: Database, selection: Selection) -> tuple[int, Rows]:
    """The version, and the rows of the selection at it, which are decoded when somebody looks."""
    with database.reading() as at:
        version, schema = at.version, schema_of(at.schemas, selection.view)
        if not (selection.columns or selection.same):
            return version, at.rows(selection.view)
        question, values = selection.query(schema.arity)
        return version, Rows(schema, _Selected(schema, selection, at.query(question, **values)))


class _Selected:
    """A source of the rows of a selection, made of the answers to its query."""

    def __init__(self, schema: Schema, selection: Selection, answers: Rows) -> None:
        self._schema, self._selection, self._answers = schema, selection, answers

    def __len__(self) -> int:
        return len(self._answers)

    def tuples(self) -> list[Row]:
        if not self._answers.schema.columns:
            # All columns have constants: the one row, if it is there.
            return [self._selection.values] if len(self._answers) else []
        return self._selection.whole(self._answers, self._schema.arity)

    def part(self, first: int, last: int) -> _Selected:
        return _Selected(self._schema, self._selection, self._answers.part(first, last))

    def arrow(self) -> pyarrow.Table:
        return Rows.of(self._schema, self.tuples()).to_arrow()


def schema_of(schemas: Mapping[str, Schema], view: str) -> Schema:
    if view not in schemas:
        raise not_found()
    return schemas[view]


def read_past(database: Database, selection: Selection, since: int, until: int) -> Past:
    """What happened to the selection after `since`, up to `until` or as far as fits into memory; raises `Forgotten`."""
    if since > database.version:
        raise Forgotten
    steps: list[Step] = []
    rows, through = 0, until
    try:
        for event in database.past_events(selection.view, since, until):
            if event.snapshot:
                raise Forgotten("view-changed")
            came, went = selection.of(event.inserted), selection.of(event.deleted)
            if came or went:
                steps.append(Step(event.version, came, went))
            rows += len(event.inserted) + len(event.deleted)
            if rows > MOST_ROWS:
                through = event.version
                break
        # The log may have been shortened while it was read.
        database.past_events(selection.view, since, until)
    except UsageError as error:
        if error.code in ("history-not-kept", "not-durable"):
            raise Forgotten from None
        raise
    return Past(steps, through)


def read_net(database: Database, selection: Selection, since: int, until: int) -> NetChange:
    """What happened after `since`, up to `until`, as one change; raises `Forgotten`."""
    net = NetChange()
    while since < until:
        past = read_past(database, selection, since, until)
        for step in past.steps:
            net.add(step.inserted, step.deleted)
        since = past.through
    return net
