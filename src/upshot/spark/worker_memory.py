"""How much memory a Python worker may take before whoever runs it would end it."""

from __future__ import annotations

import re
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.machine_memory import available_memory

SETTING = "upshot.worker.memory"
"""The setting of the user's session that says so."""

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)b?\s*\Z", re.IGNORECASE)


def worker_memory(session: Any, tasks: int) -> int:
    """Bytes for each of the `tasks` that run at once in a process of Spark.

    On one machine half of it is for them all. On a cluster that ends containers (YARN, Kubernetes) they share what the
    executor has beyond its heap; a standalone one bounds nothing, and they get as much as the heap.
    """
    if told := session.conf.get(SETTING, None):
        return _bytes(told, SETTING)
    master = session.conf.get("spark.master", None) or ""
    if master.startswith("local"):
        return available_memory() // (2 * tasks)
    cores = max(1, int(session.conf.get("spark.executor.cores", None) or 1))
    if told := session.conf.get("spark.executor.pyspark.memory", None):
        return _bytes(told, "spark.executor.pyspark.memory", unit="m") // cores
    heap = _bytes(session.conf.get("spark.executor.memory", None) or "1g", "spark.executor.memory")
    if master.startswith("spark:"):
        return heap // cores
    overhead = session.conf.get("spark.executor.memoryOverhead", None)
    beyond = _bytes(overhead, "spark.executor.memoryOverhead", unit="m") if overhead else max(384 << 20, heap // 10)
    return beyond // cores


def _bytes(text: str, setting: str, unit: str = "") -> int:
    """A size as Spark writes it.

    >>> _bytes("4g", ""), _bytes("512", "", unit="m")
    (4294967296, 536870912)
    """
    match = _SIZE.match(text.strip())
    if match is None or not int(match[1]):
        message = f"the Spark setting `{setting}` cannot be `{text}`"
        raise UsageError(message, code="wrong-argument", help="write a size such as `4g` or `512m`")
    return int(match[1]) << _UNITS[match[2].lower() or unit]
