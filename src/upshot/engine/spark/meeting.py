"""Tasks of one job that run at the same time and tell each other, through a folder that all see, what they have sent.

A task that fails, or is started a second time, ends the meeting for all: the driver starts anew. So does one that waits
in vain for the others to begin: Spark may have no room for all of them at once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from upshot.spark.failures import CarriedError

LOST = -3
"""In place of a set of rows: a task was lost."""

APART = -4
"""In place of a set of rows: the tasks did not run at the same time."""

PATIENCE = 20.0
"""Seconds that tasks wait for the others to begin."""

_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.05

Sent = tuple[int, int, str]
"""To which task, of which view, in which file."""


class Ended(Exception):
    """The meeting was ended by somebody; `reason` is what is listed in place of rows."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"the meeting of parts was ended: {reason}")
        self.reason = reason


class Meeting:
    """As the task with a number, of `count`, sees it."""

    def __init__(self, folder: Path, number: int, count: int, patience: float = PATIENCE) -> None:
        self._folder, self._number, self._count, self._patience = folder, number, count, patience
        self._steps = 0

    def join(self) -> None:
        """Wait until all have begun."""
        self._look_for_end()
        try:
            os.close(os.open(self._folder / f"begun-{self._number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            # Whoever was here before was lost, with what it had.
            self.end(LOST)
            raise Ended(LOST) from None
        deadline = time.monotonic() + self._patience

        def late() -> None:
            if time.monotonic() > deadline:
                self.end(APART)

        self._wait([f"begun-{number}" for number in range(self._count)], late)

    def exchanged(self, sent: Sequence[Sent]) -> list[Sent] | None:
        """Tell what this task has sent and wait for what the others have; what is for it. None: nobody sent any."""
        name = f"step-{self._steps}"
        self._write(f"{name}-{self._number}", sent)
        names = [f"{name}-{number}" for number in range(self._count)]
        self._wait(names)
        self._steps += 1
        everything = [tuple(each) for name in names for each in json.loads((self._folder / name).read_text())]
        return [each for each in everything if each[0] == self._number] if everything else None

    def end(self, reason: int, carried: str = "") -> None:
        """End it for all; the first reason counts."""
        if not (self._folder / "end").exists():
            self._write("end", [reason, carried])

    def _wait(self, names: Sequence[str], meanwhile: Callable[[], None] = lambda: None) -> None:
        wait = _FIRST_WAIT
        waiting = list(names)
        while waiting := [name for name in waiting if not (self._folder / name).exists()]:
            self._look_for_end()
            meanwhile()
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _look_for_end(self) -> None:
        if (self._folder / "end").exists():
            reason, carried = json.loads((self._folder / "end").read_text())
            if carried:
                # Spark may try a failed task again: it has to fail by the same error then.
                raise CarriedError(carried)
            raise Ended(reason)

    def _write(self, name: str, content: object) -> None:
        """The file is there only when it is whole."""
        draft = self._folder / f"{name}.draft-{self._number}"
        draft.write_text(json.dumps(content))
        draft.rename(self._folder / name)
