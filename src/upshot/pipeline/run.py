"""A running pipeline: it is opened and brought up to date, then handles batches until its sources have nothing new or
it is stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from upshot.core.errors import ConstraintError, DataError, EngineError, Error, RuleError, UsageError
from upshot.core.schema import Role, Schema
from upshot.database.changes import Definition
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.program.compile import Compiled
from upshot.database.rules.actions import Function
from upshot.pipeline.batch.batch import BatchRunner
from upshot.pipeline.batch.positions import Positions
from upshot.pipeline.batch.record import Checkpoint, Recorded, read_checkpoint, recorded, refuse_mismatch, take_back
from upshot.pipeline.config.config import PipelineConfig, read_config
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.data_source import Movement, offer
from upshot.pipeline.dry_run import DryRun, dry_run
from upshot.pipeline.lock import locked, writing
from upshot.pipeline.metrics import BatchMetrics, JobCounter, append_metrics
from upshot.pipeline.preflight import preflight, refuse_absent_sources, refuse_unshared_paths
from upshot.pipeline.program import refuse_other_columns, take_on
from upshot.pipeline.session import delta_support, pipeline_session
from upshot.pipeline.sinks import open_sinks
from upshot.pipeline.sinks.catch_up import Publication, read_standings
from upshot.pipeline.sinks.console import PrintChanges, print_lines
from upshot.pipeline.sinks.sink import refuse_schema
from upshot.pipeline.sources import PipelineSource, advanced, open_sources
from upshot.pipeline.steps import Step
from upshot.pipeline.streaming import Stream, StreamEnded
from upshot.spark.lake_path import AnyPath, LakePath, located
from upshot.spark.session import NOT_STARTED, is_connect

# ---- spark output ------------------------------------------------------------------------------------------
# Redirect the output of Spark's own process to a file, so that the terminal belongs to the pipeline.


_STREAMS = (1, 2)
_SHOWN = 3


@contextmanager
def spark_prints_to(file: Path) -> Iterator[None]:
    """Inside, started processes print into the file, as long as they live; this one prints as before. A failed start is
    an error with the last lines of the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with writing(file.parent):
        log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = [os.dup(stream) for stream in _STREAMS]
    try:
        with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") as own, redirect_stderr(own):
            for stream in _STREAMS:
                os.dup2(log, stream)
            try:
                yield
            finally:
                for stream, before in zip(_STREAMS, kept, strict=True):
                    os.dup2(before, stream)
    except EngineError as error:
        raise _with_words(error, file) if error.code == NOT_STARTED else error from error
    finally:
        for handle in (*kept, log):
            os.close(handle)


def _with_words(error: EngineError, file: Path) -> EngineError:
    """The error with the last lines that Spark printed."""
    with open(file, encoding="utf-8", errors="replace") as log:
        printed = [line.strip() for line in log if line.strip()][-_SHOWN:]
    return EngineError(" / ".join([error.message, *printed]), code=error.code, help=f"all it printed is in `{file}`")


# ---- runs --------------------------------------------------------------------------------------------------


PAUSES = (0.5, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before a stream that Spark ended is started again, and before an unreachable source is tried again: the first
time, then the next. A successful batch or an answer resets the count."""


@dataclass(slots=True)
class Watchers:
    """The callbacks of a run; each of them is optional."""

    batch: Callable[[BatchMetrics], None] = lambda metrics: None
    """after each batch"""
    step: Callable[[int, Step], None] = lambda batch, step: None
    """as each step of a batch begins"""
    note: Callable[[str], None] = lambda words: None
    """a note for the operator"""
    console: PrintChanges = print_lines
    """prints the changes of sinks with `format = "console"`"""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run: the batches it handled, replays included, and its last version."""

    batches: int
    version: int


class Pipeline:
    """A pipeline file, ready to run. One run at a time; `stop` ends it after the current batch.

    `spark` is a classic session: the pipeline runs beside it, in the same Spark. `engine` overrides the file's.
    """

    def __init__(
        self, config: str | os.PathLike[str] | PipelineConfig, *, spark: Any = None, engine: str | None = None
    ) -> None:
        read = config if isinstance(config, PipelineConfig) else read_config(Path(config))
        self.config = read if engine is None else replace(read, engine=engine)
        if spark is not None and is_connect(spark):
            raise UsageError(
                "a pipeline cannot run on a Spark Connect session: the server would run its batches in a process of "
                "its own, which cannot see the engine and the store",
                code="pipeline-needs-classic",
                help="omit the session, or pass one of `SparkSession.builder.master(…)` in this process",
            )
        self._spark = spark
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End a run on another thread, or from a signal: the current batch is finished first."""
        self._stopping.set()

    def check(self) -> DryRun:
        """Check program, sources and sinks and plan the views; nothing is made or changed."""
        preflight(self.config)
        with TemporaryDirectory() as folder, self._session(Path(folder) / "spark.log") as session:
            return dry_run(self.config.on(session), session)

    def run(self, *, once: bool = False, watchers: Watchers | None = None) -> Summary:
        """Run until it is stopped or, with `once`, until the sources have nothing new. After that it may run again."""
        try:
            return self._run(once, watchers or Watchers())
        finally:
            # Not when a run begins: an early stop is meant for that run.
            self._stopping.clear()

    def _run(self, once: bool, watchers: Watchers) -> Summary:
        compiled, functions = preflight(self.config)
        refuse_absent_sources(self.config)
        with ExitStack() as opened:
            folder = self._own_folder(opened)
            session = opened.enter_context(self._session(folder / "spark.log"))
            # After the session: Spark installs its own handler when it starts.
            opened.enter_context(stopped_by_signals(self._stopping))
            work = _BatchWork(self.config.on(session), session, compiled, functions, watchers, folder, opened)
            return work.loop(once, self._stopping)

    def _own_folder(self, opened: ExitStack) -> Path:
        """A folder of this machine for files of the run: the state, or, if that is on a lake, a temporary one. A state
        on a lake is not locked: the process that opens it takes it over, and the previous one cannot commit any
        more."""
        if isinstance(self.config.state, LakePath):
            return Path(opened.enter_context(TemporaryDirectory(prefix="upshot-run-")))
        opened.enter_context(locked(self.config.state))
        return self.config.state

    @contextmanager
    def _session(self, log: Path) -> Iterator[Any]:
        """A session of the pipeline's own; Spark ends with the run that started it."""
        from pyspark import SparkContext  # noqa: PLC0415 - an optional package

        if SparkContext._active_spark_context is not None:
            yield pipeline_session(self.config, self._spark)
            return
        with spark_prints_to(log):
            session = pipeline_session(self.config)
        try:
            yield session
        finally:
            session.stop()


class _BatchWork:
    """The open resources of one run."""

    def __init__(
        self,
        config: PipelineConfig,
        session: Any,
        compiled: Compiled,
        functions: Mapping[str, Function],
        watchers: Watchers,
        folder: Path,
        opened: ExitStack,
    ) -> None:
        refuse_unshared_paths(config, session)
        self.config, self.watchers = config, watchers
        schemas = dict(compiled.visible)
        self._session, self._folder = session, folder
        self._streams = 0
        # On a lake the store alone has the position of the pipeline; on a disk Spark's checkpoint has it, too.
        self._on_lake = isinstance(config.state, LakePath)
        if not self._on_lake:
            self._sources = self._opened_sources(schemas)
        publication = self._publication(schemas)
        self._stream = Stream(session, config.name, folder / "stream", self._handle)
        if not self._on_lake and not (config.state / "store").exists():
            # Before a store is made: the checkpoint may belong to a store that was lost.
            self._whole_state(None)
        database: Database = opened.enter_context(
            connect(config.state / "store", spark=session, engine=config.engine, memory=config.memory, keep=config.keep)
        )
        if self._on_lake:
            refuse_other_columns(database.schemas, schemas)
            self._sources = self._opened_sources(schemas, database)
        else:
            self._whole_state(recorded(database))
        for name, function in functions.items():
            # Pending calls of an earlier run are made now.
            database.action(name, function)
        self._note_redefinitions(take_on(database, config, compiled), schemas)
        publication.catch_up(database)
        self._batches = BatchRunner(
            config, session, database, self._sources, schemas, publication, watchers.step, JobCounter(session)
        )
        self._count = 0
        self._handled: Positions = {}

    def _opened_sources(
        self, schemas: Mapping[str, Schema], database: Database | None = None
    ) -> dict[str, PipelineSource]:
        """The sources; their journals are records of the database, if it is given."""
        records = None if database is None else database.records
        return open_sources(self.config, schemas, delta_support(self._session, self.config), records)

    def _note_redefinitions(self, definition: Definition, schemas: Mapping[str, Schema]) -> None:
        """Note the changes of views by a program that differs from the one of the store."""
        for name, change in definition.changes.items():
            if name in schemas and schemas[name].role is not Role.BASE:
                counts = f"+{len(change.inserted)} -{len(change.deleted)}"
                self.watchers.note(f"`{name}` is redefined: {counts}, version {definition.version}")

    def _publication(self, schemas: dict[str, Schema]) -> Publication:
        """The sinks. Raises, before anything is changed, if one of them cannot store its view."""
        file = self.config.state / "sinks.json"
        sinks = open_sinks(self.config, self._session, self.config.delta, read_standings(file), self.watchers.console)
        spans = {name: sink.span for name, sink in self.config.sinks.items()}
        for sink in sinks:
            with placed(spans[sink.view]):
                refuse_schema(sink, schemas[sink.view])
        return Publication(sinks, file, spans, self._session)

    # ---- batches -----------------------------------------------------------------------------------

    def loop(self, once: bool, stopping: threading.Event) -> Summary:
        """Stream until there is nothing left to do. A stream that Spark ends, for instance because a process did not
        answer in time, is restarted at its position."""
        lost, count = 0, 0
        while True:
            try:
                self._stream_until_done(once, stopping)
                return Summary(self._count, self._batches.database.version)
            except StreamEnded as ended:
                lost, count = (1 if self._count > count else lost + 1), self._count
                if lost > len(PAUSES):
                    raise
                self.watchers.note(f"{ended.message}; restarting it")
                stopping.wait(PAUSES[lost - 1])

    def _stream_until_done(self, once: bool, stopping: threading.Event) -> None:
        planned = self._resumed()
        try:
            if planned is not None:
                self._stream.start(self._pace(once))
                self._stream.wait_for(lambda done: done >= planned)
            self._follow(once, stopping)
        except (ConstraintError, DataError, RuleError):
            self._stream.stop()
            self._take_back()
            raise
        except KeyboardInterrupt:
            self._stream.abandon()
            raise
        finally:
            self._stream.stop()

    def _resumed(self) -> int | None:
        """Puts the stream where the store is; the batch that Spark's checkpoint has planned and not finished, if there
        is one."""
        if self._on_lake:
            last = self._batches.last
            self._streams += 1
            number = 0 if last is None else last.batch + 1
            self._stream.begin_at(self._folder / f"stream-{self._streams}", number, self._batches.positions)
            self._offer(self._batches.positions)
            return None
        state = self._whole_state(self._batches.last)
        self._offer(state.positions)
        return state.planned if state.pending else None

    def _offer(self, positions: Positions) -> None:
        with writing(self._folder):
            self._stream.offered.parent.mkdir(exist_ok=True)
            offer(self._stream.offered, positions)

    def _whole_state(self, last: Recorded | None) -> Checkpoint:
        """Spark's checkpoint, if it agrees with the last record of the store."""
        state = read_checkpoint(self._stream.checkpoint)
        refuse_mismatch(state, last, self.config.state)
        return state

    def _follow(self, once: bool, stopping: threading.Event) -> None:
        """Move the stream to the latest positions of the sources, again and again."""
        while not stopping.is_set():
            known = self._batches.positions
            moved = self._latest(known, once, stopping)
            if moved != known:
                self._offer(moved)
                # Not earlier: a stream without offered positions would begin with an empty batch.
                self._stream.start(self._pace(once))
                # The sinks may still lack a recorded batch: it is done when it was handled.
                self._stream.wait_for(lambda _: self._handled == moved)  # noqa: B023 - waited for here
            elif once:
                return
            else:
                stopping.wait(self.config.trigger)
                self._stream.check()

    def _latest(self, known: Positions, once: bool, stopping: threading.Event) -> Positions:
        """The latest positions of the sources. A continuous run tolerates a source that is unreachable for a while."""
        for pause in PAUSES:
            try:
                return advanced(self._sources, self._session, known)
            except Error as error:
                if once or not error.retryable:
                    raise
                self.watchers.note(f"{error.message}; retrying in {pause:g} seconds")
                if stopping.wait(pause):
                    return known
        return advanced(self._sources, self._session, known)

    def _pace(self, once: bool) -> float:
        """The interval at which Spark polls the offered positions: a poll costs little."""
        return 0.1 if once else min(self.config.trigger, 0.5)

    def _handle(self, batch: int, moved: Sequence[Movement]) -> None:
        metrics = self._batches.run(batch, moved)
        self._count += 1
        append_metrics(self._metrics_file(), metrics)
        self.watchers.batch(metrics)
        for note in metrics.notes:
            self.watchers.note(note)
        self._handled = self._batches.positions

    def _metrics_file(self) -> AnyPath:
        if self.config.metrics:
            return located(self.config.metrics)
        return self.config.state / ("metrics" if self._on_lake else "metrics.jsonl")

    def _take_back(self) -> None:
        """Forget a planned batch whose data were refused: nothing of it was applied, and the next run plans it again,
        with corrected data."""
        if self._on_lake:
            return
        found = read_checkpoint(self._stream.checkpoint)
        # From the store: rules may fail after the commit, when the batch is recorded.
        last = recorded(self._batches.database)
        if found.planned == (0 if last is None else last.batch + 1):
            take_back(self._stream.checkpoint, found.planned)


# ---- entry points -----------------------------------------------------------------------------------------


def run_pipeline(
    path_or_config: str | os.PathLike[str] | PipelineConfig,
    once: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[BatchMetrics], None] | None = None,
    *,
    spark: Any = None,
    engine: str | None = None,
) -> Summary | DryRun:
    """Run a pipeline file; `once` until its sources have nothing new. `on_progress` gets the metrics of every batch.
    With `dry_run` nothing is run or made, and the plan is returned."""
    pipeline = Pipeline(path_or_config, spark=spark, engine=engine)
    if dry_run:
        return pipeline.check()
    return pipeline.run(once=once, watchers=Watchers() if on_progress is None else Watchers(batch=on_progress))


@contextmanager
def stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """Inside, SIGINT and SIGTERM stop the run after the current batch; a second one stops it at once. Only the main
    thread gets signals, so on another one the block changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
