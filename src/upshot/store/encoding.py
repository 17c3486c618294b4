"""Encode rows as bytes: JSON for few, a Parquet folder for many.

One row in JSON takes about a microsecond and a dozen bytes, in an Arrow stream sixty and five hundred. The inserted and
the deleted rows of a change are its two sides. The first byte of a side is its form: `J` JSON, `Z` deflated JSON, `P`
the name of a Parquet folder with its files.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.core.rows import Row, Rows
from upshot.core.running_spark import running_session
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type, decimal_of, scaled_integer
from upshot.spark.failures import translated
from upshot.spark.location import exact_path
from upshot.spark.session import is_connect
from upshot.store.errors import damaged
from upshot.store.folders import StoredFile, check_files

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ROWS = 4_096
FEW_BYTES = 4 << 20
"""A delta above one of these bounds is stored in a Parquet folder."""

WORTH_DEFLATING = 1_024

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode

Convert = Callable[[Any], Any]
Raw = tuple[Any, ...]
"""A row as JSON values. Raw rows of a relation are equal exactly if the rows are."""


@dataclass(frozen=True, slots=True)
class FolderSide:
    """A side of a change in a Parquet folder; `folder` is relative to the store."""

    folder: str
    files: tuple[StoredFile, ...]


def encode_few(rows: Rows) -> bytes | None:
    """The rows as JSON; None if they are too many."""
    if len(rows) > FEW_ROWS:
        return None
    side = encode_all(rows)
    return None if len(side) > FEW_BYTES else side


def encode_all(rows: Rows) -> bytes:
    try:
        text = _json(raw_rows(rows.schema, rows)).encode()
    except UnicodeEncodeError:
        raise half_a_character(rows) from None
    return b"Z" + zlib.compress(text, 1) if len(text) > WORTH_DEFLATING else b"J" + text


def half_a_character(rows: Rows) -> DataError:
    message = f"`{rows.schema.name}` would hold text with half of a surrogate pair, which cannot be stored"
    return DataError(message, code="wrong-type", help="give text of whole characters")


def encode_folder(side: FolderSide) -> bytes:
    return b"P" + _json({"folder": side.folder, "files": side.files}).encode()


def decode(side: bytes | None) -> list[Raw] | FolderSide:
    """The raw rows, or their folder."""
    if side is None:
        return []
    try:
        match side[:1]:
            case b"J":
                return [tuple(row) for row in json.loads(side[1:])]
            case b"Z":
                return [tuple(row) for row in json.loads(zlib.decompress(side[1:]))]
            case b"P":
                found = json.loads(side[1:])
                return FolderSide(found["folder"], tuple((n, s, c) for n, s, c in found["files"]))
    except (ValueError, KeyError, TypeError, zlib.error):
        pass
    raise damaged("the rows of a commit cannot be read")


def is_folder(side: bytes) -> bool:
    return side[:1] == b"P"


def size_of(side: bytes | None) -> int:
    """The bytes of the side, with the files of a folder."""
    if side is None or not is_folder(side):
        return len(side or b"")
    found = decode(side)
    assert isinstance(found, FolderSide)
    return sum(size for _, size, _ in found.files)


# ---- values -----------------------------------------------------------------------------------------


def raw_rows(schema: Schema, rows: Iterable[Row]) -> list[Raw]:
    return _converted(rows, [_to_raw(type) for type in schema.types])


def rows_of(schema: Schema, raw: Iterable[Raw]) -> list[Row]:
    """The inverse of `raw_rows`."""
    return _converted(raw, [_from_raw(type) for type in schema.types])


def _converted(rows: Iterable[Row], converts: Sequence[Convert | None]) -> list[Row]:
    needed = [(position, convert) for position, convert in enumerate(converts) if convert is not None]
    if not needed:
        return list(rows)
    done = []
    for row in rows:
        values = list(row)
        for position, convert in needed:
            if values[position] is not None:
                values[position] = convert(values[position])
        done.append(tuple(values))
    return done


def _to_raw(type: Type) -> Convert | None:
    match type.kind:
        case Kind.FLOAT:
            return _raw_float
        case Kind.DATE:
            return lambda day: day.toordinal() - _EPOCH_DAY
        case Kind.TIMESTAMP:
            return lambda time: (time - _EPOCH) // _MICROSECOND
        case Kind.DECIMAL:
            if type.is_wide:
                # JSON readers may round numbers with many digits.
                return lambda value: str(scaled_integer(value, type.scale))
            return lambda value: int(value.scaleb(type.scale))
        case Kind.NUMBER | Kind.UNSIGNED | Kind.SYMBOL | Kind.RECORD | Kind.BOOLEAN:
            return None


def _from_raw(type: Type) -> Convert | None:
    match type.kind:
        case Kind.FLOAT:
            return lambda value: _SPECIAL[value] if isinstance(value, str) else float(value)
        case Kind.DATE:
            return lambda days: dt.date.fromordinal(days + _EPOCH_DAY)
        case Kind.TIMESTAMP:
            return lambda microseconds: _EPOCH + microseconds * _MICROSECOND
        case Kind.DECIMAL:
            return lambda digits: decimal_of(digits, type.scale)
        case Kind.NUMBER | Kind.UNSIGNED | Kind.SYMBOL | Kind.RECORD | Kind.BOOLEAN:
            return None


def _raw_float(value: float) -> float | str:
    if math.isfinite(value):
        return value + 0.0  # there is one zero: −0.0 + 0.0 is 0.0
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


# ---- stored rows --------------------------------------------------------------------------


def stored_rows(schema: Schema, count: int, side: bytes | None, root: Path) -> Rows:
    """One side of a logged change, decoded on first use; `root` is the store's folder."""
    found = decode(side) if side is not None and is_folder(side) else None
    if isinstance(found, FolderSide):
        return Rows(schema, _InFolder(schema, count, root / found.folder, found.files))
    return Rows(schema, _InLog(schema, count, side))


class _InLog:
    """A row source: the JSON of few rows."""

    def __init__(self, schema: Schema, count: int, side: bytes | None) -> None:
        self._schema, self._count, self._side = schema, count, side

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        found = decode(self._side)
        assert not isinstance(found, FolderSide)
        return rows_of(self._schema, found)

    def arrow(self) -> pa.Table:
        return Rows.of(self._schema, self.tuples()).to_arrow()


class _InFolder:
    """A row source: a Parquet folder of many rows, which Spark can read in place."""

    def __init__(self, schema: Schema, count: int, folder: Path, files: tuple[StoredFile, ...]) -> None:
        self._schema, self._count, self._folder, self._files = schema, count, folder, files

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        return _tuples(self._schema, self.arrow())

    def arrow(self) -> pa.Table:
        self._check()
        return read_folder(self._schema, self._folder)

    def _check(self) -> None:
        """Compare the files with their checksums now: the folder may have been removed or damaged since the rows were
        returned."""
        if self._folder.exists():
            check_files(self._folder, self._files)
        else:
            message = f"these rows of `{self._schema.name}` are not kept any more"
            raise UsageError(message, code="history-not-kept", help="read them sooner, or keep more of the past")

    def frame(self, session: Any = None) -> Any:
        """The rows as a DataFrame of the session, by default the running one. A Spark Connect server may not see the
        store: the rows are sent there."""
        session = session or running_session()
        if session is None:
            message = f"no Spark session is running that could read the rows of `{self._schema.name}`"
            raise UsageError(message, code="wrong-argument", help="pass `SparkSession.builder.getOrCreate()`")
        self._check()
        if is_connect(session):
            return Rows.of(self._schema, self.tuples()).to_spark(session)
        return read_frame(self._schema, self._folder, session)


def _tuples(schema: Schema, table: pa.Table) -> list[Row]:
    """Arrow's timestamps have another time zone object, so they are converted here."""
    columns = []
    for column, values in zip(schema.columns, table.columns, strict=True):
        if column.type.kind is Kind.TIMESTAMP:
            convert = _from_raw(column.type)
            assert convert is not None
            found = values.cast("int64").to_pylist()
            columns.append([None if value is None else convert(value) for value in found])
        else:
            columns.append(values.to_pylist())
    return list(zip(*columns, strict=True))


def read_frame(schema: Schema, folder: Path, session: Any) -> Any:
    """As `read_folder`, as a DataFrame. Unsigned numbers are decimals there, from Arrow and from Spark."""
    from upshot.spark.types import declared_type  # noqa: PLC0415 - imports pyspark

    try:
        # Without a schema: Arrow or Spark may have written the folder.
        found = session.read.parquet(exact_path(folder))
    except Exception as error:
        raise translated(error) from error
    if not schema.columns:
        return found
    named = found.toDF(*(f"c{position}" for position in range(len(schema.columns))))
    return named.select(
        *(
            named[f"c{position}"].cast(declared_type(column.type)).alias(column.name)
            for position, column in enumerate(schema.columns)
        )
    )


def read_folder(schema: Schema, folder: Path) -> pa.Table:
    """The rows of a Parquet folder, by the order of its columns: a column may have been renamed since."""
    import pyarrow as pa  # noqa: PLC0415 - only when there is such a folder
    import pyarrow.dataset as ds  # noqa: PLC0415

    from upshot.core.arrow_schema import arrow_cast, arrow_table  # noqa: PLC0415

    try:
        # Spark writes timestamps as INT96 by default; as nanoseconds they would end in the year 2262.
        options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
        table = ds.dataset(folder, format=ds.ParquetFileFormat(read_options=options)).to_table()
        columns = []
        for column, type in zip(table.columns, schema.types, strict=True):
            if type.kind is Kind.TIMESTAMP and column.type.tz is None:
                column = column.cast(pa.timestamp("us"))
            columns.append(arrow_cast(column, type))
        return arrow_table(schema, columns)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(f"`{folder}` cannot be read: {str(error).splitlines()[0]}") from None
