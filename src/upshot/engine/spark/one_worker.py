"""A whole recursion as one job: a worker holds what it reads and its views, and runs all rounds by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from upshot.engine.spark.asks import Ask, Steps
from upshot.engine.spark.part_work import add_counters
from upshot.engine.spark.pieces import LocalPiece, Piece
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_files import LISTED, gathered
from upshot.engine.spark.shard_plan import ShardPlan
from upshot.engine.spark.sharing import Sharing, bytes_of
from upshot.engine.spark.tables import Table
from upshot.engine.spark.whole_shard import WholeChange, WholeTask
from upshot.engine.work import ViewWork
from upshot.spark.types import spark_schema


class OneWorker:
    """Kept as long as the component is. What a worker cannot hold is answered by None, now and from then on."""

    def __init__(self, plan: ShardPlan, session: SparkSession, scratch: Scratch, *, small: int) -> None:
        self._plan, self._session, self._scratch, self._small = plan, session, scratch, small
        self._sharing = Sharing(scratch)
        self.is_crowded = False
        """Whether it could not hold all."""

    def holds(self, tables: Mapping[str, Table]) -> bool:
        """Whether a worker may hold the rows, as far as they are known."""
        most = self._plan.limits.memory
        needed = bytes_of(tables[name] for name in (*self._plan.shared, *self._plan.views))
        return not self.is_crowded and (most is None or needed <= most)

    def files(self) -> Iterator[Path]:
        return self._sharing.files()

    def release(self) -> None:
        self._sharing.release()

    def load(self, tables: Mapping[str, Table], work: ViewWork) -> Steps[dict[str, Piece] | None]:
        """The rows of the views in the new state of what they read."""
        shared = self._sharing.relations({name: tables[name].new for name in self._plan.shared})
        task = WholeTask(self._plan, shared, self._folders(len(self._plan.views)))
        pieces = yield from self._run(task, work)
        return None if pieces is None else dict(zip(self._plan.views, pieces, strict=True))

    def maintain(self, tables: Mapping[str, Table], work: ViewWork) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """What comes into each view, and what goes."""
        names = (*self._plan.shared, *self._plan.views)
        shared = self._sharing.relations({name: tables[name].committed for name in names})
        changed = {name: tables[name] for name in self._plan.shared if tables[name].matters}
        views = self._plan.views
        change = WholeChange(*self._sharing.changes(changed))
        pieces = yield from self._run(WholeTask(self._plan, shared, self._folders(2 * len(views)), change), work)
        if pieces is None:
            return None
        return {view: (pieces[i], pieces[i + len(views)]) for i, view in enumerate(views)}

    def _folders(self, count: int) -> tuple[Path, ...]:
        return tuple(self._scratch.folder() for _ in range(count))

    def _run(self, task: WholeTask, work: ViewWork) -> Steps[list[Piece] | None]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        start = self._session.range(0, 1, 1, 1)
        (listed,) = yield [Ask(start.mapInArrow(run, spark_schema(LISTED)), LISTED, here=True)]
        assert isinstance(listed, LocalPiece)
        pieces = gathered(task.folders, task.made, listed.rows, self._small)
        self.is_crowded = pieces is None
        if pieces is not None:
            add_counters(listed.rows, work)
        return pieces
