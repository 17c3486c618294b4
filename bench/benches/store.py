"""Durable commits: the time of one, the gain of a group, and the cost of deleting history."""

from __future__ import annotations

import os
import queue
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import upshot
from bench.process import Runner
from bench.report import Report, Scale, seconds

COLUMNS = ("work", "commits", "commits/s", "median", "p99", "max", "on the disk")
RESULTS = Path(__file__).parent.parent / "results"
PROGRAM = """
.decl edge(x: number, y: number)
.decl step(x: number, z: number)
step(X, Z) :- edge(X, Y), edge(Y, Z).
"""
WARM = 500
"""Commits before the measured ones, after which the engine runs its compiled kernels."""


def durable_commits(runner: Runner, scale: Scale) -> Report:
    """One row per commit, durable when the call returns: sequential commits, and commits of many threads."""
    report = Report("durable commits of one row, with a view of two literals", COLUMNS)
    count = 1_000 if scale.quick else 10_000
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        root = Path(folder)
        _row(report, "4 KiB written, fsync", *_plain_writes(root, 500))
        times, took = _one_by_one(root / "all", None, count)
        _row(report, "one by one", times, took, root / "all")
        report.at_most("one row, durable: median under a millisecond", median(times) * 1e3, 1.0, " ms")
        times, took = _one_by_one(root / "few", 1_000, count)
        _row(report, "one by one, 1,000 kept", times, took, root / "few")
        for threads in (8,) if scale.quick else (8, 32, 128):
            times, took = _in_groups(root / f"group {threads}", threads, count)
            _row(report, f"{threads} threads, in groups", times, took, root / f"group {threads}")
    return report


def _row(report: Report, work: str, times: Sequence[float], took: float, root: Path | None = None) -> None:
    size = "" if root is None else f"{sum(f.stat().st_size for f in root.rglob('*') if f.is_file()) / 2**20:.1f} MiB"
    ordered = sorted(times)
    figures = (median(ordered), ordered[round(0.99 * len(ordered)) - 1], ordered[-1])
    rate = f"{len(ordered) / took:,.0f}"
    report.rows.append((work, f"{len(ordered):,}", rate, *map(seconds, figures), size))


def _plain_writes(root: Path, count: int) -> tuple[list[float], float]:
    times = []
    descriptor = os.open(root / "file", os.O_RDWR | os.O_CREAT)
    for _ in range(count):
        began = time.perf_counter()
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
        times.append(time.perf_counter() - began)
    os.close(descriptor)
    return times, sum(times)


def _one_by_one(root: Path, keep: int | None, count: int) -> tuple[list[float], float]:
    times = []
    with upshot.connect(root, keep=keep) as db:
        db.define(PROGRAM)
        for number in range(WARM + count):
            began = time.perf_counter()
            with db.transaction() as tx:
                tx.insert("edge", [(number, number + 1)])
                tx.delete("edge", [(number - 1_000, number - 999)])
            times.append(time.perf_counter() - began)
        assert len(db.rows("step")) == min(999, WARM + count - 1)
    return times[WARM:], sum(times[WARM:])


def _in_groups(root: Path, threads: int, count: int) -> tuple[list[float], float]:
    """Each thread sends its next transaction when the previous one is durable; the writer commits all queued ones."""
    waiting: queue.SimpleQueue[tuple[int, threading.Event]] = queue.SimpleQueue()
    times: list[float] = []

    def send(first: int) -> None:
        for number in range(first, count, threads):
            began, done = time.perf_counter(), threading.Event()
            waiting.put((number, done))
            done.wait()
            times.append(time.perf_counter() - began)

    with upshot.connect(root) as db:
        db.define(PROGRAM)
        for number in range(WARM):
            with db.transaction() as tx:
                tx.insert("edge", [(-number, -number - 1)])
        senders = [threading.Thread(target=send, args=(first,)) for first in range(threads)]
        began = time.perf_counter()
        for sender in senders:
            sender.start()
        left = count
        while left:
            left -= _write_group(db, waiting)
        for sender in senders:
            sender.join()
        took = time.perf_counter() - began
        assert db.version == 1 + WARM + count
    return times, took


def _write_group(db: upshot.Database, waiting: queue.SimpleQueue[tuple[int, threading.Event]]) -> int:
    """Commit the queued transactions as a group and notify their senders; return their number."""
    jobs = [waiting.get()]
    while not waiting.empty():
        jobs.append(waiting.get())
    with db.group() as group:
        for job in jobs:
            with group.transaction() as tx:
                tx.insert("edge", [(job[0], job[0] + 1)])
    for job in jobs:
        job[1].set()
    return len(jobs)
