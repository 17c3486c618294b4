"""A table or query of PostgreSQL, read through Spark's JDBC reader: whole, or in pieces if it has a watermark, which is
a column that grows."""

from __future__ import annotations

import os
import re
import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from upshot.core.errors import DataError, EngineError, Error, UsageError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, WatermarkPosition
from upshot.pipeline.sources.reading.fitting import REASON, SourceBatch, bad_rows, table_rows
from upshot.pipeline.sources.reading.journal import SourceJournal, data_files, other_source, require_files, torn_state
from upshot.pipeline.sources.reading.staged import SnapshotTable
from upshot.spark.lake_path import AnyPath, LakePath, delete_path
from upshot.spark.location import exact_path, spark_path
from upshot.spark.net_effect import CLASS
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig

_DRIVER = "org.postgresql.Driver"


def secret(variable: str, relation: str) -> str:
    """The password for the source of a relation, from the environment variable that holds it."""
    if variable not in os.environ:
        raise UsageError(
            f"environment variable `{variable}` with the password for `{relation}` is not set",
            code="missing-secret",
            help=f"set it: export {variable}=…",
        )
    return os.environ[variable]


class Connection:
    """The connection to the database. The password is read from the environment for each query, and is in no
    message."""

    def __init__(self, config: SourceConfig) -> None:
        options = config.options
        self.relation = config.relation
        self._options = {"url": options["url"], "driver": _DRIVER, "fetchsize": str(options.get("fetch_size", 10_000))}
        # Without it, times without zone are read in the zone of the machine.
        self._options["preferTimestampNTZ"] = "true"
        self._user, self._password_env = options.get("user"), options.get("password_env")

    def read(self, spark: SparkSession, query: str, **more: str) -> DataFrame:
        """The rows of the query; errors are raised as ours."""
        reader = spark.read.format("jdbc").options(**self._options, **self._secrets(), **more)
        try:
            return reader.option("dbtable", f"({query}) as upshot").load()
        except Exception as error:  # noqa: BLE001 - Java's errors come as they are
            raise self.failure(error) from None

    def one(self, spark: SparkSession, query: str) -> tuple[Any, ...]:
        """The one row of the query."""
        frame = self.read(spark, query)
        try:
            return tuple(frame.collect()[0])
        except Exception as error:  # noqa: BLE001 - Java's errors come as they are
            raise self.failure(error) from None

    def _secrets(self) -> dict[str, str]:
        found = {"user": self._user} if self._user else {}
        if self._password_env:
            found["password"] = secret(self._password_env, self.relation)
        return found

    def failure(self, error: Exception) -> Error:
        """The error for a user, with the message of the database, and whether it is retryable."""
        if isinstance(error, Error):
            return error
        words = _said(error)
        if "ClassNotFoundException" in words or _DRIVER in words:
            return UsageError(
                "Spark was started without PostgreSQL's driver",
                code="missing-spark-package",
                help="give Spark the package `org.postgresql:postgresql`, with `spark.jars.packages` or `spark.jars`",
            )
        if "PSQLException" not in f"{error}{getattr(error, '_stackTrace', '')}":
            return DataError(f"`{self.relation}` cannot be read from its database: {words}", code="unreadable-source")
        unreachable = EngineError(
            f"the database of `{self.relation}` does not answer: {words}",
            code="source-unreachable",
            help="check `url`, `user` and the password, and that the table exists",
        )
        unreachable.retryable = "refused" in words or "terminat" in words or "I/O error" in words
        return unreachable


class JdbcQuery(SnapshotTable):
    """The whole table. Its content is a hash that the database computes over all rows."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        self._schema = schema
        self._connection = Connection(config)
        self._query = whole_query(config)
        self._column = config.options.get("partition_column")
        self._partitions = int(config.options.get("partitions", 4))
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        # One statement sees one moment of the database; several connections do not.
        self.steady = not self._column

    def content(self, spark: SparkSession, before: str | None) -> str:
        hashes = [f"sum(hashtextextended(r::text, {seed}))::text as h{seed}" for seed in (0, 1)]
        found = self._connection.one(
            spark, joined("select count(*) as n,", ", ".join(hashes), "from", self._query, "r")
        )
        return ":".join(str(part) for part in found)

    def rows(self, spark: SparkSession) -> DataFrame:
        return jdbc_rows(
            self._connection.read(spark, joined("select * from", self._query, "r"), **self._split(spark)),
            self._schema,
            ignore_extra=self._ignore_extra,
        )

    def _split(self, spark: SparkSession) -> dict[str, str]:
        if not self._column:
            return {}
        name = quoted(self._column)
        bounds = joined(f"select min({name})::text as lower, max({name})::text as upper from", self._query, "r")
        lower, upper = self._connection.one(spark, bounds)
        if lower is None:
            return {}
        return {
            "partitionColumn": name,
            "lowerBound": lower,
            "upperBound": upper,
            "numPartitions": str(self._partitions),
        }

    def described(self, spark: SparkSession) -> str:
        (count,) = self._connection.one(spark, joined("select count(*) as n from", self._query, "r"))
        return f"{count} rows in the database, hashed there by every run"


class AppendedRows:
    """The journal has one entry per piece with the largest watermark in it; a piece has all rows above the one before.

    Rows that are committed later with a smaller watermark are never seen: the column has to grow in the order of
    commits.
    """

    def __init__(self, config: SourceConfig, schema: Schema, staging: AnyPath, journal: SourceJournal) -> None:
        self.relation = schema.name
        self._schema, self._staging = schema, staging
        self._connection = Connection(config)
        self._query = whole_query(config)
        self._column = str(config.options["watermark"])
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        self._journal = journal

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        consumed = self._count(start)
        if len(self._journal.entries) > consumed:
            # Copied for a refused batch, and perhaps corrected since.
            self._journal.cut(consumed)
        largest = self._largest(spark)
        reached = self._journal.entries[-1]["value"] if self._journal.entries else None
        if largest is not None and self._is_new(spark, largest, reached):
            number = len(self._journal.entries)
            # On a lake, a previous driver may still be writing: every folder has one writer.
            name = f"{number:08}-{uuid.uuid4().hex[:8]}" if isinstance(self._staging, LakePath) else f"{number:08}"
            folder = self._staging / name
            self._between(spark, reached, largest).write.mode("overwrite").parquet(spark_path(folder))
            self._journal.append([{"value": largest, "folder": name, "files": data_files(folder)}])
        count = len(self._journal.entries)
        return WatermarkPosition(count, self._journal.entries[-1]["value"] if count else "")

    def _largest(self, spark: SparkSession) -> str | None:
        name = quoted(self._column)
        words = joined(f"select max({name})::text as largest, bool_or({name} is null) as nulls from", self._query, "r")
        largest, nulls = self._connection.one(spark, words)
        if nulls:
            raise DataError(
                f"the watermark `{self._column}` of `{self.relation}` is NULL in some rows, which would never be read",
                code="null-watermark",
                help="use a column that is never NULL, or omit `watermark`",
            )
        return None if largest is None else str(largest)

    def _is_new(self, spark: SparkSession, largest: str, reached: str | None) -> bool:
        """Test whether the table has rows beyond the copied ones; raises if it ends before them, since it was truncated
        or replaced."""
        if reached is None or largest == reached:
            return reached is None
        name = quoted(self._column)
        words = joined(f"select max({name}) > {literal_text(reached)} as more from", self._query, "r")
        (more,) = self._connection.one(spark, words)
        if not more:
            raise DataError(
                f"the watermark `{self._column}` of `{self.relation}` decreased from {reached} to {largest}",
                code="source-rewritten",
                help="rows were deleted or replaced: omit `watermark` to compare the whole table",
            )
        return True

    def _between(self, spark: SparkSession, above: str | None, up_to: str) -> DataFrame:
        name = quoted(self._column)
        parts = [f"{name} <= {literal_text(up_to)}"] + (
            [f"{name} > {literal_text(above)}"] if above is not None else []
        )
        query = joined("select * from", self._query, "r where", " and ".join(parts))
        return jdbc_rows(self._connection.read(spark, query), self._schema, ignore_extra=self._ignore_extra)

    def _count(self, position: Position | None) -> int:
        if position is None:
            return 0
        if not isinstance(position, WatermarkPosition):
            raise other_source(self.relation)
        known = self._journal.entries
        if position.count > len(known) or (position.count and known[position.count - 1]["value"] != position.value):
            raise torn_state(f"the staged rows of `{self.relation}` do not match the checkpoint")
        return position.count

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        pieces = {n: self._folder(n) for n in range(self._count(start), self._count(end))}
        if not pieces:
            return SourceBatch(self._schema)
        for number, folder in pieces.items():
            if not folder.exists():
                raise torn_state(f"the staged rows `{folder.name}` of `{self.relation}` are missing")
            require_files(folder, self._journal.entries[number].get("files"), self.relation)
        rows = spark.read.parquet(*map(exact_path, pieces.values()))
        good = rows.where(F.col(REASON).isNull()).select(*column_names(self._schema.arity))
        net = good.withColumn(CLASS, F.lit("insert"))
        return SourceBatch(self._schema, net=net, bad=bad_rows(rows), shared=rows)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        largest = self._largest(spark)
        none = self._connection.read(spark, joined("select * from", self._query, "r where false"))
        jdbc_rows(none, self._schema, ignore_extra=self._ignore_extra)
        return (f"rows up to `{self._column}` = {largest}, read once each" if largest else "no rows yet",)

    def trim(self, committed: Position) -> None:
        for number in range(self._count(committed)):
            delete_path(self._folder(number))

    def _folder(self, number: int) -> AnyPath:
        # States of older versions of Upshot do not name the folder.
        return self._staging / str(self._journal.entries[number].get("folder", f"{number:08}"))


def jdbc_rows(table: DataFrame, schema: Schema, *, ignore_extra: bool) -> DataFrame:
    where = f"the database table for `{schema.name}`"
    return table_rows(table, schema, where=where, place=F.lit(schema.name), ignore_extra=ignore_extra)


def whole_query(config: SourceConfig) -> str:
    """The operand of `from`: the table by its quoted name, or the query in parentheses."""
    if table := config.options.get("table"):
        return ".".join(quoted(part) for part in table.split("."))
    return f"({config.options['query'].rstrip('; ')})"


def joined(*parts: str) -> str:
    """A statement of parts, each of which is ours or quoted."""
    return " ".join(parts)


def quoted(name: str) -> str:
    """
    >>> quoted('or"der')
    '"or""der"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal_text(text: str) -> str:
    """
    >>> literal_text("O'Neil")
    "'O''Neil'"
    """
    return "'" + text.replace("'", "''") + "'"


def _said(error: Exception) -> str:
    """The line of a Java error that names the cause."""
    trace = f"{error}\n{getattr(error, '_stackTrace', '')}"
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    cause = next((line for line in lines if "PSQLException" in line), lines[0] if lines else type(error).__name__)
    return re.sub(r"^.*PSQLException: ", "", cause)
