"""Parquet change files as ordered statements: a column `_change` or `op` says what happened to each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.sources.envelopes import OPERATIONS
from upshot.pipeline.sources.file_tables import parquet_columns
from upshot.pipeline.sources.lines import file_path
from upshot.pipeline.sources.listing import FoundFile
from upshot.pipeline.sources.table_rows import table_rows
from upshot.spark.location import exact_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_KEPT = ["op", "file", "rank", "block", "line", "part"]
_VERSION = "_version"
Ranked = Sequence[tuple[int, FoundFile]]


def parquet_statements(
    spark: SparkSession, files: Ranked, schema: Schema, *, ignore_extra: bool, known: dict[str, StructType]
) -> DataFrame:
    """As `envelopes.statements`, for files given with their ranks, and with `_place`. Files of different columns are
    read apart. Inside a file the order is that of `_version`, if it has one, and then of its rows. `known` keeps what
    Spark makes of columns: finding out takes a job."""
    alike: dict[str, list[tuple[int, FoundFile]]] = {}
    for rank, file in files:
        alike.setdefault(parquet_columns(file), []).append((rank, file))
    parts = []
    for columns, group in alike.items():
        reader = spark.read.schema(known[columns]) if columns in known else spark.read
        table = reader.parquet(*[exact_path(file.path) for _, file in group])
        known[columns] = table.schema
        parts.append(_statements(spark, table, group, schema, ignore_extra=ignore_extra))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _statements(
    spark: SparkSession, table: DataFrame, files: Ranked, schema: Schema, *, ignore_extra: bool
) -> DataFrame:
    where = f"`{files[0][1].name}`"
    op, problem, marks = _operation(table, schema, where)
    version = F.col(_VERSION).cast("bigint") if _VERSION in marks else F.lit(None).cast("bigint")
    rows = table.select(
        *[f"`{name}`" for name in table.columns if name not in marks],
        file_path().alias("_path"),
        (F.col("_metadata.row_index") + 1).alias("line"),
        op.alias("op"),
        problem.alias("_problem"),
        version.alias("block"),
        F.lit(0).alias("part"),
    )
    rows = _ranked(spark, rows, files).drop("_path")
    return table_rows(
        rows,
        schema,
        where=where,
        place=F.concat("file", F.lit(", row "), F.col("line").cast("string")),
        kept=[*_KEPT, "_problem"],
        problem=F.col("_problem"),
        ignore_extra=ignore_extra,
    ).drop("_problem")


def _ranked(spark: SparkSession, rows: DataFrame, files: Ranked) -> DataFrame:
    """The rows with the name and the rank of their file, from `_path`."""
    if len(files) == 1:
        (rank, file), *_ = files
        return rows.withColumns({"file": F.lit(file.name), "rank": F.lit(rank)})
    ranks = [(str(file.path), file.name, rank) for rank, file in files]
    return rows.join(F.broadcast(spark.createDataFrame(ranks, "_path string, file string, rank int")), "_path")


def _operation(table: DataFrame, schema: Schema, where: str) -> tuple[Column, Column, list[str]]:
    """The statement of each row, what is wrong with it, and the columns that are about the change."""
    names = [column.name for column in schema.columns]
    marks = [name for name in ("_change", "op", _VERSION) if name in table.columns and name not in names]
    if "_change" in marks:
        change = F.col("_change").cast("string")
        op = F.when(change == "1", F.lit("insert")).when(change == "-1", F.lit("delete"))
        return op, F.when(op.isNull(), F.lit("`_change` must be 1 or -1")), marks
    if "op" in marks:
        op = F.when(F.col("op").isin(*OPERATIONS), F.col("op"))
        wrong = F.when(op.isNull(), F.lit(f"`op` must be one of {', '.join(OPERATIONS)}"))
        if schema.keys:
            return F.when(op == "update", F.lit("upsert")).otherwise(op), wrong, marks
        no_key = f"`{schema.name}` has no key to update by: delete the old row and insert the new one"
        return op, F.coalesce(wrong, F.when(op.isin("update", "upsert"), F.lit(no_key))), marks
    raise DataError(
        f"{where}, a change file of `{schema.name}`, has neither a column `_change` (1 or -1) nor `op`",
        code="source-columns",
        help='add one; use `format = "parquet"` for a directory with the whole table',
    )
