"""Result sets: rows that are read lazily, and converted to Arrow, pandas, Polars, Spark or Parquet."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from upshot.core.errors import UsageError
from upshot.core.row_order import RowOrder, row_order
from upshot.core.running_spark import running_session
from upshot.core.schema import Schema
from upshot.core.types import Kind

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


Row = tuple[Any, ...]


class RowSource(Protocol):
    """A source of rows: the memory of an engine, or a list."""

    def __len__(self) -> int: ...

    def tuples(self) -> list[Row]: ...

    def arrow(self) -> pyarrow.Table: ...


@runtime_checkable
class PartialSource(RowSource, Protocol):
    """A source that can return some rows without reading the others."""

    def some(self, count: int) -> list[Row]: ...


@runtime_checkable
class PortionedSource(RowSource, Protocol):
    """A source whose rows have a stable order, and that can return any range of them without reading the others."""

    def part(self, first: int, last: int) -> RowSource: ...


@runtime_checkable
class OrderedSource(RowSource, Protocol):
    """A source that finds the first rows after a row in an order, without decoding the others."""

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]: ...


@runtime_checkable
class WritableSource(RowSource, Protocol):
    """A source that can write its rows into a new Parquet folder without collecting them. A relation without columns is
    written with a column `c0` that is always true."""

    def parquet(self, folder: str | Path) -> None: ...


@runtime_checkable
class LendingSource(RowSource, Protocol):
    """A source in this process with an efficient conversion to a DataFrame."""

    def lent(self, session: Any) -> Any: ...


@runtime_checkable
class FrameSource(RowSource, Protocol):
    """A source on Spark: `frame` is its DataFrame with the names and types of the columns, in this session or its
    own."""

    def frame(self, session: Any = None) -> Any: ...


@runtime_checkable
class CodedSource(RowSource, Protocol):
    """A source of rows in the codes of an engine, which that engine can use directly."""

    def codes_of(self, codec: object) -> Any:
        """The codes, if they are of this codec; otherwise None."""

    def has_codes_of(self, other: RowSource) -> bool | None:
        """Test whether another source has the same rows; None if values must be compared."""


class Rows:
    """Distinct rows of one schema: iterable, sized, comparable with any set or list of tuples.

    >>> from upshot.core.types import NUMBER
    >>> from upshot.core.schema import Column
    >>> rows = Rows.of(Schema("edge", (Column("x", NUMBER), Column("y", NUMBER))), [(2, 3), (1, 2)])
    >>> rows, len(rows), rows == {(1, 2), (2, 3)}
    (Rows(edge: (1, 2), (2, 3)), 2, True)
    """

    __slots__ = ("_source", "_tuples", "schema")

    def __init__(self, schema: Schema, source: RowSource) -> None:
        self.schema = schema
        self._source = source
        self._tuples: list[Row] | None = None

    @classmethod
    def of(cls, schema: Schema, tuples: list[Row]) -> Rows:
        return cls(schema, _Listed(schema, tuples))

    def _all(self) -> list[Row]:
        if self._tuples is None:
            self._tuples = self._source.tuples()
        return self._tuples

    @property
    def is_coded(self) -> bool:
        """Test whether the rows are in the codes of an engine."""
        return isinstance(self._source, CodedSource)

    def codes_of(self, codec: object) -> Any:
        """The rows in the codes of this codec; None if they have others."""
        return self._source.codes_of(codec) if isinstance(self._source, CodedSource) else None

    def has_codes_of(self, other: Rows) -> bool | None:
        """Test whether other rows are the same by their codes; None if values must be compared."""
        return self._source.has_codes_of(other._source) if isinstance(self._source, CodedSource) else None

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._source)

    def __contains__(self, row: object) -> bool:
        return row in self._all()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows | AbstractSet | list | tuple):
            return len(self) == len(other) and _as_set(self) == _as_set(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def sorted(self) -> list[Row]:
        """The rows in order, NULL first, NaN last."""
        return sorted(self._all(), key=_order)

    def gradually(self, few: int = 10_000) -> Iterator[Row]:
        """All rows, sorted if they are at most `few`. Of more rows, some are returned first, and the others are fetched
        when these have been consumed."""
        if (
            len(self) > few
            and isinstance(self._source, PortionedSource)
            and not isinstance(self._source, PartialSource)
        ):
            for start in range(0, len(self), few):
                yield from self.part(start, start + few).sorted()
            return
        if len(self) <= few or not isinstance(self._source, PartialSource):
            yield from self.sorted()
            return
        first = sorted(self._source.some(few), key=_order)
        yield from first
        seen = set(first)
        yield from (row for row in self if row not in seen)

    @property
    def has_parts(self) -> bool:
        """Test whether `part` takes only the memory of the part."""
        return self._tuples is not None or isinstance(self._source, PortionedSource)

    def part(self, first: int, last: int) -> Rows:
        """The rows from place `first` up to but excluding `last`, in a stable order."""
        if self._tuples is None and isinstance(self._source, PortionedSource):
            return Rows(self.schema, self._source.part(first, last))
        return Rows.of(self.schema, self._all()[first:last])

    def page(self, limit: int, order: str | RowOrder | None = None, after: Row | None = None) -> list[Row]:
        """The first `limit` rows after a row, in the order of columns such as `-y,x`: the others are not decoded."""
        chosen = order if isinstance(order, RowOrder) else row_order(self.schema, order)
        if self._tuples is None and isinstance(self._source, OrderedSource):
            return self._source.page(chosen, after, limit)
        return chosen.page(self._all(), after, limit)

    def __repr__(self) -> str:
        shown = ", ".join(str(row) for row in self.sorted()[:10])
        more = f", … {len(self) - 10} more" if len(self) > 10 else ""
        return f"Rows({self.schema.name}: {shown}{more})" if shown else f"Rows({self.schema.name}: none)"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema.columns)

    def to_arrow(self) -> pyarrow.Table:
        return self._source.arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame. Numbers and booleans of columns that can be NULL have pandas' nullable types, such as `Int64`:
        a column of floats would round large numbers, and could not distinguish NULL from NaN."""
        try:
            import pandas  # noqa: PLC0415 - an optional package
        except ImportError:
            raise _missing_package("pandas") from None
        table = self.to_arrow()
        if not self.schema.columns:
            return table.to_pandas()
        made = {}
        for column, values in zip(self.schema.columns, table.columns, strict=True):
            dtype = _NULLABLE.get(column.type.kind) if column.type.nullable else None
            made[column.name] = values.to_pandas() if dtype is None else _nullable(pandas, values, dtype)
        return pandas.DataFrame(made)

    def to_polars(self) -> polars.DataFrame:
        try:
            import polars  # noqa: PLC0415 - an optional package
        except ImportError:
            raise _missing_package("polars") from None
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    @property
    def is_on_spark(self) -> bool:
        """Test whether `to_spark` collects nothing."""
        return isinstance(self._source, FrameSource)

    def to_spark(self, session: Any = None) -> Any:
        """A DataFrame of the Spark session, by default of the running one. Rows on Spark are not collected."""
        on_spark = self.is_on_spark
        if session is None and not on_spark:
            session = running_session()
        if not callable(getattr(session, "createDataFrame", None)) and (session is not None or not on_spark):
            raise UsageError(
                "no Spark session is running"
                if session is None
                else f"`to_spark` needs a Spark session, not {type(session).__name__}",
                code="wrong-argument",
                help="pass `SparkSession.builder.getOrCreate()`",
            )
        if isinstance(self._source, FrameSource):
            return self._source.frame(session)
        if isinstance(self._source, LendingSource):
            return self._source.lent(session)
        return session.createDataFrame(for_spark(self.to_arrow()))

    def to_parquet(self, folder: str | os.PathLike[str]) -> None:
        """Write the rows into a folder of Parquet files, which is created if needed. Rows on Spark can be written to
        any URI that Spark can access."""
        if isinstance(self._source, WritableSource):
            path = os.fspath(folder)
            self._source.parquet(path if "://" in path else Path(path))
        else:
            _write_folder(self.schema, len(self), self.to_arrow(), Path(folder))


_NULLABLE = {Kind.NUMBER: "Int64", Kind.UNSIGNED: "UInt64", Kind.FLOAT: "Float64", Kind.BOOLEAN: "boolean"}
"""The nullable types of pandas."""


def _nullable(pandas: Any, values: pyarrow.ChunkedArray, dtype: str) -> Any:
    return pandas.Series(pandas.api.types.pandas_dtype(dtype).__from_arrow__(values))


def for_spark(table: pyarrow.Table) -> pyarrow.Table:
    """Spark has no unsigned type: such numbers are decimals there."""
    import pyarrow  # noqa: PLC0415 - pyarrow only when asked for

    for position, field in enumerate(table.schema):
        if field.type == pyarrow.uint64():
            values = table.column(position).cast(pyarrow.decimal128(20, 0))
            table = table.set_column(position, field.with_type(values.type), values)
    return table


def _write_folder(schema: Schema, count: int, table: pyarrow.Table, folder: Path) -> None:
    import pyarrow  # noqa: PLC0415 - pyarrow only when asked for
    import pyarrow.parquet  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    if not schema.columns:
        table = pyarrow.table({"c0": pyarrow.array([True] * count, pyarrow.bool_())})
    pyarrow.parquet.write_table(table, folder / "part-0.parquet")


class _Listed:
    def __init__(self, schema: Schema, tuples: list[Row]) -> None:
        self._schema, self._tuples = schema, tuples

    def __len__(self) -> int:
        return len(self._tuples)

    def tuples(self) -> list[Row]:
        return self._tuples

    def part(self, first: int, last: int) -> _Listed:
        return _Listed(self._schema, self._tuples[first:last])

    def arrow(self) -> pyarrow.Table:
        import pyarrow  # noqa: PLC0415

        from upshot.core.arrow_schema import arrow_decimals, arrow_table, arrow_type  # noqa: PLC0415 - pyarrow only when asked for

        types = self._schema.types
        columns = zip(*self._tuples, strict=True) if self._tuples else [() for _ in types]
        arrays = [
            arrow_decimals(values, type) if type.kind is Kind.DECIMAL else pyarrow.array(values, arrow_type(type))
            for values, type in zip(map(list, columns), types, strict=True)
        ]
        return arrow_table(self._schema, arrays)


def _missing_package(name: str) -> UsageError:
    message = f"package `{name}` is not installed"
    return UsageError(message, code="missing-package", help="run `pip install '.[frames]'` in a clone of Upshot")


def _as_set(rows: Any) -> set[Row]:
    return {tuple(_comparable(v) for v in row) for row in rows}


def _comparable(value: Any) -> Any:
    """NaN equals NaN in sets."""
    return "NaN" if isinstance(value, float) and value != value else value


def _order(row: Row) -> tuple[Any, ...]:
    return tuple((0, 0) if v is None else (2, 0) if v != v else (1, v) for v in row)


def row_set(rows: Iterable[Row]) -> frozenset[Row]:
    """The distinct rows. Python compares by identity first, so one NaN object represents all.

    >>> len(row_set([(float("nan"),), (float("nan"),)]))
    1
    """
    return frozenset(map(one_nan, rows))


def one_nan(row: Row) -> Row:
    """The row with one object for every NaN, so that equal rows are one key.

    >>> one_nan((float("nan"), 1)) == one_nan((float("nan"), 1))
    True
    """
    return row if all(value == value for value in row) else tuple(v if v == v else math.nan for v in row)
