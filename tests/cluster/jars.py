"""Jars of HDFS's servers and of Spark's way to S3, for the Hadoop that comes with pyspark.

`python -m tests.cluster.jars` fetches them from Maven Central, with the resolver that Spark has for its packages; `make
system` calls it. They are kept in the user's cache folder, 70 MB, so that all clones share them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

AWS_SDK = "2.35.4"
"""The version hadoop-aws is built with. It asks for the bundle of all services, 690 MB; those that it uses take 11."""

HDFS = "hadoop-client-minicluster"
S3 = "hadoop-aws"
NEEDED = (HDFS, S3, "s3-transfer-manager", "sts")
PATIENCE = 900.0


def hadoop_version() -> str:
    """The version of Hadoop in pyspark's `jars`, or nothing without pyspark."""
    names = [jar.name for jar in spark_jars().glob("hadoop-client-api-*.jar")]
    found = re.fullmatch(r"hadoop-client-api-(.+)\.jar", names[0]) if names else None
    return found[1] if found else ""


def spark_jars() -> Path:
    import pyspark  # noqa: PLC0415  (optional package)

    return Path(pyspark.__file__).parent / "jars"


def folder() -> Path:
    """Where the jars are kept: below `UPSHOT_JARS`, or the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("UPSHOT_JARS") or home / "upshot" / "jars") / f"hadoop-{hadoop_version()}"


def hdfs_jars() -> list[Path]:
    """What HDFS's servers need beside pyspark's jars; nothing if it was not fetched."""
    return sorted(folder().glob(f"*{HDFS}-*.jar"))


def s3_jars() -> list[Path]:
    """What Spark needs for `s3a:`; nothing if it was not fetched. Netty and the like are those of Spark."""
    if not any(folder().glob(f"*{S3}-*.jar")):
        return []
    wanted = (
        "org.apache.hadoop_hadoop-aws",
        "software.amazon",
        "org.wildfly",
        "org.reactivestreams",
        "org.apache.http",
    )
    return sorted(jar for jar in folder().glob("*.jar") if jar.name.startswith(wanted))


def missing_for_hdfs() -> str:
    return "" if hdfs_jars() else f"needs {HDFS} {hadoop_version()}: `make system` fetches it"


def missing_for_s3() -> str:
    return "" if s3_jars() else f"needs {S3} {hadoop_version()}: `make system` fetches it"


def fetch() -> str:
    """What kept the jars from being fetched, or nothing."""
    packages = [f"org.apache.hadoop:{name}:{hadoop_version()}" for name in (HDFS, S3)]
    packages += [f"software.amazon.awssdk:{name}:{AWS_SDK}" for name in ("s3-transfer-manager", "sts")]
    left_out = ["software.amazon.awssdk:bundle", *(f"org.apache.hadoop:hadoop-client-{n}" for n in ("api", "runtime"))]
    return fetch_packages(packages, left_out, NEEDED, folder())


def fetch_packages(packages: list[str], left_out: list[str], needed: tuple[str, ...], target: Path) -> str:
    """Fetch packages and what they depend on into a folder, all or nothing; what kept them from it, or nothing.
    `needed` are names of artifacts that must be among them."""
    with tempfile.TemporaryDirectory() as temporary:
        script = Path(temporary, "nothing.py")
        script.touch()
        command = [
            str(spark_jars().parent / "bin" / "spark-submit"), "--master", "local[1]", "--packages", ",".join(packages),
            *(["--exclude-packages", ",".join(left_out)] if left_out else []),
            "--conf", f"spark.jars.ivy={temporary}", str(script),
        ]  # fmt: skip
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_jars().parent)}
        try:
            run = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {PATIENCE:.0f} s"
        fetched = list(Path(temporary, "jars").glob("*.jar"))
        if run.returncode or not all(any(f"_{name}-" in jar.name for jar in fetched) for name in needed):
            return (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        target.mkdir(parents=True, exist_ok=True)
        for jar in fetched:
            unfinished = target / f".{jar.name}"
            unfinished.write_bytes(jar.read_bytes())
            unfinished.replace(target / jar.name)
    return ""


def main() -> int:
    if hdfs_jars() and s3_jars():
        sys.stdout.write(f"jars of HDFS and S3: those of Hadoop {hadoop_version()} are there\n")
        return 0
    sys.stdout.write(f"jars of HDFS and S3: fetching those of Hadoop {hadoop_version()}\n")
    sys.stdout.flush()
    if missing := fetch():
        sys.stderr.write(f"missing: jars of HDFS and S3 ({missing}); tests on them are skipped\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
