"""The steps of a followed view: snapshots, changes, progress and the end."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from upshot.client.event_stream import BrokenStream, ServerEvent
from upshot.client.relations import Row, listed_rows
from upshot.core.json_values import JsonMisfit, row_reader
from upshot.core.rows import row_set
from upshot.core.schema import Schema


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows at a version. `reason` is set if the cursor could not be used, for instance `history-not-kept`."""

    version: int
    rows: frozenset[Row]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Exactly the rows inserted and deleted since the previous step. A `snapshot` is the first step: all rows are
    inserted. A `renewed` change is the net difference to a new snapshot, whose `reason` it has."""

    version: int
    inserted: frozenset[Row]
    deleted: frozenset[Row]
    snapshot: bool = False
    renewed: bool = False
    reason: str = ""
    omitted: int = 0
    """Rows beyond the `limit` of the subscriber."""

    def __bool__(self) -> bool:
        return bool(self.inserted or self.deleted)

    def shown(self, events: str, limit: int | None) -> Change:
        """The change with rows of one sign only (`insert` or `delete`; all rows of a snapshot), at most `limit` of a
        sign."""
        none = frozenset[Row]()
        inserted = self.inserted if events != "delete" or self.snapshot else none
        deleted = self.deleted if events != "insert" else none
        most = max(len(inserted), len(deleted)) if limit is None else limit
        omitted = max(0, len(inserted) - most) + max(0, len(deleted) - most)
        some = (frozenset(sorted(rows, key=repr)[:most]) if len(rows) > most else rows for rows in (inserted, deleted))
        return replace(self, inserted=next(some), deleted=next(some), omitted=omitted)


@dataclass(frozen=True, slots=True)
class Progress:
    """There was no other change up to this version."""

    version: int


@dataclass(frozen=True, slots=True)
class End:
    """The service ends the stream, for a reason."""

    reason: str


Step = Snapshot | Change | Progress | End


def fields_of(event: ServerEvent) -> dict[str, Any]:
    """The object in the event's data, or `BrokenStream`."""
    try:
        content = json.loads(event.data, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BrokenStream(f"the data of `{event.name}` are not JSON") from None
    if not isinstance(content, dict):
        raise BrokenStream(f"the data of `{event.name}` are not an object")
    return content


def read_step(name: str, content: dict[str, Any], schema: Schema) -> Step | None:
    """The step of an event; None for unknown kinds, which later versions may send."""
    if name == "end":
        return End(str(content.get("reason", "")))
    if name not in ("snapshot", "change", "progress"):
        return None
    version = content.get("version")
    if version.__class__ is not int or version < 0:
        raise BrokenStream(f"`{name}` names no version")
    if name == "progress":
        return Progress(version)
    if name == "snapshot":
        return Snapshot(version, _rows(content.get("rows"), schema), str(content.get("reason") or ""))
    return Change(version, _rows(content.get("insert"), schema), _rows(content.get("delete"), schema))


def _rows(rows: Any, schema: Schema) -> frozenset[Row]:
    try:
        return row_set(listed_rows(row_reader(schema), rows))
    except JsonMisfit as misfit:
        raise BrokenStream(f"a row does not fit: {misfit}") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)
