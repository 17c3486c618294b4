"""Parquet folders that appear whole or not at all.

On a disk a folder is written under another name, flushed and renamed. On a lake, where a rename may be a copy, a few
rows are one file, which appears whole, and every folder has a mark, written last: a folder without it is ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.pipeline.sinks.failures import lost_rows
from upshot.pipeline.sinks.sink import Columns, arrow_word
from upshot.pipeline.steps import Point, reached
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.spark.location import Files, LocalFiles, spark_path, uri_of
from upshot.spark.workspace import rows_in
from upshot.store.folders import sync

_ASIDE = ".aside-"
_MARK = "_SUCCESS"


class Folders(Protocol):
    """A place with one Parquet folder a version or a batch, and small JSON files."""

    def names(self) -> dict[str, bool]:
        """All entries that are not hidden, and whether each is a folder; empty if the place does not exist."""

    def is_whole(self, name: str) -> bool:
        """Test whether an existing folder was written completely."""

    def put(self, name: str, data: Any, rows: int) -> None:
        """Replace the contents of a folder with an Arrow table or a DataFrame of this many rows. Raises if the files of
        a DataFrame have another number of rows; then the folder does not appear."""

    def remove(self, name: str) -> None: ...

    def remove_leftovers(self) -> None:
        """Remove the unfinished folders of a killed run."""

    def columns(self, name: str) -> Columns | None:
        """The columns of the Parquet files in a folder, from the first of them."""

    def read(self, name: str) -> bytes | None: ...

    def write_json(self, name: str, content: object) -> None:
        """A file in one step: a reader sees the old text or the new one."""


def folders_at(path: AnyPath) -> Folders:
    return LakeFolders(path) if isinstance(path, LakePath) else DiskFolders(path)


class DiskFolders:
    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> dict[str, bool]:
        there = self._path.iterdir() if self._path.exists() else ()
        return {entry.name: entry.is_dir() for entry in there if not entry.name.startswith(".")}

    def is_whole(self, name: str) -> bool:
        return (self._path / name).is_dir()

    def put(self, name: str, data: Any, rows: int) -> None:
        with written_aside(self._path / name) as folder:
            write_table(data, folder) if isinstance(data, pa.Table) else write_frame(data, folder, rows)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path / name)

    def remove_leftovers(self) -> None:
        for left in self._path.glob(f"{_ASIDE}*"):
            shutil.rmtree(left, ignore_errors=True)

    def columns(self, name: str) -> Columns | None:
        file = next(iter(sorted((self._path / name).glob("*.parquet"))), None)
        return None if file is None else _columns(pq.read_schema(file))

    def read(self, name: str) -> bytes | None:
        file = self._path / name
        return file.read_bytes() if file.exists() else None

    def write_json(self, name: str, content: object) -> None:
        write_json(self._path / name, content)


class LakeFolders:
    def __init__(self, path: LakePath) -> None:
        self._path = path

    def names(self) -> dict[str, bool]:
        return {entry.name: entry.is_folder for entry in self._path.entries() if not entry.name.startswith(".")}

    def is_whole(self, name: str) -> bool:
        return (self._path / name / _MARK).exists()

    def put(self, name: str, data: Any, rows: int) -> None:
        folder = self._path / name
        folder.delete()
        if isinstance(data, pa.Table):
            written = pa.BufferOutputStream()
            pq.write_table(data, written)
            (folder / "part-00000.parquet").write_bytes(written.getvalue().to_pybytes())
        else:
            data.write.mode("overwrite").parquet(spark_path(folder))
            _refuse_lost_rows(folder.files, folder.uri, rows)
        reached(Point.RENAME)
        (folder / _MARK).write_bytes(b"")

    def remove(self, name: str) -> None:
        (self._path / name).delete()

    def remove_leftovers(self) -> None:
        """A folder without its mark stays until it is written again."""

    def columns(self, name: str) -> Columns | None:
        names = (e.name for e in (self._path / name).entries() if e.name.endswith(".parquet"))
        file = next(iter(sorted(names)), None)
        if file is None:
            return None
        return _columns(pq.read_schema(pa.BufferReader((self._path / name / file).read_bytes())))

    def read(self, name: str) -> bytes | None:
        return self._path.files.read((self._path / name).uri)

    def write_json(self, name: str, content: object) -> None:
        write_json(self._path / name, content)


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A folder to write into, which replaces `target` when the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.parent / f"{_ASIDE}{target.name}"
    shutil.rmtree(aside, ignore_errors=True)
    yield aside
    for file in aside.rglob("*"):
        if file.is_file():
            sync(file)
    sync(aside)
    reached(Point.RENAME)
    if target.exists():
        shutil.rmtree(target)
    os.replace(aside, target)
    sync(target.parent)


def write_table(table: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")


def write_frame(frame: Any, folder: Path, rows: int) -> None:
    """Write by Spark, and remove its marks of success: the folder's name has the same meaning."""
    frame.write.mode("error").parquet(spark_path(folder))
    _refuse_lost_rows(LocalFiles(), uri_of(folder), rows)
    for mark in (*folder.glob("_SUCCESS"), *folder.glob(".*.crc")):
        mark.unlink()


def _refuse_lost_rows(files: Files, folder: str, rows: int) -> None:
    found = rows_in(files, folder)
    if found != rows:
        raise lost_rows(f"`{folder}`", rows, found)


def write_json(path: AnyPath, content: object) -> None:
    """The file in one step, flushed: a reader sees the old text or the new one."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if isinstance(path, LakePath):
        path.write_bytes(text.encode())
        return
    aside = path.with_name(f"{_ASIDE}{path.name}")
    aside.write_text(text, encoding="utf-8")
    sync(aside)
    os.replace(aside, path)
    sync(path.parent)


def _columns(schema: pa.Schema) -> Columns:
    return {field.name: arrow_word(field.type) for field in schema}
