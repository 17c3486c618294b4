"""The progress of a running pipeline on a terminal: a line for each finished batch, and the current step."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import IO, TYPE_CHECKING

from upshot.core.errors import counted
from upshot.pipeline.metrics import BatchMetrics
from upshot.pipeline.steps import Step

if TYPE_CHECKING:
    from rich.status import Status

_WORDS = {
    Step.READ: "reading sources",
    Step.QUARANTINE: "quarantining invalid rows",
    Step.STAGE: "staging rows",
    Step.RECORD: "maintaining views",
    Step.PUBLISH: "writing sinks",
    Step.FINISH: "finishing",
}


def summary(metrics: BatchMetrics) -> str:
    """One line on a batch.

    >>> from upshot.pipeline.metrics import RuleMetrics, SourceMetrics, ViewMetrics
    >>> sources, views = {"edge": SourceMetrics(3, bad=1)}, {"path": ViewMetrics(5, 2)}
    >>> took = {"read": 0.5, "record": 0.25}
    >>> summary(BatchMetrics("p", 7, 9, "", sources, views, seconds=took, jobs=4, engine="local"))
    'batch 7, version 9: 3 rows in, 1 bad; path +5 -2; 0.75 s, 4 jobs, local engine'
    >>> rules = {"up": RuleMetrics(firings=1, rows=2)}
    >>> summary(BatchMetrics("p", 8, 10, "", {}, {}, rules, 1, took, 4, "local"))
    'batch 8, version 10: 0 rows in; no view changed; up fired for 2; 1 action pending; 0.75 s, 4 jobs, local engine'
    """
    head = f"batch {metrics.batch}, version {metrics.version}"
    took = f"{sum(metrics.seconds.values()):.2f} s, {counted(metrics.jobs, 'job')}"
    if metrics.replayed:
        return f"{head}: already recorded, sinks updated; {took}"
    bad = f", {metrics.bad} bad" if metrics.bad else ""
    changed = ", ".join(f"{name} +{view.inserted} -{view.deleted}" for name, view in metrics.views.items())
    parts = [f"{head}: {counted(metrics.rows, 'row')} in{bad}", changed or "no view changed"]
    if metrics.rules:
        parts.append(", ".join(f"{name} fired for {rule.rows}" for name, rule in metrics.rules.items()))
    if metrics.pending:
        parts.append(f"{counted(metrics.pending, 'action')} pending")
    return "; ".join([*parts, f"{took}, {metrics.engine} engine"])


class Display:
    """Lines on a stream; on a terminal also the current step, in a line that is overwritten."""

    def __init__(self, stream: IO[str], *, moving: bool) -> None:
        self._stream, self._moving = stream, moving
        self._status: Status | None = None
        self._batches = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Display:
        if self._moving:
            from rich.console import Console  # noqa: PLC0415 - only where something is drawn

            # A separate handle: while Spark starts, standard error is redirected.
            self._stream = os.fdopen(os.dup(self._stream.fileno()), "w", encoding="utf-8")
            self._status = Console(file=self._stream, highlight=False).status("starting Spark")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._stream.close()

    def step(self, batch: int, step: Step) -> None:
        self._say(f"batch {batch}: {_WORDS[step]}")

    def batch(self, metrics: BatchMetrics) -> None:
        self._batches += 1
        self.note(summary(metrics))
        self._say(f"waiting for changes, {self._batches:,} batch{'es' * (self._batches != 1)} so far")

    def note(self, words: str) -> None:
        """Print a line."""
        with self._lock:
            if self._status is not None:
                self._status.console.print(words, markup=False, soft_wrap=True)
            else:
                self._stream.write(words + "\n")
                self._stream.flush()

    def _say(self, words: str) -> None:
        with self._lock:
            if self._status is not None:
                self._status.update(words)
