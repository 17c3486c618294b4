"""The folder of one engine at a location: its rows as named Parquet files, which are removed with their owner.

Spark's writers make the files, or the driver does. A reader names every file and knows the row count: a missing file is
an error, never an empty set.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.errors import EngineError
from upshot.spark.failures import missing_file
from upshot.spark.location import (
    Files,
    LocationEntry,
    child,
    exact_path,
    files_of,
    local_path,
    location_of,
    runs_here,
    spark_path,
    uri_of,
)
from upshot.spark.session import is_connect

_PREFIX = "upshot-work-"
_OWNER = "owner.json"

_GRACE = 3600
"""Seconds for which a folder without a readable owner is kept: its owner may be making it."""

_HEARTBEAT = 86_400
"""Seconds after which an owner writes its record again."""

_ABANDONED = 7 * _HEARTBEAT
"""Seconds without a new record after which the folder of an owner on another machine is removed."""

_GROUP = 1 << 18
"""Rows of one group of a file that the driver writes."""

_FEW_BYTES = 32 << 20
"""The most bytes of files that are fetched without a job."""

_numbers = itertools.count()
_open: dict[str, Workspace] = {}
"""The folders of this process, and of the one it was forked from, by URI."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A set of rows in named files of one folder; columns are named as in the files."""

    folder: str
    files: tuple[str, ...]
    rows: int


class Workspace:
    """The folder of one engine at a location. Leftovers of a killed process are removed when the next one starts."""

    def __init__(self, location: str | os.PathLike[str] | None = None, session: Any = None) -> None:
        """`session` reaches locations that are not on this machine; without a location, it gives the default."""
        if location is None:
            location = location_of(session) if session is not None else tempfile.gettempdir()
        self.location, self._session = uri_of(location), session
        self._owner = os.getpid()
        self._next = itertools.count()
        self._made: set[str] = set()
        self._apart: set[str] = set()
        """Names of folders that `keep_only` does not remove: their rows are read during changes."""
        self._open_at(self.location)
        _open[self.uri] = self
        _begin_to_sign(os.getpid())

    def _open_at(self, location: str) -> None:
        """Make the folder."""
        self._files: Files = files_of(self._session, location)
        self.uri = child(location, f"{_PREFIX}{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}")
        remove_leftovers(self._files, location)
        self._files.make_folder(self.uri)
        self.sign()

    def sign(self) -> None:
        """Record the owner of the folder, and the time."""
        self._files.write(child(self.uri, _OWNER), json.dumps(owner_record()).encode())

    @property
    def path(self) -> Path | None:
        """The folder, if it is on this machine."""
        return local_path(self.uri)

    # ---- folders -------------------------------------------------------------------------------------------------

    def new(self, label: str = "rows", *, apart: bool = False) -> str:
        """The URI of a new folder; `apart`: it stays until it is dropped."""
        name = f"{label}-{next(self._next)}"
        (self._apart if apart else self._made).add(name)
        return child(self.uri, name)

    def keep_only(self, folders: Collection[str]) -> None:
        """Remove every folder of this workspace except these and their parents."""
        kept = {self._name(folder) for folder in folders}
        for name in self._made - kept:
            self._files.delete(child(self.uri, name))
        self._made &= kept

    def drop(self, folders: Iterable[str]) -> None:
        """Remove folders of this workspace; those of a store stay."""
        for folder in folders:
            name = self._name(folder)
            if name is not None:
                self._files.delete(folder)
                if child(self.uri, name) == folder:
                    self._made.discard(name)
                    self._apart.discard(name)

    def _name(self, folder: str) -> str | None:
        """The name of the folder here that is this one, or its parent."""
        inside = folder.removeprefix(f"{self.uri}/")
        return inside.split("/", 1)[0] if inside != folder else None

    def bytes(self) -> int:
        """The size of all files but the owner's record."""
        return sum(entry.size for entry in self._below(self.uri) if entry.name != _OWNER)

    def _below(self, folder: str) -> Iterator[LocationEntry]:
        for entry in self._files.entries(folder):
            if entry.is_folder:
                yield from self._below(entry.uri)
            else:
                yield entry

    def remove(self) -> None:
        """Remove the folder."""
        self._forget()
        self._files.delete(self.uri)

    def _forget(self) -> None:
        """Do not remove the folder at the end of the process any more."""
        _open.pop(self.uri, None)

    def is_owned(self) -> bool:
        """Test whether this process made the directory, and not one that it was forked from."""
        return self._owner == os.getpid()

    # ---- files that Spark writes ---------------------------------------------------------------------------------

    def write(self, frame: Any, label: str = "rows", *, apart: bool = False) -> StoredRows:
        """Have Spark write the rows of a frame; returns the files."""
        folder = self.new(label, apart=apart)
        frame.write.parquet(spark_path(folder))
        return self.stored(folder)

    def write_sets(self, frame: Any, by: str, label: str = "rows") -> dict[int, StoredRows]:
        """Have Spark write the rows of a frame in a folder for each value of a number column."""
        folder = self.new(label)
        frame.write.partitionBy(by).parquet(spark_path(folder))
        found = {}
        for entry in self._files.entries(folder):
            name, _, value = entry.name.partition("=")
            if entry.is_folder and name == by:
                found[int(value)] = self.stored(entry.uri)
        return found

    def stored(self, folder: str) -> StoredRows:
        """The Parquet files of a folder that have rows, and the number of their rows, from their footers."""
        names = [entry.uri for entry in self._files.entries(folder) if _is_rows(entry)]
        counts = {uri: self._files.parquet_rows(uri) for uri in names}
        return StoredRows(folder, tuple(uri for uri, rows in counts.items() if rows), sum(counts.values()))

    def write_to(self, frame: Any, folder: Path) -> None:
        """Have Spark write the rows of a frame, then copy the files to a folder of this machine, whose contents they
        replace."""
        stored = self.write(frame, "saved")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number, uri in enumerate(stored.files):
            self._files.download(uri, folder / f"part-{number}.parquet")
        if not stored.files:
            pq.write_table(frame.limit(0).toArrow(), folder / "part-0.parquet")
        self.drop([stored.folder])

    # ---- files that others wrote ---------------------------------------------------------------------------------

    def adopted(self, folder: str | Path) -> StoredRows:
        """The Parquet files of a folder of a store or a user, or one such file. Files on a disk that executors may not
        reach are copied."""
        uri = uri_of(folder)
        files = files_of(self._session, uri)
        path = local_path(uri)
        names = [entry.uri for entry in files.entries(uri) if _is_rows(entry)] if path is None else _rows_below(path)
        counts = {name: files.parquet_rows(name) for name in names}
        # Files without rows still have columns.
        kept = tuple(name for name, rows in counts.items() if rows) or tuple(names)
        if path is None or self._session is None or shares_disk(self._session):
            return StoredRows(uri, kept, sum(counts.values()))
        copy = self.new("adopted")
        copies = tuple(child(copy, f"part-{number}.parquet") for number in range(len(kept)))
        for name, target in zip(kept, copies, strict=True):
            path = local_path(name)
            assert path is not None
            self._files.upload(path, target)
        return StoredRows(copy, copies, sum(counts.values()))

    def counted(self, folder: str | Path) -> int:
        """The number of rows of all Parquet files of a folder, from their footers."""
        uri = uri_of(folder)
        if local_path(uri) is None and is_connect(self._session):
            return int(self._session.read.parquet(exact_path(uri)).count())
        return rows_in(files_of(self._session, uri), uri)

    # ---- files that the driver writes ----------------------------------------------------------------------------

    def put(self, tables: Iterable[pa.Table], schema: pa.Schema, label: str = "given") -> StoredRows:
        """Write tables of the driver as one file."""
        folder = self.new(label)
        uri, rows = child(folder, "part-0.parquet"), 0
        path = local_path(uri)
        with contextlib.ExitStack() as stack:
            if path is None:
                path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "part-0.parquet"
            else:
                self._files.make_folder(folder)
            with _disk_errors(uri), pq.ParquetWriter(path, schema) as writer:
                for table in tables:
                    # In groups that several tasks can read at the same time.
                    writer.write_table(table, row_group_size=_GROUP)
                    rows += table.num_rows
            if local_path(uri) is None:
                self._files.upload(path, uri)
        return StoredRows(folder, (uri,), rows)

    # ---- files that the driver reads -----------------------------------------------------------------------------

    def is_near(self, files: Collection[str]) -> bool:
        """Test whether the driver reads these files faster than a job would."""
        if all(local_path(uri) is not None for uri in files):
            return True
        sizes = {entry.uri: entry.size for folder in {_folder(uri) for uri in files} for entry in self._entries(folder)}
        return sum(sizes.get(uri, _FEW_BYTES + 1) for uri in files) <= _FEW_BYTES

    def _entries(self, folder: str) -> list[LocationEntry]:
        return self._files.entries(folder)

    def counts(self, files: Collection[str]) -> list[int]:
        """The number of rows of each file, from its footer."""
        return [self._files.parquet_rows(uri) for uri in files]

    def tables(self, files: Iterable[str], names: Collection[str], rows: int = 1 << 20) -> Iterator[pa.Table]:
        """Some columns of files, in batches of at most `rows` rows."""
        for uri in files:
            path = local_path(uri)
            if path is None:
                data = self._files.read(uri)
                source: Any = pa.BufferReader(data) if data is not None else None
            else:
                source = path if path.exists() else None
            if source is None:
                raise missing_file(uri)
            # Spark writes timestamps as INT96 by default; read as nanoseconds they would end in 2262.
            with _disk_errors(uri), pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
                for batch in file.iter_batches(rows, columns=list(names)):
                    # In the order of the names, not that of the file.
                    yield pa.Table.from_batches([batch]).select(list(names))


def shares_disk(session: Any) -> bool:
    """Test whether executors can be assumed to reach the disk of this machine: they run here, or a Spark Connect server
    was proven to reach the location."""
    return runs_here(session) or is_connect(session)


def rows_in(files: Files, folder: str) -> int:
    """The number of rows of all Parquet files of a folder, from their footers."""
    return sum(files.parquet_rows(entry.uri) for entry in files.entries(folder) if _is_rows(entry))


def _is_rows(entry: LocationEntry) -> bool:
    return not entry.is_folder and entry.name.endswith(".parquet") and not entry.name.startswith((".", "_"))


def _rows_below(path: Path) -> list[str]:
    """The URIs of a Parquet file, or of all below a folder but hidden ones."""
    if path.is_file():
        return [uri_of(path)]
    found = [file for file in sorted(path.rglob("*")) if file.suffix in (".parquet", ".pq") and file.is_file()]
    return [uri_of(f) for f in found if not any(part.startswith((".", "_")) for part in f.relative_to(path).parts)]


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0]


@contextlib.contextmanager
def _disk_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise EngineError(
            f"`{uri}` cannot be read or written: {error}",
            code="location-unusable",
            help="nothing was applied; check that the location exists, is not full, and is left alone by others",
        ) from error


# ---- owners ------------------------------------------------------------------------------------------------------


def remove_leftovers(files: Files, location: str) -> None:
    """Remove the workspaces at a location whose owners are dead, or have not signed for days."""
    for entry in files.entries(location):
        if not entry.name.startswith(_PREFIX) or not entry.is_folder:
            continue
        with contextlib.suppress(EngineError):  # another process removes it, or deleting it is forbidden
            if _is_abandoned(files, entry):
                files.delete(entry.uri)


def _is_abandoned(files: Files, entry: LocationEntry) -> bool:
    age = time.time() - entry.modified
    record = files.read(child(entry.uri, _OWNER))
    try:
        return not is_alive(json.loads(record or b""))
    except (ValueError, KeyError, TypeError):
        return age > _GRACE


def is_alive(owner: dict[str, Any]) -> bool:
    """Test whether the owner of a record is known or assumed to run."""
    if owner["host"] == this_machine():
        return _is_running(owner["pid"], owner["started"])
    return time.time() - float(owner["alive"]) <= _ABANDONED


def owner_record() -> dict[str, object]:
    """The record of this process as an owner."""
    pid = os.getpid()
    return {"pid": pid, "host": this_machine(), "started": _started(pid), "alive": time.time()}


def this_machine() -> str:
    """The machine or container of this process. Host names alone do not distinguish containers: drivers in two of them
    may both be number 1 on `localhost`."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {boot} {processes}"


def _is_running(pid: int, started: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs as another user
    # The number may belong to a later process.
    return started is None or _started(pid) in (None, started)


def _started(pid: int) -> str | None:
    """The start time of the process in system ticks; None if the system does not report it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may contain any character.
    return stat.rpartition(")")[2].split()[19]


@functools.cache
def _begin_to_sign(process: int) -> None:
    """Sign the folders of this process once a day, in a thread: a process that only reads is alive, too."""
    threading.Thread(target=_sign_daily, name=f"upshot-workspaces-{process}", daemon=True).start()


def _sign_daily() -> None:
    while True:
        time.sleep(_HEARTBEAT)
        for workspace in list(_open.values()):
            if workspace.is_owned():
                with contextlib.suppress(Exception):  # one missed day is no loss
                    workspace.sign()


@atexit.register
def _close_all() -> None:
    """Remove the folders that were not closed. A forked child does not own its parent's folders."""
    for workspace in list(_open.values()):
        if workspace.is_owned():
            with contextlib.suppress(Exception):  # the session that reaches it may be gone
                workspace.remove()
