"""The one stream of a pipeline. Its offset is the map of every source's position; its rows only contain the old and new
position of each source that moved. The rows of the sources are read by Spark's own readers, for exactly these ranges.

Spark runs the stream reader in a separate process, which has no session. So the pipeline's process looks up the
positions of the sources and writes them to a file, and the reader offers the positions in the file:

    offer(file, positions)                             # in the pipeline's process, before each trigger
    register_positions(spark)
    stream = spark.readStream.format("upshot_positions").option("offered", file).load()
    stream.writeStream.foreachBatch(lambda rows, batch: movements(rows.collect()) …)

The offset itself carries the positions, so a replay of a planned batch never reads the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from upshot.pipeline.batch.positions import Position, Positions, read_position, write_positions

FORMAT = "upshot_positions"


@dataclass(frozen=True, slots=True)
class Movement:
    """A source that moved; `start` is None when it is read for the first time."""

    source: str
    start: Position | None
    end: Position


def offer(file: Path, positions: Positions) -> None:
    """Make these the positions that the stream moves to. Include the positions of sources that left the pipeline: the
    offset keeps them, so that a source that is added again continues at its position."""
    draft = file.with_name(f".{file.name}.draft")
    with open(draft, "w", encoding="utf-8") as stream:
        stream.write(write_positions(positions))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(draft, file)


def movements(rows: Iterable[Any]) -> list[Movement]:
    """The movements in the collected rows of a batch, by name of source."""
    found = [
        Movement(row["source"], read_position(row["start"]) if row["start"] else None, read_position(row["end"]))
        for row in rows
    ]
    return sorted(found, key=lambda movement: movement.source)


class PositionsDataSource(DataSource):  # type: ignore[misc]
    """`upshot_positions`; the option `offered` names the file that `offer` writes, `start` has the positions that a
    stream without a checkpoint begins at."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._offered, self._start = options["offered"], options.get("start", "{}")

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "source string, start string, end string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _PositionsReader(self._offered, self._start)


@dataclass
class _Moved(InputPartition):  # type: ignore[misc]
    """The rows of one task: `(source, start, end)` of every source that moved."""

    rows: tuple[tuple[str, str | None, str], ...]


class _PositionsReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, offered: str, start: str) -> None:
        self._offered, self._start = offered, start

    def initialOffset(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._start)
        return found

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """The latest positions over those read: a position once in the offset never leaves it."""
        try:
            with open(self._offered, encoding="utf-8") as stream:
                offered = json.load(stream)
        except FileNotFoundError:
            offered = {}
        known = {**start, **offered}
        return {name: known[name] for name in sorted(known)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        moved = tuple(
            (name, _text(start[name]) if name in start else None, _text(end[name]))
            for name in sorted(end)
            if start.get(name) != end[name]
        )
        return [_Moved(moved)] if moved else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str | None, str]]:
        assert isinstance(partition, _Moved)
        yield from partition.rows


def _text(position: Any) -> str:
    return json.dumps(position, separators=(",", ":"))


def register_positions(session: SparkSession) -> None:
    """Make the format known to the session, which may know it already.

    Spark looks for the name in the session that is active, which making a frame turns into this one.
    """
    session.createDataFrame([], "nothing int")
    try:
        session.dataSource.register(PositionsDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
