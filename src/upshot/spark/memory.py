"""The memory that the driver and the Python workers of Spark may take for rows."""

from __future__ import annotations

import os
import re
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.resources import available_memory

WORKER_MEMORY = "upshot.worker.memory"
"""The setting of the user's session for the bytes of each Python worker."""

DRIVER_MEMORY = "upshot.driver.memory"
"""The setting of the user's session for the bytes that the driver holds; with 0 everything is left to the executors."""

_DRIVER_SHARE = 8
"""Without the setting, the driver holds at most this part of the memory there is."""

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_LOCAL = re.compile(r"local\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\]")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)b?\s*\Z", re.IGNORECASE)


def driver_memory(session: Any) -> int:
    """Bytes of rows that the driver may hold."""
    told = session.conf.get(DRIVER_MEMORY, None)
    if told is None:
        return available_memory() // _DRIVER_SHARE
    return 0 if told.strip() == "0" else _bytes(told, DRIVER_MEMORY)


def worker_memory(session: Any) -> int:
    """Bytes for each of the tasks that run at once in a process of Spark.

    On one machine half of it is for them all. On a cluster that ends containers (YARN, Kubernetes) they share what the
    executor has beyond its heap; a standalone one bounds nothing, and they get as much as the heap.
    """
    if told := session.conf.get(WORKER_MEMORY, None):
        return _bytes(told, WORKER_MEMORY)
    master = session.conf.get("spark.master", None) or ""
    if master.startswith("local"):
        return available_memory() // (2 * local_tasks(master))
    cores = max(1, int(session.conf.get("spark.executor.cores", None) or 1))
    if told := session.conf.get("spark.executor.pyspark.memory", None):
        return _bytes(told, "spark.executor.pyspark.memory", unit="m") // cores
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
