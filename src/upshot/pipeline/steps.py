"""The steps of a batch, in order, by name.

    read ─► quarantine ─► stage ─► record ═► publish ─► finish
                                      │
                        the commit point: before it nothing is applied, after it only sinks have to catch up

A process may die between any two of them. A batch that is not recorded is read again from the same positions; a
recorded one continues with `publish`.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

from upshot.core.errors import Error


class Step(StrEnum):
    READ = "read"
    """Spark reads the ranges of the sources that moved."""
    QUARANTINE = "quarantine"
    """Rows that do not fit are written to the quarantine."""
    STAGE = "stage"
    """The rows become statements of one transaction."""
    RECORD = "record"
    """The change is propagated and committed, with the batch and the positions in the same record."""
    PUBLISH = "publish"
    """The sinks take the new version."""
    FINISH = "finish"
    """Staged copies that no replay needs are removed; then Spark marks the batch as done."""


class Point(StrEnum):
    """Places inside a step where a killed process leaves the most behind."""

    RECORDED = "recorded"
    """after the commit, before the first sink"""
    CREATE = "create"
    """a Delta sink will be made next, and the state already announces it"""
    RENAME = "rename"
    """a folder is written, but does not have its name yet"""
    POINTER = "pointer"
    """a snapshot is there, but the pointer names the one before"""


POINTS: tuple[str, ...] = (*Step, *Point)
"""Every place where `UPSHOT_FAULT_AT` can end the process."""

_passed: Counter[str] = Counter()


def reached(place: Step | Point) -> None:
    """Kill this process if a test requests it: `UPSHOT_FAULT_AT=record:2` at the second record."""
    if os.environ.get("UPSHOT_TESTING") != "1":
        return
    wanted, _, number = os.environ.get("UPSHOT_FAULT_AT", "").partition(":")
    if wanted == place:
        _passed[wanted] += 1
        if _passed[wanted] == int(number or 1):
            die()


def die() -> None:
    """End the process as a power cut would, without clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Stopwatch:
    """The seconds of each step; `on_step` is called with each one as it begins."""

    def __init__(self, on_step: Callable[[Step], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._on_step = on_step

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        reached(step)
        self._on_step(step)
        began = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - began
            self.seconds[step.value] = self.seconds.get(step.value, 0.0) + taken


# ---- attempts ----------------------------------------------------------------------------------------------

log = logging.getLogger("upshot.pipeline")

ATTEMPTS = 3

Result = TypeVar("Result")


def tried(what: str, attempt: Callable[[], Result]) -> Result:
    """The result of the first successful attempt, as after a lost worker or a conflict with another writer of a table.
    Errors that are not `retryable`, and the last one, are raised."""
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except Error as error:
            if not error.retryable:
                raise
            log.warning("%s, attempt %d of %d: %s", what, number, ATTEMPTS, error.message)
    return attempt()
