"""The Structured Streaming query of a pipeline: its micro-batches, and the end of the query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from upshot.core.errors import EngineError
from upshot.pipeline.batch.positions import Positions, write_positions
from upshot.pipeline.data_source import FORMAT, Movement, movements, register_positions
from upshot.pipeline.steps import tried
from upshot.spark.failures import translated
from upshot.spark.location import spark_path

_LOOK = 0.2
"""Seconds between two checks of the query while a batch is awaited."""

_PATIENCE = 10.0
"""Seconds for Spark to mark a finished batch as done before the query is stopped; an unmarked batch is delivered again
and found in the store."""


class StreamEnded(EngineError):
    """Spark ended the query, not because of a batch: it can be restarted at its position."""

    retryable = True


class Stream:
    """One query over the positions of all sources. `handle` is called for every batch, on a thread of Spark's."""

    def __init__(
        self, session: Any, name: str, folder: Path, handle: Callable[[int, Sequence[Movement]], None]
    ) -> None:
        self._session, self._name, self._folder, self._handle = session, name, folder, handle
        self._query: Any = None
        self._first, self._beginning = 0, "{}"
        self._changed = threading.Condition()
        self._busy = threading.Lock()
        self._stopping = False
        self._done = -1
        self._failure: BaseException | None = None

    @property
    def offered(self) -> Path:
        """The file with the positions that the stream moves to."""
        return self._folder / "offered.json"

    @property
    def checkpoint(self) -> Path:
        return self._folder / "checkpoint"

    def begin_at(self, folder: Path, batch: int, positions: Positions) -> None:
        """Begin again in a new folder: the next batch has this number and starts at these positions. A batch that was
        planned and not recorded is planned again."""
        self._folder, self._first, self._beginning = folder, batch, write_positions(positions)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, seconds: float) -> None:
        """Start the query, unless it runs; it polls the offered positions at this interval."""
        if self._query is not None:
            return
        # A failed batch is reported by the waiting caller; the bridge to Java would print it once more.
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
        self._stopping, self._done, self._failure = False, -1, None
        register_positions(self._session)
        reader = self._session.readStream.format(FORMAT).option("offered", str(self.offered))
        stream = reader.option("start", self._beginning).load()
        writer = stream.writeStream.queryName(self._name).foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", spark_path(self.checkpoint))
        self._query = writer.trigger(processingTime=f"{max(1, round(seconds * 1000))} milliseconds").start()

    def wait_for(self, done: Callable[[int], bool]) -> None:
        """Wait until the last handled batch satisfies `done`; raises the error of a batch."""
        while True:
            self.check()
            with self._changed:
                if done(self._done):
                    return
                if self._failure is None:
                    self._changed.wait(_LOOK)

    def check(self) -> None:
        """Raise the error of a batch, or that the query has ended."""
        active = self._query is None or self._query.isActive
        with self._changed:
            if self._failure is not None:
                raise self._failure
        if not active:
            words = f"Spark ended the stream: {_first_line(self._query.exception())}"
            raise StreamEnded(words, code="stream-ended", help="restart the pipeline; nothing is lost")

    def stop(self) -> None:
        """End the query after the current batch."""
        if self._query is None:
            return
        with self._busy:
            self._stopping = True
        if self._failure is None:
            self._let_spark_commit()
        self.abandon()

    def abandon(self) -> None:
        """End the query at once."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _batch(self, frame: Any, batch: int) -> None:
        with self._busy:
            if self._stopping:
                raise RuntimeError("the pipeline is stopping")
            try:
                self._handle(self._first + batch, tried(f"batch {batch}", lambda: _moved(frame)))
            except BaseException as error:
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                # Spark only needs to know that the batch failed; the waiting caller gets the error itself.
                raise RuntimeError(f"batch {batch} failed: {type(error).__name__}") from error
            with self._changed:
                self._done = batch
                self._changed.notify_all()

    def _let_spark_commit(self) -> None:
        until = time.monotonic() + _PATIENCE
        mark = self.checkpoint / "commits" / str(self._done)
        while self._done >= 0 and not mark.exists() and self._query.isActive and time.monotonic() < until:
            time.sleep(0.02)


def _moved(frame: Any) -> list[Movement]:
    """The movements of the batch, by a job that may lose its worker like any other."""
    try:
        return movements(frame.collect())
    except Exception as error:
        raise translated(error) from error


def _first_line(error: object) -> str:
    lines = str(error).splitlines() if error is not None else []
    return lines[0] if lines else "no reason is given"
