"""The statements of one range of a source for its relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from upshot.core.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Either `replaced` holds the whole relation, or `net` holds its change; a frame that is None has no rows.

    Frames have the relation's columns by name (a relation without columns has one, `c0`), of the types of
    `upshot.spark.types`, with values that fit; in `replaced` and among the inserted rows of `net` a row may occur more
    than once. The change is net: no row is in two classes of it, no key is both upserted and removed.
    """

    schema: Schema
    net: DataFrame | None = None
    """The whole change in one frame: columns c0 … cn, and `_class`: insert, delete, upsert (in place of the row with
    the same first key) or remove (the row with this key goes; the other columns are NULL)."""
    replaced: DataFrame | None = None
    bad: DataFrame | None = None
    """Rows that do not fit: `row` (the text as it was read), `reason`, `place` (`file:line`, a file, or a table)."""
    shared: DataFrame | None = None
    """The frame that the others are computed from: `persist` it first to use several of them."""
    few: bool = False
    """True if reading everything is work for one task: reading it twice is faster than keeping it."""
    notes: tuple[str, ...] = ()
    """Notes for the operator: late files, a table without change data feed. The same on every replay."""
