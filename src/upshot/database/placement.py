"""Placement: the local engine works while the state fits its memory budget, the Spark engine beyond it, with the same
answers.

statement ─► fits? ──► local engine ──── outgrown during work ───────┐
                  └ no ─────────────────────────────────────────────────►│
                                                                         ▼
                    roll back ─► save committed rows ─► restore on Spark ─► stage the open change again

There is no move back: the next change may outgrow the budget again, and every move costs a load.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from upshot.check.program import Clause
from upshot.core.errors import EngineError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.engines import Deltas, Engine, EngineQuery, Row, spark_engine
from upshot.database.files.arrow_tables import is_spark_frame
from upshot.database.files.spark_frames import collected, counted, refuse_other_session
from upshot.engine.limits import BudgetExceeded, Limits, in_bytes
from upshot.engine.local import LocalEngine
from upshot.engine.saved import Saved
from upshot.engine.user_functions import UserFunctions
from upshot.engine.work import Work
from upshot.plan import ProgramPlan
from upshot.spark.location import local_path, uri_of
from upshot.spark.preflight import refuse_unfit_workers, shared_workspace
from upshot.spark.workspace import Workspace, shares_disk

log = logging.getLogger("upshot.placement")

_CODE, _BESIDE = 8, 28
"""The bytes of a row in memory for each column, and in addition: state, slot, place in a list and an index."""

_WORTH_A_LOOK = 16
"""Statements that take less than this fraction of the budget are not estimated: the tables usually have room, and if
not, the local engine stops by itself."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The engine in use, and the reason."""

    engine: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.engine}: {self.reason}" if self.reason else self.engine


def placement_of(engine: Engine) -> Placement:
    if isinstance(engine, PlacedEngine):
        return engine.placement
    if isinstance(engine, LocalEngine) and engine.budget is not None:
        return Placement("local", _of_budget(engine.reserved, engine.budget))
    return Placement("local" if isinstance(engine, LocalEngine) else "spark")


class SparkFolders:
    """Folders in the temporary directory of this machine, removed with the engine that reads them; files for executors
    are copied to the location unless they see this machine's disk."""

    def __init__(self, session: Any, location: str | None = None) -> None:
        self._session, self._location = session, location
        self._here = Workspace(tempfile.gettempdir())
        self._there: Workspace | None = None

    def folder(self) -> Path:
        """A new folder of this machine."""
        path = local_path(self._here.new("folder"))
        assert path is not None
        return path

    def readable(self, path: Path) -> list[str]:
        """The paths under which executors read this Parquet file or folder of this machine."""
        if shares_disk(self._session):
            return [uri_of(path)]
        if self._there is None:
            self._there = shared_workspace(self._session, self._location)
        return list(self._there.adopted(path).files)

    def remove(self) -> None:
        self._here.remove()
        if self._there is not None:
            self._there.remove()


@dataclass(slots=True)
class SparkPlace:
    """Engines of one database on one session. Once one of them has outgrown the budget, later ones start on Spark. A
    session that was started for them ends with the last of them."""

    session: Any
    limits: Limits
    make: Callable[[Any, Limits, str | None], Engine] = spark_engine
    make_folders: Callable[[Any, str | None], SparkFolders] = SparkFolders
    check_workers: Callable[[Any], None] = refuse_unfit_workers
    """Raises if the session's workers cannot do the work; called before a move."""
    reason: str = ""
    """The reason to start on Spark; empty if the engine should start locally."""
    start: Callable[[], Any] | None = None
    """Starts a session for the first engine if the user has none."""
    location: str | None = None
    """The URI or path of the engines' files, if the user names one."""
    _open: int = 0

    def __call__(self) -> Engine:
        if self.session is None and self.start is not None:
            self.session = self.start()
        self._open += 1
        try:
            return PlacedEngine(self)
        except BaseException:
            self.closed()
            raise

    def spark(self) -> Engine:
        # The memory budget is for the local engine; all other limits apply here too.
        return self.make(self.session, replace(self.limits, memory=None), self.location)

    def folders(self) -> SparkFolders:
        return self.make_folders(self.session, self.location)

    def closed(self) -> None:
        self._open -= 1
        if self._open == 0 and self.start is not None:
            session, self.session = self.session, None
            session.stop()


@dataclass(frozen=True, slots=True)
class _StagedStatement:
    """A statement of the open change, kept to be staged on another engine."""

    verb: str
    arguments: tuple[Any, ...]

    def stage(self, engine: Engine) -> None:
        getattr(engine, self.verb)(*self.arguments)


@dataclass(slots=True)
class _StagedChange:
    """The statements since the last commit, in order."""

    statements: list[_StagedStatement] = field(default_factory=list)
    plan: ProgramPlan | None = None
    """The program of a definition."""
    propagated: bool = False
    """True if the staged statements are propagated; then they are propagated after a move too."""
    failure: Exception | None = None
    """Set if the change could not be staged again after a failed move: it can only be rolled back."""

    def stage(self, engine: Engine) -> None:
        """Stage the change on another engine, up to its current stage."""
        for statement in self.statements:
            statement.stage(engine)
        if self.propagated:
            engine.propagate()


class PlacedEngine:
    """A local engine or one on Spark, depending on the size of the state; a single engine to its users."""

    def __init__(self, place: SparkPlace) -> None:
        self._place = place
        self._plan: ProgramPlan | None = None
        self._change = _StagedChange()
        self._closed = False
        self._folders: SparkFolders | None = None
        self._local: LocalEngine | None = None
        self._engine: Engine
        self._reason = place.reason
        if place.reason:
            self._engine = place.spark()
        else:
            self._engine = self._local = LocalEngine(limits=place.limits)
            self._local.lend_at(place.location)

    @property
    def session(self) -> Any:
        """The user's Spark session, or the one started instead."""
        return self._place.session

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def is_local(self) -> bool:
        return self._local is not None

    @property
    def placement(self) -> Placement:
        if self._local is None:
            return Placement("spark", self._reason)
        return Placement("local", _of_budget(self._local.reserved, self._budget))

    # ---- the open change ---------------------------------------------------------------------------

    def install(self, plan: ProgramPlan, recompute: Collection[str] = frozenset()) -> frozenset[str]:
        computed = self._engine.install(plan, recompute)
        self._change.statements.append(_StagedStatement("install", (plan, recompute)))
        self._change.plan = plan
        return computed

    def insert(self, name: str, rows: Any) -> None:
        self._stage("insert", name, rows)

    def delete(self, name: str, rows: Any) -> None:
        self._stage("delete", name, rows)

    def upsert(self, name: str, rows: Any) -> None:
        self._stage("upsert", name, rows)

    def replace(self, name: str, rows: Any) -> None:
        self._stage("replace", name, rows)

    def _stage(self, verb: str, name: str, rows: Any) -> None:
        self._change.propagated = False
        if self._local is not None:
            rows = self._local_rows(self._schema(name), rows, grows=verb != "delete")
        elif is_spark_frame(rows):
            refuse_other_session(rows, self.session)
        statement = _StagedStatement(verb, (name, rows))
        self._do(lambda engine: getattr(engine, verb)(name, rows))
        # Statements on Spark are never staged again: there is no move from there.
        if self._local is not None:
            self._change.statements.append(statement)

    def _local_rows(self, schema: Schema, rows: Any, *, grows: bool) -> Any:
        """The rows in this process for the local engine; unchanged if they do not fit and the engine has moved."""
        is_frame = is_spark_frame(rows)
        count = counted(rows) if is_frame else len(rows)
        expected = bytes_of_rows(count, schema.arity) if grows or is_frame else 0
        if not self.holds(expected):
            self._move(f"{count:,} rows for `{schema.name}` would take {in_bytes(expected)} more")
            if is_frame:
                refuse_other_session(rows, self.session)
            return rows
        return collected(rows, schema) if is_frame else rows

    def holds(self, expected: int) -> bool:
        """Test whether the local engine is in use and would stay within its budget with this many more bytes."""
        if self._local is None:
            return False
        return expected * _WORTH_A_LOOK < self._budget or self._local.reserved + expected <= self._budget

    def propagate(self, *, several_turns: bool = False) -> Deltas:
        if self._change.failure is not None:
            raise _lost_change(self._change.failure) from self._change.failure
        deltas: Deltas = self._do(lambda engine: engine.propagate(several_turns=several_turns))
        self._change.propagated = True
        return deltas

    def reopen(self) -> None:
        self._engine.reopen()
        self._change.propagated = False

    def leave_out(self, plan: ProgramPlan) -> None:
        self._engine.leave_out(plan)
        self._change.statements.append(_StagedStatement("leave_out", (plan,)))
        self._change.plan, self._change.propagated = plan, False

    @property
    def is_narrowed(self) -> bool:
        return self._engine.is_narrowed

    def key_conflicts(self, name: str) -> Sequence[tuple[Row, Row]]:
        return self._engine.key_conflicts(name)

    def accept(self) -> None:
        self._engine.accept()
        self._plan = self._change.plan or self._plan
        self._change = _StagedChange()

    def rollback(self) -> None:
        self._change = _StagedChange()
        self._engine.rollback()

    # ---- moving ------------------------------------------------------------------------------------

    def _do(self, work: Callable[[Engine], Any]) -> Any:
        """Run the work here or, if it outgrows the budget, on Spark."""
        try:
            return work(self._engine)
        except BudgetExceeded as outgrown:
            if self._local is None:
                raise
            self._move(f"{in_bytes(outgrown.needed)} were needed")
            return work(self._engine)

    def _move(self, reason: str) -> None:
        """Move the state with the open change to Spark; on a failure everything stays here."""
        local = self._local
        assert local is not None
        budget = in_bytes(self._budget)
        log.info("moving to Spark: %s, the budget is %s", reason, budget)
        local.rollback()
        saved: dict[str, Saved] = {}
        spark: Engine | None = None
        try:
            if self._plan is not None:
                saved = self._saved(local, self._plan)
            spark = self._place.spark()
            self._place.check_workers(self._place.session)
            if self._plan is not None:
                spark.restore(self._plan, saved)
            self._change.stage(spark)
        except BaseException as error:
            self._stay(spark, saved)
            if not isinstance(error, Exception):
                raise
            log.warning("the move to Spark failed, the state stays in this process: %s", error)
            raise _failed_move(reason, budget, error) from error
        self._reason = self._place.reason = f"outgrew {budget}: {reason}"
        self._engine, self._local, self._change = spark, None, _StagedChange(plan=self._change.plan)
        local.close()
        log.info("moved to Spark")

    def _saved(self, local: LocalEngine, plan: ProgramPlan) -> dict[str, Saved]:
        """The committed rows, saved in folders that live as long as the engine."""
        stored = [name for name in plan.normal.schemas if name not in plan.on_demand.unstored]
        saved = {name: Saved() for name in stored}
        for name in stored:
            if local.size(name):
                folder = self.folder()
                saved[name] = Saved(folder, local.save(name, folder))
        return saved

    def _stay(self, spark: Engine | None, saved: Mapping[str, Saved]) -> None:
        """Stage the open change again on the local engine: it fitted before, so the budget is not checked."""
        if spark is not None:
            try:
                spark.close()
            except Exception:
                log.exception("the files of the failed move to Spark could not be removed")
        local = self._shrunk(saved)
        self._clear()
        local.budget = None
        try:
            self._change.stage(local)
        except Exception as error:  # noqa: BLE001 - after any error the change is incomplete
            self._change.failure = error
        finally:
            local.budget = self._budget

    def _shrunk(self, saved: Mapping[str, Saved]) -> LocalEngine:
        """A local engine with the committed rows only: the tables had grown for the change, and would stay too large
        for the next one. Without enough memory for two engines, the current one."""
        local = self._local
        assert local is not None
        if self._plan is None or not saved:
            return local
        fresh = LocalEngine(limits=replace(self._place.limits, memory=None))
        try:
            fresh.restore(self._plan, saved)
        except Exception:
            log.exception("the tables stay as large as they are")
            fresh.close()
            return local
        local.close()
        fresh.lend_at(self._place.location)
        self._engine = self._local = fresh
        return fresh

    @property
    def _budget(self) -> int:
        assert self._place.limits.memory is not None
        return self._place.limits.memory

    # ---- methods of the engine in use ------------------------------------------------

    def restore(self, plan: ProgramPlan, saved: Mapping[str, Saved]) -> None:
        """Restore the relations, directly on Spark if they are too many rows for this process."""
        known = plan.normal.schemas
        rows = sum(bytes_of_rows(kept.rows, known[name].arity) for name, kept in saved.items() if name in known)
        reason = f"the saved rows would take {in_bytes(rows)}"
        if self._local is not None and self.holds(rows):
            try:
                self._local.restore(plan, saved)
            except BudgetExceeded as outgrown:
                reason = f"{in_bytes(outgrown.needed)} were needed"
            else:
                self._plan = plan
                return
        if self._local is not None:
            self._local.close()
            self._local = None
            self._reason = self._place.reason = f"outgrew {in_bytes(self._budget)}: {reason}"
            self._engine = self._place.spark()
            log.info("starting on Spark: %s", self._reason)
        self._engine.restore(plan, saved)
        self._plan = plan

    def save(self, name: str, folder: Path) -> int:
        return self._engine.save(name, folder)

    @property
    def keeps(self) -> Collection[str]:
        """Hidden relations whose rows the engine needs in a store too."""
        keeps: Collection[str] = getattr(self._engine, "keeps", ())
        return keeps

    def folder(self) -> Path:
        return self._opened().folder()

    def readable(self, path: Path) -> list[str]:
        return self._opened().readable(path)

    def _opened(self) -> SparkFolders:
        if self._folders is None:
            self._folders = self._place.folders()
        return self._folders

    def _clear(self) -> None:
        if self._folders is not None:
            folders, self._folders = self._folders, None
            folders.remove()

    @property
    def functions(self) -> UserFunctions:
        return self._place.limits.functions

    @property
    def work(self) -> Work:
        return self._engine.work

    def rows(self, name: str) -> Rows:
        return self._engine.rows(name)

    def size(self, name: str) -> int:
        return self._engine.size(name)

    def contains(self, name: str, row: Row) -> bool:
        return self._engine.contains(name, row)

    def contains_all(self, name: str, rows: Any) -> bool:
        if self._local is not None and is_spark_frame(rows):
            rows = collected(rows, self._schema(name))
        return self._engine.contains_all(name, rows)

    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]:
        return self._engine.contains_many(keys)

    def query(
        self, schema: Schema, clauses: Sequence[Clause],
        given: Mapping[str, tuple[Schema, Sequence[Row]]] = MappingProxyType({}),
        helpers: Mapping[str, Schema] = MappingProxyType({}),
    ) -> Rows:  # fmt: skip
        answer: Rows = self._do(lambda engine: engine.query(schema, clauses, given, helpers))
        return answer

    def query_open(
        self, schema: Schema, clauses: Sequence[Clause], given: Mapping[str, tuple[Schema, Sequence[Row] | Rows]],
        helpers: Mapping[str, Schema] = MappingProxyType({}),
    ) -> Rows:  # fmt: skip
        answer: Rows = self._do(lambda engine: engine.query_open(schema, clauses, given, helpers))
        return answer

    def query_many(self, asked: Sequence[EngineQuery], *, is_open: bool) -> list[Rows]:
        answers: list[Rows] = self._do(lambda engine: engine.query_many(asked, is_open=is_open))
        return answers

    def describe(self, view: str) -> str:
        return self._engine.describe(view)

    def set_progress(self, progress: Callable[[str, int], None] | None) -> None:
        """Report the progress of views that are computed here."""
        if self._local is not None:
            self._local.set_progress(progress)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._engine.close()
            finally:
                self._clear()
                self._place.closed()

    def _schema(self, name: str) -> Schema:
        plan = self._change.plan or self._plan
        assert plan is not None
        return plan.normal.schemas[name]


def bytes_of_rows(count: int, arity: int) -> int:
    """The approximate bytes of rows in the local engine, with one index and without text."""
    return count * (_CODE * arity + _BESIDE)


def _of_budget(used: int, budget: int) -> str:
    return f"{in_bytes(used)} of {in_bytes(budget)}"


def _lost_change(error: Exception) -> EngineError:
    message = f"the transaction could not be staged again after a failed move to Spark: {error}"
    return EngineError(message, code="move-failed", help="nothing was committed; try again")


def _failed_move(reason: str, budget: str, error: Exception) -> EngineError:
    why = str(getattr(error, "message", None) or error).splitlines()
    failed = EngineError(
        f"the data exceeds the budget of {budget} ({reason}) and could not be moved to Spark: "
        f"{why[0] if why else error!r}",
        code="move-failed",
        help="nothing was lost; try again, raise `memory`, or use a smaller transaction",
    )
    failed.retryable = True
    return failed
