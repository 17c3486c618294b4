"""Machine code for the engine, loaded beside the work.

A process begins with the engine's plain form, and loads Numba when that has done so much that it pays. It would be a
commit that waits for it, for a second or more; a service that stays loads it before, while nobody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from upshot.core.errors import UsageError
from upshot.core.exhausted import exhausted
from upshot.database.database import Database
from upshot.engine.local.kernel.machine import MACHINE
from upshot.service import logs

AFTER = 2.0
"""Seconds: a process that ends sooner does not pay for it."""


@contextmanager
def warming(database: Database, after: float = AFTER) -> Iterator[None]:
    """Loads the machine code on a thread of its own, some seconds after the block was entered."""
    timer = threading.Timer(after, _warm, (database,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warm(database: Database) -> None:
    try:
        # The slow part needs nothing of the database; the switch happens while nothing runs.
        MACHINE.load()
        with database.reading():
            MACHINE.compile()
    except UsageError:
        return  # closed in the meantime
    except Exception as error:
        what = exhausted(error)
        if not what:
            raise
        logs.service.warning("there are no %s left to load machine code; it is loaded when work needs it", what)
