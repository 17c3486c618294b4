"""Strikes at a cluster while somebody works on it: executors are killed in the middle of a task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.cluster import Cluster


def busy_jobs(spark: Any) -> set[int]:
    """The jobs of which a task is running right now."""
    tracker, found = spark.sparkContext.statusTracker(), set()
    for number in tracker.getActiveJobsIds():
        job = tracker.getJobInfo(number)
        stages = [tracker.getStageInfo(stage) for stage in (job.stageIds if job else ())]
        if any(stage and stage.numActiveTasks for stage in stages):
            found.add(number)
    return found


def newest_job(spark: Any) -> int:
    """The number of the last job so far, of those that belong to no group; they are numbered as they begin."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1)


class Retried(logging.Handler):
    """Hears of every attempt that failed and is made again: in the engine, in a batch, at a sink."""

    LOGGERS = ("upshot.spark", "upshot.pipeline")

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "attempt" in record.getMessage():
            self.heard.append(record.getMessage())

    def __enter__(self) -> Retried:
        for name in self.LOGGERS:
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.LOGGERS:
            logging.getLogger(name).removeHandler(self)


class Striker:
    """After `arm`, `kill` is called while a task runs, once a job, until an attempt has failed of it or `disarm` is
    called: an executor that dies between two tasks is replaced without anybody noticing. So that even the shortest
    task still runs then, executors are frozen when it is armed. `struck` has a line for each arming in which executors
    died under a task, `failed` for each that made an attempt fail: Spark may also give the task to another executor."""

    def __init__(self, spark: Any, cluster: Cluster, kill: Callable[[], None], failures: Callable[[], int]) -> None:
        """`failures`: how many attempts have failed so far."""
        self._spark, self._cluster, self._kill, self._failures = spark, cluster, kill, failures
        self._armed: tuple[str, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.struck: list[str] = []
        self.failed: list[str] = []

    def __enter__(self) -> Striker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def arm(self, what: str) -> None:
        self.disarm()
        self._cluster.freeze_executors()
        self._armed = what, self._failures()

    def disarm(self) -> None:
        armed, self._armed = self._armed, None
        if armed is not None:
            self._cluster.thaw_executors()
        if armed is not None and self._failures() > armed[1]:
            self.failed.append(armed[0])

    def _watch(self) -> None:
        killed: set[int] = set()
        while not self._ended.is_set():
            armed = self._armed
            if armed is not None and self._failures() == armed[1]:
                busy = busy_jobs(self._spark)
                if busy - killed and self._armed is armed:
                    self._kill()
                    killed |= busy
                    self.struck.append(armed[0])
            time.sleep(0.005)
