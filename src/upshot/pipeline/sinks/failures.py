"""Translate the failures of sinks into errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from upshot.core.errors import EngineError, Error, system_reason
from upshot.spark.failures import translated


def sink_failed(what: str, reason: str) -> EngineError:
    """The error for a write that may succeed the next time, as after a conflict with another writer."""
    failed = EngineError(
        f"cannot write {what}: {reason}",
        code="sink-failed",
        help="nothing is lost: the next run writes the recorded change",
    )
    failed.retryable = True
    return failed


def lost_rows(what: str, rows: int, found: int) -> EngineError:
    """The error for a write by Spark after which another number of rows is there than was written."""
    return EngineError(
        f"{what} has {found} rows, and {rows} were written by Spark",
        code="lost-rows",
        help="check that the driver and all executors can use the storage, and that nothing else writes there; a Delta "
        "table must be removed, and the next run writes it again",
    )


@contextmanager
def spark_writes(what: str) -> Iterator[None]:
    """Translate the exceptions of Spark inside the block into ours."""
    try:
        yield
    except Exception as error:
        raise _sink_error(what, translated(error)) from error


@contextmanager
def disk_writes(what: str) -> Iterator[None]:
    """Raise an error of the file system as `sink-failed`."""
    try:
        yield
    except OSError as error:
        reason = system_reason(error)
        raise sink_failed(what, f"{reason}: `{error.filename}`" if error.filename else reason) from error


def _sink_error(what: str, error: Error) -> Error:
    # The change is committed in the store: the help of Spark's own errors about transactions is wrong here.
    return sink_failed(what, error.message) if error.code in ("spark-failed", "lost-worker") else error
