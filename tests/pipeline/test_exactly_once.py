"""Whatever ends a run, and wherever, the next one goes on as if nothing had happened."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment_with
from tests.pipeline.lake import Lake, summed
from tests.properties.settings import case_count, is_soak
from upshot.pipeline import steps
from upshot.pipeline.metrics import BatchMetrics, ViewMetrics
from upshot.pipeline.steps import POINTS

Change = tuple[list[tuple[int, int]], list[tuple[int, int]], list[str]]


def random_changes(seed: int, count: int) -> list[Change]:
    """Edges that come and go; some files also hold lines that do not fit."""
    chance, there, found = random.Random(seed), set[tuple[int, int]](), list[Change]()
    pairs = list(itertools.product(range(5), repeat=2))
    for number in range(count):
        gone = sorted(chance.sample(sorted(there), min(len(there), chance.randrange(3))))
        come = sorted(chance.sample(pairs, chance.randrange(1, 4)))
        bad = [f'{{"x": {number}, "y": "two", "_change": 1}}'] if chance.random() < 0.4 else []
        found.append((come, [edge for edge in gone if edge not in come], bad))
        there = (there - set(gone)) | set(come)
    return found


def uninterrupted(lake: Lake, changes: list[Change]) -> dict[str, Any]:
    """What one run makes of the changes, file by file, batch by batch."""
    left = iter(changes)

    def next_file(_: BatchMetrics | None) -> None:
        for change in itertools.islice(left, 1):
            lake.change(*change)

    next_file(None)
    assert lake.run(batch=next_file).batches == len(changes)
    return lake.everything()


# ---- killed for good ------------------------------------------------------------------------------------------

FIRST_FAULT = "create:1"
"""Kills the process before there is a batch, while the first Delta sink is made."""

CALM = ""

FAULTS = (
    "read:1",
    "quarantine:2",
    "stage:2",
    "record:2",
    # Passed by the batch that the kill before left unrecorded, then by the next one.
    "pointer:2",
    "recorded:1",
    # Passed by the four sinks that the kill before left behind, twice by the step itself, and by the first sink.
    "publish:8",
    # Sinks are written side by side, so which of them were left behind is chance: a run without a fault brings them up.
    CALM,
    # Passed by two sinks at least, and by the quarantine.
    "rename:2",
    "finish:2",
)
"""Each ends the process in the batch after the one that was left behind by the end before."""

FEW_FAULTS = ("recorded:1",)
"""What a soak for some minutes kills for good: when the commit is made, and no sink knows of it."""


def start(lake: Lake, **environment: str) -> int:
    command = [sys.executable, "-m", "upshot", "pipeline", "run", str(lake.file), "--once"]
    ended = subprocess.run(command, capture_output=True, env=environment_with(**environment), timeout=900)
    if ended.returncode not in (0, -9):
        sys.stderr.write(ended.stderr.decode())
    return ended.returncode


def half_written(lake: Lake) -> None:
    """Nothing can be ended inside the writer: these are the files that it puts down before a table's first version.

    Another sink may have been the first to die, beside this one, whose table is there then."""
    (lake.root / "out" / "path" / "_delta_log").mkdir(parents=True, exist_ok=True)
    (lake.root / "out" / "path" / "part-00000-5f-c000.snappy.parquet").write_bytes(b"half")


@pytest.mark.deep
def test_a_killed_driver_leaves_nothing_undone_or_done_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places by `make soak` without an end. `make test` ends the run at every one in this process, below, and kills
    drivers for good in `test_rules.py` and on a cluster."""
    faults = FAULTS if is_soak() else FEW_FAULTS
    changes = random_changes(1, len(faults) + 1)
    killed = Lake(tmp_path / "killed")
    if is_soak():
        assert start(killed, UPSHOT_TESTING="1", UPSHOT_FAULT_AT=FIRST_FAULT) == -9
        half_written(killed)
    for change, fault in zip(changes, faults, strict=False):
        killed.change(*change)
        assert start(killed, UPSHOT_TESTING="1", UPSHOT_FAULT_AT=fault) == (0 if fault == CALM else -9), fault
    killed.change(*changes[-1])
    killed.spark = spark
    # Without UPSHOT_TESTING: faults are for tests only.
    monkeypatch.setenv("UPSHOT_FAULT_AT", "read:1")
    killed.run()
    assert killed.everything() == uninterrupted(Lake(tmp_path / "calm", spark=spark), changes)


# ---- struck down in this process, at random -----------------------------------------------------------------


class Died(BaseException):
    """Takes the place of SIGKILL: nothing catches it, and the run ends where it stood."""


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    def die() -> None:
        raise Died

    monkeypatch.setattr(steps, "die", die)
    monkeypatch.setenv("UPSHOT_TESTING", "1")
    yield monkeypatch
    steps._passed.clear()


def strike_down(lake: Lake, mortal: pytest.MonkeyPatch, fault: str) -> None:
    """A run that must end at this place."""
    mortal.setenv("UPSHOT_FAULT_AT", fault)
    steps._passed.clear()
    with nullcontext() if fault == CALM else pytest.raises(Died):
        lake.run()


@pytest.mark.slow
def test_a_run_struck_down_at_every_step_ends_as_one_that_was_not(
    spark: Any, tmp_path: Path, mortal: pytest.MonkeyPatch
) -> None:
    """Run after run makes good what the one before left behind, and is struck down at the next place."""
    assert {fault.partition(":")[0] for fault in (FIRST_FAULT, *FAULTS)} - {CALM} == set(POINTS)
    changes = random_changes(1, len(FAULTS) + 1)
    struck = Lake(tmp_path / "struck", spark=spark)
    strike_down(struck, mortal, FIRST_FAULT)
    half_written(struck)
    for change, fault in zip(changes, FAULTS, strict=False):
        struck.change(*change)
        strike_down(struck, mortal, fault)
    struck.change(*changes[-1])
    mortal.setenv("UPSHOT_FAULT_AT", "")
    struck.run()
    assert struck.everything() == uninterrupted(Lake(tmp_path / "calm", spark=spark), changes)


@pytest.mark.slow
def test_a_batch_struck_down_after_its_record_is_counted_by_the_run_that_finds_it(
    spark: Any, tmp_path: Path, mortal: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, spark=spark)
    lake.change(insert=[(1, 2), (2, 3)], bad=['{"x": 1, "y": "two", "_change": 1}'])
    mortal.setenv("UPSHOT_FAULT_AT", "recorded:1")
    with pytest.raises(Died):
        lake.run()
    mortal.setenv("UPSHOT_FAULT_AT", "")
    seen: list[BatchMetrics] = []
    lake.run(batch=seen.append)
    assert [(each.replayed, each.rows, each.bad) for each in seen] == [(True, 2, 1)]
    assert seen[0].views == {"path": ViewMetrics(3, 0), "away": ViewMetrics(2, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("case", range(case_count(2_000)))
def test_a_run_struck_down_at_random_ends_as_one_that_was_not(
    spark: Any, tmp_path: Path, mortal: pytest.MonkeyPatch, seed: int, case: int
) -> None:
    chance = random.Random(f"{seed}/{case}")
    changes = random_changes(chance.randrange(2**31), 3)
    struck = Lake(tmp_path / "struck", spark=spark)
    for change in changes:
        struck.change(*change)
        for _ in range(2):
            fault = f"{chance.choice(POINTS)}:{chance.randrange(1, 4)}"
            mortal.setenv("UPSHOT_FAULT_AT", fault)
            steps._passed.clear()
            try:
                struck.run()
            except Died:
                continue
            break
        mortal.setenv("UPSHOT_FAULT_AT", "")
        struck.run()
    found = struck.everything()
    assert found == uninterrupted(Lake(tmp_path / "calm", spark=spark), changes), f"UPSHOT_SEED={seed}, case {case}"
    assert summed(found["path changes"]) == found["path"]
    assert summed(found["away changes"]) == found["away"]
