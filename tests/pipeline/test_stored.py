"""What a dry run learns of a store that may be in use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import upshot
from upshot.pipeline.batch.positions import FilesPosition
from upshot.pipeline.batch.record import Recorded
from upshot.pipeline.program import stored


def test_a_store_in_use_is_read_as_it_stands_and_stays_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "store"
    position = FilesPosition(1, "d1")
    with upshot.connect(store) as database:
        database.define(".decl edge(x: number)\n.decl node(x: number)\nnode(X) :- edge(X).")
        with database.transaction(meta=Recorded(0, {"edge": position}).as_meta("p")) as transaction:
            transaction.insert("edge", [(1,)])
        before = {path.name: path.read_bytes() for path in store.iterdir() if path.is_file() and "shm" not in path.name}
        assert "log.sqlite-wal" in before
        found = stored(store)
        assert {path.name: path.read_bytes() for path in store.iterdir() if path.name in before} == before
    assert (sorted(found.schemas), found.positions) == (["edge", "node"], {"edge": position})
    files = sorted(path.name for path in store.iterdir())
    assert stored(store) == found
    assert sorted(path.name for path in store.iterdir()) == files
    assert stored(tmp_path / "none").positions == {}


def test_a_store_that_grows_is_never_seen_torn(tmp_path: Path) -> None:
    """Files that are copied one after the other would not go together."""
    database = upshot.connect(tmp_path)
    database.define(".decl edge(x: number)")

    def grow() -> None:
        for batch in range(200):
            meta = Recorded(batch, {"edge": FilesPosition(batch, "d")}).as_meta("p")
            with database.transaction(meta=meta) as transaction:
                transaction.insert("edge", [(batch,)])

    seen = []
    with database, ThreadPoolExecutor(1) as other:
        growing = other.submit(grow)
        while not growing.done():
            seen += [position.count for position in stored(tmp_path).positions.values()]
        growing.result()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1
