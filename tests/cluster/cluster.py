"""A standalone Spark cluster on loopback: a master and workers, processes of their own, that a test may kill.

Started with the `spark-class` script inside the pyspark package; nothing else needs to be installed. Workers of a
cluster that is `apart` share no disk with the driver, nor with each other: each has a temporary directory of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cluster import object_store
from tests.cluster.processes import HOST, Processes, eventually, free_port
from tests.spark_jvm import jvm_options, spark_home

ROOT = Path(__file__).resolve().parent.parent.parent

_APART = """
set -e
hidden=$1 empty=$2 shown=$3; shift 3
mount -t tmpfs -o size=2g tmpfs "$empty"
IFS=:
for path in $shown; do
  mkdir -p "$empty/$path"
  mount --bind "$hidden/$path" "$empty/$path"
  mount -o remount,bind,ro "$empty/$path"
done
unset IFS
mount --move "$empty" "$hidden"
cd "$hidden"
exec "$@"
"""
"""Runs a command in a mount namespace in which the folder `hidden` is empty but for the folders `shown` below it, which
cannot be written. `empty` is a mount point."""


class Cluster:
    """`folder` takes logs, and working folders and shuffle files of workers that are not apart. `stop` ends it, process
    by process."""

    def __init__(self, folder: Path, *, apart: bool = False) -> None:
        self.folder, self.apart = folder, apart
        self._processes = Processes(folder)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        options = ("--webui-port", "0", "--host", HOST, "--port", str(self.port))
        command = [script("spark-class"), "org.apache.spark.deploy.master.Master", *options]
        self._processes.start("master", command, self._environment())
        self._processes.wait_for_log("master", r"Starting Spark master")

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def add_worker(self) -> None:
        """One more worker with one core; back when the master knows it."""
        name = f"worker{len(self.workers)}"
        work = Path(tempfile.gettempdir() if self.apart else self.folder, name)
        # Spark takes executors with one address for neighbors, and has them read each other's disk.
        host = f"127.0.1.{len(self.workers) + 1}" if self.apart else HOST
        options = ("--webui-port", "0", "--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(work))
        command = [script("spark-class"), "org.apache.spark.deploy.worker.Worker", *options, self.master]
        if self.apart:
            command = [*in_a_namespace_apart(self.folder / f"{name}-root"), *command]
        environment = {**self._environment(name), "SPARK_LOCAL_IP": host}
        self.workers.append(self._processes.start(name, command, environment))
        self._processes.wait_for_log(name, r"Successfully registered with master")

    def executors(self, worker: int) -> list[int]:
        """The process ids of the executors that a worker has started and that still live."""
        return _children(self.workers[worker].pid, "CoarseGrainedExecutorBackend")

    def kill_executor(self, worker: int) -> None:
        """The hard way, with everything it holds; its worker starts another."""
        _kill(self.executors(worker))

    def freeze_executors(self) -> None:
        """A task that is given to one of them from now on begins, and does not end before they are thawed or killed."""
        self._signal_executors(signal.SIGSTOP)

    def thaw_executors(self) -> None:
        self._signal_executors(signal.SIGCONT)

    def _signal_executors(self, number: signal.Signals) -> None:
        for worker in self.living():
            for pid in self.executors(worker):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def kill_worker(self, worker: int) -> None:
        """A machine that is gone: the worker first, so that it starts no other executor, then its executors."""
        executors = self.executors(worker)
        self.workers[worker].kill()
        self.workers[worker].wait()
        _kill(executors)

    def wait_for_executors(self) -> None:
        """Back when every living worker has its executor: what a test kills must be there."""
        for worker in self.living():
            eventually(lambda worker=worker: bool(self.executors(worker)), f"an executor of worker {worker}")

    def living(self) -> list[int]:
        return [number for number, worker in enumerate(self.workers) if worker.poll() is None]

    def stop(self) -> None:
        self._processes.stop()

    # ---- starting -------------------------------------------------------------------------------------

    def _environment(self, name: str = "") -> dict[str, str]:
        """Of a worker with this name, or of the master."""
        local = Path(tempfile.gettempdir(), f"{name}-local") if self.apart else self.folder / "local"
        return {
            # Not the settings of this machine: those of pyspark itself, which come with the class path of the archive.
            **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_DAEMON_MEMORY": "256m",  # master and worker only hand out work
            "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
            "SPARK_LAUNCHER_OPTS": jvm_options(),
            # Applications leave their jars behind: two dozen of them fill the disk of a worker that is apart.
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true -Dspark.worker.cleanup.interval=60 "
            "-Dspark.worker.cleanup.appDataTtl=60",
            "PYSPARK_PYTHON": sys.executable,
            # The Upshot of this repository, whichever is installed.
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH")))),
        }


def script(name: str) -> str:
    """One of the scripts that come with pyspark."""
    return f"{spark_home()}/bin/{name}"


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@functools.cache
def missing_for_apart() -> str:
    """Why processes cannot be given a temporary directory of their own; empty if they can."""
    with tempfile.TemporaryDirectory() as empty:
        try:
            command = [*in_a_namespace_apart(Path(empty)), "test", "!", "-e", empty]
            tried = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except OSError as error:
            return f"needs unshare and mount (Debian: util-linux): {error}"
    said = (tried.stderr.strip().splitlines() or ["the temporary directory stays visible"])[-1]
    return "" if tried.returncode == 0 else f"needs the right to make mount namespaces: {said}"


def in_a_namespace_apart(empty: Path, *shown_too: Path) -> list[str]:
    """What comes before a command so that it sees the temporary directory empty, but for what it needs to run."""
    empty.mkdir(parents=True, exist_ok=True)
    hidden = Path(tempfile.gettempdir()).resolve()
    imported = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    needed = {path.resolve() for path in (ROOT, Path(sys.prefix), Path(sys.base_prefix), *imported, *shown_too)}
    shown = [str(path.relative_to(hidden)) for path in sorted(needed) if path.is_relative_to(hidden)]
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return [
        "unshare",
        "--mount",
        *as_root,
        "sh",
        "-c",
        _APART,
        "sh",
        str(hidden),
        str(empty.resolve()),
        ":".join(shown),
    ]


def _children(parent: int, words: str) -> list[int]:
    """The direct children of a process whose command line contains the words."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status, command = (entry / "stat").read_text(), (entry / "cmdline").read_text()
        except OSError:
            continue  # ended while we looked
        if int(status.rpartition(")")[2].split()[1]) == parent and words in command:
            found.append(int(entry.name))
    return found


def session(cluster: Cluster, **settings: str) -> Any:
    """A session on the cluster, one executor of one core a worker."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = HOST
    builder = SparkSession.builder.master(cluster.master).appName("upshot fault tests")
    usual = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": jvm_options(),
        "upshot.partitions": "2",  # its cores; else each database starts with a job that counts them
        "spark.local.dir": str(cluster.folder / "local"),
        "spark.sql.warehouse.dir": str(cluster.folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **object_store.session_settings(),
        "spark.ui.showConsoleProgress": "false",
        "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine Python and Java take long to meet
        # What is lost is noticed in a second or two, not in the two minutes that suit a data center.
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "2s",
        # An executor that fails often is what these tests are about, not a reason to give up on the application.
        "spark.deploy.maxExecutorRetries": "-1",
    }
    for name, value in {**usual, **settings}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made
