"""The pipeline's own Spark session, with the packages of its sources and sinks.

Delta Lake, PostgreSQL's driver and Kafka's connector are Spark packages from Maven (`PipelineFormat.packages`). They
can only be added when Spark's Java process starts, and if one cannot be fetched the process does not start at all; so
they are requested only when needed, and a failed start is repeated without them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from upshot.core.errors import Error, UsageError
from upshot.core.running_spark import running_session
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.formats import DELTA, SINKS, SOURCES
from upshot.spark.lake_path import LakePath
from upshot.spark.session import is_connect, own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_SETTINGS = {
    "spark.sql.extensions": _DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_SETTINGS = {
    # AQE doubles the time of tiny jobs.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A missing input is an error, not an empty batch.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # `day=01` is the text 01 until the relation says it is a number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
_AT_START = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


def pipeline_session(config: PipelineConfig, beside: SparkSession | None = None) -> SparkSession:
    """A classic session of our own; in a process that runs Spark already, a new session beside the running one, or
    `beside` the given one. Prints to stderr why a package is not available."""
    running, wanted = beside or _running(), spark_packages(config)
    if running is not None:
        session = _settled(running.newSession(), config, _ours(running))
        if DELTA.coordinates in wanted and delta_support(session, config) == "deltalake":
            _print_deltalake("Spark was started without it")
        return session
    settings = {**_AT_START, **_SETTINGS, **config.spark, "spark.app.name": f"upshot {config.name}"}
    if not wanted:
        return _settled(own_session(**settings), config)
    listed = [*_listed(settings.pop("spark.jars.packages", "")), *wanted]
    delta = _DELTA_SETTINGS if DELTA.coordinates in wanted else {}
    extensions = [*_listed(settings.get("spark.sql.extensions", "")), *_listed(delta.get("spark.sql.extensions", ""))]
    with_packages = {**settings, **delta, "spark.jars.packages": ",".join(listed)}
    if extensions:
        with_packages["spark.sql.extensions"] = ",".join(dict.fromkeys(extensions))
    try:
        return _settled(own_session(**with_packages), config)
    except Exception as error:  # noqa: BLE001 - Spark raises any class if Java does not start
        _refuse_if_needed(config, wanted, error)
        _forget_failed_start()
    return _settled(own_session(**settings), config)


def delta_support(spark: SparkSession, config: PipelineConfig) -> str:
    """`spark` if this session reads and writes Delta tables itself, else `deltalake`."""
    if config.delta == "deltalake":
        return "deltalake"
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    if _DELTA_EXTENSION in extensions:
        return "spark"
    if config.delta == "spark":
        raise _cannot_fetch(DELTA.coordinates, "this session runs without it")
    return "deltalake"


def spark_packages(config: PipelineConfig) -> list[str]:
    """Coordinates of the packages that the file names, and of those that its formats need."""
    from pyspark import __version__  # noqa: PLC0415 - an optional package

    needed = [package for source in config.sources.values() for package in SOURCES[source.format].packages]
    needed += [package for sink in config.sinks.values() for package in SINKS[sink.format].packages]
    if isinstance(config.state, LakePath):
        # A store on a lake keeps its commits in a Delta table.
        needed.append(DELTA)
    wanted = [
        package.coordinates.format(spark=__version__)
        for package in needed
        if not (package.replaceable and config.delta == "deltalake")
        and not (package.name and _named_already(config, package.name))
    ]
    return list(dict.fromkeys([*config.packages, *wanted]))


def _named_already(config: PipelineConfig, name: str) -> bool:
    """Test whether the file itself names a jar or package like this one."""
    named = [*config.packages, config.spark.get("spark.jars", ""), config.spark.get("spark.jars.packages", "")]
    return any(name in each for each in named)


def _refuse_if_needed(config: PipelineConfig, wanted: list[str], error: Exception) -> None:
    """Raise if the pipeline cannot run without the packages."""
    message = error.message if isinstance(error, Error) else str(error)
    reason = message.splitlines()[0] if message else type(error).__name__
    for package in wanted:
        if package != DELTA.coordinates or config.delta == "spark":
            raise _cannot_fetch(package, reason) from error
    _print_deltalake(reason)


def _print_deltalake(reason: str) -> None:
    words = f"the Spark package `{DELTA.coordinates}` is not available ({reason}); Delta tables use `deltalake`"
    print(words, file=sys.stderr)  # noqa: T201 - printed once, before there is a display


def _cannot_fetch(package: str, reason: str) -> UsageError:
    return UsageError(
        f"the Spark package `{package}` is not available: {reason}",
        code="missing-spark-package",
        help="allow one download from Maven Central (packages are cached), or add the jar to the class "
        'path with `[pipeline.spark]` and `"spark.jars" = "…"`',
    )


def _running() -> Any:
    """The running session of this process, if there is one. It is not ours: its settings are not changed."""
    running = running_session() or _session_of_context()
    if running is None:
        return None
    if is_connect(running):
        raise UsageError(
            "a pipeline needs a local Spark session, and this process is connected to a remote one",
            code="pipeline-needs-classic",
            help="under Spark Connect a stream's batches run in another process, which has no engine: run "
            "`upshot pipeline run` where the driver is",
        )
    return running


def _session_of_context() -> Any:
    """A session for a Spark context that was started without one, if there is one."""
    if sys.modules.get("pyspark") is None:
        return None
    from pyspark import SparkContext  # noqa: PLC0415 - an optional package
    from pyspark.sql import SparkSession  # noqa: PLC0415

    context = SparkContext._active_spark_context
    return None if context is None else SparkSession(context)


def _forget_failed_start() -> None:
    """Let pyspark start Java again: it caches the gateway of the failed start."""
    from pyspark import SparkContext  # noqa: PLC0415 - an optional package

    SparkContext._gateway = None
    SparkContext._jvm = None


def _settled(session: Any, config: PipelineConfig, beside: Mapping[str, str] | None = None) -> Any:
    """The session with the settings that can be made on a running one; `beside` are those of the session next to it."""
    partitions = str(max(2, session.sparkContext.defaultParallelism))
    wanted = {**_SETTINGS, "spark.sql.shuffle.partitions": partitions, **(beside or {}), **config.spark}
    for name, value in wanted.items():
        # Spark reports only its own settings as modifiable; all others can be set.
        if not name.startswith("spark.") or session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def _ours(session: Any) -> dict[str, str]:
    """The settings of the session that are Upshot's, which a new session beside it does not have."""
    return {name: value for name, value in session.conf.getAll.items() if name.startswith("upshot.")}


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
