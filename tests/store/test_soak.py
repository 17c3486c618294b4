"""Many commits with ever-new text: neither memory nor files nor the time of a commit grow with them."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import case_count

KEPT = 1_000
LIVE = 300
GROUP = 25


def _text(number: int) -> str:
    return f"what the {number}th commit of a long day brings, and no other"


def _resident() -> float:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _on_disk(root: Path) -> float:
    """MiB of the store, without what SQLite has still to take over from its own log."""
    return sum(f.stat().st_size for f in root.rglob("*") if f.is_file() and not f.name.endswith("-wal")) / 2**20


@pytest.mark.slow
def test_a_long_day_with_ever_new_text_leaves_memory_files_and_latency_as_they_were(root: Path) -> None:
    quarter = max(2_000, 4 * case_count())
    figures: list[tuple[float, float, int, float]] = []
    heard = 0

    def hear(event: upshot.Event) -> None:
        nonlocal heard
        heard += len(event.inserted)

    with upshot.connect(root, keep=KEPT) as db:
        db.define(
            ".decl item(k: number, s: symbol)\n"
            ".decl named(s: symbol, k: number)\nnamed(S, K) :- item(K, S).\n"
            ".decl longer(s: symbol)\nlonger(T) :- item(_, S), T = cat(S, S).\n"
        )
        db.watch("longer", hear, since=db.version)
        number = 0
        for _ in range(4):
            times = []
            for _ in range(quarter // GROUP):
                began = time.process_time()
                _commit_group(db, number)
                times.append(time.process_time() - began)
                number += GROUP
            words = len(db._state.engine._codec.dictionary)
            figures.append((_resident(), _on_disk(root), words, statistics.median(times)))
        assert (heard, len(db.rows("longer"))) == (number, LIVE)
        assert db.version - db._state.journal.store.oldest < 12_000 + 2 * KEPT
        db.verify()
    first, last = figures[0], figures[-1]
    assert last[0] - first[0] < 16, figures
    assert last[1] < 1.5 * first[1] + 1, figures
    assert max(words for _, _, words, _ in figures) < 20_000, figures
    assert last[3] < 3 * first[3], figures


def _commit_group(db: upshot.Database, first: int) -> None:
    with db.group() as group:
        for number in range(first, first + GROUP):
            with group.transaction(meta={"number": number}) as tx:
                tx.delete("item", [(number - LIVE, _text(number - LIVE))])
                tx.insert("item", [(number, _text(number))])
