"""Delta tables written from the driver by the package `deltalake`: no job of Spark's, one commit a version.

Every commit creates the next version of the table that was looked at before, or fails: two drivers that both believe
to be the one that runs cannot both publish a version.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.pipeline.sinks.delta_files import exchanged
from upshot.pipeline.sinks.delta_types import type_word
from upshot.pipeline.sinks.failures import sink_failed
from upshot.pipeline.sinks.sink import CHANGE, Columns
from upshot.pipeline.sinks.tables import log_table, table_of
from upshot.spark.delta import delta_target
from upshot.spark.lake_path import AnyPath, located

_FILE_BYTES = 32 << 20
"""The size of the files of a new table: a change rewrites the files with rows that it deletes."""


class NativeDelta:
    """Everything passes through the driver's memory; beyond that, Spark needs its Delta package."""

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

    def create(self, path: str, application: str, version: int, data: pa.Table) -> None:
        target = self._target(path)
        with _reported(path):
            write_deltalake(
                target.uri,
                data,
                mode="error",
                storage_options=target.options,
                commit_properties=_stamped(application, version),
                target_file_size=_FILE_BYTES,
            )

    def append(self, path: str, application: str, version: int, data: pa.Table) -> None:
        with _reported(path):
            table = self._known(path)
            write_deltalake(table, data, mode="append", commit_properties=_stamped(application, version))

    def merge(self, path: str, application: str, version: int, data: pa.Table, columns: list[str]) -> None:
        with _reported(path):
            table, stamp = self._known(path), _stamped(application, version)
            inserted, deleted = (data.filter(pc.equal(data[CHANGE], sign)).select(columns) for sign in (1, -1))
            if _has_plain_files(table):
                exchanged(table, inserted, deleted, stamp)
            else:
                _merged(table, data, columns, stamp)

    def rows(self, rows: Rows) -> pa.Table:
        return table_of(rows)

    def changes(self, changes: Changes, version: int) -> pa.Table:
        return log_table(changes, version)

    # ---- tables --------------------------------------------------------------------------------------

    def _target(self, path: str) -> Any:
        return delta_target(self._session, self._located(path))

    def _located(self, path: str) -> AnyPath:
        return located(path, self._session)

    def _newest(self, path: str) -> DeltaTable | None:
        """The table as it is now; what is written next follows on this version."""
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
            raise sink_failed(f"the delta table `{path}`", "it is not there any more")
        return table


def _refreshed(table: DeltaTable) -> bool:
    """Brings the table to its newest version; False if it was removed meanwhile, or made anew."""
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
