"""The stream's own part in a batch: what has moved is found out on a worker, which may be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from upshot.core.errors import EngineError
from upshot.pipeline.batch.positions import FilesPosition, as_json
from upshot.pipeline.streaming import Stream


class Frame:
    """Stands for the frame of a batch; its job loses its worker so many times."""

    def __init__(self, losses: int) -> None:
        self._losses = losses

    def collect(self) -> list[dict[str, Any]]:
        if self._losses:
            self._losses -= 1
            raise RuntimeError("Job aborted due to stage failure: ExecutorLostFailure (executor 0 exited)")
        return [{"source": "edge", "start": None, "end": json.dumps(as_json(FilesPosition(1, "a")))}]


def handled(folder: Path, losses: int) -> list[tuple[int, list[str]]]:
    found: list[tuple[int, list[str]]] = []
    stream = Stream(None, "p", folder, lambda batch, moved: found.append((batch, [each.source for each in moved])))
    try:
        stream._batch(Frame(losses), 7)
    except RuntimeError:
        # Whoever waits for the batch is told why.
        stream.check()
    return found


def test_a_batch_whose_positions_were_on_a_lost_worker_asks_for_them_again(tmp_path: Path) -> None:
    assert handled(tmp_path, losses=2) == [(7, ["edge"])]


def test_a_worker_that_is_lost_every_time_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as found:
        handled(tmp_path, losses=3)
    assert (found.value.code, found.value.retryable) == ("lost-worker", True)
