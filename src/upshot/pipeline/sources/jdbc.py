"""A table or query of PostgreSQL, read through Spark's JDBC reader."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from upshot.core.errors import DataError, EngineError, Error, UsageError
from upshot.core.schema import Schema
from upshot.pipeline.sources.table_rows import table_rows

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
    """The connection to the database. The password is read from the environment when it is needed, and is in no
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
        """The error as a user should see it: what the database said, and whether to try again."""
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


class JdbcQuery:
    """The whole table. Its content is a hash that the database computes over all rows."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        self.relation = schema.name
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

    def content_after(self, spark: SparkSession, before: str) -> str | None:
        return self.content(spark, before)

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
        return f"{count} rows in the database, hashed there at every look"


def jdbc_rows(table: DataFrame, schema: Schema, *, ignore_extra: bool) -> DataFrame:
    where = f"the database table for `{schema.name}`"
    return table_rows(table, schema, where=where, place=F.lit(schema.name), ignore_extra=ignore_extra)


def whole_query(config: SourceConfig) -> str:
    """The operand of `from`: the table by its quoted name, or the query in parentheses."""
    if table := config.options.get("table"):
        return ".".join(quoted(part) for part in table.split("."))
    return f"({config.options['query'].rstrip('; ')})"


def joined(*parts: str) -> str:
    """A statement of parts that are either ours or quoted."""
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
