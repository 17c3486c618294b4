"""Spark sessions: one of our own if the user has none, a private one beside the user's, and the memory for rows."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from upshot.core.errors import EngineError, UsageError
from upshot.core.resources import available_memory

NOT_STARTED = "spark-not-started"

PARTITIONS = "upshot.partitions"
"""The setting of the user's session for the number of partitions of our shuffles."""

WORKER_MEMORY = "upshot.worker.memory"
"""The setting of the user's session for the bytes of each Python worker."""

DRIVER_MEMORY = "upshot.driver.memory"
"""The setting of the user's session for the bytes that the driver holds; with 0 everything is left to the executors."""

_DRIVER_SHARE = 8
"""Without the setting, the driver holds at most one part in this many of the available memory."""

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_LOCAL = re.compile(r"local\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\]")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)b?\s*\Z", re.IGNORECASE)

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
    # Rows that a small change joins are broadcast. If they turn out to be too many, joins shuffle instead.
    "spark.sql.maxBroadcastTableSize": "256m",
    # A missing file is an error, also if the user's session has another setting.
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
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise EngineError(
            f"Spark did not start: {lines[0]}",
            code=NOT_STARTED,
            help="Spark 4 needs Java 17 or newer (`java -version`, `JAVA_HOME`); the output of Java is above",
        ) from error


def private_session(session: Any) -> Any:
    """A session beside the user's, on the same cluster, with our settings; those of the user's are not touched. Two
    things affect all sessions of the process: PySpark caches a few classes of Java from now on (`_cache_classes`), and
    workers on this machine that would take any `python3` take this one."""
    workers_use_this_python(session)
    if is_connect(session):
        private = session.cloneSession()
    else:
        _cache_classes(session.sparkContext._jvm)
        private = session.newSession()
        for name, value in _file_systems(session).items():
            private.conf.set(name, value)
    for name, value in _SETTINGS.items():
        private.conf.set(name, value)
    if memory := session.conf.get(WORKER_MEMORY, None):
        private.conf.set(WORKER_MEMORY, memory)
    parts = _partitions(session)
    private.conf.set("spark.sql.shuffle.partitions", parts)
    private.conf.set("spark.sql.files.minPartitionNum", parts)
    return private


def _file_systems(session: Any) -> dict[str, str]:
    """The settings of storages, keys among them: those made at run time are in the user's session only."""
    return {name: value for name, value in session.conf.getAll.items() if name.startswith(("fs.", "spark.hadoop."))}


@contextlib.contextmanager
def without_call_sites() -> Iterator[None]:
    """Inside, PySpark does not record the line of Python that makes a column, which doubles the time to make one: the
    lines would be ours and of no use to a user. PySpark reads the setting once per process; the value is saved and
    restored."""
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
    """Inside, frames are made without broadcasts: joins shuffle, at any expected size. The hint is set when a
    frame is created, so frames created outside keep theirs."""
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
    # Sizes were not as expected: Spark must measure them, and split a partition that one key makes large.
    "spark.sql.adaptive.enabled": "true",
}


def release(private: Any) -> None:
    """Release a private session. The classic one is freed with its last frame; the server of a Connect session keeps
    its state until then."""
    if is_connect(private):
        with contextlib.suppress(Exception):  # the server, or the user's own session, may be gone already
            private.client.release_session()
            private.client.close()


def is_connect(session: Any) -> bool:
    """Test whether the session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def require_spark() -> None:
    """Raise if pyspark is not installed."""
    try:
        import pyspark  # noqa: F401, PLC0415 - an optional package
    except ImportError:
        raise UsageError(
            "package `pyspark` is not installed",
            code="missing-spark",
            help="run `pip install '.[spark]'` in a clone of Upshot, or use the local engine",
        ) from None


def require_java(config: dict[str, Any]) -> None:
    """Raise if a local Spark is requested and there is no Java to run it."""
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
    if parts := session.conf.get(PARTITIONS, None):
        return max(1, int(parts))
    for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
        if value := _known(session, name):
            return max(2, int(value))
    master = _known(session, "spark.master") or ""
    if master.startswith("local"):
        return max(2, local_tasks(master))
    # Otherwise only the cluster has the number, which is the number of tasks of a range.
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    numbered = session.range(1 << 16).select(F.spark_partition_id().alias("part"))
    return max(2, int(numbered.agg(F.max("part")).collect()[0][0]) + 1)


def _known(session: Any, name: str) -> str | None:
    value = session.conf.get(name, None)
    return str(value) if value else None


# ---- classes of Java -------------------------------------------------------------------------------------------

_CLASSES = (
    "org.apache.spark.sql.functions",
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.classic.SparkSession",
)


def _cache_classes(java: Any) -> None:
    """Cache some classes of Java, and their methods, where PySpark looks for them with every column and frame.

    To find a class, Java searches some hundred archives, and PySpark does not cache the answer: so a third of the
    driver's time for a small round would be spent on the same few classes. Missing classes are looked up as before.
    """
    from py4j.java_gateway import JavaClass, JavaMember  # noqa: PLC0415 - an optional package

    class CachedClass(JavaClass):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                setattr(self, name, found)
            return found

    for name in _CLASSES:
        if name not in vars(java):
            found = getattr(java, name)
            if type(found) is JavaClass:
                setattr(java, name, CachedClass(found._fqn, found._gateway_client))


# ---- memory for rows -------------------------------------------------------------------------------------------


def driver_memory(session: Any) -> int:
    """The bytes of rows that the driver may hold."""
    setting = session.conf.get(DRIVER_MEMORY, None)
    if setting is None:
        return available_memory() // _DRIVER_SHARE
    return 0 if setting.strip() == "0" else _bytes(setting, DRIVER_MEMORY)


def worker_memory(session: Any) -> int:
    """Bytes for each of the tasks that run at once in a process of Spark.

    On one machine they share half of its memory. On a cluster that kills containers (YARN, Kubernetes) they share the
    memory of the executor beyond its heap; a standalone cluster bounds nothing, and they get as much as the heap.
    """
    if setting := session.conf.get(WORKER_MEMORY, None):
        return _bytes(setting, WORKER_MEMORY)
    master = session.conf.get("spark.master", None) or ""
    if master.startswith("local"):
        return available_memory() // (2 * local_tasks(master))
    cores = max(1, int(session.conf.get("spark.executor.cores", None) or 1))
    if setting := session.conf.get("spark.executor.pyspark.memory", None):
        return _bytes(setting, "spark.executor.pyspark.memory", unit="m") // cores
    heap = _bytes(session.conf.get("spark.executor.memory", None) or "1g", "spark.executor.memory")
    if master.startswith("spark:"):
        return heap // cores
    overhead = session.conf.get("spark.executor.memoryOverhead", None)
    beyond = _bytes(overhead, "spark.executor.memoryOverhead", unit="m") if overhead else max(384 << 20, heap // 10)
    return beyond // cores


def local_tasks(master: str) -> int:
    """The number of tasks that a master on this machine runs at a time.

    >>> local_tasks("local"), local_tasks("local[3]"), local_tasks("local[4,2]"), local_tasks("local-cluster[2,3,1024]")
    (1, 3, 4, 6)
    """
    if parts := _LOCAL_CLUSTER.match(master):
        return max(1, int(parts[1]) * int(parts[2]))
    match = _LOCAL.match(master)
    if match is None:
        return 1
    return max(1, os.cpu_count() or 1 if match[1] == "*" else int(match[1]))


def _bytes(text: str, setting: str, unit: str = "") -> int:
    """A size as Spark writes it.

    >>> _bytes("4g", ""), _bytes("512", "", unit="m")
    (4294967296, 536870912)
    """
    match = _SIZE.match(text.strip())
    if match is None or not int(match[1]):
        message = f"invalid Spark setting `{setting}`: `{text}`"
        raise UsageError(message, code="wrong-argument", help="write a size such as `4g` or `512m`")
    return int(match[1]) << _UNITS[match[2].lower() or unit]
