"""The write queue of a service: its order and its bound."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from upshot.engine.time_limit import Interruption, check_time, giving_way, time_limit
from upshot.service.writing.writer import FullError, WriteQueue


def test_transactions_go_first_and_one_task_goes_between_two_groups() -> None:
    queue = WriteQueue(10)
    for task in "ab":
        queue.put_task(task)
    for job in range(3):
        queue.put_job(job)
    assert queue.take(2) == ([0, 1], "a")
    queue.put_job(3)
    assert queue.take(2) == ([2, 3], "b")
    queue.put_task("c")
    assert queue.take(2) == ([], "c")


def test_no_more_wait_than_may() -> None:
    queue = WriteQueue(2)
    queue.put_job(1)
    queue.put_task("a")
    with pytest.raises(FullError):
        queue.put_job(2)
    with pytest.raises(FullError):
        queue.put_task("b")
    assert len(queue) == 2


def test_at_the_end_what_waits_is_taken_and_then_nothing() -> None:
    queue = WriteQueue(10)
    queue.put_job(1)
    queue.close()
    assert queue.is_urgent
    assert queue.take(5) == ([1], None)
    assert queue.take(5) is None


def test_whoever_takes_waits_for_something_to_come() -> None:
    queue = WriteQueue(10)
    assert not queue.is_urgent
    put: list[float] = []

    def put_later() -> None:
        put.append(time.monotonic())
        queue.put_job(7)

    threading.Timer(0.1, put_later).start()
    assert queue.take(1) == ([7], None)
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
