"""Executors and workers die under a pipeline that runs; views, change logs, sinks and quarantine are as in a run
without faults, and nobody has to start it again."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.strikes import Retried, Striker
from tests.pipeline.lake import PIPELINE, Lake, summed
from upshot.pipeline.batch import quarantine, ranges
from upshot.pipeline.metrics import BatchMetrics
from upshot.pipeline.sinks import parquet, tables
from upshot.pipeline.steps import Step

pytestmark = pytest.mark.slow
"""A cluster is started, and parts of it are killed."""

Change = tuple[list[tuple[int, int]], list[tuple[int, int]], list[str]]

CHANGES: tuple[Change, ...] = (
    ([(n, n + 1) for n in range(6)], [], ['{"x": 0, "y": "two", "_change": 1}', "3", "{"]),
    ([(3, 1), (9, 0)], [(4, 5)], []),
    ([(4, 5), (5, 2)], [(0, 1)], ['{"x": 7, "_change": 1}', "{"]),
    ([(0, 1)], [(3, 1), (5, 6)], []),
    ([(5, 6), (6, 0)], [(9, 0)], ['{"x": 8, "y": 8, "_change": 2}']),
    ([(8, 8)], [(5, 2), (6, 0)], []),
    ([(2, 9), (9, 2)], [(8, 8)], ["[]"]),
)
STRIKES = {
    "spark": ((Step.READ,), (Step.RECORD, Step.PUBLISH), (Step.QUARANTINE, Step.RECORD), (Step.STAGE, Step.RECORD),
              (Step.READ, Step.QUARANTINE, Step.RECORD, Step.PUBLISH), (Step.PUBLISH,), (Step.FINISH,)),
    "auto": ((Step.QUARANTINE, Step.PUBLISH), (Step.READ,), (Step.STAGE,), (Step.READ, Step.PUBLISH),
             (Step.READ, Step.QUARANTINE, Step.PUBLISH), (Step.RECORD,), (Step.FINISH,)),
}  # fmt: skip
"""The steps of each batch in which the executors are killed, while Spark is at work for it, if it is."""
NEEDS_SPARK = {"spark": {Step.READ, Step.RECORD, Step.PUBLISH}, "auto": {Step.QUARANTINE, Step.PUBLISH}}
"""Steps that cannot do without Spark here: executors must die under a task of each."""


@pytest.fixture
def little_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows are many: what is read, set aside and published stays with Spark, as in a large lake."""
    for module in (quarantine, ranges, tables):
        monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(parquet, "stays_on_spark", lambda rows: True)


def followed(lake: Lake, changes: tuple[Change, ...], **watched: Any) -> dict[str, Any]:
    """What one run makes of the changes, batch by batch."""
    left = iter(changes)

    def next_file(_: BatchMetrics | None) -> None:
        for change in itertools.islice(left, 1):
            lake.change(*change)

    next_file(None)
    assert lake.run(batch=next_file, **watched).batches == len(changes)
    return lake.everything()


@pytest.mark.usefixtures("little_here")
@pytest.mark.parametrize(
    ("engine", "count"),
    [
        ("spark", 2),
        pytest.param("auto", 1, marks=pytest.mark.deep),
        pytest.param("spark", len(CHANGES), marks=pytest.mark.deep),
        pytest.param("auto", len(CHANGES), marks=pytest.mark.deep),
    ],
)
def test_a_pipeline_whose_executors_die_goes_on_as_if_nothing_had_happened(
    spark: Any, cluster: Cluster, tmp_path: Path, engine: str, count: int
) -> None:
    struck = Lake(tmp_path / "struck", pipeline=PIPELINE.replace('"local"', f'"{engine}"'), spark=spark)
    begun: set[tuple[int, Step]] = set()
    cluster.add_worker()
    cluster.wait_for_executors()

    def kill() -> None:
        """All executors, since nobody says on which one the task runs; the first time also one worker for good."""
        if len(cluster.living()) > 2:
            cluster.kill_worker(cluster.living()[0])
        for worker in cluster.living():
            cluster.kill_executor(worker)

    with Retried() as retried, Striker(spark, cluster, kill, lambda: len(retried.heard)) as striker:

        def strike(batch: int, step: Step) -> None:
            striker.disarm()
            # Once: a step that is tried again is to succeed.
            if step in STRIKES[engine][batch] and (batch, step) not in begun:
                striker.arm(step)
            begun.add((batch, step))

        found = followed(struck, CHANGES[:count], step=strike)
        striker.disarm()
    assert set(striker.struck) >= NEEDS_SPARK[engine], "no executor died under a task: nothing was tested"
    if engine == "spark":
        assert striker.failed, "no attempt failed: retries were not tested"
    assert len(cluster.living()) == 2
    assert found == followed(Lake(tmp_path / "calm", spark=spark), CHANGES[:count])
    assert summed(found["path changes"]) == found["path"]
    assert len(found["quarantine"]) == sum(len(bad) for _, _, bad in CHANGES[:count])
