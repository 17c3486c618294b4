"""Statements of NDJSON files, read on the executors, each with its place in the order and in the file.

Small files are read whole, so every line knows its number. Large ones are read in blocks by several tasks: a line then
knows its block and its rank in the task, which order the lines of a file; line numbers are computed only for bad lines,
on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.schema import Schema
from upshot.pipeline.sources.reading.envelopes import EnvelopeStatement, LineReader
from upshot.pipeline.sources.reading.fitting import PLACE, REASON, ROW, bad_rows
from upshot.spark.location import exact_path
from upshot.spark.types import arrow_values, column_names, framed, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_FILE = 8 * 1024 * 1024
ORDER = ("rank", "block", "line", "part")
"""The columns that order the statements of a batch."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """`rank` is its place among all files of the batch."""

    path: str
    name: str
    size: int
    rank: int


@dataclass(frozen=True, slots=True)
class Statements:
    """`frame` has c0 … cn, `op`, the columns of `ORDER`, and for rows that do not fit `_reason`, `_row` and `_place`;
    `bad` has these rows as users see them."""

    frame: DataFrame
    bad: DataFrame


def line_statements(spark: SparkSession, files: Sequence[TextFile], reader: LineReader) -> Statements:
    """The statements of all lines of the files."""
    small = [file for file in files if file.size <= SMALL_FILE]
    large = [file for file in files if file.size > SMALL_FILE]
    parts = []
    if small:
        whole = spark.read.text([exact_path(file.path) for file in small], wholetext=True)
        unknown = F.lit(None).cast("bigint")
        parts.append(statements_of_lines(whole.select(*_chunk(unknown, unknown)), small, reader))
    if large:
        lines = spark.read.text([exact_path(file.path) for file in large], lineSep="\n")
        place = _chunk(F.col("_metadata.file_block_start"), F.monotonically_increasing_id())
        parts.append(statements_of_lines(lines.select(*place), large, reader))
    frame = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    bad = frame.where(F.col(REASON).isNotNull())
    if large:
        bad = _numbered(bad, spark, large)
    return Statements(frame, bad_rows(bad))


def _chunk(block: Column, line: Column) -> list[Column]:
    """A whole file, or a line of one."""
    return [
        F.col("_metadata.file_path").alias("uri"),
        F.col("value").cast("binary").alias("value"),
        block.alias("block"),
        line.alias("line"),
    ]


def statements_of_lines(chunks: DataFrame, files: Sequence[TextFile], reader: LineReader) -> DataFrame:
    """The statements in frames of `uri`, `value`, `block` and `line`: whole files, which have no block, or lines."""
    ranks = {file.path: (file.rank, file.name) for file in files}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = _Gathered(reader.schema)
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("uri", "value", "block", "line")]
            for uri, data, block, line in zip(*columns, strict=True):
                rank, name = ranks[path_of(uri)]
                lines = enumerate(data.split(b"\n"), start=1) if block is None else ((line, data),)
                for number, raw in lines:
                    gathered.add_line(reader, raw, (rank, block, number), name)
                    if len(gathered) >= _ROWS_AT_ONCE:
                        yield gathered.taken()
        if len(gathered):
            yield gathered.taken()

    return chunks.mapInArrow(read, _spark_schema(reader.schema))


def _spark_schema(schema: Schema) -> spark.StructType:
    values = [spark.StructField(f.name, f.dataType, True) for f in spark_schema(schema.types).fields]
    whole = {
        "rank": spark.IntegerType(),
        "block": spark.LongType(),
        "line": spark.LongType(),
        "part": spark.IntegerType(),
    }
    texts = ("op", REASON, ROW, PLACE)
    places = [spark.StructField(name, type, True) for name, type in whole.items()]
    return spark.StructType([*values, *places, *[spark.StructField(name, spark.StringType(), True) for name in texts]])


class _Gathered:
    """Gathers statements into record batches."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._clear()

    def _clear(self) -> None:
        self._rows: list[EnvelopeStatement] = []
        self._places: list[tuple[int, int | None, int]] = []
        self._misfits: list[tuple[str | None, str | None, str | None]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_line(self, reader: LineReader, raw: bytes, place: tuple[int, int | None, int], name: str) -> None:
        try:
            text = raw.removeprefix(_BYTE_ORDER_MARK).decode("utf-8")
            statements = reader.statements(text)
        except UnicodeDecodeError as error:
            text = raw.decode("utf-8", "replace")
            nothing = (None,) * self._schema.arity
            statements = (EnvelopeStatement("", 0, nothing, f"byte {error.start + 1} of the line is not UTF-8"),)
        for statement in statements:
            self._rows.append(statement)
            self._places.append(place)
            if statement.reason:
                self._misfits.append((statement.reason, statement.row or text.rstrip("\r"), f"{name}:{place[2]}"))
            else:
                self._misfits.append((None, None, None))

    def taken(self) -> pa.RecordBatch:
        """Take the gathered rows."""
        types = framed(self._schema.types)
        values = zip(*[row.values or (True,) for row in self._rows], strict=True)
        arrays = [arrow_values(column, type) for column, type in zip(values, types, strict=True)]
        rank, block, line = zip(*self._places, strict=True)
        arrays += [pa.array(rank, pa.int32()), pa.array(block, pa.int64()), pa.array(line, pa.int64())]
        arrays += [pa.array([row.part for row in self._rows], pa.int32())]
        arrays += [pa.array([row.op for row in self._rows], pa.string())]
        arrays += [pa.array(column, pa.string()) for column in zip(*self._misfits, strict=True)]
        names = [*column_names(self._schema.arity), *ORDER, "op", REASON, ROW, PLACE]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, names)


# ---- numbers of lines that were read in blocks ------------------------------------------------------


def _numbered(bad: DataFrame, spark: SparkSession, files: Sequence[TextFile]) -> DataFrame:
    """The rows with the numbers of their lines: counted in their block, after the lines of the blocks above it."""
    lines = spark.read.text([exact_path(file.path) for file in files], lineSep="\n")
    lines = lines.select(
        file_path().alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("line"),
    )
    counted = lines.groupBy("path", "block").agg(F.count("*").alias("lines"), F.min("line").alias("first"))
    earlier = Window.partitionBy("path").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    above = F.coalesce(F.sum("lines").over(earlier), F.lit(0)).alias("above")
    ranks = spark.createDataFrame(
        [(file.path, file.name, file.rank) for file in files], "path string, file string, rank int"
    )
    blocks = counted.select("path", "block", "first", above).join(F.broadcast(ranks), "path").drop("path")
    number = (F.col("line") - F.col("first") + F.col("above") + 1).cast("string")
    place = F.when(F.col("first").isNotNull(), F.concat("file", F.lit(":"), number)).otherwise(F.col(PLACE))
    return bad.join(F.broadcast(blocks), ["rank", "block"], "left").withColumn(PLACE, place)


def file_path() -> Column:
    """The path of the file of a row, as the system spells it; Spark names files by URIs."""
    # `+` is literal in the path of a URI, and a blank where forms are decoded.
    decoded = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(decoded, "^file:/+", "/")


def path_of(uri: Any) -> str:
    """The path of a file as the system spells it; Spark names files by URIs.

    >>> path_of("file:/lake/a%20b.ndjson"), path_of("s3a://lake/a.ndjson")
    ('/lake/a b.ndjson', 's3a://lake/a.ndjson')
    """
    text = unquote(uri)
    return "/" + text.removeprefix("file:").lstrip("/") if text.startswith("file:") else text
