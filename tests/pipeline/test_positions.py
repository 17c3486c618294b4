"""The stream of positions: exact replays, and sources that come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from upshot.core.errors import DataError
from upshot.pipeline.batch.positions import (
    FilesPosition,
    Position,
    SnapshotPosition,
    TablePosition,
    WatermarkPosition,
    positions_of,
    read_position,
    write_positions,
)
from upshot.pipeline.data_source import FORMAT, Movement, movements, offer, register_positions

ALL: dict[str, Position] = {
    "a": FilesPosition(3, "d1"),
    "b": TablePosition(7, "t"),
    "c": SnapshotPosition("00000001", "x:y"),
    "d": WatermarkPosition(2, "2026-01-31 10:00:00+00"),
}


def test_positions_come_back_from_text_and_the_text_is_always_the_same() -> None:
    assert positions_of(json.loads(write_positions(ALL))) == ALL
    assert write_positions(dict(reversed(ALL.items()))) == write_positions(ALL)


@pytest.mark.parametrize("text", ["", "[]", "1", '{"a": 1}', '{"kind": "moon"}', '{"kind": "table"}'])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is not a source offset"):
        read_position(text)


class Stream:
    """Batches of the stream on one checkpoint; a batch named in `failing` fails after it was seen."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.seen: list[tuple[int, list[Movement]]] = []
        self.failing: set[int] = set()

    def run(self, offered: dict[str, Position] | None = None) -> list[tuple[int, list[Movement]]]:
        """The batches of one run that takes everything there is."""
        if offered is not None:
            offer(self.folder / "offered.json", offered)
        self.seen = []
        register_positions(self.spark)
        stream = self.spark.readStream.format(FORMAT).option("offered", str(self.folder / "offered.json")).load()
        query = (
            stream.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return self.seen

    def _batch(self, rows: Any, batch: int) -> None:
        self.seen.append((batch, movements(rows.collect())))
        if batch in self.failing:
            raise RuntimeError("struck down")


def test_a_batch_that_failed_is_replayed_with_the_same_positions(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    first: dict[str, Position] = {"a": FilesPosition(3, "d1"), "b": TablePosition(7, "t")}
    wanted = [(0, [Movement("a", None, first["a"]), Movement("b", None, first["b"])])]
    stream.failing = {0}
    with pytest.raises(Exception, match="struck down"):
        stream.run(first)
    assert stream.seen == wanted
    stream.failing = set()
    later: dict[str, Position] = {**first, "a": FilesPosition(4, "d2")}
    # What was planned comes first, whatever is offered meanwhile.
    assert stream.run(later) == wanted
    assert stream.run() == [(1, [Movement("a", FilesPosition(3, "d1"), FilesPosition(4, "d2"))])]
    assert stream.run() == []


def test_a_source_that_is_new_or_gone_keeps_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.run({"a": FilesPosition(1, "d1")})
    assert stream.run({"a": FilesPosition(1, "d1"), "b": TablePosition(0, "t")}) == [
        (1, [Movement("b", None, TablePosition(0, "t"))])
    ]
    assert stream.run({"b": TablePosition(2, "t")}) == [
        (2, [Movement("b", TablePosition(0, "t"), TablePosition(2, "t"))])
    ]
    # Back after a while, it goes on where it was.
    again: dict[str, Position] = {"a": FilesPosition(5, "d5"), "b": TablePosition(2, "t")}
    assert stream.run(again) == [(3, [Movement("a", FilesPosition(1, "d1"), FilesPosition(5, "d5"))])]
