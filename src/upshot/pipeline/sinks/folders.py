"""Parquet folders that appear whole or not at all: written aside, flushed, renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as at

from upshot.pipeline.sinks.sink import Columns
from upshot.pipeline.steps import Point, reached

_ASIDE = ".aside-"


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `target` when the block ends well, in place of what was there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.parent / f"{_ASIDE}{target.name}"
    shutil.rmtree(aside, ignore_errors=True)
    yield aside
    for file in aside.rglob("*"):
        if file.is_file():
            _flush(file)
    _flush(aside)
    reached(Point.RENAME)
    if target.exists():
        shutil.rmtree(target)
    os.replace(aside, target)
    _flush(target.parent)


def remove_leftovers(folder: Path) -> None:
    """Removes what a killed run was writing."""
    for left in folder.glob(f"{_ASIDE}*"):
        shutil.rmtree(left, ignore_errors=True)


def write_table(table: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")


def write_frame(frame: Any, folder: Path) -> None:
    """Spark's own writer; its marks of success are left out, since the folder's name already says as much."""
    frame.write.mode("error").parquet(str(folder))
    for mark in (*folder.glob("_SUCCESS"), *folder.glob(".*.crc")):
        mark.unlink()


def write_json(path: Path, content: object) -> None:
    """The file in one step, flushed: a reader sees the old text or the new one."""
    aside = path.with_name(f"{_ASIDE}{path.name}")
    aside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _flush(aside)
    os.replace(aside, path)
    _flush(path.parent)


def parquet_columns(folder: Path) -> Columns | None:
    """The columns of the Parquet files in a folder, from the first of them."""
    file = next(iter(sorted(folder.glob("*.parquet"))), None)
    return None if file is None else {field.name: _word(field.type) for field in pq.read_schema(file)}


def _word(arrow: pa.DataType) -> str:
    kinds: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (at.is_integer, "number"),
        (at.is_floating, "float"),
        (at.is_string, "symbol"),
        (at.is_large_string, "symbol"),
        (at.is_boolean, "boolean"),
        (at.is_date, "date"),
        (at.is_timestamp, "timestamp"),
    )
    if at.is_decimal(arrow):
        return decimal_word(arrow.precision, arrow.scale)
    return next((kind for test, kind in kinds if test(arrow)), str(arrow))


def decimal_word(precision: int, scale: int) -> str:
    """A decimal of a lake: the one with twenty digits stands for unsigned numbers."""
    return "unsigned" if (precision, scale) == (20, 0) else f"decimal({precision},{scale})"


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
