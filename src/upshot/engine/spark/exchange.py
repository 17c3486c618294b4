"""The load of a recursion without a pivot that one worker cannot hold: parts exchange what crosses, step by step."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.engine.spark.asks import Ask, Steps
from upshot.engine.spark.exchange_plan import ExchangePlan
from upshot.engine.spark.exchange_task import Outbox, ScatterTask, StepTask
from upshot.engine.spark.pieces import LocalPiece, Piece
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_files import GAVE_UP, LISTED, gathered
from upshot.engine.spark.shard_plan import SharedRelation
from upshot.engine.spark.slots import Slots
from upshot.engine.spark.spark_types import spark_schema

Owned = dict[int, dict[str, list[Path]]]
"""Files by part and view."""


class Exchange:
    """One load. Each step is one job: a task for every part that others have found rows for."""

    def __init__(
        self, plan: ExchangePlan, shared: Mapping[str, SharedRelation], session: SparkSession, scratch: Scratch
    ) -> None:
        self._plan, self._shared, self._session, self._scratch = plan, shared, session, scratch
        self._name = uuid.uuid4().hex
        self._owned = tuple(scratch.folder() for _ in plan.views)
        self._listed: list[Row] = []
        self._held: Owned = {}
        self._since: dict[int, int] = {}
        self.steps = 0

    @property
    def given(self) -> Slots:
        """The slots of the seeds of each view."""
        return Slots(tuple(map(self._plan.shard.types, self._plan.views)))

    def load(self, seeds: DataFrame, small: int, branches: int = 1) -> Steps[list[Piece] | None]:
        """The rows of each view, which start with its seeds; None if a part gave up. The seeds of all are one frame, in
        `branches` parts."""
        outbox = self._outbox()
        listed = yield from self._run(seeds, ScatterTask(self._plan, self._shared, outbox, self.given), branches)
        inbox = self._taken(outbox, listed)
        while inbox:
            self.steps += 1
            inbox = yield from self._step(inbox)
        if inbox is None:
            for folder in self._owned:
                shutil.rmtree(folder)
            return None
        types = [self._plan.shard.types(view) for view in self._plan.views]
        return gathered(self._owned, types, self._listed, small)

    def _step(self, inbox: Owned) -> Steps[Owned | None]:
        outbox = self._outbox()
        task = StepTask(self._name, self._plan, self._shared, outbox, self.steps, inbox, dict(self._since), self._held)
        # One row a task, since the parts are what is shared out.
        parts = self._session.range(0, self._plan.count, 1, self._plan.count)
        listed = yield from self._run(parts, task, 1)
        for crossed in {path.parent for files in inbox.values() for paths in files.values() for path in paths}:
            shutil.rmtree(crossed)
        self._since.update(dict.fromkeys(inbox, self.steps))
        return self._taken(outbox, listed)

    def _outbox(self) -> Outbox:
        return Outbox(self._plan, self._owned, self._scratch.folder())

    def _run(
        self, frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], branches: int
    ) -> Steps[list[Row]]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        (listed,) = yield [Ask(frame.mapInArrow(run, spark_schema(LISTED)), LISTED, here=True, branches=branches)]
        assert isinstance(listed, LocalPiece)
        return list(listed.rows)

    def _taken(self, outbox: Outbox, listed: Iterable[Row]) -> Owned | None:
        """Note what the parts have come to own; what crosses comes back, None if a part gave up."""
        inbox: Owned = {}
        for member, name, count in listed:
            if member == GAVE_UP:
                shutil.rmtree(outbox.crossing)
                return None
            part, view, crosses = outbox.meaning(member)
            number = self._plan.views.index(view)
            if crosses:
                inbox.setdefault(part, {}).setdefault(view, []).append(outbox.crossing / name)
            else:
                self._held.setdefault(part, {}).setdefault(view, []).append(self._owned[number] / name)
                self._listed.append((number, name, count))
        if not inbox:
            shutil.rmtree(outbox.crossing)
        return inbox
