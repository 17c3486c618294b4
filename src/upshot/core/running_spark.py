"""The Spark session of this process, if there is one. Nothing here imports pyspark that is not imported already."""

from __future__ import annotations

import sys
from typing import Any


def running_session() -> Any:
    """The session that is running: this thread's own, else the one that the process started. It is not stopped here."""
    if sys.modules.get("pyspark") is None or sys.modules.get("pyspark.sql") is None:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional package

    # A session is active in the thread that made it; other threads have the same Spark all the same.
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    context = getattr(running, "_sc", None)
    stopped = context is not None and context._jsc is None
    return None if stopped else running
