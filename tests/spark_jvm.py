"""How every JVM of the tests runs. `python -m tests.spark_jvm` writes Spark's classes into an archive that they share.

A JVM that starts Spark spends half of its first seconds finding, reading and verifying classes; with the archive it
maps them instead. Java itself sees to it that an archive fits the jars on the class path, and else goes without it.

Python processes of Spark import PySpark from a zip without byte code, if its home has one: each compiles for half a
second what it imports, and a stream has a process of its own. The tests' home of Spark has none, so that they take the
installed package.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from tests.missing import java_version

PATIENCE = 600.0
"""Seconds that writing the archive may take; a quiet machine needs half a minute."""


@functools.cache
def jvm_options() -> str:
    """Small jobs end before the code that the second compiler makes of them has paid for itself, and its threads take
    the cores that the tests run on: one compiler and one collector do. What is computed is the same."""
    archive = archive_path()
    shared = f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive and archive.exists() else ""
    return "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" + shared


def archive_path() -> Path | None:
    """Where the classes of this Spark are kept for this Java; nowhere, if one of the two is missing."""
    spark = spark_home()
    version = java_version()[1]
    return spark / f"java-{version}.jsa" if spark and version else None


@functools.cache
def spark_home() -> Path | None:
    """The installed Spark without its zip of PySpark: links in a folder of the environment."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent.resolve()
    if not os.access(sys.prefix, os.W_OK):
        return package
    home = Path(sys.prefix, f"spark-{importlib.metadata.version('pyspark')}")
    home.mkdir(exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        if (home / name).resolve() != package / name:
            link = home / f".{name}.{os.getpid()}"
            link.symlink_to(package / name)
            link.replace(home / name)
    return home


def write_archive(archive: Path) -> str:
    """What kept the archive from being written, or nothing."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    options = f"{jvm_options()} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_HOME"] = str(archive.parent)
    try:
        command = [sys.executable, "-c", "from tests.spark_jvm import load_classes; load_classes()"]
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)
        unfinished.replace(archive)
    except (OSError, subprocess.SubprocessError) as error:
        unfinished.unlink(missing_ok=True)
        return str(error)
    return ""


def load_classes() -> None:
    """Has a JVM do a little of all that the tests do; back when it has ended, and with it the archive is written."""
    import pyarrow  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    rows = session.createDataFrame(pyarrow.table({"x": [1, 2, 3], "y": ["a", "b", None]}))
    copied = rows.mapInArrow(lambda batches: batches, rows.schema).repartition(2, "x")
    copied.join(rows.groupBy("x").count(), "x").union(rows.selectExpr("x", "y", "1")).distinct().toArrow()
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def main() -> int:
    archive = archive_path()
    if archive is None or archive.exists():
        return 0
    sys.stdout.write(f"writing the classes of Spark for {archive.stem}, once\n")
    sys.stdout.flush()
    if missing := write_archive(archive):
        sys.stdout.write(f"they were not written, and every JVM reads them for itself: {missing}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
