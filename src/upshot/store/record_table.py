"""The log of a store on a lake: a Delta table that takes one record a commit, in order, from one writer at a time.

A record has a number; the table's own transaction says which number came last (`txn` in Delta's log). A commit creates
the next version of the table with the next number, or fails: the create is atomic, so of two writers that know the same
last number only one succeeds, and the other finds out that the store was taken over.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import EngineError, UsageError
from upshot.spark.delta import DeltaTarget, creates_atomically, delta_log, delta_snapshot, has_delta, reaches
from upshot.spark.lake_path import LakePath

APPLICATION = "upshot/log"
BASE, STATEMENTS = "base", "statements"
"""The kinds of a record: the whole log until here, or the changes to it since."""

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


@dataclass(frozen=True, slots=True)
class Record:
    number: int
    kind: str
    data: bytes


class RecordTable(Protocol):
    """Open on one table. What fails is an `OSError`, unless the store was taken over."""

    def load(self) -> list[Record]:
        """Every record, oldest first; the next one to be written follows on them."""

    def append(self, record: Record) -> None:
        """The record is on the lake when this returns, after the one before it."""

    def replace(self, record: Record) -> None:
        """As `append`; the records before it are not needed any more."""


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
        help="start Spark with the package `io.delta:delta-spark` and its session extension; `deltalake` alone reaches "
        "S3 with keys in `fs.s3a.access.key` and `fs.s3a.secret.key`",
    )


def unguarded(session: Any, path: LakePath) -> tuple[Diagnostic, ...]:
    """A warning if a second process that opens the store may not be noticed."""
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


@dataclass(slots=True)
class _RecordWriter:
    """The writer: `token` is in every record, so that a commit whose answer was lost is known again."""

    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def text(self) -> str:
        about = {"token": self.token, "host": socket.gethostname(), "pid": os.getpid(), "time": round(time.time())}
        return json.dumps(about)

    def rows(self, record: Record) -> pa.Table:
        chunks = [record.data[at : at + _CHUNK] for at in range(0, len(record.data), _CHUNK)] or [b""]
        count = len(chunks)
        columns = [
            [record.number] * count, list(range(count)), [record.kind] * count, [self.text] * count, chunks,
        ]  # fmt: skip
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)


def _records(rows: pa.Table) -> list[Record]:
    found: dict[int, tuple[str, list[bytes]]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["number"], row["part"])):
        found.setdefault(row["number"], (row["kind"], []))[1].append(row["data"])
    return [Record(number, kind, b"".join(parts)) for number, (kind, parts) in found.items()]


def taken_over(path: LakePath, by: str) -> EngineError:
    try:
        about = json.loads(by)
        who = f"process {about['pid']} on `{about['host']}`"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return EngineError(
        f"the store `{path.parent}` was opened by {who} since",
        code="store-taken-over",
        help="nothing of this was committed; one process at a time has a store: stop one of the two",
    )


# ---- deltalake -----------------------------------------------------------------------------------------


class NativeTable:
    def __init__(self, path: LakePath, target: DeltaTarget) -> None:
        self._path, self._target, self._writer = path, target, _RecordWriter()
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

    def append(self, record: Record) -> None:
        self._commit(record, "append")

    def replace(self, record: Record) -> None:
        self._commit(record, "overwrite")
        # The files of records that are not needed any more; a reader that was at them starts again.
        self._table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _commit(self, record: Record, mode: Any) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415 - an optional package
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        # Of the version that is about to be followed: after a failure the table was looked at again.
        last = self._table.transaction_version(APPLICATION)
        if (-1 if last is None else last) != record.number - 1:
            raise taken_over(self._path, self._newest_writer())
        stamp = CommitProperties(app_transactions=[Transaction(APPLICATION, record.number)], max_commit_retries=0)
        try:
            write_deltalake(self._table, self._writer.rows(record), mode=mode, commit_properties=stamp)
        except (DeltaError, OSError, pa.ArrowException) as error:
            if not self._is_committed(record):
                raise OSError(str(error).splitlines()[0]) from error

    def _is_committed(self, record: Record) -> bool:
        """Test whether the record is there all the same: an answer may be lost on the way. Raises if it is
        another's."""
        self._table.update_incremental()
        last = self._table.transaction_version(APPLICATION)
        if last is None or last < record.number:
            return False
        writer = self._newest_writer()
        if json.loads(writer)["token"] != self._writer.token or last != record.number:
            raise taken_over(self._path, writer)
        return True

    def _newest_writer(self) -> str:
        found = self._table.to_pyarrow_table(columns=["number", "writer"]).to_pylist()
        return str(max(found, key=lambda row: row["number"])["writer"]) if found else ""


# ---- Spark ---------------------------------------------------------------------------------------------


class SparkTable:
    """By Delta's own classes in Spark's Java: a file is written, then committed by Delta's transaction, without a job.
    Needs a classic session."""

    def __init__(self, path: LakePath, session: Any) -> None:
        self._path, self._session, self._writer = path, session, _RecordWriter()
        self._java = session._jvm

    def load(self) -> list[Record]:
        def read() -> list[Record]:
            if delta_snapshot(self._session, self._path.uri).version() < 0:
                writer = self._session.createDataFrame(_SCHEMA.empty_table()).write.format("delta").mode("ignore")
                for name, value in _SETTINGS.items():
                    writer = writer.option(name, value)
                writer.save(self._path.uri)
            return _records(self._session.read.format("delta").load(self._path.uri).toArrow())

        return _tried(read)

    def append(self, record: Record) -> None:
        self._commit(record, list)

    def replace(self, record: Record) -> None:
        self._commit(record, lambda: list(self._removed()))
        for path in self._unused():
            self._path.files.delete(path)

    def _commit(self, record: Record, removed: Callable[[], Sequence[str]]) -> None:
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        data = pa.BufferOutputStream()
        pq.write_table(self._writer.rows(record), data)
        written = data.getvalue().to_pybytes()
        try:
            (self._path / name).write_bytes(written)
            self._commit_actions(record, [*removed(), _added(name, len(written)), _stamp(record.number)])
        except EngineError as error:
            raise error if error.code == "store-taken-over" else OSError(error.message) from error
        except Exception as error:
            if not self._is_committed(record):
                raise OSError(_first_line(error)) from error

    def _commit_actions(self, record: Record, actions: Sequence[str]) -> None:
        java, nothing = self._java, self._java.scala.Option.empty()
        log = delta_log(self._session, self._path.uri)
        log.update(False, nothing, nothing)
        transaction = log.startTransaction(nothing, nothing)
        # Read inside of the transaction: if somebody else changes it before the commit, that is a conflict.
        if transaction.txnVersion(APPLICATION) != record.number - 1:
            raise taken_over(self._path, self._newest_writer())
        parsed = java.java.util.ArrayList()
        action = java.org.apache.spark.sql.delta.actions.Action
        for text in actions:
            parsed.add(action.fromJson(text))
        update = getattr(java, "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
        transaction.commit(java.org.apache.spark.api.python.PythonUtils.toSeq(parsed), update)

    def _is_committed(self, record: Record) -> bool:
        found = delta_snapshot(self._session, self._path.uri).transactions().get(APPLICATION)
        if not found.isDefined() or int(found.get()) < record.number:
            return False
        writer = self._newest_writer()
        if json.loads(writer)["token"] != self._writer.token or int(found.get()) != record.number:
            raise taken_over(self._path, writer)
        return True

    def _newest_writer(self) -> str:
        rows = self._session.read.format("delta").load(self._path.uri).select("number", "writer").collect()
        return str(max(rows, key=lambda row: row["number"])["writer"]) if rows else ""

    def _removed(self) -> list[str]:
        now = round(time.time() * 1000)
        return [
            json.dumps({"remove": {"path": name, "deletionTimestamp": now, "dataChange": True}})
            for name in self._named()
        ]

    def _named(self) -> list[str]:
        found = self._session.read.format("delta").load(self._path.uri).inputFiles()
        return [uri.rpartition("/")[2] for uri in found]

    def _unused(self) -> list[str]:
        named = set(self._named())
        return [e.uri for e in self._path.entries() if e.name.endswith(".parquet") and e.name not in named]


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
    """Retries once if a named file was deleted: the owner had just compacted its records."""
    for _ in range(2):
        try:
            return read()
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - both libraries raise whatever they met
            last = error
    raise OSError(_first_line(last)) from last
