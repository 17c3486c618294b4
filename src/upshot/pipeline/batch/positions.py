"""The position of each source: small, immutable, with one canonical text.

The map of all positions is the offset of the stream. The meaning of a position never changes: its target (a journal of
files, a table version, a staged snapshot) is written before the position is returned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from upshot.core.errors import DataError


@dataclass(frozen=True, slots=True)
class FilesPosition:
    """The first `count` entries of the source's journal of files, each with its name, size and hash; `digest` is over
    them all."""

    kind: ClassVar[str] = "files"
    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class TablePosition:
    """A version of the Delta table with this id."""

    kind: ClassVar[str] = "table"
    version: int
    table: str


@dataclass(frozen=True, slots=True)
class SnapshotPosition:
    """A staged copy; `content` detects a change of the source since."""

    kind: ClassVar[str] = "snapshot"
    snapshot: str
    content: str


@dataclass(frozen=True, slots=True)
class WatermarkPosition:
    """The first `count` staged pieces of an append-only table; `value` is the largest watermark in them."""

    kind: ClassVar[str] = "watermark"
    count: int
    value: str


@dataclass(frozen=True, slots=True)
class OffsetsPosition:
    """The next offset of every partition of a topic, as JSON."""

    kind: ClassVar[str] = "offsets"
    topic: str
    offsets: str


Position = FilesPosition | TablePosition | SnapshotPosition | WatermarkPosition | OffsetsPosition
Positions = Mapping[str, Position]
"""By relation. A source that is not in the map has not been read."""

_KINDS: dict[str, type[Any]] = {
    kind.kind: kind for kind in (FilesPosition, TablePosition, SnapshotPosition, WatermarkPosition, OffsetsPosition)
}


def as_json(position: Position) -> dict[str, Any]:
    """
    >>> as_json(TablePosition(7, "a1"))
    {'kind': 'table', 'table': 'a1', 'version': 7}
    """
    return {"kind": position.kind, **dict(sorted(asdict(position).items()))}


def from_json(content: Mapping[str, Any]) -> Position:
    """
    >>> from_json({"kind": "table", "version": 7, "table": "a1"})
    TablePosition(version=7, table='a1')
    """
    try:
        fields = dict(content)
        position: Position = _KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, ValueError):
        raise _unknown(json.dumps(content, default=str)) from None
    return position


def offset_of(positions: Positions) -> dict[str, dict[str, Any]]:
    """The map as an offset of the stream: sorted, since Spark compares offsets as text."""
    return {name: as_json(positions[name]) for name in sorted(positions)}


def positions_of(offset: Mapping[str, Mapping[str, Any]]) -> dict[str, Position]:
    return {name: from_json(content) for name, content in offset.items()}


def write_positions(positions: Positions) -> str:
    """
    >>> write_positions({"edge": TablePosition(7, "a1")})
    '{"edge":{"kind":"table","table":"a1","version":7}}'
    """
    return json.dumps(offset_of(positions), separators=(",", ":"))


def read_position(text: str) -> Position:
    try:
        content = json.loads(text)
    except ValueError:
        raise _unknown(text) from None
    if not isinstance(content, dict):
        raise _unknown(text)
    return from_json(content)


def _unknown(text: str) -> DataError:
    return DataError(
        f"`{text[:120]}` is not a source offset",
        code="unknown-position",
        help="the state was written by another version of Upshot; run that version, or start with an empty `state`",
    )
