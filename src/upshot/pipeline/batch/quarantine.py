"""Rows that do not fit: written with the reason, one Parquet folder a batch, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa

from upshot.core.errors import DataError, EngineError, system_reason
from upshot.database.files.spark_frames import spark_errors
from upshot.pipeline.config.config import PipelineConfig, SourceConfig
from upshot.pipeline.sinks.folders import folders_at
from upshot.pipeline.sinks.tables import FEW
from upshot.spark.lake_path import AnyPath, located

SCHEMA = pa.schema(
    [
        pa.field("raw", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("place", pa.string()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
    ]
)
"""The columns in the files; readers of partitioned Parquet add `batch` from the folder's name."""

BAD = ("row", "reason", "place")
_SHOWN = 5


def quarantine_path(config: PipelineConfig, source: SourceConfig) -> AnyPath:
    return located(source.quarantine) if source.quarantine else config.state / "quarantine" / source.relation


def remove_batch(folder: AnyPath, batch: int) -> None:
    """Remove the rows that an earlier attempt at the batch wrote."""
    with _writing(folder):
        folders_at(folder).remove(_batch_folder(batch))


@contextmanager
def _writing(folder: AnyPath) -> Iterator[None]:
    """Raise an error of the file system as `quarantine-failed`."""
    try:
        yield
    except OSError as error:
        reason = system_reason(error)
        raise EngineError(
            f"the quarantine `{folder}` cannot be written: {reason}",
            code="quarantine-failed",
            help="nothing of the batch was applied; make the directory writable with free space, then run again",
        ) from error


def _batch_folder(batch: int) -> str:
    return f"batch={batch}"


class BadRows:
    """The rows of one range of a source that do not fit. Few are collected; many stay with Spark."""

    def __init__(self, table: pa.Table | None, frame: Any = None) -> None:
        """Columns `row`, `reason`, `place`, of both; the frame is for more than the table holds."""
        self._table, self._frame = table, frame
        self.count = 0 if table is None else table.num_rows
        if self.count > FEW:
            self.count = frame.count()

    @classmethod
    def of(cls, frame: Any) -> BadRows:
        return cls(None if frame is None else frame.select(*BAD).limit(FEW + 1).toArrow(), frame)

    def refuse(self, relation: str) -> None:
        """Raise with the first reasons, if there is any row."""
        if not self.count or self._table is None:
            return
        first = self._table.slice(0, _SHOWN).to_pylist()
        reasons = "; ".join(f"{bad['place']}: {bad['reason']}" for bad in first)
        more = f"; … {self.count - len(first)} more" if self.count > len(first) else ""
        counted = "1 row does" if self.count == 1 else f"{self.count} rows do"
        raise DataError(
            f"{counted} not fit `{relation}`: {reasons}{more}",
            code="bad-rows",
            help='nothing was applied; fix the rows, or quarantine them with `on_bad_row = "quarantine"`',
        )

    def write(self, folder: AnyPath, batch: int, now: datetime) -> None:
        """Write the rows to the batch's folder, in place of those of an earlier attempt."""
        if not self.count:
            remove_batch(folder, batch)
            return
        folders = folders_at(folder)
        folders.remove_leftovers()
        if self.count <= FEW and self._table is not None:
            times = pa.array([now] * self._table.num_rows, SCHEMA.field("time").type)
            with _writing(folder):
                folders.put(_batch_folder(batch), pa.table([*self._table.columns, times], schema=SCHEMA), self.count)
            return
        from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

        frame = self._frame.select(F.col("row").alias("raw"), "reason", "place")
        with spark_errors():
            folders.put(_batch_folder(batch), frame.withColumn("time", F.lit(now).cast("timestamp")), self.count)
