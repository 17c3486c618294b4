"""Parquet and CSV files that make up a table."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.sources.reading.fitting import PLACE, REASON, ROW, table_rows
from upshot.pipeline.sources.reading.lines import file_path
from upshot.pipeline.sources.reading.listing import FileStream, FoundFile, being_written, files_of, fingerprint, missing
from upshot.pipeline.sources.reading.staged import SnapshotTable
from upshot.spark.lake_path import located
from upshot.spark.location import exact_path, spark_path
from upshot.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from upshot.pipeline.config.config import SourceConfig

_CORRUPT = "_corrupt"


class FileTable(SnapshotTable):
    """The files below a folder, or one file. Its content is their names, sizes and fingerprints."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        self.relation = schema.name
        self._schema, self._folder = schema, located(config.path)
        self._may_empty = config.options.get("on_missing") == "ignore"
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        self._fingerprints: dict[tuple[str, int, int], str] = {}

    def content(self, spark: SparkSession, before: str | None) -> str:
        if before is not None and being_written(self._folder):
            return before
        return self._digest_of(files_of(self._folder, self.relation), before)

    def content_after(self, spark: SparkSession, before: str) -> str | None:
        if being_written(self._folder):
            return None
        return self._digest_of(files_of(self._folder, self.relation, anew=True), before)

    def _digest_of(self, files: list[FoundFile], before: str | None) -> str:
        if not files and before not in (None, _digest(())) and not self._may_empty:
            raise missing(
                f"`{self._folder}`, the source of `{self.relation}`, is now empty",
                'restore the files, or set `on_missing = "ignore"` if the relation is now empty',
            )
        try:
            return _digest(f"{file.name}\0{file.size}\0{self._fingerprint(file)}" for file in files)
        except FileNotFoundError:
            # A file was deleted since it was listed.
            return self._digest_of(files_of(self._folder, self.relation, anew=True), before)

    def _fingerprint(self, file: FoundFile) -> str:
        at = (file.name, file.size, file.modified)
        if at not in self._fingerprints:
            self._fingerprints[at] = fingerprint(file)
        return self._fingerprints[at]

    def rows(self, spark: SparkSession) -> DataFrame:
        files = files_of(self._folder, self.relation)
        if not files:
            return _no_rows(spark, self._schema)
        return reduce(DataFrame.unionByName, (self._part(spark, alike) for alike in self._alike(files)))

    def described(self, spark: SparkSession) -> str:
        return f"{len(files_of(self._folder, self.relation))} files in `{self._folder}`"

    def _alike(self, files: list[FoundFile]) -> Iterable[list[FoundFile]]:
        """The files in groups of the same columns."""
        groups: dict[Any, list[FoundFile]] = {}
        for file in files:
            groups.setdefault(self._shape(file), []).append(file)
        return groups.values()

    def _shape(self, file: FoundFile) -> Any:
        raise NotImplementedError

    def _part(self, spark: SparkSession, files: list[FoundFile]) -> DataFrame:
        raise NotImplementedError


class ParquetTable(FileTable):
    """Folders such as `day=2026-01-31` are columns."""

    def _shape(self, file: FoundFile) -> Any:
        return parquet_columns(file), tuple(part.partition("=")[0] for part in file.name.split("/")[:-1])

    def _part(self, spark: SparkSession, files: list[FoundFile]) -> DataFrame:
        base = self._folder if self._folder.is_dir() else self._folder.parent
        table = spark.read.option("basePath", spark_path(base)).parquet(*[exact_path(file.path) for file in files])
        folders = [part.partition("=")[0] for part in files[0].name.split("/")[:-1] if "=" in part]
        types = {field.name: field.dataType for field in table.schema.fields}
        return table_rows(
            table,
            self._schema,
            where=f"`{files[0].path}`",
            place=file_path(),
            ignore_extra=self._ignore_extra,
            text=[name for name in folders if isinstance(types[name], spark_types.StringType)],
        )


class CsvTable(FileTable):
    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        super().__init__(config, schema)
        options = config.options
        self._header: bool = options.get("header", True)
        self._separator, self._quote = options.get("separator", ","), options.get("quote", '"')
        self._encoding = options.get("encoding", "UTF-8")
        self._reading = {
            "header": str(self._header).lower(),
            "sep": self._separator,
            "quote": self._quote,
            "escape": options.get("escape", '"'),
            "nullValue": options.get("null", ""),
            "emptyValue": "",
            "encoding": self._encoding,
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
        }

    def _shape(self, file: FoundFile) -> tuple[str, ...]:
        """The names in its first line."""
        if not self._header:
            return tuple(column.name for column in self._schema.columns)
        found = io.BufferedReader(FileStream(file))
        unpacked: Any = gzip.GzipFile(fileobj=found) if file.name.endswith(".gz") else found
        try:
            with io.TextIOWrapper(unpacked, encoding=self._encoding, newline="") as stream:
                names = next(csv.reader(stream, delimiter=self._separator, quotechar=self._quote), [])
        except (UnicodeDecodeError, LookupError, OSError, csv.Error) as error:
            raise DataError(
                f"the first line of `{file.path}` cannot be read: {error}",
                code="unreadable-source",
                help="check `encoding`, `separator` and `quote`",
            ) from None
        names = [name.removeprefix("\ufeff").strip() for name in names]
        twice = [name for name in names if (*names, _CORRUPT).count(name) > 1]
        if twice:
            raise DataError(
                f"the first line of `{file.path}` names `{twice[0]}` twice",
                code="source-columns",
                help="give each column another name; if the first line is a row, set `header = false`",
            )
        return tuple(names)

    def _part(self, spark: SparkSession, files: list[FoundFile]) -> DataFrame:
        names = self._shape(files[0])
        text = spark_types.StringType()
        shape = spark_types.StructType([spark_types.StructField(name, text) for name in (*names, _CORRUPT)])
        table = spark.read.options(**self._reading).schema(shape).csv([exact_path(file.path) for file in files])
        fields = F.to_csv(F.struct(*[F.col(f"`{name}`") for name in names]), {"sep": self._separator})
        return table_rows(
            table,
            self._schema,
            where=f"`{files[0].path}`",
            place=file_path(),
            kept=[_CORRUPT],
            problem=F.when(F.col(_CORRUPT).isNotNull(), F.lit(f"the row does not have {len(names)} fields")),
            ignore_extra=self._ignore_extra,
            text=names,
            row=F.coalesce(F.col(_CORRUPT), fields),
        ).drop(_CORRUPT)


def parquet_columns(file: FoundFile) -> str:
    """The columns of a Parquet file and their types, as text."""
    try:
        with pq.ParquetFile(io.BufferedReader(FileStream(file))) as opened:
            _refuse_nanoseconds(file, opened.metadata.schema)
            return str(opened.schema_arrow.remove_metadata())
    except FileNotFoundError:
        raise missing(
            f"`{file.path}` was removed while it was read", "try again: the present files will be read"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"`{file.path}` is not a Parquet file: {str(error).splitlines()[0]}",
            code="unreadable-source",
            help="remove it, or write it again under a name that begins with `_` and rename it when it is whole",
        ) from None


def _refuse_nanoseconds(file: FoundFile, schema: pq.ParquetSchema) -> None:
    for number in range(len(schema)):
        column = schema.column(number)
        if "timeUnit=nanoseconds" in str(column.logical_type):
            raise DataError(
                f"column `{column.path}` of `{file.path}` has nanosecond timestamps, which Spark cannot read",
                code="source-columns",
                help='write microseconds, as with `coerce_timestamps="us"` in the `to_parquet` of pandas',
            )


def _no_rows(spark: SparkSession, schema: Schema) -> DataFrame:
    values = [spark_types.StructField(f.name, f.dataType, True) for f in spark_schema(schema.types).fields]
    texts = [spark_types.StructField(name, spark_types.StringType()) for name in (REASON, ROW, PLACE)]
    return spark.createDataFrame([], spark_types.StructType([*values, *texts]))


def _digest(parts: Iterable[str]) -> str:
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        whole.update(part.encode())
        whole.update(b"\n")
    return whole.hexdigest()
