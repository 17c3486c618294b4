"""A pipeline that cannot write its state, its sinks, its quarantine or its metrics: named, and nothing is lost."""

from __future__ import annotations

import random

import pytest

import upshot
from tests.pipeline.lake import PIPELINE, Make
from tests.properties.settings import is_slice, seed_of
from tests.store import immutable as immutability
from tests.store.immutable import immutable

pytestmark = pytest.mark.skipif(bool(immutability.missing()), reason=immutability.missing())

ASIDE = PIPELINE.replace('path = "edges"\n', 'path = "edges"\non_bad_row = "quarantine"\nquarantine = "bad"\n').replace(
    "trigger = 0.1\n", 'trigger = 0.1\nmetrics = "figures/metrics.jsonl"\n'
)
PLACES = {
    "state": "unusable-state",
    "state/lock": "unusable-state",
    "state/store": "store-failed",
    "state/stream/offered.json": "unusable-state",
    "state/staging": "unusable-state",
    "state/sinks.json": "unusable-state",
    "out/path": "sink-failed",
    "out/path_changes": "sink-failed",
    "out/away": "sink-failed",
    "out/away/current.json": "sink-failed",
    "out/away_changes": "sink-failed",
    "bad": "quarantine-failed",
    "figures/metrics.jsonl": "metrics-failed",
}


@pytest.mark.slow
def test_a_pipeline_that_cannot_write_somewhere_names_the_place_and_goes_on_when_it_can(make: Make) -> None:
    lake = make(pipeline=ASIDE)
    names = random.Random(seed_of("read-only", 0)).sample(sorted(PLACES), 4) if is_slice() else list(PLACES)
    edges = [(1_000, 1_001)]
    lake.change(insert=edges, bad=["nonsense"])
    lake.run()
    for number, name in enumerate(names, 1):
        edges.append((1_000 + 10 * number, 1_001 + 10 * number))
        lake.change(insert=[edges[-1]], bad=["nonsense"])
        with immutable(lake.root / name), pytest.raises(upshot.Error) as caught:
            lake.run()
        assert (caught.value.code, str(lake.root) in caught.value.message) == (PLACES[name], True), (name, caught.value)
        assert caught.value.help
        lake.run()
        assert lake.view() == edges, name
        assert lake.snapshot() == [(x, 1) for x, _ in edges], name
        folders = [path for path in (lake.root / "bad").iterdir() if not path.name.startswith(".")]
        assert len(folders) == number + 1, name
    commits, rows = lake.store()
    assert len(commits) == len(edges) + 1
    assert rows["edge"] == edges


def test_a_quarantine_of_an_earlier_attempt_that_cannot_be_removed_is_an_error(make: Make) -> None:
    """Rows that were corrected since would stand there as if they had not been."""
    lake = make(pipeline=ASIDE)
    lake.change(insert=[(0, 1)], bad=["nonsense"])
    lake.run()
    stale = lake.root / "bad" / "batch=1"
    stale.mkdir()
    (stale / "part-00000.parquet").write_bytes(b"an earlier attempt")
    lake.change(insert=[(1, 2)])
    with immutable(lake.root / "bad"), pytest.raises(upshot.EngineError) as caught:
        lake.run()
    assert caught.value.code == "quarantine-failed"
    assert lake.view() == [(0, 1)]
    lake.run()
    assert not stale.exists()
    assert lake.view() == [(0, 1), (0, 2), (1, 2)]
