"""Paths on storage that only Spark's session reaches, used as `pathlib.Path` is.

A `LakePath` is made without a session, from a file or an argument of a user, and connected to one by `on`. Only then
can its methods reach the storage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from upshot.core.errors import EngineError
from upshot.spark.location import Files, HadoopFiles, LocationEntry, child, files_of, has_scheme, local_path, uri_of


@dataclass(frozen=True, slots=True)
class LakePath:
    """A URI of a storage that the session reaches.

    >>> path = LakePath("s3a://bucket/state") / "store" / "log"
    >>> str(path), path.name, str(path.parent)
    ('s3a://bucket/state/store/log', 'log', 's3a://bucket/state/store')
    """

    uri: str
    _files: Files | None = field(default=None, compare=False, repr=False)

    def on(self, session: Any) -> LakePath:
        """The same path, reached through this session, as the storage itself spells it."""
        files = files_of(session, self.uri)
        uri = files.qualified(self.uri) if isinstance(files, HadoopFiles) else self.uri
        return LakePath(uri, files)

    def __fspath__(self) -> str:
        return self.uri

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> LakePath:
        return replace(self, uri=child(self.uri, name))

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def parent(self) -> LakePath:
        return replace(self, uri=self.uri.rpartition("/")[0])

    @property
    def files(self) -> Files:
        if self._files is None:
            raise EngineError(
                f"`{self.uri}` needs a Spark session",
                code="location-unusable",
                help="pass a classic session, as in `upshot.connect(uri, spark=session)`",
            )
        return self._files

    def status(self) -> LocationEntry | None:
        return self.files.status(self.uri)

    def exists(self) -> bool:
        return self.status() is not None

    def is_dir(self) -> bool:
        found = self.status()
        return found is not None and found.is_folder

    def is_file(self) -> bool:
        found = self.status()
        return found is not None and not found.is_folder

    def iterdir(self) -> Iterator[LakePath]:
        return (replace(self, uri=entry.uri) for entry in self.files.entries(self.uri))

    def entries(self) -> list[LocationEntry]:
        return self.files.entries(self.uri)

    def read_bytes(self) -> bytes:
        found = self.files.read(self.uri)
        if found is None:
            raise FileNotFoundError(2, "no such file", self.uri)
        return found

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Write atomically; see `Files.write`."""
        self.files.write(self.uri, data)

    def delete(self) -> None:
        """Delete the file, or the folder with all below it, if it exists."""
        self.files.delete(self.uri)


AnyPath = Path | LakePath


def located(text: str | os.PathLike[str], session: Any = None) -> AnyPath:
    """The path of a text: one of this machine without a scheme or with `file:`, else one of a lake.

    >>> located("/data/x"), located("file:///data/x").as_posix(), located("hdfs://host/x")
    (PosixPath('/data/x'), '/data/x', LakePath(uri='hdfs://host/x'))
    """
    if isinstance(text, LakePath):
        return text if session is None else text.on(session)
    if not has_scheme(text):
        return Path(text)
    uri = uri_of(text)
    if (path := local_path(uri)) is not None:
        return path
    return LakePath(uri) if session is None else LakePath(uri).on(session)


def delete_path(path: AnyPath) -> None:
    """Delete a file, or a folder with all below it, on a disk or a lake, if it exists."""
    if isinstance(path, LakePath):
        path.delete()
    else:
        files_of(None, str(path)).delete(str(path))
