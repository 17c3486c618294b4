"""The transactions that base rows came with, as the log of a durable database tells."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.core.operations import DELETED, INSERTED
from upshot.core.rows import Rows, row_set
from upshot.core.types import Kind
from upshot.reasons.derivation import Moment
from upshot.store import LoggedRelation, Store
from upshot.store.entries import ChangeRow, CommitRow, relations_from

Row = tuple[Any, ...]
Key = tuple[str, Row]

FIRST_STRETCH = 64
"""Versions that are read at once, at first."""
FEW = 10_000


def moments_of(store: Store, facts: Collection[Key], until: int) -> dict[Key, Moment]:
    """The last insertion of each of these present base rows; those inserted before the log begins are left out. The log
    is read backwards, until every row is found."""
    wanted: dict[str, set[Row]] = {}
    for relation, row in facts:
        wanted.setdefault(relation, set()).add(row)
    found: dict[Key, Moment] = {}
    for relation, rows in wanted.items():
        for known, change in _backwards(store, relation, until):
            came = _among(store.rows(known, change)[0], rows)
            found |= {(relation, row): moment(store, change.version) for row in came}
            rows -= came
            if not rows:
                break
    return found


def last_change(store: Store, key: Key, until: int) -> tuple[int, str] | None:
    """The last version that inserted or deleted a row, and which of both; None if the log does not know."""
    return next(((version, INSERTED if came else DELETED) for version, came in _changes_of(store, key, until)), None)


@dataclass(frozen=True, slots=True)
class PastChange:
    """A commit that inserted or deleted a row: `change` is `inserted` or `deleted`."""

    version: int
    change: str
    time: dt.datetime
    meta: Mapping[str, Any]


def row_history(store: Store, key: Key, until: int) -> tuple[PastChange, ...]:
    """The commits that inserted or deleted a row, the oldest first, as far as the log reaches."""
    found = []
    for version, came in _changes_of(store, key, until):
        commit = moment(store, version)
        assert commit.time is not None, "a commit in the log has its time"
        found.append(PastChange(version, INSERTED if came else DELETED, commit.time, commit.meta))
    return tuple(reversed(found))


def _changes_of(store: Store, key: Key, until: int) -> Iterator[tuple[int, bool]]:
    """The versions that inserted (true) or deleted (false) a row, newest first."""
    relation, row = key
    for known, change in _backwards(store, relation, until):
        came, went = store.rows(known, change)
        if _among(came, {row}):
            yield change.version, True
        elif _among(went, {row}):
            yield change.version, False


def _backwards(store: Store, relation: str, until: int) -> Iterator[tuple[LoggedRelation, ChangeRow]]:
    """The changes of a relation, newest first, read in stretches that grow."""
    stretch = FIRST_STRETCH
    while until > store.oldest:
        after = max(until - stretch, store.oldest)
        for change in reversed(list(store.changes_of(relation, after, until))):
            definition = store.definition_at(change.version)
            known = relations_from(definition.relations).get(relation) if definition else None
            if known is not None:
                yield known, change
        until, stretch = after, 2 * stretch


def _among(rows: Rows, wanted: set[Row]) -> set[Row]:
    """The wanted rows that are there. Of many rows only those are read that share a value with a wanted one."""
    if not len(rows):
        return set()
    if len(rows) <= FEW:
        return wanted & row_set(rows)
    import pyarrow as pa  # noqa: PLC0415 - only for large changes
    import pyarrow.compute as pc  # noqa: PLC0415

    kinds = [column.type.kind for column in rows.schema.columns]
    place = next((place for place, kind in enumerate(kinds) if kind in _EXACT), None)
    table = rows.to_arrow()
    if place is not None:
        values = pa.array([row[place] for row in wanted], table.column(place).type)
        table = table.filter(pc.is_in(table.column(place), value_set=values))
    columns = [column.to_pylist() for column in table.columns]
    return wanted & row_set(zip(*columns, strict=True))


_EXACT = (Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL, Kind.RECORD)


def moment(store: Store, version: int) -> Moment:
    """The commit of a version."""
    row: CommitRow = next(iter(store.commits(version - 1, version)))
    return Moment(version, dt.datetime.fromisoformat(row.time), json.loads(row.meta) if row.meta else {})
