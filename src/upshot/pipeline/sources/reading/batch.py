"""The statements of one range of a source for its relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from upshot.core.schema import Schema
from upshot.spark.net_effect import CLASS
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Either `replaced` holds the whole relation, or `net` holds its change; a frame that is None has no rows.

    Frames have the relation's columns by name (a relation without columns has one, `c0`), of the types of
    `upshot.spark.types`, with values that fit; in `replaced` and `inserted` a row may occur more than once. The
    change is net: no row is in two parts of it, no key is both in `upserted` and in `removed`.
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

    @property
    def inserted(self) -> DataFrame | None:
        return self._part("insert")

    @property
    def deleted(self) -> DataFrame | None:
        return self._part("delete")

    @property
    def upserted(self) -> DataFrame | None:
        """Rows that take the place of the row with the same first key."""
        return self._part("upsert") if self.schema.keys else None

    @property
    def removed(self) -> DataFrame | None:
        """The columns of the first key only: the row with this key goes, if there is one."""
        if self.net is None or not self.schema.keys:
            return None
        key = [self.schema.columns[position].name for position in self.schema.keys[0]]
        part = self._part("remove")
        return None if part is None else part.select(*key)

    def _part(self, kind: str) -> DataFrame | None:
        if self.net is None:
            return None
        own = [column.name for column in self.schema.columns] or column_names(0)
        chosen = self.net.where(self.net[CLASS] == kind).drop(CLASS)
        return chosen.toDF(*own)
