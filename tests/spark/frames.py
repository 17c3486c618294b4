"""Relations as frames, and the rows of many frames from one job."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.core.types import Kind, Type
from upshot.spark.types import framed, python_values, rows_for_spark, spark_schema, spark_type

Row = tuple[Any, ...]
Asked = tuple[DataFrame, Sequence[Type]]

MOST_BRANCHES = 24
"""More frames in one union take longer to plan than they save."""


def frame_of(session: SparkSession, rows: Iterable[Row], types: Sequence[Type]) -> DataFrame:
    return session.createDataFrame(rows_for_spark(rows, types), spark_schema(types))


def comparable(row: Iterable[Any]) -> Row:
    """The row with NaN equal to itself."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in row)


def rows_of(asked: Mapping[str, Asked]) -> dict[str, Counter[Row]]:
    """The rows of every frame with how often they occur; the frames are laid side by side in typed columns and read in
    a few jobs."""
    found: dict[str, Counter[Row]] = {name: Counter() for name in asked}
    names = list(asked)
    for start in range(0, len(names), MOST_BRANCHES):
        part = names[start : start + MOST_BRANCHES]
        _read({name: asked[name] for name in part}, found)
    return found


def _read(asked: Mapping[str, Asked], found: dict[str, Counter[Row]]) -> None:
    slots: dict[str, Type] = {}
    for _, types in asked.values():
        slots |= dict(_slots(types))
    laid = [_laid(name, frame, types, slots) for name, (frame, types) in asked.items()]
    table = functools.reduce(DataFrame.unionByName, laid).toArrow()
    columns = {slot: python_values(table.column(slot), type) for slot, type in slots.items()}
    for at, name in enumerate(table.column("tag").to_pylist()):
        types = asked[name][1]
        row = tuple(columns[slot][at] for slot, _ in _slots(types)) if types else ()
        found[name][comparable(row)] += 1


def _slots(types: Sequence[Type]) -> list[tuple[str, Type]]:
    made: list[tuple[str, Type]] = []
    used: Counter[str] = Counter()
    for type in framed(types):
        kind = f"{type.kind.value}{type.scale}" if type.kind is Kind.DECIMAL else type.kind.value
        made.append((f"{kind}_{used[kind]}", type.optional()))
        used[kind] += 1
    return made


def _laid(name: str, frame: DataFrame, types: Sequence[Type], slots: Mapping[str, Type]) -> DataFrame:
    own = {slot: F.col(f"c{i}") for i, (slot, _) in enumerate(_slots(types))}
    columns = [own.get(slot, F.lit(None)).cast(spark_type(type)).alias(slot) for slot, type in slots.items()]
    return frame.select(F.lit(name).alias("tag"), *columns)
