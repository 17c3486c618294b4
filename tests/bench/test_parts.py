"""The pipeline's workload knows its own sizes."""

from __future__ import annotations

import pyarrow

import upshot
from bench.parts import PROGRAM, VIEWS, Parts


def test_the_sizes_of_the_views_are_known_after_every_batch() -> None:
    parts = Parts(rows=10_000, nodes=400)
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            for name, columns in parts.relations().items():
                tx.insert(name, pyarrow.table(columns))
        assert {view: len(db.rows(view)) for view in VIEWS} == parts.sizes()
        for _ in range(3):
            batch = parts.batch(100)
            assert batch.changes == 100
            with db.transaction() as tx:
                for name, columns in batch.deleted.items():
                    tx.delete(name, pyarrow.table(columns))
                for name, columns in batch.inserted.items():
                    tx.insert(name, pyarrow.table(columns))
            assert {view: len(db.rows(view)) for view in VIEWS} == parts.sizes()
