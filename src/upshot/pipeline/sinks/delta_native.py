"""Delta tables written from the driver by the package `deltalake`: no job of Spark's, one commit a version.

Every commit creates the version after the one that was read, or fails: so two drivers cannot both publish a version.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from upshot.database.changes import Changes
from upshot.pipeline.sinks.failures import sink_failed
from upshot.pipeline.sinks.sink import CHANGE, Columns, type_word
from upshot.pipeline.sinks.tables import Data, table_of
from upshot.spark.delta import DeltaTarget, delta_target
from upshot.spark.lake_path import located
from upshot.spark.location import local_path

_FILE_BYTES = 32 << 20
"""The size of the files of a new table: a change rewrites the files with rows that it deletes."""


class NativeDelta:
    """All rows pass through the driver's memory; larger tables need Spark's Delta package."""

    def __init__(self, session: Any = None) -> None:
        self._session = session
        self._tables: dict[str, DeltaTable] = {}
        self._guard = threading.Lock()

    def columns(self, path: str) -> Columns | None:
        table = self._newest(path)
        return None if table is None else {f.name: type_word(f.type.type) for f in table.schema().fields}

    def version(self, path: str, application: str) -> int | None:
        table = self._newest(path)
        return None if table is None else table.transaction_version(application)

    def create(self, path: str, application: str, version: int, data: Data) -> None:
        target, table = self._target(path), table_of(data, version)
        with _reported(path):
            write_deltalake(
                target.uri,
                table,
                mode="error",
                storage_options=target.options,
                commit_properties=_stamped(application, version),
                target_file_size=_FILE_BYTES,
            )

    def append(self, path: str, application: str, version: int, data: Changes) -> None:
        rows, stamp = table_of(data, version), _stamped(application, version)
        with _reported(path):
            write_deltalake(self._known(path), rows, mode="append", commit_properties=stamp)

    def merge(self, path: str, application: str, version: int, data: Changes) -> None:
        inserted, deleted = table_of(data.inserted), table_of(data.deleted)
        with _reported(path):
            table, stamp = self._known(path), _stamped(application, version)
            if _has_plain_files(table):
                exchanged(table, inserted, deleted, stamp)
            else:
                _merged(table, table_of(data, version), list(data.inserted.columns), stamp)

    # ---- tables --------------------------------------------------------------------------------------

    def _target(self, path: str) -> DeltaTarget:
        return delta_target(self._session, located(path, self._session))

    def _newest(self, path: str) -> DeltaTable | None:
        """The newest version of the table, after which the next write commits."""
        with self._guard:
            known = self._tables.get(path)
        with _reported(path):
            if known is not None and _refreshed(known):
                return known
            target = self._target(path)
            found = None
            if DeltaTable.is_deltatable(target.uri, target.options):
                found = DeltaTable(target.uri, storage_options=target.options)
        with self._guard:
            if found is None:
                self._tables.pop(path, None)
            else:
                self._tables[path] = found
        return found

    def _known(self, path: str) -> DeltaTable:
        with self._guard:
            known = self._tables.get(path)
        table = known or self._newest(path)
        if table is None:
            raise sink_failed(f"the delta table `{path}`", "it does not exist any more")
        return table


def _refreshed(table: DeltaTable) -> bool:
    """Bring the table to its newest version; False if it was removed or made again meanwhile."""
    try:
        before = table.version()
        table.update_incremental()
        is_there = DeltaTable.is_deltatable(table.table_uri, table._storage_options)
        return bool(is_there and table.version() >= before)
    except (DeltaError, OSError):
        return False


def _has_plain_files(table: DeltaTable) -> bool:
    """Test whether the rows of the table are those of its files: it has no partitions, column mapping or deletion
    vectors."""
    return table.protocol().min_reader_version == 1 and not table.metadata().partition_columns


def _merged(table: DeltaTable, data: pa.Table, columns: list[str], stamp: CommitProperties) -> None:
    """As `exchanged`, for tables of any kind."""
    # In parentheses: without them, AND binds into the comparison. Unquoted names are folded to lower case.
    same = " AND ".join(f'(t."{name}" IS NOT DISTINCT FROM s."{name}")' for name in columns)
    merging = table.merge(data, same, source_alias="s", target_alias="t", commit_properties=stamp)
    gone = merging.when_matched_delete(f"s.{CHANGE} = -1")
    come = {f'"{name}"': f's."{name}"' for name in columns}
    gone.when_not_matched_insert(come, predicate=f"s.{CHANGE} = 1").execute()


def _stamped(application: str, version: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(application, version)], max_commit_retries=0)


@contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise sink_failed(f"the delta table `{path}`", reason) from error


# ---- rows exchanged, file by file ----------------------------------------------------------------------------
# A deleted row is in exactly one file. Files that cannot have one, by their statistics or by one of their columns, are
# not read further; the others are written again without it. Small files are merged at the same time.

_SMALL = 10_000
"""A file with fewer rows may be merged with others."""
_MOST_SMALL = 16
"""Small files that a table may have."""
_SIDE_BY_SIDE = 2
"""Files that are read and written at the same time."""

Row = tuple[Any, ...]


def exchanged(table: DeltaTable, inserted: pa.Table, deleted: pa.Table, properties: CommitProperties) -> None:
    """Commit the next version of the table, without the deleted rows, all of which it has, and with the inserted ones,
    none of which it has. Raises the error of `deltalake` if another writer has made that version."""
    files = _DeltaFiles(table)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = list(pool.map(lambda file: files.without(file, deleted), files.with_any(deleted)))
    touched = [part for part in found if part is not None]
    gone = [part.file for part in touched]
    small = [file for file in files.all if file.rows < _SMALL and file not in gone]
    kept = [part.rows for part in touched]
    if len(small) > _MOST_SMALL:
        kept += [files.read(file) for file in small]
        gone += small
    added = _together([*kept, inserted])
    actions: list[Any] = [files.written(rows) for rows in added]
    now = round(time.time() * 1000)
    actions += [RemoveAction(file.path, True, now) for file in gone]
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)


@dataclass(frozen=True, slots=True)
class DataFile:
    """`bounds` are the smallest and largest value of the columns that have them."""

    path: str
    rows: int
    bounds: dict[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Touched:
    """A file, and its rows without the deleted ones."""

    file: DataFile
    rows: pa.Table


class _DeltaFiles:
    def __init__(self, table: DeltaTable) -> None:
        self._schema = pa.schema(table.schema().to_arrow())
        self._system = _file_system(table)
        self.all = _data_files(table, self._schema)

    def with_any(self, deleted: pa.Table) -> list[DataFile]:
        """The files that may hold one of these rows, by their statistics."""
        if not deleted.num_rows:
            return []
        bounded = [field.name for field in deleted.schema if _has_bounds(field)]
        columns = {name: deleted[name].combine_chunks() for name in bounded}
        return [file for file in self.all if all(_may_hold(file, name, column) for name, column in columns.items())]

    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        with self._system.open_input_file(file.path) as stream:
            found = pq.ParquetFile(stream).read(columns=columns)
        return found.cast(pa.schema([self._schema.field(name) for name in found.column_names]))

    def without(self, file: DataFile, deleted: pa.Table) -> _Touched | None:
        """The file without these rows; None if it has none of them."""
        places = self._candidates(file, deleted)
        if not len(places):
            return None
        rows = self.read(file)
        wanted = set(_keys(deleted.select(rows.column_names)))
        gone = [place for place, key in zip(places, _keys(rows.take(places)), strict=True) if key in wanted]
        if not gone:
            return None
        keep = np.ones(rows.num_rows, bool)
        keep[gone] = False
        return _Touched(file, rows.filter(pa.array(keep)))

    def _candidates(self, file: DataFile, deleted: pa.Table) -> Any:
        """The places of rows that may be among these, by the most selective column."""
        telling = [field.name for field in deleted.schema if not pa.types.is_floating(field.type)]
        if not telling:
            return np.arange(self.read(file).num_rows)
        name = max(telling, key=lambda name: pc.count_distinct(deleted[name]).as_py())
        column = self.read(file, [name])[name]
        return np.flatnonzero(pc.is_in(column, value_set=deleted[name].combine_chunks(), skip_nulls=False))

    def written(self, rows: pa.Table) -> AddAction:
        """A new file with these rows, which is not visible before the commit."""
        path = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        rows = _in_order(rows, self._schema).cast(self._schema)
        with self._system.open_output_stream(path) as stream:
            pq.write_table(rows, stream, compression="snappy")
        size = self._system.get_file_info(path).size
        return AddAction(path, size, {}, round(time.time() * 1000), True, _statistics(rows))


def _in_order(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    if missing := [name for name in schema.names if name not in rows.column_names]:
        raise pa.ArrowInvalid(f"the table has a column `{missing[0]}` that the rows do not have")
    return rows.select(schema.names)


def _file_system(table: DeltaTable) -> fs.FileSystem:
    """The file system of the table's files; Arrow's own for local paths, since it is faster."""
    uri = table.table_uri
    if local_path(uri) is not None:
        return fs.SubTreeFileSystem(str(local_path(uri)), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))


def _data_files(table: DeltaTable, schema: pa.Schema) -> list[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    with_bounds = [field.name for field in schema if _has_bounds(field)]
    return [
        DataFile(
            action["path"],
            action["num_records"] if action.get("num_records") is not None else _SMALL,
            {
                name: (action[f"min.{name}"], action[f"max.{name}"])
                for name in with_bounds
                # Bounds exclude NULL, so they are of no use for a file with NULLs.
                if action.get(f"min.{name}") is not None and action.get(f"null_count.{name}") == 0
            },
        )
        for action in actions
    ]


def _has_bounds(field: pa.Field) -> bool:
    """Test whether the bounds of a column are exact: those of other types are truncated or have no order."""
    return bool(pa.types.is_integer(field.type) or pa.types.is_date(field.type))


def _may_hold(file: DataFile, name: str, values: pa.Array) -> bool:
    bounds = file.bounds.get(name)
    if bounds is None:
        return True
    low, high = (pa.scalar(bound, values.type) for bound in bounds)
    within = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return bool(pc.any(within).as_py())


def _keys(rows: pa.Table) -> list[Row]:
    """The rows as tuples that are equal where rows are: NaN and NULL equal themselves."""
    columns = [[_key(value) for value in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns, strict=True))


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _together(parts: Sequence[pa.Table]) -> list[pa.Table]:
    """Merge the small tables to one; drop empty ones."""
    small = [part for part in parts if 0 < part.num_rows < _SMALL]
    large = [part for part in parts if part.num_rows >= _SMALL]
    return [*large, pa.concat_tables(small)] if small else large


def _statistics(rows: pa.Table) -> str:
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}}
    for field in rows.schema:
        if _has_bounds(field):
            found = pc.min_max(rows[field.name]).as_py()
            if found["min"] is not None:
                bounds["minValues"][field.name] = _json(found["min"])
                bounds["maxValues"][field.name] = _json(found["max"])
    nulls = {field.name: rows[field.name].null_count for field in rows.schema}
    return json.dumps({"numRecords": rows.num_rows, **bounds, "nullCount": nulls})


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value
