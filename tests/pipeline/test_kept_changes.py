"""What the store lets go of, and what it keeps because a sink or a replay needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import upshot
from tests.pipeline.lake import Lake, Make, summed
from upshot.pipeline.batch.positions import FilesPosition
from upshot.pipeline.batch.record import Recorded, changes_of_batch, recorded
from upshot.pipeline.metrics import SourceMetrics
from upshot.pipeline.sinks.catch_up import Publication
from upshot.pipeline.sinks.parquet import ParquetLog, ParquetSnapshots

PROGRAM = ".decl edge(x: number)\n.decl node(x: number)\nnode(X) :- edge(X).\n"


def commit(database: upshot.Database, number: int, meta: dict[str, Any] | None = None) -> None:
    with database.transaction(meta=meta) as transaction:
        transaction.insert("edge", [(number,)])


def forget(database: upshot.Database) -> int:
    """Drops all that may go; the version after which everything is kept."""
    database.snapshot()
    return database.compact().oldest


def sinks(folder: Path) -> tuple[ParquetLog, ParquetSnapshots]:
    return ParquetLog("node", folder / "log", None), ParquetSnapshots("node", folder / "view", None, 2)


def logged(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "log")["x"].to_pylist())


def test_what_a_sink_lacks_is_kept_for_it_beyond_the_bounds(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store", keep=2) as database:
        database.define(PROGRAM)
        Publication(sinks(tmp_path), tmp_path / "sinks.json").catch_up(database)
        # As when the process dies after its record, again and again, or the sink is left out of the file.
        for number in range(6):
            commit(database, number)
        assert forget(database) == 1
        Publication(sinks(tmp_path), tmp_path / "sinks.json").catch_up(database)
        assert logged(tmp_path) == list(range(6))
        assert forget(database) == 5, "once it has them they may go"


def test_a_sink_that_was_left_out_for_too_long_is_named_and_one_of_whole_views_goes_on(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store", keep=2) as database:
        database.define(PROGRAM)
        log, view = sinks(tmp_path)
        Publication([log, view], tmp_path / "sinks.json").catch_up(database)
        for number in range(20):
            commit(database, number)
        assert forget(database) > 1
        with pytest.raises(upshot.DataError) as found:
            Publication([log], tmp_path / "sinks.json").catch_up(database)
        assert found.value.code == "history-not-kept"
        assert "remove the sink" in found.value.help
        Publication([view], tmp_path / "sinks.json").catch_up(database)
        assert view.stored_version() == 21
        assert sorted(pq.read_table(tmp_path / "view" / "v000021")["x"].to_pylist()) == list(range(20))


def test_the_last_batch_is_known_however_little_of_the_past_is_kept(tmp_path: Path) -> None:
    record = Recorded(4, {"edge": FilesPosition(3, "d")}, {"edge": SourceMetrics(7, 2)})
    with upshot.connect(tmp_path / "store", keep=1) as database:
        database.define(PROGRAM)
        commit(database, 0, record.as_meta("p"))
        commit(database, 1)
        changes = changes_of_batch(database, 4)
        assert changes is not None
        assert list(changes["node"].inserted) == [(0,)], "not what came after the batch"
        assert forget(database) == 2
        assert recorded(database) == record
        assert changes_of_batch(database, 4) is None
    with upshot.connect(tmp_path / "store") as database:
        assert recorded(database) == record


# ---- as the pipeline file says it ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_past_goes_as_the_file_says_but_not_before_a_sink_that_was_left_out_has_it(make: Make) -> None:
    whole = Lake.pipeline.replace("trigger = 0.1", "trigger = 0.1\nkeep = 1")
    lake = make(pipeline=whole)
    grow(lake, 1)
    lake.pipeline = whole.partition("[sink.path]")[0] + "[sink.away]" + whole.partition("[sink.away]")[2]
    lake.write()
    grow(lake, 2)
    grow(lake, 3)
    let_go(lake)
    assert oldest(lake) == 2, "only the program and the first batch went: the rest is for the sink that is left out"
    lake.pipeline = whole
    lake.write()
    grow(lake, 4)
    assert summed(lake.log()) == lake.view() == [(x, y) for x in range(1, 5) for y in range(x + 1, 6)]
    let_go(lake)
    assert oldest(lake) == 4, "once it has them they may go"


def grow(lake: Lake, node: int) -> None:
    lake.change(insert=[(node, node + 1)])
    lake.run()


def let_go(lake: Lake) -> None:
    """A run that begins with nothing to do, when no commit is needed to open the store."""
    with upshot.connect(lake.state / "store", keep="all") as database:
        database.snapshot()
    lake.run()


def oldest(lake: Lake) -> int:
    """The version after which everything is kept."""
    with upshot.connect(lake.state / "store", keep="all") as database:
        return database.compact().oldest
