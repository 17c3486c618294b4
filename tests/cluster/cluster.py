"""A standalone Spark cluster on loopback: a master and workers, processes of their own, that a test may kill.

Started with the `spark-class` script inside the pyspark package; nothing else needs to be installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spark_jvm import jvm_options

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a process has to come up; a quiet machine takes three."""


class Cluster:
    """`folder` takes logs, working folders and shuffle files. Ended by `stop`, process by process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.port = _free_port()
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(self.port))
        self._wait_for("master", r"Starting Spark master")

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def add_worker(self) -> None:
        """One more worker with one core; back when the master knows it."""
        name = f"worker{len(self.workers)}"
        options = ("--host", HOST, "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name))
        started = self._start(name, "org.apache.spark.deploy.worker.Worker", *options, self.master)
        self.workers.append(started)
        self._wait_for(name, r"Successfully registered with master")

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
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ---- starting -------------------------------------------------------------------------------------

    def _start(self, name: str, java_class: str, *options: str) -> subprocess.Popen[bytes]:
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [script("spark-class"), java_class, "--webui-port", "0", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.folder,
            )
        self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        return {
            # Not the settings of this machine: those of pyspark itself, which come with the class path of the archive.
            **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",  # master and worker only hand out work
            "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
            "SPARK_LAUNCHER_OPTS": jvm_options(),
            "PYSPARK_PYTHON": sys.executable,
        }

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _wait_for(self, name: str, pattern: str) -> None:
        log = self._log(name)
        eventually(
            lambda: bool(re.search(pattern, log.read_text(errors="replace"))),
            f"the {name} to start:\n{log.read_text(errors='replace')[-2000:]}",
        )


def script(name: str) -> str:
    """One of the scripts that come with pyspark."""
    import pyspark  # noqa: PLC0415  (optional package)

    return str(Path(pyspark.__file__).parent / "bin" / name)


def eventually(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


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
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": jvm_options(),
        "upshot.partitions": "2",  # its cores; else each database starts with a job that counts them
        "spark.local.dir": str(cluster.folder / "local"),
        "spark.sql.warehouse.dir": str(cluster.folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # What is lost is noticed in a second or two, not in the two minutes that suit a data centre.
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
