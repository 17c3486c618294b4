"""A folder of change files: NDJSON and Parquet, applied in the order of their names.

Every read file is in the journal with its size and fingerprint. A read file that is missing or was rewritten is an
error; a file whose name sorts before read ones is read and reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import FilesPosition, Position
from upshot.pipeline.sources.file_tables import parquet_columns
from upshot.pipeline.sources.reading.envelopes import OPERATIONS, LineReader
from upshot.pipeline.sources.reading.fitting import SourceBatch, bad_rows, net_batch, table_rows
from upshot.pipeline.sources.reading.journal import Entry, SourceJournal, other_source
from upshot.pipeline.sources.reading.lines import ORDER, TextFile, file_path, line_statements
from upshot.pipeline.sources.reading.listing import FoundFile, file_at, files_of, fingerprint, missing
from upshot.spark.lake_path import located
from upshot.spark.location import exact_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from upshot.pipeline.config.config import SourceConfig


# ---- change columns ----------------------------------------------------------------------------------------
# Parquet change files as ordered statements: a column `_change` or `op` has the operation of each row.


_KEPT = ["op", "file", "rank", "block", "line", "part"]
_VERSION = "_version"
Ranked = Sequence[tuple[int, FoundFile]]


def parquet_statements(
    spark: SparkSession, files: Ranked, schema: Schema, *, ignore_extra: bool, known: dict[str, StructType]
) -> DataFrame:
    """As `envelopes.statements`, for files given with their ranks, and with `_place`. Files of different columns are
    read apart. Inside a file the order is that of `_version`, if it has one, and then of its rows. `known` caches the
    schemas of Spark by columns: to infer one takes a job."""
    alike: dict[str, list[tuple[int, FoundFile]]] = {}
    for rank, file in files:
        alike.setdefault(parquet_columns(file), []).append((rank, file))
    parts = []
    for columns, group in alike.items():
        reader = spark.read.schema(known[columns]) if columns in known else spark.read
        table = reader.parquet(*[exact_path(file.path) for _, file in group])
        known[columns] = table.schema
        parts.append(_statements(spark, table, group, schema, ignore_extra=ignore_extra))
    return reduce(DataFrame.unionByName, parts)


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
    """The operation of each row, its error, and the columns that describe the change."""
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


# ---- the source --------------------------------------------------------------------------------------------


TEXT = (".ndjson", ".jsonl", ".json")
COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")
PARQUET = (".parquet",)
FEW_BYTES = 4 << 20
"""Bytes of files per task."""


class ChangeFiles:
    def __init__(self, config: SourceConfig, schema: Schema, journal: SourceJournal) -> None:
        self.relation = schema.name
        self._schema = schema
        self._folder = located(config.path)
        self._ignore_missing = config.options.get("on_missing") == "ignore"
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        self._others = frozenset(config.options.get("others", ()))
        self._spark_schemas: dict[str, StructType] = {}
        self._journal = journal
        self._known = {entry["name"]: entry for entry in self._journal.entries}

    # ---- positions ------------------------------------------------------------------------------

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        consumed = self._count(start)
        found = {file.name: file for file in self._change_files()}
        self._refuse_other_content(self._journal.entries[:consumed], found)
        if not all(self._is_as_listed(entry, found) for entry in self._journal.entries[consumed:]):
            # It was listed for a refused batch, and has been corrected or removed since.
            self._journal.cut(consumed)
            self._known = {kept["name"]: kept for kept in self._journal.entries}
        fresh = [file for name, file in found.items() if name not in self._known]
        self._journal.append(_entry(file) for file in fresh)
        self._known.update((entry["name"], entry) for entry in self._journal.entries[len(self._known) :])
        count = len(self._journal.entries)
        return FilesPosition(count, self._journal.digest(count))

    def _change_files(self) -> list[FoundFile]:
        files = files_of(self._folder, self.relation)
        strange = [file.name for file in files if not (_is_text(file.name) or file.name.endswith(PARQUET))]
        if strange:
            raise DataError(
                f"`{strange[0]}` in `{self._folder}`, the source of `{self.relation}`, is not a change file",
                code="unknown-change-file",
                help="change files end in `.ndjson`, `.jsonl`, `.json` (also compressed) or `.parquet`; move other "
                "files, or start their names with `_` or `.`",
            )
        return files

    def _refuse_other_content(self, consumed: Sequence[Entry], found: Mapping[str, FoundFile]) -> None:
        for entry in consumed:
            file = found.get(entry["name"])
            if file is not None:
                self._refuse_rewritten(entry, file)
            elif not self._ignore_missing:
                raise missing(
                    f"`{entry['name']}` in `{self._folder}` was read for `{self.relation}` and is missing now",
                    'restore it, or set `on_missing = "ignore"` if read files may be removed',
                )

    def _is_as_listed(self, entry: Entry, found: Mapping[str, FoundFile]) -> bool:
        file = found.get(entry["name"])
        return file is not None and _is_same(entry, file)

    def _refuse_rewritten(self, entry: Entry, file: FoundFile) -> None:
        if not _is_same(entry, file):
            raise DataError(
                f"`{entry['name']}` in `{self._folder}` was rewritten after it was read for `{self.relation}`",
                code="source-rewritten",
                help="put the old content back and write what is new into a new file; write a file under a name that "
                "begins with `_` and rename it when it is whole",
            )

    def _count(self, position: Position | None) -> int:
        if position is None:
            return 0
        if not isinstance(position, FilesPosition):
            raise other_source(self.relation)
        self._journal.check(position.count, position.digest)
        return position.count

    # ---- rows -----------------------------------------------------------------------------------

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        first, last = self._count(start), self._count(end)
        before, taken = self._journal.entries[:first], self._journal.entries[first:last]
        taken = sorted(taken, key=lambda entry: entry["name"])
        files = [self._present_file(entry) for entry in taken]
        if not files:
            return SourceBatch(self._schema)
        statements, bad = self._statements(spark, files)
        few = sum(file.size for file in files) <= FEW_BYTES
        return net_batch(statements, self._schema, ORDER, bad, few=few, notes=self._late(before, taken))

    def _present_file(self, entry: Entry) -> FoundFile:
        path = self._folder if self._folder.is_file() else self._folder / entry["name"]
        file = file_at(path, entry["name"])
        if file is None:
            raise missing(
                f"`{entry['name']}` in `{self._folder}` for `{self.relation}` was removed before it was read",
                "restore it: the pipeline must read it",
            )
        self._refuse_rewritten(entry, file)
        return file

    def _statements(self, spark: SparkSession, files: list[FoundFile]) -> tuple[DataFrame, DataFrame]:
        """All statements with the columns that order them, and those that do not fit."""
        ranked = list(enumerate(files))
        texts = [(rank, file) for rank, file in ranked if _is_text(file.name)]
        tables = [(rank, file) for rank, file in ranked if file.name.endswith(PARQUET)]
        parts: list[DataFrame] = []
        bad: list[DataFrame] = []
        if texts:
            listed = [TextFile(str(file.path), file.name, file.size, rank) for rank, file in texts]
            read = line_statements(spark, listed, LineReader(self._schema, self._others, self._ignore_extra))
            parts.append(read.frame)
            bad.append(read.bad)
        if tables:
            rows = parquet_statements(
                spark, tables, self._schema, ignore_extra=self._ignore_extra, known=self._spark_schemas
            )
            parts.append(rows)
            bad.append(bad_rows(rows))
        columns = [name for name in parts[0].columns if name in parts[-1].columns]
        whole = reduce(DataFrame.unionByName, (frame.select(*columns) for frame in parts))
        return whole, reduce(DataFrame.unionByName, bad)

    def _late(self, before: Sequence[Entry], taken: Sequence[Entry]) -> tuple[str, ...]:
        if not before:
            return ()
        newest = max(entry["name"] for entry in before)
        late = [entry["name"] for entry in taken if entry["name"] < newest]
        return tuple(f"`{name}` is late: `{newest}` was already read for `{self.relation}`" for name in late)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        found = {file.name: file for file in self._change_files()}
        consumed = self._journal.entries[: self._count(start)]
        self._refuse_other_content(consumed, found)
        fresh = len(found.keys() - {entry["name"] for entry in consumed})
        return (f"{len(found)} change files in `{self._folder}`, {fresh} of them new",)

    def trim(self, committed: Position) -> None:
        """Nothing is staged: replays read the files themselves."""


def _entry(file: FoundFile) -> dict[str, Any]:
    return {"name": file.name, "size": file.size, "modified": file.modified, "hash": fingerprint(file)}


def _is_same(entry: Entry, file: FoundFile) -> bool:
    """Test whether the file is unchanged since it was listed."""
    if file.size == entry["size"] and file.modified == entry["modified"]:
        return True
    return bool(file.size == entry["size"] and fingerprint(file) == entry["hash"])


def _is_text(name: str) -> bool:
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(TEXT)
