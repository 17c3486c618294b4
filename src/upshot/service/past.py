"""What there is, and what has happened, read from the database: for those who begin to follow, and those who lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upshot.core.errors import UsageError
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.database.database import Database
from upshot.service.errors import Refused, not_found
from upshot.service.selections import Selection
from upshot.service.streams import NetChange

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
    with database.reading() as at:
        version, schema = at.version, schema_of(at.schemas, selection.view)
        if selection.columns or selection.same:
            question, values = selection.query(schema.arity)
            answers = at.query(question, **values)
        else:
            answers = at.rows(selection.view)
    if len(answers) > most:
        message = f"the selection has {len(answers):,} rows; at most {most:,} are sent at once"
        raise Refused(413, "too-many-rows", message, help="select a part of the view with `where`")
    if selection.columns or selection.same:
        rows = selection.whole(answers, schema.arity) if answers.schema.columns else _once(selection, len(answers))
    else:
        rows = list(answers)
    return Snapshot(version, schema, rows)


def _once(selection: Selection, answers: int) -> list[Row]:
    """All columns have constants: the one row, if it is there."""
    return [selection.values] if answers else []


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
