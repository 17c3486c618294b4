"""Choose the form of the kernel: plain Python for the first steps of a process, machine code from then on.

Loading Numba takes most of a second; a program with a few hundred facts is finished before that. If memory or file
descriptors are exhausted, the plain form continues and machine code is tried again later.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from typing import Any

from upshot.core.resources import address_space_left, exhausted, more_of
from upshot.engine.local.kernel.code_cache import Compilation, cache_folder, is_complete
from upshot.engine.local.kernel.plain import entries

log = logging.getLogger("upshot.engine")

PATIENCE = 25_000
"""The number of steps of the plain kernel in a process before machine code is loaded."""
LENIENCE = 40
"""The factor on `PATIENCE` while another thread is loading machine code, which takes seconds."""
WORTH_WAITING = 1_000_000
"""Work with more steps waits for machine code."""
TO_LOAD = 512 << 20
"""The address space in bytes that must be available to load machine code: it takes two fifths, the work needs the
rest."""
TO_COMPILE = 768 << 20
"""The address space in bytes that must be available to compile and load it: compiling takes half."""
_COMPILED = "upshot.engine.local.kernel.compiled"
_PLAIN = entries()


class Machine:
    """The kernel's entry points, one object per process, like compiled code. `seconds_waited`: the time that work has
    waited for machine code, about a minute if it had to be compiled."""

    def __init__(self) -> None:
        self.patience = PATIENCE
        self.is_compiled = False
        self.seconds_waited = 0.0
        self._lenience = 0
        self._has_lacked = False
        self._compilation = Compilation()
        self._bind(_PLAIN)

    def load(self) -> None:
        """Load machine code without switching to it; other threads continue without it while they have little work."""
        self._lenience = LENIENCE
        try:
            _require_room()
            self._compilation.start()
            self._compilation.wait()
            importlib.import_module(_COMPILED)
        finally:
            self._lenience = 0

    def run_out(self) -> None:
        """Switch to machine code, unless it is being compiled or loaded and the current work can continue without
        it."""
        if self.is_compiled:
            return
        can_go_on = self.patience > -WORTH_WAITING
        if not self._lenience and not self._is_starting():
            return
        if can_go_on and self._compilation.is_running:
            self.patience = PATIENCE
        elif can_go_on and self._lenience > 0:
            self._lenience -= 1
            self.patience = PATIENCE
        else:
            self.compile()

    def compile(self) -> None:
        """Switch to machine code now; unfinished runs continue from the same state words."""
        if self.is_compiled:
            return
        begun = time.monotonic()
        try:
            _require_room()
            self._compilation.wait()
            self._bind(importlib.import_module(_COMPILED).ENTRIES)
            self.is_compiled = True
        except Exception as error:  # noqa: BLE001 - raised again unless a resource ran out
            self._go_on_without(error)
        self.seconds_waited += time.monotonic() - begun

    def _is_starting(self) -> bool:
        """Start to compile machine code if it is missing; return False if a resource for that is exhausted."""
        try:
            _require_room()
            self._compilation.start()
        except Exception as error:  # noqa: BLE001 - raised again unless a resource ran out
            self._go_on_without(error)
            return False
        return True

    def _go_on_without(self, error: Exception) -> None:
        """Continue with the plain form, and try machine code again after more steps. Modules that were imported in part
        when a resource was exhausted may raise other errors the next time."""
        what = exhausted(error)
        if not what and not self._has_lacked:
            raise error
        if not self._has_lacked:
            # One string: the log of a service omits arguments.
            message = f"no {what} left to load machine code; the work goes on without it; {more_of(what)}"
            log.warning(message)
        self._has_lacked = True
        self.patience = LENIENCE * PATIENCE

    def expect(self, steps: int) -> None:
        """Announce work, so that machine code is loaded before a large amount starts."""
        if not self.is_compiled:
            self.patience -= steps
            if self.patience <= 0:
                self.run_out()

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
        self.drop_last_rows = entries["drop_last_rows"]
        self.build_index = entries["build_index"]
        self.retract = entries["retract"]
        self.matching = entries["matching"]
        self.find_rows = entries["find_rows"]
        self.walk = entries["walk"]
        self.fill_slots = entries["fill_slots"]
        self.number_codes = entries["number_codes"]


def _require_room() -> None:
    """Raise `MemoryError` if machine code does not fit into the address space: LLVM would abort the process."""
    left = address_space_left()
    if left is not None and left < (TO_LOAD if is_complete(cache_folder()) else TO_COMPILE):
        raise MemoryError("machine code does not fit into the address space")


MACHINE = Machine()
