"""Computations that advance together: whatever can start has started, and one set of jobs serves a round of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.engine.spark.jobs.requests import FrameRequest, Jobs, Steps
from upshot.engine.spark.storage.pieces import Piece


@dataclass(frozen=True, slots=True)
class Task:
    """A computation that may begin once those named in `after` have ended. `begin` gives its steps, or None if there
    is nothing to do; it is called when all of them have."""

    name: str
    begin: Callable[[], Steps[None] | None]
    after: frozenset[str] = field(default_factory=frozenset)


def run_together(tasks: Sequence[Task], answers: Jobs, took_part: Callable[[str, int], None]) -> None:
    """Run all tasks to their ends, the active ones in lockstep: the requests of a round are answered together.

    `took_part` is called after every round, for every task in it, with the number of jobs.
    """
    waiting = list(tasks)
    ended: set[str] = set()
    active: dict[str, Steps[None]] = {}
    asked: dict[str, list[FrameRequest]] = {}
    while waiting or active:
        waiting = _begin(waiting, ended, active, asked)
        if not active:
            assert not waiting, "tasks wait for each other"
            return
        before = answers.jobs
        found = _answered(asked, answers)
        for name in asked:
            took_part(name, answers.jobs - before)
        for name, steps in list(active.items()):
            try:
                asked[name] = steps.send(found[name])
            except StopIteration:
                del active[name], asked[name]
                ended.add(name)


def _begin(
    waiting: list[Task], ended: set[str], active: dict[str, Steps[None]], asked: dict[str, list[FrameRequest]]
) -> list[Task]:
    """Start ready tasks; returns those still waiting. A task that ends without a request may let others start."""
    progress = True
    while progress:
        progress = False
        for task in waiting:
            if not task.after <= ended:
                continue
            steps = task.begin()
            try:
                if steps is not None:
                    asked[task.name] = next(steps)
                    active[task.name] = steps
            except StopIteration:
                steps = None
            if steps is None:
                ended.add(task.name)
            waiting = [each for each in waiting if each is not task]
            progress = True
    return waiting


def _answered(asked: Mapping[str, Sequence[FrameRequest]], answers: Jobs) -> dict[str, list[Piece]]:
    every = answers.answer([ask for asks in asked.values() for ask in asks])
    found, first = {}, 0
    for name, asks in asked.items():
        found[name] = every[first : first + len(asks)]
        first += len(asks)
    return found
