"""Delta tables written from the driver by the package `deltalake`, where Spark has no Delta of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from upshot.core.errors import EngineError
from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.pipeline.sinks.delta_types import type_word
from upshot.pipeline.sinks.failures import sink_failed
from upshot.pipeline.sinks.sink import CHANGE, Columns
from upshot.pipeline.sinks.tables import log_table, table_of


class NativeDelta:
    """Everything passes through the driver's memory; beyond that, Spark needs its Delta package."""

    def columns(self, path: str) -> Columns | None:
        if not DeltaTable.is_deltatable(path):
            return None
        return {field.name: type_word(field.type.type) for field in DeltaTable(path).schema().fields}

    def occupied(self, path: str) -> bool:
        return Path(path).exists() and any(Path(path).iterdir())

    def version(self, path: str, application: str) -> int | None:
        return DeltaTable(path).transaction_version(application) if DeltaTable.is_deltatable(path) else None

    def create(self, path: str, application: str, version: int, data: pa.Table) -> None:
        self._write(path, application, version, data, "error")

    def append(self, path: str, application: str, version: int, data: pa.Table) -> None:
        self._write(path, application, version, data, "append")

    def _write(self, path: str, application: str, version: int, data: pa.Table, mode: Any) -> None:
        try:
            write_deltalake(path, data, mode=mode, commit_properties=_stamped(application, version))
        except DeltaError as error:
            raise _refused(path, error) from error

    def merge(self, path: str, application: str, version: int, data: pa.Table, columns: list[str]) -> None:
        # In parentheses: without them, AND binds into the comparison.
        same = " AND ".join(f"({_quoted('t', c)} IS NOT DISTINCT FROM {_quoted('s', c)})" for c in columns)
        try:
            merging = DeltaTable(path).merge(
                data, same, source_alias="s", target_alias="t", commit_properties=_stamped(application, version)
            )
            gone = merging.when_matched_delete(f"s.{CHANGE} = -1")
            come = {f'"{name}"': _quoted("s", name) for name in columns}
            gone.when_not_matched_insert(come, predicate=f"s.{CHANGE} = 1").execute()
        except DeltaError as error:
            raise _refused(path, error) from error

    def rows(self, rows: Rows) -> pa.Table:
        return table_of(rows)

    def changes(self, changes: Changes, version: int) -> pa.Table:
        return log_table(changes, version)


def _stamped(application: str, version: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(application, version)])


def _quoted(alias: str, column: str) -> str:
    """Unquoted names are folded to lower case."""
    return f'{alias}."{column}"'


def _refused(path: str, error: DeltaError) -> EngineError:
    return sink_failed(f"the delta table `{path}`", next(iter(str(error).splitlines()), type(error).__name__))
