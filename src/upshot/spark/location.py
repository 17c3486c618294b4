"""Locations: URIs that the driver and the executors reach through Spark, and the files there.

A text with a scheme (`s3a://bucket/folder`, `hdfs://…`, `file:///…`) is a URI as Spark reads it. A text without one is
a path of this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from upshot.core.errors import EngineError
from upshot.spark.session import is_connect

SETTING = "upshot.location"
"""The Spark setting that names the location of an engine's files."""

OLD_SETTING = "upshot.scratch"
"""The former name of the setting."""

_RENAMED = frozenset(("hdfs", "webhdfs", "swebhdfs", "viewfs", "abfs", "abfss"))
"""File systems that show a file while it is written, and can rename it. Object stores show only complete files."""

_PATTERN = re.compile(r"[\\\[\]{}*?]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|schema:")


def exact_path(path: str | os.PathLike[str]) -> str:
    r"""A path or URI for `spark.read`, which takes every path for a pattern. Delta's reader takes paths as they are.

    >>> print(exact_path("/lake/a[1]/{b,c}*.parquet"))
    file:///lake/a\[1\]/\{b,c\}\*.parquet
    """
    return _PATTERN.sub(r"\\\g<0>", spark_path(path))


def has_scheme(text: str | os.PathLike[str]) -> bool:
    """Tell a URI from a path of this machine.

    >>> has_scheme("s3a://bucket/folder"), has_scheme("/data/folder"), has_scheme("file:/data")
    (True, False, True)
    """
    return bool(_SCHEME.match(os.fspath(text)))


def uri_of(text: str | os.PathLike[str]) -> str:
    """The URI of a location, without a slash at its end.

    >>> uri_of("s3a://bucket/folder/"), uri_of("/data/a b")
    ('s3a://bucket/folder', 'file:///data/a%20b')
    """
    path = os.fspath(text)
    if has_scheme(path):
        return path.rstrip("/")
    return "file://" + quote(os.path.abspath(os.path.expanduser(path)))


def local_path(uri: str) -> Path | None:
    """The path of a `file:` URI on this machine; None for every other scheme.

    >>> local_path("file:///data/a%20b").as_posix(), local_path("hdfs://host/a")
    ('/data/a b', None)
    """
    if not has_scheme(uri):
        return Path(uri)
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def spark_path(path: str | os.PathLike[str]) -> str:
    """A path or URI as Spark's readers and writers take it: they decode nothing, and look for a path without a scheme
    in the cluster's default file system (`fs.defaultFS`), which need not be this machine.

    >>> spark_path("/data/a b"), spark_path("file:///data/a%20b"), spark_path("s3a://bucket/a")
    ('file:///data/a b', 'file:///data/a b', 's3a://bucket/a')
    """
    uri = uri_of(path)
    local = local_path(uri)
    return uri if local is None else f"file://{local}"


def location_of(session: Any, named: str | os.PathLike[str] | None = None) -> str:
    """The URI of the location for a session: the named one, that of the settings, or a default.

    The default is the temporary directory if all of Spark runs on this machine or nothing else is known, otherwise the
    home directory of the cluster's default file system.
    """
    if chosen := named or named_location(session):
        return uri_of(chosen)
    if not runs_here(session) and not is_connect(session):
        path = session.sparkContext._jvm.org.apache.hadoop.fs.Path("upshot")
        system = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        home = str(system.makeQualified(path).toString())
        if not home.startswith("file:"):
            return uri_of(home)
    return uri_of(tempfile.gettempdir())


def named_location(session: Any) -> str | None:
    """The location that the settings of a session name."""
    location = session.conf.get(SETTING, None) or session.conf.get(OLD_SETTING, None)
    return str(location) if location else None


def runs_here(session: Any) -> bool:
    """Test whether the executors of a session are part of its driver, on the same machine as this process."""
    return not is_connect(session) and str(session.conf.get("spark.master", "")).startswith("local")


def child(uri: str, name: str) -> str:
    """The URI of an entry of a folder."""
    return f"{uri.rstrip('/')}/{name}"


@dataclass(frozen=True, slots=True)
class LocationEntry:
    """A file or folder at a location. `modified` is in seconds since 1970."""

    name: str
    uri: str
    is_folder: bool
    size: int
    modified: float


class Files(Protocol):
    """File operations of the driver. Errors are `EngineError` with the code `location-unusable`."""

    def entries(self, folder: str) -> list[LocationEntry]:
        """The entries of a folder by name; none if there is no such folder."""

    def read(self, uri: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    def write(self, uri: str, data: bytes) -> None:
        """Write or replace a file, and make its folders. An interrupted write leaves the old file."""

    def make_folder(self, uri: str) -> None: ...

    def upload(self, path: Path, uri: str) -> None:
        """Copy a file of this machine to a location, or replace it there."""

    def download(self, uri: str, path: Path) -> None:
        """Copy a file of a location to this machine."""

    def parquet_rows(self, uri: str) -> int:
        """The number of rows of a Parquet file, from its footer."""

    def delete(self, uri: str) -> None:
        """Delete a file, or a folder with all below it, if it exists."""

    def status(self, uri: str) -> LocationEntry | None:
        """The file or folder itself; None if there is none."""

    def read_part(self, uri: str, start: int, length: int) -> bytes:
        """Read this many bytes of a file, which is long enough."""


def files_of(session: Any, uri: str) -> Files:
    """File operations for a location: this machine's for a local path, otherwise Hadoop's of the session."""
    if local_path(uri) is not None:
        return LocalFiles()
    if session is None or is_connect(session):
        raise EngineError(
            f"`{uri}` is not accessible from this process",
            code="location-unusable",
            help="use a local path, or pass a classic Spark session",
        )
    return HadoopFiles(session)


class LocalFiles:
    """The files of this machine."""

    def entries(self, folder: str) -> list[LocationEntry]:
        path = _path(folder)
        with _reported(folder):
            if not path.is_dir():
                return []
            found = []
            for entry in sorted(path.iterdir()):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    stat = entry.stat()
                    uri = child(folder, quote(entry.name))
                    found.append(LocationEntry(entry.name, uri, entry.is_dir(), stat.st_size, stat.st_mtime))
            return found

    def read(self, uri: str) -> bytes | None:
        with _reported(uri):
            try:
                return _path(uri).read_bytes()
            except FileNotFoundError:
                return None

    def write(self, uri: str, data: bytes) -> None:
        with _reported(uri):
            path = _path(uri)
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.{os.getpid()}")
            unfinished.write_bytes(data)
            unfinished.replace(path)

    def make_folder(self, uri: str) -> None:
        with _reported(uri):
            _path(uri).mkdir(parents=True, exist_ok=True)

    def upload(self, path: Path, uri: str) -> None:
        with _reported(uri):
            target = _path(uri)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def download(self, uri: str, path: Path) -> None:
        with _reported(uri):
            shutil.copyfile(_path(uri), path)

    def parquet_rows(self, uri: str) -> int:
        import pyarrow.parquet as pq  # noqa: PLC0415 - only where rows are stored

        with _reported(uri):
            return int(pq.read_metadata(_path(uri)).num_rows)

    def delete(self, uri: str) -> None:
        path = _path(uri)
        with _reported(uri):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def status(self, uri: str) -> LocationEntry | None:
        path = _path(uri)
        with _reported(uri):
            try:
                stat = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            return LocationEntry(path.name, uri, path.is_dir(), stat.st_size, stat.st_mtime)

    def read_part(self, uri: str, start: int, length: int) -> bytes:
        with _reported(uri), _path(uri).open("rb") as stream:
            stream.seek(start)
            return stream.read(length)


class HadoopFiles:
    """Files of any storage that the session's Hadoop configuration knows."""

    def __init__(self, session: Any) -> None:
        self._java, self._gateway = session.sparkContext._jvm, session.sparkContext._gateway
        self._settings = session._jsparkSession.sessionState().newHadoopConf()

    def _found(self, uri: str) -> tuple[Any, Any]:
        path = self._java.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._settings), path

    def entries(self, folder: str) -> list[LocationEntry]:
        with _reported(folder):
            system, path = self._found(folder)
            if not system.exists(path):
                return []
            found = []
            for status in system.listStatus(path):
                name = status.getPath().getName()
                modified = status.getModificationTime() / 1000
                found.append(LocationEntry(name, child(folder, name), status.isDirectory(), status.getLen(), modified))
            return sorted(found, key=lambda entry: entry.name)

    def read(self, uri: str) -> bytes | None:
        with _reported(uri):
            system, path = self._found(uri)
            if not system.exists(path):
                aside = self._aside(uri)
                if aside is None:
                    return None
                system, path = self._found(aside)
            stream = system.open(path)
            try:
                return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def _aside(self, uri: str) -> str | None:
        """The newest file that `write` has completed and not renamed yet. A truncated one is shorter than its name
        says."""
        if urlsplit(uri).scheme not in _RENAMED:
            return None
        folder, _, name = uri.rpartition("/")
        pattern = re.compile(rf"\.{re.escape(name)}\.(\d+)-[0-9a-f]{{32}}")
        found = [(pattern.fullmatch(entry.name), entry) for entry in self.entries(folder)]
        whole = [entry for match, entry in found if match and int(match[1]) == entry.size]
        return max(whole, key=lambda entry: entry.modified).uri if whole else None

    def write(self, uri: str, data: bytes) -> None:
        with _reported(uri):
            system, path = self._found(uri)
            if urlsplit(uri).scheme not in _RENAMED:
                self._create(system, path, data)
                return
            name = f".{path.getName()}.{len(data)}-{uuid.uuid4().hex}"
            aside = self._java.org.apache.hadoop.fs.Path(path.getParent(), name)
            try:
                self._create(system, aside, data)
            except BaseException:
                system.delete(aside, False)
                raise
            # If this fails, the other file stays: it may be the only one.
            self._rename(aside, path)

    def _create(self, system: Any, path: Any, data: bytes) -> None:
        stream = system.create(path, True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _rename(self, source: Any, target: Any) -> None:
        """Rename over an existing file, which `FileSystem.rename` refuses. On HDFS this is atomic; the connector of
        Azure deletes the old file first, and an interruption then leaves only the other file: see `read`."""
        hadoop = self._java.org.apache.hadoop.fs
        rename = getattr(hadoop, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        hadoop.FileContext.getFileContext(target.toUri(), self._settings).rename(source, target, options)

    def make_folder(self, uri: str) -> None:
        with _reported(uri):
            system, path = self._found(uri)
            system.mkdirs(path)

    def upload(self, path: Path, uri: str) -> None:
        with _reported(uri):
            system, target = self._found(uri)
            # The driver of a classic session runs on the machine of this process. As a stream: some S3 servers do not
            # answer the other client, by which S3A copies whole files.
            source = self._java.java.io.FileInputStream(str(path))
            self._java.org.apache.hadoop.io.IOUtils.copyBytes(source, system.create(target, True), 1 << 20, True)

    def download(self, uri: str, path: Path) -> None:
        with _reported(uri):
            system, source = self._found(uri)
            system.copyToLocalFile(False, source, self._java.org.apache.hadoop.fs.Path(f"file://{path}"), True)

    def parquet_rows(self, uri: str) -> int:
        with _reported(uri):
            _, path = self._found(uri)
            hadoop = self._java.org.apache.parquet.hadoop
            reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, self._settings))
            try:
                return int(reader.getRecordCount())
            finally:
                reader.close()

    def delete(self, uri: str) -> None:
        with _reported(uri):
            system, path = self._found(uri)
            system.delete(path, True)

    def status(self, uri: str) -> LocationEntry | None:
        with _reported(uri):
            system, path = self._found(uri)
            if not system.exists(path):
                return None
            found = system.getFileStatus(path)
            return LocationEntry(
                path.getName(), uri, found.isDirectory(), found.getLen(), found.getModificationTime() / 1000
            )

    def read_part(self, uri: str, start: int, length: int) -> bytes:
        with _reported(uri):
            system, path = self._found(uri)
            stream = system.open(path)
            try:
                stream.seek(start)
                return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream, length))
            finally:
                stream.close()

    def qualified(self, uri: str) -> str:
        """The URI with the host that the configuration names, as Spark itself writes it."""
        with _reported(uri):
            system, path = self._found(uri)
            return str(system.makeQualified(path).toString()).rstrip("/")


def _path(uri: str) -> Path:
    path = local_path(uri)
    assert path is not None, "a path of this machine"
    return path


@contextmanager
def _reported(uri: str) -> Iterator[None]:
    """Raise errors of the storage as errors that name the location."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        cause = getattr(error, "java_exception", None)
        lines = str(cause.toString() if cause is not None else error).splitlines() or [type(error).__name__]
        raise EngineError(
            f"cannot use location `{uri}`: {lines[0]}",
            code="location-unusable",
            help=f"name one that this process can read and write, in `location` or the setting `{SETTING}`, and check "
            "the credentials of the session",
        ) from error
