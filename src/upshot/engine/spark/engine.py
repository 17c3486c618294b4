"""The engine on Spark: relations in files, small changes in the driver, views kept exact by the plan's strategies."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from upshot.check.program import Clause
from upshot.core.errors import EngineError, UsageError
from upshot.core.rows import Row, Rows
from upshot.core.schema import Role, Schema
from upshot.engine.limits import Limits
from upshot.engine.saved import Saved
from upshot.engine.spark.attempt import Attempt
from upshot.engine.spark.demand.on_demand import OnDemandTask, OnDemandViews
from upshot.engine.spark.frames.functor_udfs import using_functions
from upshot.engine.spark.frames.rule_frames import lenient_digits
from upshot.engine.spark.installed import Installed, QueryRequest, answered, discard
from upshot.engine.spark.recursion.parts import MOST_SHARED
from upshot.engine.spark.recursion.recursion import Recursion
from upshot.engine.spark.storage.driver_copy import DriverMemory
from upshot.engine.spark.storage.input_rows import InputRows, adopted
from upshot.engine.spark.storage.pieces import SMALL, Contents, Piece
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.spark_rows import RowSources
from upshot.engine.spark.storage.statements import StatementKind, TableStatement, key_conflicts
from upshot.engine.spark.storage.table import FrameTable, TableStatistics, sifted
from upshot.engine.user_functions import UserFunctions
from upshot.engine.work import Work
from upshot.plan.choice import best_rows
from upshot.plan.component_plans import stage_plans
from upshot.plan.cost import Experience, estimate
from upshot.plan.following import (
    counted,
    followed_on_demand,
    keeps_counts,
    new_tables,
    not_recomputed,
    redefined_on_demand,
)
from upshot.plan.program_plan import ComponentPlan, ProgramPlan
from upshot.plan.rule_plan import State
from upshot.spark.failures import OUT_OF_MEMORY, TOO_LARGE_TO_SEND
from upshot.spark.preflight import shared_workspace
from upshot.spark.session import driver_memory, private_session, release, sending_nothing, without_call_sites
from upshot.strategies.strategy import Procedure

ATTEMPTS = 3
"""The most attempts to propagate a change when the cluster loses work."""

_OUTGROWN = (TOO_LARGE_TO_SEND, OUT_OF_MEMORY)
"""Errors of work that is done again with shuffles and joins by sorting."""
_OUT_OF_TIME = ("timeout", "interrupted")

_log = logging.getLogger("upshot.spark")

T = TypeVar("T")


class SparkEngine:
    """All relations of one database, on the cluster of a Spark session.

    Committed rows are Parquet files at the location and a small net change to them in the driver, so that they outlive
    executors. A change is staged as statements and propagated from the committed rows; if the cluster loses something
    meanwhile, the attempt is undone and made again. Large results stay in files: those of unreferenced rows are removed
    when the next change begins or ends, those of DataFrames and of rows not read yet when the engine is closed.

    The session itself is never changed: everything runs in a private one beside it.
    """

    def __init__(
        self,
        session: Any,
        *,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        location: str | os.PathLike[str] | None = None,
        small: int = SMALL,
        most_shared: int = MOST_SHARED,
        driver: int | None = None,
    ) -> None:
        """`location`: the URI or path of all files, by default that of the session; `small`: the most rows of one set
        that the driver holds as a change; `most_shared`: the most bytes of relations that travel with a task; `driver`:
        the most bytes of whole relations that the driver holds, by default as the session says."""
        self._limits, self._most_shared = limits, most_shared
        self._session = private_session(session)
        self._workspace = shared_workspace(session, location)
        self._memory = DriverMemory(driver_memory(session) if driver is None else driver)
        self._jobs = Jobs(self._session, self._workspace, small=small)
        self._input = InputRows(self._jobs)
        self._sources = RowSources(session, self._session, self._workspace)
        self._now = Installed()
        self._before: Installed | None = None
        self.is_narrowed = False
        """True if the open change continues without some views; see `leave_out`."""
        self._staged: dict[str, list[TableStatement]] = {}
        self._reached = False
        """True if `propagate` has run on the open change as it is staged."""
        self._statement_jobs = 0
        """Jobs of statements since the last commit."""
        self.work = Work()

    # ---- definition ----------------------------------------------------------------------------------------

    def install(self, plan: ProgramPlan, recompute: Collection[str] = frozenset()) -> frozenset[str]:
        """Make the program's relations. One whose columns are unchanged keeps its rows; views that are new, or named in
        `recompute`, are brought up to date by the next `propagate`. Returns the views that are computed whole."""
        assert self._before is None, "another definition is open"
        self._open_change()
        before = self._now
        followers = not_recomputed(before.plan, plan, recompute)
        recompute = frozenset(recompute).difference(*followers)
        tables, made = self._tables(plan, before)
        anew = made | new_tables(before.plan, plan, recompute)
        touched = anew | recompute
        earlier = {component.views for component in before.plan.components} if before.plan else set()
        stored = [c for c in plan.components if c.views[0] not in plan.on_demand.strategies]
        self._before, self._now = before, Installed(plan, plan.normal.schemas, tables, self._recursions(plan, before))
        self._now.fresh = frozenset(c.views for c in stored if c.views not in earlier or touched & {*c.views})
        self._now.rule_changes = {views: change for views, change in followers.items() if change is not None}
        self._now.revived = frozenset(name for name in made & before.unstored if tables[name].previous is not None)
        if plan.on_demand.strategies:
            self._now.on_demand = OnDemandViews(plan, tables, self._jobs, self._limits, self._memory)
            optimizations = self._limits.optimizations
            self._now.following = followed_on_demand(before.plan, plan, anew, recompute, optimizations)
            if self._now.following is None:
                self._now.afresh = redefined_on_demand(before.plan, plan, touched)
        return frozenset(view for views in self._now.fresh for view in views) | self._now.afresh

    def _tables(self, plan: ProgramPlan, before: Installed) -> tuple[dict[str, FrameTable], frozenset[str]]:
        """The tables of the program, and which of them are new."""
        with_counts, small = counted(plan), self._jobs.small
        tables: dict[str, FrameTable] = {}
        made: set[str] = set()
        for name, schema in plan.normal.schemas.items():
            kept = before.tables.get(name)
            same = kept is not None and kept.types == schema.types and kept.schema.lattice == schema.lattice
            revived = name in before.unstored and name not in plan.on_demand.strategies
            if kept is not None and same and kept.counted == (name in with_counts) and not revived:
                kept.schema = schema
                tables[name] = kept
                continue
            tables[name] = FrameTable(schema, self._session, small=small, counted=name in with_counts)
            if same and schema.role is not Role.BASE and name not in plan.on_demand.strategies:
                tables[name].previous = kept if not revived else FrameTable(schema, self._session, small=small)
            made.add(name)
        return tables, frozenset(made)

    @property
    def functions(self) -> UserFunctions:
        """The functions of users that rules call."""
        return self._limits.functions

    def _recursions(self, plan: ProgramPlan, before: Installed) -> dict[tuple[str, ...], Recursion]:
        """One for each recursive component; an unchanged component keeps its own."""
        found = {}
        for component in plan.components:
            best = best_rows(plan.normal, component.views)
            if not (component.recursive or best) or not component.strategy.runs_whole:
                continue
            old = before.recursions.get(component.views)
            names = {*component.views, *component.reads}
            same = all(before.schemas.get(name) == plan.normal.schemas[name] for name in names)
            if old is None or old.component != component or not same:
                old = Recursion(
                    component, plan.normal, self._jobs, self._limits, self._memory, most_shared=self._most_shared
                )
            found[component.views] = old
        return found

    def restore(self, plan: ProgramPlan, saved: Mapping[str, Saved]) -> None:
        """Install with these rows, accepted. Counted views, whose numbers of derivations are not saved, and views
        without rows here are computed."""
        self.install(plan)
        try:
            computed: set[str] = set(plan.on_demand.unstored | plan.on_demand.kept - saved.keys())
            self._now.afresh, self._now.restores = plan.on_demand.kept - saved.keys(), True
            for component in plan.components:
                if component.views[0] in plan.on_demand.strategies:
                    continue
                below = any(name in computed for name in component.reads)
                if below or not all(view in saved for view in component.views):
                    computed.update(component.views)
            for name, rows in saved.items():
                if name in self._now.tables and name not in computed:
                    self._jobs.run(adopted(self._now.tables[name], rows, self._jobs))
            derived = {c.views for c in plan.components if keeps_counts(c)}
            self._now.fresh = frozenset(c.views for c in plan.components if computed & {*c.views}) | derived
            with lenient_digits():
                self.propagate()
            self.accept()
        except BaseException:
            self.rollback()
            raise

    @property
    def keeps(self) -> Collection[str]:
        """The relations made by the normal form: if a store saves their rows too, they need not be computed."""
        plan = self._now.plan
        if plan is None:
            return ()
        return plan.normal.schemas.keys() - plan.source.schemas.keys() - plan.on_demand.unstored

    def save(self, name: str, folder: str | Path) -> int:
        """Write the committed rows as a Parquet folder under the relation's column names; returns their number."""
        rows = self.rows(name)
        rows.to_parquet(folder)
        return len(rows)

    # ---- change --------------------------------------------------------------------------------------------

    def insert(self, name: str, rows: Any) -> None:
        self._stage(name, StatementKind.INSERT, rows)

    def delete(self, name: str, rows: Any) -> None:
        self._stage(name, StatementKind.DELETE, rows)

    def upsert(self, name: str, rows: Any) -> None:
        """Each row in place of those with the same key."""
        schema = self._now.schemas[name]
        if not schema.keys:
            raise UsageError(
                f"`{name}` has no key", code="no-key", span=schema.span,
                help=f"declare one: `.decl {name}(…) key({schema.columns[0].name if schema.columns else '…'})`",
            )  # fmt: skip
        self._stage(name, StatementKind.UPSERT, rows)

    def replace(self, name: str, rows: Any) -> None:
        """Make the rows the whole relation."""
        self._stage(name, StatementKind.REPLACE, rows)

    @without_call_sites()
    def _stage(self, name: str, kind: StatementKind, rows: Any) -> None:
        """Check the rows and stage the statement; after an error nothing is staged."""
        self._open_change()
        schema = self._now.schemas[name]
        before = self._jobs.jobs
        piece = self._input.piece(schema, rows, schema.keys[0] if kind is StatementKind.UPSERT else None)
        self._statement_jobs += self._jobs.jobs - before
        self._staged.setdefault(name, []).append(TableStatement(kind, piece))
        self._reached = False

    def _open_change(self) -> None:
        if not self._staged and self._before is None:
            self._sweep()

    def propagate(self, *, several_turns: bool = False) -> dict[str, tuple[Rows, Rows]]:
        """The net insertions and deletions of every relation that changes, base relations included. If the cluster
        loses something, the attempt is undone and made again from the committed rows, a few times."""
        if self._now.on_demand is not None:
            self._now.on_demand.several_turns = several_turns
        for number in range(1, ATTEMPTS + 1):
            try:
                deltas = self._sending(self._attempt, self._undo_attempt)
                self._reached = True
                return deltas
            except EngineError as error:
                if not error.retryable or number == ATTEMPTS:
                    raise
                _log.warning("attempt %d of %d failed and is made again: %s", number, ATTEMPTS, error.message)
                self._undo_attempt()
        raise AssertionError("the last attempt returns or raises")

    def _undo_attempt(self) -> None:
        for table in self._now.tables.values():
            table.rollback()
        self._sweep()

    def reopen(self) -> None:
        """Keep the staged statements and drop their effects: more statements may follow, and the next `propagate`
        returns the changes since the beginning of the transaction."""
        assert self._before is None or self.is_narrowed, "a definition is open: it cannot be taken up again"
        self._undo_attempt()
        self._reached = False

    def leave_out(self, plan: ProgramPlan) -> None:
        """Continue with a program that lacks some views which no other view reads; the staged statements stay, their
        effects are dropped."""
        self.reopen()
        if self._before is not None:
            narrowed, self._now, self._before = self._now, self._before, None
            discard(narrowed, keep=self._now)
        self.install(plan)
        self.is_narrowed, self._now.following = True, None

    def _sending(self, work: Callable[[], T], undo: Callable[[], None] = lambda: None) -> T:
        """The result of the work. Small changes, and the rows that they join, are broadcast or hashed in one task. If
        that needs too much memory, the work is done again with shuffles and joins by sorting, which spill."""
        with using_functions(self._limits.functions):
            try:
                return work()
            except EngineError as error:
                if error.code not in _OUTGROWN:
                    raise
                _log.info("joins shuffle: %s", error.message)
            undo()
            with sending_nothing(self._session):
                return work()

    @without_call_sites()
    def _attempt(self) -> dict[str, tuple[Rows, Rows]]:
        before = self._jobs.jobs
        for view in self._now.revived:
            previous = self._now.tables[view].previous
            assert previous is not None
            previous.committed = self._jobs.run(self._rows_before(view))
        changed = self._propagated(assumes=self._before is None)
        self.work.jobs = self._jobs.jobs - before + self._statement_jobs
        return {name: self._delta(name) for name in changed}

    def _propagated(self, *, assumes: bool) -> list[str]:
        """Settle all tables, and name those that change. A failure may be due to an assumption about the statements;
        then the attempt is repeated without it."""
        attempt = Attempt(self._now, self._jobs, self._limits, self._task_on_demand(), assumes=assumes)
        try:
            changed = attempt.run(self._staged)
        except Exception as error:
            # A repetition looks up the rows of statements first.
            for name in self._staged:
                self._now.tables[name].had_effect = False
            ends = isinstance(error, EngineError) and (error.retryable or error.code in (*_OUTGROWN, *_OUT_OF_TIME))
            if ends or not attempt.has_assumed:
                raise
            _log.info("statements are looked up first: %s", type(error).__name__)
        else:
            self.work = attempt.work
            return changed
        self._undo_attempt()
        return self._propagated(assumes=False)

    def _task_on_demand(self) -> OnDemandTask | None:
        now = self._now
        if now.on_demand is None:
            return None
        return OnDemandTask(now.on_demand, now.afresh, self._rows_before, now.following, restores=now.restores)

    def _rows_before(self, view: str) -> Steps[Contents]:
        """The rows that a view had before the open definition, in its present shape."""
        before, types = self._before, self._now.schemas[view].types
        if before is None or view not in before.tables or before.schemas[view].types != types:
            return Contents(types)
        if before.on_demand is not None and view in before.unstored:
            return Contents.of((yield from before.on_demand.rows(view)))
        return before.tables[view].contents(State.OLD)

    def _delta(self, name: str) -> tuple[Rows, Rows]:
        table, schema = self._now.tables[name], self._now.schemas[name]
        return self._sources.rows(schema, table.inserted), self._sources.rows(schema, table.deleted)

    def accept(self) -> None:
        """Commit the open change. Nothing here can fail: all files were written by `propagate`."""
        for table in self._now.tables.values():
            table.accept()
        self._now.settled()
        if self._before is not None:
            discard(self._before, keep=self._now)
        self._close_change()
        views = (table for name, table in self._now.tables.items() if self._now.schemas[name].role is not Role.BASE)
        self.work.stored = sum(table.committed.count for table in views)

    def rollback(self) -> None:
        """Restore the state before the open change, definition included."""
        for table in self._now.tables.values():
            table.rollback()
        if self._before is not None:
            discard(self._now, keep=self._before)
            self._now = self._before
            for name, table in self._now.tables.items():
                table.rollback()
                table.schema = self._now.schemas[name]
        self._close_change()

    def _close_change(self) -> None:
        self._before = None
        self.is_narrowed = False
        self._staged = {}
        self._reached = False
        self._statement_jobs = 0
        self._sweep()

    def _sweep(self) -> None:
        """Remove every file that is neither committed, nor staged, nor read by rows of the user."""
        kept = set(self._sources.folders())
        for installed in (self._now, self._before or Installed()):
            kept.update(installed.folders())
        for statements in self._staged.values():
            kept.update(folder for statement in statements for folder in statement.rows.folders())
        self._workspace.keep_only(kept)
        self._sources.remove_unread()

    # ---- reading -------------------------------------------------------------------------------------------

    def rows(self, name: str) -> Rows:
        """The relation in the state before any open change."""
        return self._sources.rows(self._readable.schemas[name], self._contents(name))

    def size(self, name: str) -> int:
        return self._contents(name).count

    @without_call_sites()
    def _contents(self, name: str) -> Piece:
        views = self._readable.on_demand
        if views is not None and name in views.unstored:
            return self._sending(lambda: self._jobs.run(views.rows(name)))
        return self._readable.tables[name].committed

    def contains(self, name: str, row: Row) -> bool:
        return self.contains_all(name, [row])

    @without_call_sites()
    def contains_all(self, name: str, rows: Any) -> bool:
        """Test whether every one of the rows (tuples, an Arrow table, a DataFrame) is in the relation."""
        piece = self._input.piece(self._readable.schemas[name], rows)
        return self._sending(lambda: self._jobs.run(self._present(name, piece))) == piece.count

    @without_call_sites()
    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]:
        """Test for each row of a relation whether it is present: in one job, or none for rows in the driver."""
        views = self._readable.on_demand
        alone = {name for name, _ in keys if views is not None and name in views.unstored}
        pieces = {(n, r): self._input.piece(self._readable.schemas[n], [r]) for n, r in keys if n not in alone}
        counts = self._jobs.run_all([self._present(name, piece) for (name, _), piece in pieces.items()])
        found = dict(zip(pieces, counts, strict=True))
        return [self.contains(*key) if key[0] in alone else found[key] == 1 for key in keys]

    def _present(self, name: str, rows: Piece) -> Steps[int]:
        """The number of the rows that are in the relation."""
        views = self._readable.on_demand
        if views is not None and name in views.unstored:
            return (yield from views.present(name, rows))
        there = yield from sifted(rows, self._readable.tables[name].contents(State.OLD), self._session, present=True)
        return there.count

    def query(
        self, schema: Schema, clauses: Iterable[Clause],
        given: Mapping[str, tuple[Schema, Sequence[Row]]] = MappingProxyType({}),
        helpers: Mapping[str, Schema] = MappingProxyType({}),
    ) -> Rows:  # fmt: skip
        """The answer to clauses over a head relation that is not part of the program, before any open change."""
        return self.query_many([(schema, tuple(clauses), given, helpers)], is_open=False)[0]

    def query_open(
        self, schema: Schema, clauses: Iterable[Clause], given: Mapping[str, tuple[Schema, Sequence[Row] | Rows]],
        helpers: Mapping[str, Schema] = MappingProxyType({}),
    ) -> Rows:  # fmt: skip
        """The answer in the state that `propagate` has reached. `given` relations have these rows, and are small;
        `helpers` are relations that the clauses themselves define."""
        listed = {name: (known, list(rows)) for name, (known, rows) in given.items()}
        return self.query_many([(schema, tuple(clauses), listed, helpers)], is_open=True)[0]

    @without_call_sites()
    def query_many(self, asked: Sequence[QueryRequest], *, is_open: bool) -> list[Rows]:
        """The answers to independent queries, in the state of `query_open` or that of `query`: small ones together, in
        one job."""
        assert self._reached or not is_open or not (self._staged or self._before), "staged changes are not propagated"
        installed, state = (self._now, "new") if is_open else (self._readable, "old")
        found = answered(asked, installed, state, self._jobs, self._input, self._sending)
        return [self._sources.rows(each[0], piece) for each, piece in zip(asked, found, strict=True)]

    @without_call_sites()
    def key_conflicts(self, name: str, most: int = 10) -> Sequence[tuple[Row, Row]]:
        """Pairs of rows that would share a key if the open change were accepted; only changed rows are looked at."""
        table = self._now.tables[name]
        found: list[tuple[Row, Row]] = []
        near = self._now.on_demand.with_key if self._now.on_demand and name in self._now.unstored else None
        for key in self._now.schemas[name].keys:
            found += self._jobs.run(key_conflicts(table, key, most, self._session, near))
        return found

    def describe(self, view: str) -> str:
        """The join plans of a view's component, as they would run now."""
        for component in self._now.plan.components if self._now.plan else ():
            if view in component.views:
                return self._described(component, view)
        return ""

    def _described(self, component: ComponentPlan, view: str) -> str:
        if self._now.on_demand is not None and component.views[0] in self._now.on_demand.strategies:
            return self._now.on_demand.describe(view)
        if component.strategy.procedure is Procedure.GROUPS:
            return "groups touched by the change are computed again, all in one Spark job"
        statistics = TableStatistics(self._now.tables)
        recursion = self._now.recursions.get(component.views)
        lines = [] if recursion is None else recursion.describe(self._now.tables).split("\n")
        for stage in component.strategy.stages:
            lines.append(f"{stage}:")
            plans = stage_plans(component, stage, statistics)
            lines += [f"  {line}" for plan in plans for line in str(plan).split("\n")]
        if component.strategy.weighs_recomputation:
            read, held = (sum(self._now.tables[n].size for n in names) for names in (component.reads, component.views))
            lines.append(estimate(read, held, Experience()).described(component.policy))
        return "\n".join(lines)

    def close(self) -> None:
        """Release everything and remove the files. Returned rows that are in files can no longer be read."""
        self._sources.close()
        discard(self._now, keep=Installed())
        self._now, self._before, self._staged = Installed(), None, {}
        self._workspace.remove()
        release(self._session)

    @property
    def _readable(self) -> Installed:
        """The program before any open definition."""
        return self._before if self._before is not None else self._now
