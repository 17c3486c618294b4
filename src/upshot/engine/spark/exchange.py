"""A recursion without a pivot that one worker cannot hold: its parts run at once and exchange what crosses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from upshot.core.errors import EngineError
from upshot.core.rows import Row
from upshot.engine.spark.asks import BRANCHES, Ask, Steps
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.exchange_plan import ExchangePlan, exchange_plans
from upshot.engine.spark.exchange_task import Files, Held, PartTask, ScatterTask
from upshot.engine.spark.meeting import APART, LOST
from upshot.engine.spark.part_copies import PartCopies, by_part
from upshot.engine.spark.part_work import COUNTER
from upshot.engine.spark.pieces import LocalPiece, Piece, nothing, united
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_files import GAVE_UP, LISTED, gathered
from upshot.engine.spark.shard_plan import ShardPlan, SharedRelation
from upshot.engine.spark.sharing import Sharing
from upshot.engine.spark.tables import Table
from upshot.spark.types import spark_schema

Frames = Mapping[str, Sequence[DataFrame]]
"""For each view, what rules derive for it."""


class Exchange:
    """Kept as long as the component is. What the parts cannot hold is answered by None, and `refusal` says why."""

    def __init__(self, plan: ShardPlan, count: int, session: SparkSession, scratch: Scratch, *, small: int) -> None:
        self.plan, self._deleting = exchange_plans(plan, count)
        self._session, self._scratch, self._small = session, scratch, small
        self._sharing, self._copies = Sharing(scratch), PartCopies()
        self.refusal = ""
        self.rounds = 0
        """Of all fixpoints, those of the part that took most."""

    def files(self) -> Iterator[Path]:
        yield from self._sharing.files()
        yield from self._copies.folders()

    def release(self) -> None:
        self._sharing.release()
        self._copies.release()

    def has_copies(self, tables: Mapping[str, Table]) -> bool:
        """Whether all rows of the views lie where parts find them."""
        return not self._copies.missing(self._committed(tables))

    # ---- fixpoints -----------------------------------------------------------------------------------------------

    def load(self, seeds: Frames, tables: Mapping[str, Table]) -> Steps[dict[str, Piece] | None]:
        """All that follows from seeds, in the new state of what is read."""
        return (yield from self._closed(self.plan, seeds, self._shared(tables, new=True), {}))

    def gone(self, seeds: Frames, tables: Mapping[str, Table]) -> Steps[dict[str, Piece] | None]:
        """All rows of the views that may go with the seeds, in the old state."""
        contents = self._committed(tables) if self._deleting.joins_views and seeds else {}
        yield from self._copy(contents)
        none = {view: nothing(tables[view].types) for view in contents}
        held = self._copies.held(contents, none, self._sharing)
        return (yield from self._closed(self._deleting, seeds, self._shared(tables, new=False), held))

    def come(
        self, seeds: Frames, over: Mapping[str, Piece], tables: Mapping[str, Table]
    ) -> Steps[dict[str, Piece] | None]:
        """All that follows from seeds in the new state of what is read, and is not among the old rows of the views
        without those that are `over`."""
        contents = self._committed(tables) if seeds else {}
        yield from self._copy(contents)
        held = self._copies.held(contents, over, self._sharing)
        return (yield from self._closed(self.plan, seeds, self._shared(tables, new=True), held))

    def _committed(self, tables: Mapping[str, Table]) -> dict[str, Contents]:
        return {view: tables[view].committed for view in self.plan.views}

    def _shared(self, tables: Mapping[str, Table], *, new: bool) -> dict[str, SharedRelation]:
        names = self.plan.shard.shared
        return self._sharing.relations({n: tables[n].new if new else tables[n].committed for n in names})

    def _closed(
        self, plan: ExchangePlan, seeds: Frames, shared: Mapping[str, SharedRelation], held: Mapping[str, Held]
    ) -> Steps[dict[str, Piece] | None]:
        types = {view: plan.shard.types(view) for view in plan.views}
        meeting = self._scratch.folder()
        try:
            given = [(view, frame) for view, frames in seeds.items() for frame in frames]
            handed = yield from self._scattered(plan, given, [meeting] * len(given))
            if not any(handed):
                return {view: nothing(types[view]) for view in plan.views}
            begun = {
                view: _joined(files for (name, _), files in zip(given, handed, strict=True) if name == view)
                for view in plan.views
            }
            owned = tuple(self._scratch.folder() for _ in plan.views)
            listed = yield from self._met(PartTask(plan, shared, owned, meeting, begun, held))
        finally:
            shutil.rmtree(meeting, ignore_errors=True)
        self._note(listed)
        self.rounds += max((count for member, _, count in listed if member == COUNTER), default=0)
        ended = [(GAVE_UP, "", 0)] if self.refusal else listed
        pieces = gathered(owned, [types[view] for view in plan.views], ended, self._small)
        return None if pieces is None else dict(zip(plan.views, pieces, strict=True))

    def _met(self, task: PartTask) -> Steps[list[Row]]:
        # One row a task, since the parts are what is shared out; a job of their own, since they wait for each other.
        count = self.plan.count
        return (yield from self._run(self._session.range(0, count, 1, count), task, BRANCHES))

    def _note(self, listed: Iterable[Row]) -> None:
        """Remember why the parts did not come to an end; one that was lost is a failure of the attempt."""
        reasons = {member for member, _, _ in listed}
        if LOST in reasons:
            error = EngineError(
                "Spark lost a worker with a part of a recursion",
                code="lost-worker",
                help="nothing was applied; run the transaction again",
            )
            error.retryable = True
            raise error
        if GAVE_UP in reasons:
            self.refusal = "its parts need more memory than a worker may take"
        elif APART in reasons:
            self.refusal = f"its {self.plan.count} parts did not get to run at the same time"

    # ---- handing out ---------------------------------------------------------------------------------------------

    def _copy(self, contents: Mapping[str, Contents]) -> Steps[None]:
        """Hand out the files of the views as far as that is not done."""
        views = self._copies.missing(contents)
        if not views:
            return
        folders = [self._scratch.folder() for _ in views]
        frames = [(view, contents[view].stored(self._session)) for view in views]
        handed = yield from self._scattered(self.plan, frames, folders)
        for view, folder, files in zip(views, folders, handed, strict=True):
            self._copies.add(view, contents[view], folder, files)

    def _scattered(
        self, plan: ExchangePlan, sets: Sequence[tuple[str, DataFrame]], folders: Sequence[Path]
    ) -> Steps[list[Files]]:
        """For each set of rows of a view the files that parts find theirs in."""
        if not sets:
            return []
        task = ScatterTask(plan, tuple(view for view, _ in sets), tuple(folders))
        frames = [task.given.frame(member, frame) for member, (_, frame) in enumerate(sets)]
        listed = yield from self._run(united(frames), task, len(frames))
        names: list[list[tuple[int, str]]] = [[] for _ in sets]
        for member, name, _ in listed:
            part, number = task.meaning(member)
            names[number].append((part, name))
        return [by_part(each, folder) for each, folder in zip(names, folders, strict=True)]

    def _run(
        self, frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], branches: int
    ) -> Steps[list[Row]]:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        (listed,) = yield [Ask(frame.mapInArrow(run, spark_schema(LISTED)), LISTED, here=True, branches=branches)]
        assert isinstance(listed, LocalPiece)
        return list(listed.rows)


def _joined(files: Iterable[Files]) -> Files:
    found: dict[int, list[Path]] = {}
    for each in files:
        for part, paths in each.items():
            found.setdefault(part, []).extend(paths)
    return found
