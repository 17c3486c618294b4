"""The log of a store on a lake: a Delta table that takes one record a commit, in order, from one writer at a time.

A record has a number; the table's own transaction identifier (`txn` in Delta's log) is the last number. A commit
creates the next version of the table with the next number, or fails: creation is atomic, so of two writers with the
same last number only one succeeds, and the other learns that the store was taken over. The result of a write may be
lost, and a write may arrive late: a commit is identified by its own id, not by its number.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import EngineError, UsageError
from upshot.spark.delta import (
    HOW_TO_REACH,
    DeltaTarget,
    creates_atomically,
    delta_log,
    delta_snapshot,
    has_delta,
    reaches,
)
from upshot.spark.lake_path import LakePath

APPLICATION = "upshot/log"
BASE, STATEMENTS = "base", "statements"
"""The kinds of a record: the whole log so far, or the changes since the last record."""

_CHUNK = 8 << 20
_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("part", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("writer", pa.string()),
        pa.field("data", pa.binary()),
    ]
)
_SETTINGS = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


log = logging.getLogger("upshot.store")


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Record:
    """`commit` distinguishes records with the same number, also of one process."""

    number: int
    kind: str
    data: bytes
    commit: str = field(default_factory=_new_id)


def record_table(session: Any, path: LakePath) -> RecordTable:
    """The table at a path, created if absent, through `deltalake` in this process if that reaches it, else through
    Spark."""
    target = reaches(session, path)
    if target is not None:
        return NativeTable(path, target)
    if has_delta(session):
        return SparkTable(path, session)
    raise UsageError(
        f"the store `{path}` needs Delta Lake: it keeps its commits in a Delta table there",
        code="missing-spark-package",
        help=f"start Spark with the package `io.delta:delta-spark` and its session extension{HOW_TO_REACH}",
    )


def unguarded(session: Any, path: LakePath) -> tuple[Diagnostic, ...]:
    """A warning if a second process that opens the store may go unnoticed."""
    if creates_atomically(session, path):
        return ()
    return (
        Diagnostic(
            "store-unguarded",
            f"the store `{path}` cannot be taken over: Spark's Delta writer does not create files of S3 atomically, so "
            "that commits of two processes may overwrite each other",
            help="let only one process open it, put keys into `fs.s3a.access.key` and `fs.s3a.secret.key`, or set "
            "`spark.delta.logStore.s3a.impl` to Delta's `S3DynamoDBLogStore`",
            severity=Severity.WARNING,
        ),
    )


def _records(rows: pa.Table) -> list[Record]:
    found: dict[int, tuple[str, str, list[bytes]]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["number"], row["part"])):
        found.setdefault(row["number"], (row["kind"], row["writer"], []))[2].append(row["data"])
    return [
        Record(number, kind, b"".join(parts), json.loads(writer).get("commit", ""))
        for number, (kind, writer, parts) in found.items()
    ]


def taken_over(path: LakePath, by: str, help: str = "nothing of this was committed") -> EngineError:
    try:
        about = json.loads(by)
        who = f"process {about['pid']} on `{about['host']}`"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return EngineError(
        f"the store `{path.parent}` was opened by {who} since",
        code="store-taken-over",
        help=f"{help}; one process at a time has a store: stop one of the two",
    )


class RecordTable:
    """The order of records and their writers; a subclass reads and writes rows. Failures are `OSError`, except that the
    store was taken over; a write that failed may have arrived, or arrive later."""

    def __init__(self, path: LakePath) -> None:
        self._path = path
        self._token = _new_id()

    def load(self) -> list[Record]:
        """Every record, oldest first."""
        raise NotImplementedError

    def append(self, record: Record) -> None:
        """Write the next record; it is on the lake when this returns."""
        self._commit(record, replaces=False)

    def replace(self, record: Record) -> None:
        """As `append`, and remove the records before it."""
        self._commit(record, replaces=True)
        try:
            self._remove_replaced()
        except Exception as error:  # noqa: BLE001 - both libraries raise many kinds
            log.warning("superseded records of `%s` could not be removed: %s", self._path, _first_line(error))

    def find(self, number: int) -> Record | None:
        """The record with this number that this process wrote, if there is one; an error if another process wrote
        it."""
        try:
            if self._newest_number() < number:
                return None
            rows = self._rows(number)
            writer = rows["writer"][0].as_py() if len(rows) else self._newest_writer()
        except Exception as error:
            raise OSError(_first_line(error)) from error
        if not len(rows):
            raise taken_over(self._path, writer, "open it again to see whether this was committed")
        if json.loads(writer)["token"] != self._token:
            raise taken_over(self._path, writer)
        return _records(rows)[0]

    def _commit(self, record: Record, *, replaces: bool) -> None:
        try:
            self._write(record, replaces=replaces)
        except Exception as error:
            found = self.find(record.number)
            if found is None or found.commit != record.commit:
                raise OSError(_first_line(error)) from error

    def _encoded(self, record: Record) -> pa.Table:
        about = {
            "token": self._token,
            "commit": record.commit,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "time": round(time.time()),
        }
        chunks = [record.data[at : at + _CHUNK] for at in range(0, len(record.data), _CHUNK)] or [b""]
        count = len(chunks)
        columns = [
            [record.number] * count, list(range(count)), [record.kind] * count, [json.dumps(about)] * count, chunks,
        ]  # fmt: skip
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)

    def _newest_writer(self) -> str:
        found = self._writers().to_pylist()
        return str(max(found, key=lambda row: row["number"])["writer"]) if found else ""

    def _write(self, record: Record, *, replaces: bool) -> None:
        """Add a record after the one before it, or fail: see `_refuse_gap`."""
        raise NotImplementedError

    def _newest_number(self) -> int:
        """The number of the last record on the lake, -1 if there is none."""
        raise NotImplementedError

    def _rows(self, number: int) -> pa.Table:
        """The rows of one record."""
        raise NotImplementedError

    def _writers(self) -> pa.Table:
        """The columns `number` and `writer` of every record."""
        raise NotImplementedError

    def _remove_replaced(self) -> None:
        """Remove the files that only replaced records need."""
        raise NotImplementedError


def _refuse_gap(last: int, record: Record) -> None:
    """Raise before writing if the record does not follow the last one."""
    if last != record.number - 1:
        raise OSError(f"record {last} is the last one, and {record.number} was to follow")


# ---- deltalake -----------------------------------------------------------------------------------------


class NativeTable(RecordTable):
    def __init__(self, path: LakePath, target: DeltaTarget) -> None:
        super().__init__(path)
        self._target = target
        self._table: Any = None

    def load(self) -> list[Record]:
        from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415 - an optional package

        def read() -> list[Record]:
            uri, options = self._target.uri, self._target.options
            if not DeltaTable.is_deltatable(uri, options):
                empty = _SCHEMA.empty_table()
                write_deltalake(uri, empty, mode="ignore", storage_options=options, configuration=_SETTINGS)
            self._table = DeltaTable(uri, storage_options=options)
            return _records(self._table.to_pyarrow_table())

        return _tried(read)

    def _write(self, record: Record, *, replaces: bool) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415 - an optional package

        # The number in the loaded version, which is reloaded after a failure.
        _refuse_gap(self._known_number(), record)
        stamp = CommitProperties(app_transactions=[Transaction(APPLICATION, record.number)], max_commit_retries=0)
        mode: Any = "overwrite" if replaces else "append"
        write_deltalake(self._table, self._encoded(record), mode=mode, commit_properties=stamp)

    def _known_number(self) -> int:
        last = self._table.transaction_version(APPLICATION)
        return -1 if last is None else int(last)

    def _newest_number(self) -> int:
        self._table.update_incremental()
        return self._known_number()

    def _rows(self, number: int) -> pa.Table:
        return self._table.to_pyarrow_table(filters=[("number", "=", number)])

    def _writers(self) -> pa.Table:
        return self._table.to_pyarrow_table(columns=["number", "writer"])

    def _remove_replaced(self) -> None:
        self._table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


# ---- Spark ---------------------------------------------------------------------------------------------


class SparkTable(RecordTable):
    """Through Delta's own classes in Spark's JVM: a file is written, then committed by Delta's transaction, without a
    job. Needs a classic session."""

    def __init__(self, path: LakePath, session: Any) -> None:
        super().__init__(path)
        self._session, self._java = session, session._jvm
        self._replaced: list[str] = []

    def load(self) -> list[Record]:
        def read() -> list[Record]:
            if delta_snapshot(self._session, self._path.uri).version() < 0:
                writer = self._session.createDataFrame(_SCHEMA.empty_table()).write.format("delta").mode("ignore")
                for name, value in _SETTINGS.items():
                    writer = writer.option(name, value)
                writer.save(self._path.uri)
            return _records(self._frame().toArrow())

        return _tried(read)

    def _frame(self) -> Any:
        return self._session.read.format("delta").load(self._path.uri)

    def _write(self, record: Record, *, replaces: bool) -> None:
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        data = pa.BufferOutputStream()
        pq.write_table(self._encoded(record), data)
        written = data.getvalue().to_pybytes()
        (self._path / name).write_bytes(written)
        self._replaced = [uri.rpartition("/")[2] for uri in self._frame().inputFiles()] if replaces else []
        actions = [*map(_removed, self._replaced), _added(name, len(written)), _stamp(record.number)]
        self._commit_actions(record, actions)

    def _commit_actions(self, record: Record, actions: Sequence[str]) -> None:
        java, nothing = self._java, self._java.scala.Option.empty()
        log = delta_log(self._session, self._path.uri)
        log.update(False, nothing, nothing)
        transaction = log.startTransaction(nothing, nothing)
        # Read inside the transaction: a change by another process before the commit is a conflict.
        _refuse_gap(transaction.txnVersion(APPLICATION), record)
        parsed = java.java.util.ArrayList()
        action = java.org.apache.spark.sql.delta.actions.Action
        for text in actions:
            parsed.add(action.fromJson(text))
        update = getattr(java, "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
        transaction.commit(java.org.apache.spark.api.python.PythonUtils.toSeq(parsed), update)

    def _newest_number(self) -> int:
        found = delta_snapshot(self._session, self._path.uri).transactions().get(APPLICATION)
        return int(found.get()) if found.isDefined() else -1

    def _rows(self, number: int) -> pa.Table:
        return self._frame().where(f"number = {number}").toArrow()

    def _writers(self) -> pa.Table:
        return self._frame().select("number", "writer").toArrow()

    def _remove_replaced(self) -> None:
        # Only these: an unnamed file may belong to a process that is just taking over the store.
        for name in self._replaced:
            (self._path / name).delete()


def _removed(name: str) -> str:
    deleted = round(time.time() * 1000)
    return json.dumps({"remove": {"path": name, "deletionTimestamp": deleted, "dataChange": True}})


def _added(name: str, size: int) -> str:
    about = {"path": name, "partitionValues": {}, "size": size, "modificationTime": round(time.time() * 1000)}
    return json.dumps({"add": {**about, "dataChange": True}})


def _stamp(number: int) -> str:
    return json.dumps({"txn": {"appId": APPLICATION, "version": number, "lastUpdated": round(time.time() * 1000)}})


def _first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    text = str(cause.toString() if cause is not None else error)
    return next(iter(text.splitlines()), type(error).__name__)


def _tried(read: Callable[[], list[Record]]) -> list[Record]:
    """Retry once if a named file was deleted, because the owner had just compacted its records."""
    for _ in range(2):
        try:
            return read()
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - both libraries raise many kinds
            last = error
    raise OSError(_first_line(last)) from last
