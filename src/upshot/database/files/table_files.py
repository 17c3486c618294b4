"""Read tables in files: Parquet, CSV and Delta, in this process, or by Spark for an engine there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.database.engines import Engine
from upshot.database.files.spark_frames import has_delta, spark_errors
from upshot.database.placement import PlacedEngine, bytes_of_rows
from upshot.spark.location import exact_path, spark_path

if TYPE_CHECKING:
    import pyarrow as pa

_EXPANSION = 4
"""The approximate ratio of a CSV file's rows in memory to its size."""


def read_files(location: str | os.PathLike[str], engine: Engine | None = None) -> Any:
    """The table in a file or folder: an Arrow table, or a DataFrame for an engine on Spark."""
    place = engine if isinstance(engine, PlacedEngine) else None
    if "://" in str(location):
        return _of_address(str(location), place)
    path = Path(location)
    if not path.exists():
        raise UsageError(f"`{path}` does not exist", code="no-such-file", help="check the path")
    if (path / "_delta_log").is_dir():
        return _delta(path, place)
    format = _format_of(path)
    try:
        return _dataset(path, format, place)
    except OSError as error:
        raise _unreadable(path, error) from None


def _dataset(path: Path, format: str, place: PlacedEngine | None) -> Any:
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        files = ds.dataset(path, format=format)
        if place is None or place.holds(_expected(files, format)):
            return files.to_table()
        if format == "csv":
            # Converted here, in pieces: Spark's CSV reader would infer other types.
            folder = place.folder()
            ds.write_dataset(files, folder, format="parquet", existing_data_behavior="overwrite_or_ignore")
            path = folder
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _unreadable(path, error) from None
    with spark_errors():
        return place.session.read.parquet(*map(exact_path, place.readable(path)))


def _expected(files: Any, format: str) -> int:
    """The approximate bytes that the local engine needs for the files."""
    if format == "csv":
        return _EXPANSION * sum(os.path.getsize(file) for file in files.files)
    return bytes_of_rows(files.count_rows(), len(files.schema))


def _of_address(address: str, place: PlacedEngine | None) -> Any:
    if place is None:
        raise UsageError(
            f"`{address}` needs a Spark session",
            code="no-session",
            help="connect with `upshot.connect(spark=session)`, or give a path on this machine",
        )
    with spark_errors():
        if has_delta(place.session) and not address.endswith((".parquet", ".pq")):
            return place.session.read.format("delta").load(address)
        return place.session.read.parquet(address)


def _delta(path: Path, place: PlacedEngine | None) -> Any:
    """A Delta table, read by the session if it can, otherwise by `deltalake` in this process."""
    if place is not None and has_delta(place.session):
        with spark_errors():
            return place.session.read.format("delta").load(spark_path(path))
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 - an optional package
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 - an optional package
    except ImportError:
        message = f"`{path}` is a Delta table; the package `deltalake` is not installed"
        raise UsageError(
            message, code="missing-package", help="run `pip install '.[spark]'` in a clone of Upshot"
        ) from None
    try:
        table: pa.Table = DeltaTable(str(path)).to_pyarrow_table()
    except (DeltaError, OSError) as error:
        raise _unreadable(path, error, "use a Spark session that has the Delta package") from None
    return table


def _unreadable(
    path: Path, error: Exception, hint: str = "check that all files are complete and have the same columns"
) -> DataError:
    lines = str(error).splitlines() or [type(error).__name__]
    return DataError(f"cannot read `{path}`: {lines[0]}", code="unreadable-file", help=hint)


def _format_of(path: Path) -> str:
    names = [each.name for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path.name]
    visible = [name for name in names if not name.startswith((".", "_"))]
    formats = {"parquet" if name.endswith((".parquet", ".pq")) else "csv" if ".csv" in name else "" for name in visible}
    if len(formats) == 1 and "" not in formats:
        return formats.pop()
    found = "no Parquet or CSV files" if not visible else f"`{sorted(visible)[0]}`" if "" in formats else "both formats"
    message = f"`{path}` holds {found}; Parquet or CSV was expected"
    raise UsageError(message, code="unknown-format", help="use files named *.parquet or *.csv")
