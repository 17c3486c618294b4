"""Checks of a session before anything depends on it. Each costs one small job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upshot.spark.failures import translated


def refuse_unfit_workers(session: Any) -> None:
    """Raise if the Python workers cannot run Upshot."""

    def imported(batches: Iterator[Any]) -> Iterator[Any]:
        import upshot.engine.spark.shard  # noqa: F401, PLC0415 - in the worker

        yield from batches

    try:
        session.range(1).mapInArrow(imported, "id long").collect()
    except Exception as error:
        raise translated(error) from error
