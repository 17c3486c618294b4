"""The keys of a pipeline file, and the formats of sources and sinks, one record each: its keys, its opener, and the
packages of Spark that it needs.

To add one: its record here, and a module in `sources` or `sinks`. These are imported when one is opened: they need
pyspark, and a mistake in the file is reported before that is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from upshot.core.schema import Schema
    from upshot.pipeline.config.config import SinkConfig, SourceConfig
    from upshot.pipeline.sinks.catch_up import Standing
    from upshot.pipeline.sinks.console import PrintChanges
    from upshot.pipeline.sinks.sink import Sink
    from upshot.pipeline.sources import PipelineSource
    from upshot.pipeline.sources.reading.journal import Staging


@dataclass(frozen=True, slots=True)
class Key:
    """`kind` is text, character, encoding, path (of this machine), location (a path or a URI), flag, count, seconds,
    bytes, age, texts, settings or retention; `choices` are the texts it takes, if not any; a key with a `default` may
    be left out."""

    kind: str = "text"
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


PIPELINE = {
    "name": Key(required=True),
    "program": Key("path", required=True),
    "state": Key("location", required=True),
    "actions": Key("path", default=""),
    "engine": Key(choices=("auto", "local", "spark"), default="auto"),
    "memory": Key("bytes"),
    "keep": Key("retention"),
    "trigger": Key("seconds", default=1.0),
    "metrics": Key("location", default=""),
    "delta": Key(choices=("auto", "spark", "deltalake"), default="auto"),
    "packages": Key("texts", default=()),
    "spark": Key("settings"),
}

RETENTION = {"commits": Key("count"), "bytes": Key("bytes"), "age": Key("age")}
"""The keys of a table `keep`: the bounds of `connect(keep=…)`."""

ICEBERG = (
    "Iceberg has packages for Spark 4.0 (from 1.10.0) and 4.1 (from 1.11.0), none for 4.2: use a Delta table "
    "until `iceberg-spark-runtime-4.2_2.13` is released"
)
"""The reason that there is no `format = "iceberg"`."""


# ---- formats -----------------------------------------------------------------------------------------------

Opener = TypeVar("Opener")


class FormatMistake(NamedTuple):
    """A mistake in the values of several keys. It is reported at `key`, or at the section if that is empty."""

    key: str
    slug: str
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class SparkPackage:
    """A package of Spark from Maven; `{spark}` in its `coordinates` is the version of Spark itself. A jar or package of
    the pipeline file that has `name` in its name takes its place; the library `deltalake` replaces one that is
    `replaceable`."""

    coordinates: str
    name: str = ""
    replaceable: bool = False


DELTA = SparkPackage("io.delta:delta-spark_4.2_2.13:4.4.0", replaceable=True)
_POSTGRESQL = SparkPackage("org.postgresql:postgresql:42.7.8")
_KAFKA = SparkPackage("org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}", name="spark-sql-kafka")


@dataclass(frozen=True, slots=True)
class PipelineFormat(Generic[Opener]):
    """`keys` are those that only this format has, `check` finds mistakes in their values; it also gets the name of the
    section. `packages` are the packages of Spark that its session needs."""

    keys: Mapping[str, Key]
    open: Opener
    check: Callable[[Mapping[str, Any], str], Iterable[FormatMistake]] = lambda found, section: ()
    packages: tuple[SparkPackage, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkSetting:
    """The pipeline of a sink: its name, its session, the writer of Delta tables, the recorded version of each sink, and
    the output of the console."""

    application: str
    session: Any
    delta: str
    standings: Mapping[str, Standing]
    print_changes: PrintChanges


# ---- sources -----------------------------------------------------------------------------------------------


def _changes(config: SourceConfig, schema: Schema, staging: Staging, _: str) -> PipelineSource:
    from upshot.pipeline.sources.change_files import ChangeFiles  # noqa: PLC0415

    return ChangeFiles(config, schema, staging.journal("files"))


def _delta(config: SourceConfig, schema: Schema, staging: Staging, delta: str) -> PipelineSource:
    from upshot.pipeline.sources.delta import DeltaSource  # noqa: PLC0415

    return DeltaSource(config, schema, staging.folder, delta)


def _parquet(config: SourceConfig, schema: Schema, staging: Staging, _: str) -> PipelineSource:
    from upshot.pipeline.sources.file_tables import ParquetTable  # noqa: PLC0415
    from upshot.pipeline.sources.reading.staged import SnapshotSource  # noqa: PLC0415

    return SnapshotSource(ParquetTable(config, schema), config, schema, staging.folder)


def _csv(config: SourceConfig, schema: Schema, staging: Staging, _: str) -> PipelineSource:
    from upshot.pipeline.sources.file_tables import CsvTable  # noqa: PLC0415
    from upshot.pipeline.sources.reading.staged import SnapshotSource  # noqa: PLC0415

    return SnapshotSource(CsvTable(config, schema), config, schema, staging.folder)


def _table(config: SourceConfig, schema: Schema, staging: Staging, delta: str) -> PipelineSource:
    from upshot.pipeline.sources.catalog import CatalogSource  # noqa: PLC0415

    return CatalogSource(config, schema, staging.folder, delta)


def _kafka(config: SourceConfig, schema: Schema, _staging: Staging, _: str) -> PipelineSource:
    from upshot.pipeline.sources.kafka import KafkaTopic  # noqa: PLC0415

    return KafkaTopic(config, schema)


def _jdbc(config: SourceConfig, schema: Schema, staging: Staging, _: str) -> PipelineSource:
    from upshot.pipeline.sources.jdbc import AppendedRows, JdbcQuery  # noqa: PLC0415
    from upshot.pipeline.sources.reading.staged import SnapshotSource  # noqa: PLC0415

    if config.options.get("watermark"):
        return AppendedRows(config, schema, staging.folder, staging.journal("pieces"))
    return SnapshotSource(JdbcQuery(config, schema), config, schema, staging.folder)


def _jdbc_mistakes(found: Mapping[str, Any], section: str) -> Iterator[FormatMistake]:
    if found["url"] and not found["url"].startswith("jdbc:postgresql:"):
        help = 'as in "jdbc:postgresql://host:5432/database"; for other databases, export the tables as Parquet'
        yield FormatMistake("url", "bad-value", "`url` must be a PostgreSQL URL", help)
    if bool(found["table"]) == bool(found["query"]):
        yield FormatMistake("", "missing-key", f"`[{section}]` needs either `table` or `query`", "give one")
    if found["watermark"] and found["partition_column"]:
        words = "`watermark` and `partition_column` cannot be combined"
        yield FormatMistake("partition_column", "bad-value", words, "new rows are read in one piece")


_PATH = Key("location", required=True)
_MISSING = Key(choices=("fail", "ignore"), default="fail")
_FEED = {"feed": Key("flag", default=True), "distinct": Key("flag", default=False)}

SOURCES: Mapping[str, PipelineFormat[Callable[[SourceConfig, Schema, Staging, str], PipelineSource]]] = {
    "changes": PipelineFormat({"path": _PATH, "on_missing": _MISSING}, _changes),
    "delta": PipelineFormat({"path": _PATH, **_FEED}, _delta, packages=(DELTA,)),
    "parquet": PipelineFormat({"path": _PATH, "on_missing": _MISSING}, _parquet),
    "csv": PipelineFormat(
        {
            "path": _PATH,
            "on_missing": _MISSING,
            "header": Key("flag", default=True),
            "separator": Key("character", default=","),
            "quote": Key("character", default='"'),
            "escape": Key("character", default='"'),
            "null": Key(default=""),
            "encoding": Key("encoding", default="UTF-8"),
        },
        _csv,
    ),
    "table": PipelineFormat({"table": Key(required=True), **_FEED}, _table),
    "jdbc": PipelineFormat(
        {
            "url": Key(required=True),
            "table": Key(),
            "query": Key(),
            "user": Key(),
            "password_env": Key(),
            "partition_column": Key(),
            "partitions": Key("count", default=4),
            "watermark": Key(),
            "fetch_size": Key("count", default=10_000),
        },
        _jdbc,
        _jdbc_mistakes,
        (_POSTGRESQL,),
    ),
    "kafka": PipelineFormat(
        {
            "servers": Key(required=True),
            "topic": Key(required=True),
            "starting": Key(choices=("earliest", "latest"), default="earliest"),
            "max_rows": Key("count", default=1_000_000),
            "settings": Key("settings"),
        },
        _kafka,
        packages=(_KAFKA,),
    ),
}
"""The formats of sources. Their openers get the configuration, the relation, the place of the source in the state, and
the reader of Delta tables: `spark` or `deltalake`."""

SOURCE_KEYS = {
    "format": Key(required=True, choices=tuple(SOURCES)),
    "on_bad_row": Key(choices=("quarantine", "fail"), default="quarantine"),
    "quarantine": Key("location", default=""),
    "extra_columns": Key(choices=("refuse", "ignore"), default="refuse"),
}
"""The keys of every source."""

# ---- sinks -------------------------------------------------------------------------------------------------


def _delta_sinks(config: SinkConfig, setting: SinkSetting) -> Iterator[Sink]:
    from upshot.pipeline.sinks.delta import DeltaLog, DeltaView, delta_writer  # noqa: PLC0415
    from upshot.spark.lake_path import located  # noqa: PLC0415

    session = setting.session
    if config.path:
        writer = delta_writer(session, located(config.path, session), setting.delta)
        yield DeltaView(config.view, config.path, writer, setting.application)
    if config.changes:
        writer = delta_writer(session, located(config.changes, session), setting.delta)
        yield DeltaLog(config.view, config.changes, writer, setting.application)


def _parquet_sinks(config: SinkConfig, setting: SinkSetting) -> Iterator[Sink]:
    from upshot.pipeline.sinks.parquet import ParquetLog, ParquetSnapshots  # noqa: PLC0415
    from upshot.spark.lake_path import located  # noqa: PLC0415

    if config.path:
        keep = int(config.options.get("keep", 2))
        yield ParquetSnapshots(config.view, located(config.path), setting.session, keep)
    if config.changes:
        yield ParquetLog(config.view, located(config.changes), setting.session)


def _table_sinks(config: SinkConfig, setting: SinkSetting) -> Iterator[Sink]:
    from upshot.pipeline.sinks.catalog import CatalogLog, CatalogView, catalog_writer  # noqa: PLC0415

    writer = catalog_writer(setting.session, tuple(config.options.get("partition_by", ())))
    if table := config.options.get("table"):
        yield CatalogView(config.view, table, writer, setting.application)
    if table := config.options.get("changes_table"):
        yield CatalogLog(config.view, table, writer, setting.application)


def _console_sinks(config: SinkConfig, setting: SinkSetting) -> Iterator[Sink]:
    from upshot.pipeline.sinks.console import Console  # noqa: PLC0415

    known = setting.standings.get(Console(config.view, None, setting.print_changes).place)
    yield Console(config.view, known.seen if known else None, setting.print_changes)


def _needs_place(found: Mapping[str, Any], section: str) -> Iterator[FormatMistake]:
    if not found["path"] and not found["changes"]:
        words = f"`[{section}]` needs `path`, `changes`, or both"
        yield FormatMistake("", "missing-key", words, "`path` stores the view, `changes` logs its changes")


def _needs_table(found: Mapping[str, Any], section: str) -> Iterator[FormatMistake]:
    if not found["table"] and not found["changes_table"]:
        words = f"`[{section}]` needs `table`, `changes_table`, or both"
        yield FormatMistake("", "missing-key", words, "`table` stores the view, `changes_table` logs its changes")


_PLACES = {"path": Key("location", default=""), "changes": Key("location", default="")}

SINKS: Mapping[str, PipelineFormat[Callable[[SinkConfig, SinkSetting], Iterable[Sink]]]] = {
    "delta": PipelineFormat(_PLACES, _delta_sinks, _needs_place, (DELTA,)),
    "parquet": PipelineFormat({**_PLACES, "keep": Key("count", default=2)}, _parquet_sinks, _needs_place),
    "table": PipelineFormat(
        {"table": Key(default=""), "changes_table": Key(default=""), "partition_by": Key("texts", default=())},
        _table_sinks,
        _needs_table,
        (replace(DELTA, replaceable=False),),
    ),
    "console": PipelineFormat({}, _console_sinks),
}
"""The formats of sinks."""

SINK_KEYS = {"format": Key(required=True, choices=tuple(SINKS))}
"""The keys of every sink."""
