"""What parts come to, as Parquet files that the workers write themselves, and the list of them.

Rows that went through Spark on their way to the same folder would be converted four times.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.rows import Row
from upshot.core.types import NUMBER, SYMBOL, Type
from upshot.engine.limits import BudgetExceeded
from upshot.engine.spark.pieces import FilePiece, LocalPiece, Piece, nothing
from upshot.spark.types import arrow_schema_for_spark, rows_for_spark

LISTED = (NUMBER, SYMBOL, NUMBER)
"""The types of the list: which set of rows, the file's name, its rows."""

GAVE_UP = -1
"""In place of a set: the part needs more memory than it may take."""


class PartFiles:
    """The files of one part: one for each set of rows that is not empty. A name is never used twice, so what an earlier
    attempt of the same task left behind is told from what this one lists."""

    def __init__(self, folders: Sequence[Path], members: Sequence[Sequence[Type]]) -> None:
        self._folders, self._members = folders, members
        self._writers: dict[int, pq.ParquetWriter] = {}
        self.written: dict[int, tuple[str, int]] = {}
        """The file of each set and its rows; it is whole once all is closed."""

    def write(self, member: int, columns: Sequence[pa.Array]) -> None:
        schema = arrow_schema_for_spark(self._members[member])
        batch = pa.RecordBatch.from_arrays(list(columns), schema=schema)
        if member not in self._writers:
            name = f"part-{uuid.uuid4().hex}.parquet"
            self._writers[member] = pq.ParquetWriter(self._folders[member] / name, schema)
            self.written[member] = name, 0
        self._writers[member].write_batch(batch)
        name, count = self.written[member]
        self.written[member] = name, count + batch.num_rows

    def listed(self) -> pa.RecordBatch:
        """The list of the files, which are whole now."""
        self.close()
        return _list([(member, name, count) for member, (name, count) in self.written.items()])

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def listing(files: PartFiles, write: Callable[[PartFiles], None]) -> pa.RecordBatch:
    """The list of what a part writes, or that it was too large."""
    try:
        write(files)
        return files.listed()
    except BudgetExceeded:
        return instead(GAVE_UP)
    finally:
        files.close()


def instead(reason: int) -> pa.RecordBatch:
    """The list of a part that has no files, for a reason."""
    return _list([(reason, "", 0)])


def _list(rows: Sequence[Row]) -> pa.RecordBatch:
    (batch,) = rows_for_spark(rows, LISTED).combine_chunks().to_batches() or [None]
    return batch if batch is not None else pa.RecordBatch.from_pylist([], schema=arrow_schema_for_spark(LISTED))


# ---- in the driver ----------------------------------------------------------------------------------------------


def gathered(
    folders: Sequence[Path], members: Sequence[tuple[Type, ...]], listed: Sequence[Row], small: int
) -> list[Piece] | None:
    """The sets of rows of all parts together, in the driver where they are few; None if a part gave up. Folders that
    no piece needs are gone."""
    if any(member == GAVE_UP for member, _, _ in listed):
        for folder in folders:
            shutil.rmtree(folder)
        return None
    pieces = []
    for member, (folder, types) in enumerate(zip(folders, members, strict=True)):
        files = {name: count for which, name, count in listed if which == member}
        pieces.append(_piece(folder, types, files, small))
    return pieces


def _piece(folder: Path, types: tuple[Type, ...], files: Mapping[str, int], small: int) -> Piece:
    count = sum(files.values())
    if count <= small:
        tables = [pq.read_table(folder / name) for name in files]
        shutil.rmtree(folder)
        return LocalPiece(pa.concat_tables(tables), types) if tables else nothing(types)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    return FilePiece((folder,), count, types)
