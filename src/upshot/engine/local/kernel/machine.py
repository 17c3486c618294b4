"""Which form of the kernel runs: the plain Python one while little has been done, machine code from then on.

Loading Numba takes most of a second; a program with a few hundred facts is finished before that.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from typing import Any

from upshot.core.exhausted import exhausted
from upshot.engine.local.kernel import changes, kernel, sets, sharing

log = logging.getLogger("upshot.engine")

PATIENCE = 25_000
"""How many steps the uncompiled kernel may take in a process, over all, before machine code is loaded."""
LENIENCE = 40
"""How many times that, if another thread is loading it: a matter of seconds, or of a minute where it has to be made
first."""
WORTH_WAITING = 1_000_000
"""Steps of one piece of work that is not begun without machine code."""
_COMPILED = "upshot.engine.local.kernel.compiled"


class Machine:
    """The kernel's entry points; one for the process, since compiled code is. `seconds_waited` is how long work had to
    wait for machine code, a matter of a minute where it has to be made first."""

    def __init__(self) -> None:
        self.patience = PATIENCE
        self.is_compiled = False
        self.seconds_waited = 0.0
        self._lenience = 0
        self._bind(
            {
                function.__name__: function
                for function in (*sets.ENTRIES, *changes.ENTRIES, *sharing.ENTRIES, *kernel.ENTRIES)
            }
        )

    def load(self) -> None:
        """Loads machine code without switching to it; other threads go on without it while they have little to do."""
        self._lenience = LENIENCE
        try:
            importlib.import_module(_COMPILED)
        finally:
            self._lenience = 0

    def compile(self) -> None:
        """Switch to machine code; what runs half-way goes on from the same state words. Not yet, if it is being loaded
        and the work at hand can be done without."""
        if not self.is_compiled and self._lenience > 0 and self.patience > -WORTH_WAITING:
            self._lenience -= 1
            self.patience = PATIENCE
        elif not self.is_compiled:
            begun = time.monotonic()
            try:
                self._bind(importlib.import_module(_COMPILED).ENTRIES)
                self.is_compiled = True
            except Exception as error:
                what = exhausted(error)
                if not what:
                    raise
                # The plain form does the same work, if slowly; machine code is tried again after some more of it.
                log.warning("there are no %s left to load machine code; the work goes on without it", what)
                self.patience = LENIENCE * PATIENCE
            self.seconds_waited += time.monotonic() - begun

    def expect(self, steps: int) -> None:
        """Tell the machine of work ahead, so that it compiles before it starts on a large one."""
        if not self.is_compiled:
            self.patience -= steps
            if self.patience <= 0:
                self.compile()

    def _bind(self, entries: dict[str, Callable[..., Any]]) -> None:
        self.run = entries["run"]
        self.execute = entries["execute"]
        self.close_holes = entries["close_holes"]
        self.rehash = entries["rehash"]
        self.stage = entries["stage"]
        self.stage_upsert = entries["stage_upsert"]
        self.key_conflicts = entries["key_conflicts"]
        self.settle = entries["settle"]
        self.finalize = entries["finalize"]
        self.accept = entries["accept"]
        self.rollback = entries["rollback"]
        self.build_index = entries["build_index"]
        self.retract = entries["retract"]
        self.matching = entries["matching"]
        self.find_rows = entries["find_rows"]


MACHINE = Machine()
