"""What searches do on the thread that commits: a bound on it that holds on a busy machine too, where waiting for an
answer says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.service.served_process import PATIENCE
from upshot.service.writing.searches import SlicedSearch

LONGEST = 1.5
"""Seconds that a moment of a search may take of the processor."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One moment of a search: seconds of the processor that it took, whether somebody had to wait for it, and whether
    the time of the search was up when it began."""

    hunt: SlicedSearch
    seconds: float
    on_writer: bool
    is_late: bool


def watched_turns(monkeypatch: pytest.MonkeyPatch) -> list[Turn]:
    """Those of all searches from now on."""
    turns: list[Turn] = []
    run_slice = SlicedSearch.run_slice

    def watched(hunt: SlicedSearch, is_wanted: object) -> bool:
        is_late, on_writer, began = time.monotonic() > hunt._ends, not hunt.is_alone, time.thread_time()
        try:
            return run_slice(hunt, is_wanted)  # type: ignore[arg-type]
        finally:
            turns.append(Turn(hunt, time.thread_time() - began, on_writer, is_late))

    monkeypatch.setattr(SlicedSearch, "run_slice", watched)
    return turns


def check_turns(turns: list[Turn]) -> None:
    """Nobody who commits waits long for a search, and none goes on when its time is up."""
    assert max(turn.seconds for turn in turns if turn.on_writer) < LONGEST
    for hunt in {id(turn.hunt): turn.hunt for turn in turns}.values():
        assert sum(turn.is_late for turn in turns if turn.hunt is hunt) <= 1


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)
