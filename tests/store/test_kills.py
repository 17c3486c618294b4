"""A process killed at any moment loses nothing it said was committed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import base_seed, case_count
from tests.store import writer


@pytest.mark.slow
def test_every_commit_that_was_acknowledged_survives_kill_9(root: Path) -> None:
    dice = random.Random(base_seed())
    kills = case_count(130, least=3)
    acknowledged = written = 0
    for number in range(kills):
        # Some die while they open the store: what the last one left half-written is being removed then.
        opening = number > 0 and dice.random() < 0.2
        written += not opening
        seconds = dice.uniform(0.2, 1.0) if opening else dice.uniform(0.0, 0.3)
        acknowledged = written_until_killed(root, seconds, opening) or acknowledged
        with upshot.connect(root) as db:
            assert db.version in (acknowledged, acknowledged + 1), "lost, or more than the one under way"
            acknowledged = db.version
            expected = writer.follow(range(2, db.version + 1))
            assert {name: set(db.rows(name)) for name in expected} == expected
            db.verify()
    with upshot.connect(root) as db:
        assert db.version > written, "one at least by each that was not killed while it opened the store"
        numbers = [commit.meta.get("number") for commit in db.history(since=1)]
        assert numbers == list(range(2, db.version + 1))


@pytest.mark.slow
def test_groups_survive_kill_9_whole_or_not_at_all_while_the_past_goes_and_copies_are_made(root: Path) -> None:
    dice = random.Random(base_seed() + 1)
    kills = case_count(130, least=3)
    acknowledged, written, copies = 1, 0, set()
    for number in range(kills):
        opening = number > 0 and dice.random() < 0.2
        written += not opening
        seconds = dice.uniform(0.2, 1.0) if opening else dice.uniform(0.0, 0.4)
        acknowledged = written_until_killed(root, seconds, opening, "groups") or acknowledged
        with upshot.connect(root, keep="all") as db:
            group = writer.group_size(acknowledged + 1)
            assert db.version in (acknowledged, acknowledged + group), "part of a group, or a group lost"
            acknowledged = db.version
            _check(db)
        copies.add(_of_copy(root.with_name(root.name + " copy")))
    assert acknowledged > written
    assert copies <= {"whole", "none", "backup-unfinished"}


def _check(db: upshot.Database) -> None:
    """Everything that was committed is there, and the past without a gap as far as it is kept."""
    expected = writer.follow(range(2, db.version + 1))
    assert {name: set(db.rows(name)) for name in expected} == expected
    db.verify()
    oldest = db._state.journal.store.oldest
    numbers = [commit.meta.get("number") for commit in db.history(since=oldest) if commit.version > 1]
    assert numbers == list(range(max(oldest + 1, 2), db.version + 1))
    assert len(numbers) >= min(writer.KEPT, db.version - 1)
    for commit in db.history(since=oldest):
        assert all(len(change.inserted) + len(change.deleted) for _, change in commit.changes.items())


def _of_copy(place: Path) -> str:
    """What a copy is that was under way when its maker was killed."""
    try:
        with upshot.connect(place, keep="all") as copy:
            if not copy.version:
                return "none"
            _check(copy)
            return "whole"
    except upshot.UsageError as error:
        return error.code


def written_until_killed(root: Path, seconds: float, opening: bool, mode: str = "") -> int:
    """The last version the writer acknowledged; it is killed some time after its start, or after its first commit."""
    process = subprocess.Popen([sys.executable, writer.__file__, root, mode], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [] if opening else [process.stdout.readline()]
    time.sleep(seconds)
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    whole = [line for line in lines if line.endswith("\n")]
    return int(whole[-1]) if whole else 0
