"""Spark sessions: one of our own where the user has none, and a private one beside the user's for what we run."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from upshot.core.errors import EngineError, UsageError
from upshot.spark.memory import WORKER_MEMORY, local_tasks

NOT_STARTED = "spark-not-started"

PARTITIONS = "upshot.partitions"
"""The setting of the user's session that says into how many parts our shuffles go."""

_SETTINGS = {
    # AQE doubles the time of tiny jobs, and plans of known sizes have nothing to learn from it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Arithmetic that leaves its range is an error of the program, never NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters inferred on one of two uses of a frame would keep Spark from computing it once.
    "spark.sql.constraintPropagation.enabled": "false",
    # A small set of rows is one task.
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # What a small change joins with is sent to all workers. Where that turns out to be more, joins shuffle instead.
    "spark.sql.maxBroadcastTableSize": "256m",
    # A file that is not there is an error, whatever the user's session makes of it.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Rows of several sets are written side by side, and need not be sorted by set for it.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Listing the folders of a table is no job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"


def own_session(**config: Any) -> Any:
    """A new or running Spark session with these settings (`spark_sql_shuffle_partitions=4` or by full name in a dict),
    on all cores of this machine unless a master is named."""
    require_spark()
    require_java(config)
    workers_use_this_python()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional package

    settings = {_CALL_SITES: "false", **{_setting(name): str(value) for name, value in config.items()}}
    builder = SparkSession.builder
    if "spark.master" not in settings and "spark.remote" not in settings and not _names_a_master():
        builder = builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise EngineError(
            f"Spark did not start: {told[0]}",
            code=NOT_STARTED,
            help="Spark 4 needs Java 17 or newer (`java -version`, `JAVA_HOME`); the output of Java is above",
        ) from error


def private_session(session: Any) -> Any:
    """A session beside the user's, on the same cluster, with our settings; those of the user's are not touched. What
    all sessions of the process share is: PySpark remembers a few classes of Java from now on, for all of them
    (`java_classes.py`), and workers on this machine that would take any `python3` take this one."""
    workers_use_this_python(session)
    if is_connect(session):
        private = session.cloneSession()
    else:
        from upshot.spark.java_classes import remember_classes  # noqa: PLC0415 - Spark Connect has no Java

        remember_classes(session.sparkContext._jvm)
        private = session.newSession()
        for name, value in _file_systems(session).items():
            private.conf.set(name, value)
    for name, value in _SETTINGS.items():
        private.conf.set(name, value)
    if told := session.conf.get(WORKER_MEMORY, None):
        private.conf.set(WORKER_MEMORY, told)
    parts = _partitions(session)
    private.conf.set("spark.sql.shuffle.partitions", parts)
    private.conf.set("spark.sql.files.minPartitionNum", parts)
    return private


def _file_systems(session: Any) -> dict[str, str]:
    """The settings of storages, keys among them: those made at run time are in the user's session only."""
    return {name: value for name, value in session.conf.getAll.items() if name.startswith(("fs.", "spark.hadoop."))}


@contextlib.contextmanager
def without_call_sites() -> Iterator[None]:
    """PySpark notes with every column which line of Python made it, and so takes twice the time to make one. Here it
    does not: the lines would be ours and of no use to a user. PySpark reads the setting once per process; the value is
    saved and restored."""
    from pyspark.errors import utils  # noqa: PLC0415 - an optional package

    before = getattr(utils, _NOTED, None)
    setattr(utils, _NOTED, False)
    try:
        yield
    finally:
        setattr(utils, _NOTED, before)


_NOTED = "_enable_debugging_cache"
"""The attribute by which PySpark decides to record them; without the attribute it still records."""


@contextlib.contextmanager
def sending_nothing(private: Any) -> Iterator[None]:
    """Inside, frames that are made send no rows to all workers: joins shuffle, whatever size was expected. The hint is
    set when a frame is created, so frames created outside keep theirs."""
    before = {name: private.conf.get(name) for name in _SENDING_NOTHING}
    for name, value in _SENDING_NOTHING.items():
        private.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            private.conf.set(name, value)


_SENDING_NOTHING = {
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Sizes were not what they seemed: Spark is to look at them, and to split what one key makes large.
    "spark.sql.adaptive.enabled": "true",
}


def release(private: Any) -> None:
    """Let go of a private session. The classic one is freed with its last frame; the server of a Connect session keeps
    its state until released."""
    if is_connect(private):
        with contextlib.suppress(Exception):  # the server, or the user's own session, may be gone already
            private.client.release_session()
            private.client.close()


def is_connect(session: Any) -> bool:
    """Test whether the session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def require_spark() -> None:
    """Raises if pyspark is not installed."""
    try:
        import pyspark  # noqa: F401, PLC0415 - an optional package
    except ImportError:
        raise UsageError(
            "package `pyspark` is not installed",
            code="missing-spark",
            help="pip install 'upshot[spark]', or use the local engine",
        ) from None


def require_java(config: dict[str, Any]) -> None:
    """Raises if a local Spark is requested and there is no Java to run it."""
    if any(_setting(name) == "spark.remote" for name in config) or "SPARK_REMOTE" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    if (home and os.access(os.path.join(home, "bin", "java"), os.X_OK)) or (not home and shutil.which("java")):
        return
    where = f"`JAVA_HOME` is `{home}`, which has none" if home else "there is none on the path"
    raise UsageError(
        f"Spark needs Java 17 or newer, and {where}",
        code="missing-java",
        help="install one (Debian: `apt install openjdk-17-jre-headless`) or set `JAVA_HOME`; "
        "the local engine needs no Java",
    )


def workers_use_this_python(session: Any = None) -> None:
    """Workers would take `python3` from their path, which need not have our packages. A Spark that was started earlier
    keeps doing so, unless its workers are on this machine and the setting is changed."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    context = None if session is None or is_connect(session) else session.sparkContext
    if context is not None and context.master.startswith("local") and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def _setting(name: str) -> str:
    """`spark_sql_ansi_enabled` is `spark.sql.ansi.enabled`; names with a dot are used as they are."""
    return name if "." in name else name.replace("_", ".")


def _names_a_master() -> bool:
    """Test whether the environment or the arguments name a Spark master."""
    return bool({"MASTER", "SPARK_REMOTE"} & os.environ.keys()) or "--master" in os.environ.get(
        "PYSPARK_SUBMIT_ARGS", ""
    )


def _partitions(session: Any) -> int:
    """The number of tasks that can run at once, unless the user's session sets a number of partitions."""
    told = session.conf.get(PARTITIONS, None)
    if told:
        return max(1, int(told))
    for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
        if value := _known(session, name):
            return max(2, int(value))
    master = _known(session, "spark.master") or ""
    if master.startswith("local"):
        return max(2, local_tasks(master))
    # What else decides is known to the cluster only; this many tasks a range gets.
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    numbered = session.range(1 << 16).select(F.spark_partition_id().alias("part"))
    return max(2, int(numbered.agg(F.max("part")).collect()[0][0]) + 1)


def _known(session: Any, name: str) -> str | None:
    value = session.conf.get(name, None)
    return str(value) if value else None
