"""The two forms of the kernel, each on demand: plain Python, machine code, or the change from one to the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import upshot
from tests.properties.settings import case_count
from upshot.engine.local.kernel.machine import Machine
from upshot.engine.local.storage import cells

FORMS = ("plain", "compiled")
NEVER = 1 << 60
"""A patience that outlasts any test."""

both_forms = pytest.mark.parametrize("form", FORMS)


def cases_of(form: str) -> int:
    """How many random cases a test takes on this form; plain Python is slower."""
    return case_count(10, least=12) if form == "compiled" else case_count(30, least=4)


@contextmanager
def kernel(form: str) -> Iterator[Machine]:
    """The engine runs on this form of the kernel; `plain` never compiles, whatever the work."""
    with patience(NEVER) as machine:
        if form == "compiled":
            machine.compile()
        yield machine


@contextmanager
def patience(steps: int) -> Iterator[Machine]:
    """The engine starts on plain Python and changes to machine code after so many steps."""
    machine = Machine()
    machine.patience = steps
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("upshot.engine.local") and hasattr(module, "MACHINE"):
                patch.setattr(module, "MACHINE", machine)
        yield machine


@contextmanager
def cells_without_room() -> Iterator[None]:
    """Dense tables have no number for a further code after a load and for one after they got wider, and stay dense
    however few cells are in use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_roomy", lambda codes, slack: np.maximum(1, codes + (slack == cells._WIDER)))
        patch.setattr(cells, "_SPARSE", NEVER)
        yield


def dense(db: upshot.Database) -> upshot.Database:
    """The database, with every closure loaded by walks and into cells, however small it is."""
    runner = db._state.engine._runner  # type: ignore[attr-defined]
    runner.worth_walking = runner.worth_preparing = 0
    runner.most_cells = NEVER
    return db
