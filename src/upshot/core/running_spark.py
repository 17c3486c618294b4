"""The running Spark session of this process. pyspark is used only if it has been imported."""

from __future__ import annotations

import sys
from typing import Any


def running_session() -> Any:
    """The running session: that of this thread, else that of the process; None if there is none."""
    if sys.modules.get("pyspark") is None or sys.modules.get("pyspark.sql") is None:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional package

    # A session is active only in the thread that created it.
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    context = getattr(running, "_sc", None)
    stopped = context is not None and context._jsc is None
    return None if stopped else running
