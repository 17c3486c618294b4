"""Who waits for the writer, and in which order they have their turn."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from upshot.engine.time_limit import Interruption, check_time, giving_way, time_limit
from upshot.service.writing.line import FullError, Line


def test_transactions_go_first_and_one_errand_goes_between_two_groups() -> None:
    line: Line[int, str] = Line(10)
    for errand in "ab":
        line.put_errand(errand)
    for job in range(3):
        line.put_job(job)
    assert line.take(2) == ([0, 1], "a")
    line.put_job(3)
    assert line.take(2) == ([2, 3], "b")
    line.put_errand("c")
    assert line.take(2) == ([], "c")


def test_no_more_wait_than_may() -> None:
    line: Line[int, str] = Line(2)
    line.put_job(1)
    line.put_errand("a")
    with pytest.raises(FullError):
        line.put_job(2)
    with pytest.raises(FullError):
        line.put_errand("b")
    assert len(line) == 2


def test_at_the_end_what_waits_is_taken_and_then_nothing() -> None:
    line: Line[int, str] = Line(10)
    line.put_job(1)
    line.close()
    assert line.is_urgent
    assert line.take(5) == ([1], None)
    assert line.take(5) is None


def test_whoever_takes_waits_for_something_to_come() -> None:
    line: Line[int, str] = Line(10)
    assert not line.is_urgent
    put: list[float] = []

    def put_later() -> None:
        put.append(time.monotonic())
        line.put_job(7)

    threading.Timer(0.1, put_later).start()
    assert line.take(1) == ([7], None)
    assert time.monotonic() >= put[0]


def test_work_gives_way_only_after_its_time_and_only_if_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, now = [False], [100.0]
    monkeypatch.setattr("upshot.engine.time_limit.time", SimpleNamespace(monotonic=lambda: now[0]))
    with giving_way(0.5, lambda: waiting[0]), time_limit(10):
        waiting[0] = True
        check_time()
        waiting[0] = False
        now[0] += 0.6
        check_time()
        waiting[0] = True
        with pytest.raises(Interruption):
            check_time()
    check_time()
