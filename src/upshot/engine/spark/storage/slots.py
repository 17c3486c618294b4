"""Rows of several relations in one frame, so that one job carries them all."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from upshot.core.types import NUMBER, Type
from upshot.spark.types import arrow_type_for_spark, column_names, framed, sql_type


@dataclass(frozen=True)
class Slots:
    """The tag, then slots that the columns of each member share with columns of the same type of other members. A
    single member needs no tag: its columns are the slots.

    >>> from upshot.core.types import SYMBOL
    >>> slots = Slots(((NUMBER, NUMBER), (SYMBOL, NUMBER)))
    >>> [str(type) for type in slots.types], slots.places
    (['number', 'number?', 'number?', 'symbol?'], [[1, 2], [3, 1]])
    """

    members: tuple[tuple[Type, ...], ...]

    @property
    def tagged(self) -> bool:
        return len(self.members) > 1

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of all columns."""
        return (NUMBER, *self._placed[0]) if self.tagged else framed(self.members[0])

    @property
    def names(self) -> list[str]:
        return column_names(len(self.types))

    @property
    def places(self) -> list[list[int]]:
        """For each member the columns that hold its columns."""
        return self._placed[1] if self.tagged else [list(range(len(self.types)))]

    @functools.cached_property
    def _placed(self) -> tuple[list[Type], list[list[int]]]:
        slots: list[Type] = []
        placed: list[list[int]] = []
        for member in self.members:
            free = list(range(len(slots)))
            places: list[int] = []
            for type in framed(member):
                wanted = replace(type, name="", nullable=True)
                slot = next((each for each in free if slots[each] == wanted), None)
                if slot is None:
                    slot = len(slots)
                    slots.append(wanted)
                else:
                    free.remove(slot)
                places.append(slot + 1)
            placed.append(places)
        return slots, placed

    # ---- frames ------------------------------------------------------------------------------------------------

    def frame(self, member: int, rows: DataFrame) -> DataFrame:
        """Rows of one member, in its columns c0 … cn, as rows of the whole."""
        if not self.tagged:
            return rows.select(*self.names)
        values = ["NULL"] * len(self.types)
        values[0] = str(member)
        for name, place in zip(column_names(len(self.members[member])), self.places[member], strict=True):
            values[place] = name
        placed = zip(values, self.types, self.names, strict=True)
        # As text: a column made in Python is some calls to Java, and there are many.
        return rows.selectExpr(*(f"CAST({value} AS {sql_type(type)}) AS {name}" for value, type, name in placed))

    # ---- Arrow -------------------------------------------------------------------------------------------------

    def split(self, table: pa.Table) -> list[pa.Table]:
        """The rows of each member, in columns c0 … cn."""
        found = []
        for member, places in enumerate(self.places):
            rows = table.filter(pc.equal(table.column(0), member)) if self.tagged else table
            columns = [rows.column(place) for place in places]
            found.append(pa.table(columns, names=column_names(len(self.members[member]))))
        return found

    def batch(self, member: int, columns: Sequence[pa.Array], count: int) -> pa.RecordBatch:
        """Rows of one member as a batch of the whole."""
        if not self.tagged:
            return pa.RecordBatch.from_arrays(list(columns), names=self.names)
        placed = dict(zip(self.places[member], columns, strict=True))
        arrays = [pa.array(np.full(count, member, np.int64))]
        for place, type in enumerate(self.types[1:], start=1):
            arrays.append(placed[place] if place in placed else pa.nulls(count, arrow_type_for_spark(type)))
        return pa.RecordBatch.from_arrays(arrays, names=self.names)
