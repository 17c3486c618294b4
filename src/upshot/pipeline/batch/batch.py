"""One micro-batch, one transaction: the commit procedure of the pipeline, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.util import inheritable_thread_target

from upshot.core.errors import DataError, Error
from upshot.core.schema import Role, Schema
from upshot.database.changes import ChangeSet
from upshot.database.database import Database
from upshot.database.transaction import Transaction
from upshot.pipeline.batch.positions import Position
from upshot.pipeline.batch.quarantine import quarantine_path, remove_batch
from upshot.pipeline.batch.ranges import Range, read_range
from upshot.pipeline.batch.record import Recorded, changes_of_batch, mismatch, recorded
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.data_source import Movement
from upshot.pipeline.metrics import BatchMetrics, RuleMetrics, SourceMetrics, ViewMetrics
from upshot.pipeline.sinks.catch_up import Publication
from upshot.pipeline.sources import PipelineSource
from upshot.pipeline.steps import Point, Step, Stopwatch, reached, tried
from upshot.spark.session import without_call_sites

_SIDE_BY_SIDE = 4
"""Sources that are read at the same time."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A committed batch: the rows read for it, and its transaction."""

    ranges: Mapping[str, Range]
    transaction: Transaction

    @property
    def rules(self) -> dict[str, RuleMetrics]:
        found: dict[str, RuleMetrics] = {}
        for firing in self.transaction.firings:
            before = found.get(firing.rule, RuleMetrics(0, 0))
            found[firing.rule] = RuleMetrics(before.firings + 1, before.rows + len(firing.rows))
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        warnings = [warning.message for warning in self.transaction.warnings]
        failed = [
            f"{_why(firing.error)}; it is retried with the next batch"
            for firing in self.transaction.firings
            if firing.error is not None
        ]
        return (*(note for found in self.ranges.values() for note in found.notes), *warnings, *failed)


@dataclass(slots=True)
class BatchRunner:
    """Runs batches. `on_step` is called with every step as it begins."""

    config: PipelineConfig
    session: Any
    database: Database
    sources: Mapping[str, PipelineSource]
    schemas: Mapping[str, Schema]
    publication: Publication
    on_step: Callable[[int, Step], None] = lambda batch, step: None
    jobs: Callable[[], int] = lambda: 0
    last: Recorded | None = field(default=None)

    def __post_init__(self) -> None:
        self.last = recorded(self.database)

    @property
    def positions(self) -> dict[str, Position]:
        return dict(self.last.positions) if self.last else {}

    @without_call_sites()
    def run(self, batch: int, moved: Sequence[Movement]) -> BatchMetrics:
        """Apply a batch, or, if the store has it already, only bring the sinks up to date."""
        watch, jobs = Stopwatch(lambda step: self.on_step(batch, step)), self.jobs()
        self.database.retry()
        applied = None if self._is_recorded(batch, moved) else self._applied(batch, moved, watch)
        with watch.step(Step.PUBLISH):
            self.publication.catch_up(self.database)
        with watch.step(Step.FINISH):
            for movement in moved:
                if movement.source in self.sources:
                    self.sources[movement.source].trim(movement.end)
        return BatchMetrics(
            pipeline=self.config.name,
            batch=batch,
            version=self.database.version,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            sources=self.last.read if self.last else {},
            views=self._views(applied.transaction.changes if applied else changes_of_batch(self.database, batch)),
            rules=applied.rules if applied else {},
            pending=len(self.database.pending()),
            seconds=watch.seconds,
            jobs=self.jobs() - jobs,
            engine=self.database.placement.engine,
            replayed=applied is None,
            notes=applied.notes if applied else (),
        )

    def _views(self, changes: ChangeSet | None) -> dict[str, ViewMetrics]:
        """The size of each view's change; empty for a batch whose changes are no longer kept."""
        return {
            name: ViewMetrics(len(change.inserted), len(change.deleted))
            for name, change in (changes or {}).items()
            if name in self.schemas and self.schemas[name].role is not Role.BASE
        }

    def _is_recorded(self, batch: int, moved: Sequence[Movement]) -> bool:
        """Test whether the store has exactly this batch. Raises if it is neither this batch nor the next one: then the
        state is inconsistent."""
        known, last = self.positions, -1 if self.last is None else self.last.batch
        state = self.config.state
        if batch == last:
            if any(known.get(m.source) != m.end for m in moved):
                raise mismatch(f"batch {batch} was recorded with other positions", state)
            return True
        if batch != last + 1:
            raise mismatch(f"batch {batch} follows batch {last}", state)
        if any(known.get(m.source) != m.start for m in moved):
            raise mismatch(f"batch {batch} does not start where batch {last} ended", state)
        return False

    def _applied(self, batch: int, moved: Sequence[Movement], watch: Stopwatch) -> Applied:
        return tried(f"batch {batch}", lambda: self._attempt(batch, moved, watch))

    def _attempt(self, batch: int, moved: Sequence[Movement], watch: Stopwatch) -> Applied:
        with ExitStack() as block:
            ranges = {}
            with watch.step(Step.READ):
                for movement, found in zip(moved, self._read_all(moved), strict=True):
                    ranges[movement.source] = found
                    block.callback(found.release)
            with watch.step(Step.QUARANTINE):
                self._quarantine(batch, ranges)
            return self._commit(batch, moved, ranges, watch)

    def _commit(self, batch: int, moved: Sequence[Movement], ranges: Mapping[str, Range], watch: Stopwatch) -> Applied:
        moved_to = {movement.source: movement.end for movement in moved}
        read = {name: SourceMetrics(found.rows, found.bad.count) for name, found in ranges.items()}
        record = Recorded(batch, {**self.positions, **moved_to}, read)
        transaction = self.database.transaction(meta=record.as_meta(self.config.name))
        with ExitStack() as block:
            block.enter_context(transaction)
            with watch.step(Step.STAGE):
                for found in ranges.values():
                    found.stage(transaction)
            with watch.step(Step.RECORD):
                # Leaving the block commits.
                block.close()
        reached(Point.RECORDED)
        self.last = record
        return Applied(ranges, transaction)

    def _read_all(self, moved: Sequence[Movement]) -> list[Range]:
        """Read the ranges in parallel: planning a small job takes longer than running it. If one fails, the others are
        released."""
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            # So that their jobs belong to the group of the batch.
            inheriting = inheritable_thread_target(self.session)
            reading = [pool.submit(inheriting(partial(self._read, movement))) for movement in moved]
        failed = [error for one in reading if (error := one.exception()) is not None]
        if failed:
            for one in reading:
                if one.exception() is None:
                    one.result().release()
            raise failed[0]
        return [one.result() for one in reading]

    def _read(self, movement: Movement) -> Range:
        source = self.sources.get(movement.source)
        if source is None:
            raise DataError(
                f"an unfinished batch has rows of source `{movement.source}`, which is not in the pipeline",
                code="state-mismatch",
                help=f"restore `[source.{movement.source}]`, run once, then remove it",
            )
        batch = source.changes(self.session, movement.start, movement.end)
        return read_range(batch)

    def _quarantine(self, batch: int, ranges: Mapping[str, Range]) -> None:
        now = datetime.now(UTC)
        folders = {name: quarantine_path(self.config, source) for name, source in self.config.sources.items()}
        for name, found in ranges.items():
            source = self.config.sources[name]
            if source.on_bad_row == "fail":
                with placed(source.span):
                    found.bad.refuse(name)
        # An earlier attempt at this batch may have had bad rows of sources that do not move this time.
        for name in folders.keys() - ranges.keys():
            remove_batch(folders[name], batch)
        for name, found in ranges.items():
            found.bad.write(folders[name], batch, now)


def _why(error: Exception) -> str:
    return error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
