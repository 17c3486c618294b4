"""The local engine: relations in memory, views maintained by the strategies of the plan."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import Clause
from upshot.core.errors import EngineError, UsageError
from upshot.core.rows import Row, Rows
from upshot.core.schema import Role, Schema
from upshot.engine.limits import Limits
from upshot.engine.local import queries
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.installed import LocalProgram, components_of, drop, same_shape
from upshot.engine.local.components.runner import Progress, Runner
from upshot.engine.local.components.screening import Screening
from upshot.engine.local.components.visits import Visits
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.layout import NEW, OLD, T_DEL, T_INS
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.collect import collect_garbage
from upshot.engine.local.storage.encode_rows import encode_rows
from upshot.engine.local.storage.key_conflicts import key_conflicts
from upshot.engine.local.storage.local_rows import RowsFactory
from upshot.engine.local.storage.out_of_memory import Bounded, enough_memory, out_of_memory
from upshot.engine.local.storage.storage import Storage, Table, difference
from upshot.engine.saved import Saved
from upshot.engine.user_functions import UserFunctions
from upshot.engine.work import ViewWork, Work
from upshot.plan.following import counted, followed_on_demand, new_tables, not_recomputed, redefined_on_demand
from upshot.plan.program_plan import ProgramPlan

if TYPE_CHECKING:
    from upshot.engine.local.queries.on_demand import LocalOnDemandViews

Codes = NDArray[np.int64]
GivenRows = Mapping[str, tuple[Schema, Sequence[Row] | Rows]]
Helpers = Mapping[str, Schema]
EMPTY: Any = MappingProxyType({})


class LocalEngine:
    """All relations of one database. Changes are staged in the tables, as state bits of rows, then propagated, then
    accepted or rolled back; until then readers see the state before."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.budget = limits.memory
        """The maximum number of bytes for tables, if there is a limit."""
        self._optimizations = limits.optimizations
        self._storage = Storage()
        self._account = self._storage.account
        self._codec = Codec(self._account, limits.functions)
        self._runner = Runner(self._storage, self._codec, limits)
        self._factory = RowsFactory(self._codec)
        self._now = LocalProgram()
        self._before: LocalProgram | None = None
        self.is_narrowed = False
        """True if the open change continues without some views; see `leave_out`."""
        self._staged: set[str] = set()
        self._visited: list[LocalComponent] = []
        self._reached = False
        """True if `propagate` has run on the changes staged so far."""
        self._stored = 0
        self._broken = False
        self.work = Work()
        self._drivers: dict[str, tuple[int, int]] = {}
        """The numbers of rows that the last change inserted and deleted."""
        self.query_work = ViewWork()
        """The work of the last query."""

    @property
    def functions(self) -> UserFunctions:
        """The user functions that rules call."""
        return self._codec.functions

    def lend_at(self, location: str | None) -> None:
        """Set the location for the files of rows that become DataFrames; None: chosen by their session."""
        self._factory.location = location

    # ---- definition ----------------------------------------------------------------------------------------

    def install(self, plan: ProgramPlan, recompute: Collection[str] = frozenset()) -> frozenset[str]:
        """Create the program's relations. A relation with unchanged columns keeps its rows; views that are new, or in
        `recompute`, are updated by the next `propagate`. Return the views that are recomputed."""
        assert self._before is None, "another definition is open"
        self._open_change()
        before, with_counts = self._now, counted(plan)
        followers = not_recomputed(before.plan, plan, recompute)
        recompute = frozenset(recompute).difference(*followers)
        made = new_tables(before.plan, plan, recompute)
        tables: dict[str, Table] = {}
        self._before = before
        self._now = LocalProgram(plan, plan.normal.schemas, tables)
        with enough_memory("the tables of a definition"):
            for name, schema in plan.normal.schemas.items():
                is_made, is_counted = name in made, name in with_counts
                tables[name] = (
                    self._storage.create(schema.arity, counted=is_counted) if is_made else before.tables[name]
                )
                if schema.lattice is not None and is_made:
                    is_text = schema.types[schema.lattice.column].in_dictionary
                    tables[name].keep_best(schema.lattice, self._codec.order() if is_text else None)
        self._now.components = components_of(self._now, before, {*made, *recompute}, made, self._runner)
        for component in self._now.components:
            component.rule_change = followers.get(component.plan.views)
        if plan.on_demand.strategies:
            self._now.on_demand = queries.on_demand.LocalOnDemandViews(plan, tables, self._runner, self._optimizations)
            program = followed_on_demand(before.plan, plan, made, recompute, self._optimizations)
            self._now.on_demand.follow_rules(program)
            if program is None:
                self._now.redefined = redefined_on_demand(before.plan, plan, {*recompute, *made})
        if self._optimizations.screening:
            self._now.screening = Screening(plan, tables, self._runner)
        self._now.lay_out(self._storage)
        fresh = {v for each in self._now.components if each.fresh and not each.is_on_demand for v in each.plan.views}
        return frozenset(fresh | self._now.redefined)

    def restore(self, plan: ProgramPlan, saved: Mapping[str, Saved]) -> None:
        """Create the program's relations with the saved rows as the accepted state. Views whose rows cannot be adopted
        (see `adopted_views`) are computed. Relations that the engine has already keep their rows, as in `install`; they
        must not be among the saved ones."""
        from upshot.engine.local.storage.restore import adopted_views, restore_rows  # noqa: PLC0415 - pyarrow only when needed

        kept = self._now.tables.keys()
        assert kept.isdisjoint(saved), "rows would be lost"
        adopted = adopted_views(plan, saved, kept)
        self._runner.lenient = True
        try:
            self.install(plan)
            for name, schema in plan.normal.schemas.items():
                if name in saved and (schema.role is Role.BASE or name in adopted):
                    with self._bounded(name):
                        restore_rows(self._now.tables[name], self._codec, schema, saved[name])
            for component in self._now.components:
                if not adopted.isdisjoint(component.plan.views) or component.is_on_demand:
                    component.fresh = False
                elif component.fresh:
                    self._visits().one(component)
            if self._now.on_demand is not None:
                self._staged.update(self._now.on_demand.copied)
                self._now.on_demand.compute(self._now.on_demand.copied - adopted)
        except BaseException:
            self.rollback()
            raise
        finally:
            self._runner.lenient = False
        self.accept()

    # ---- change --------------------------------------------------------------------------------------------

    def insert(self, name: str, rows: Any) -> None:
        table, codes = self._stage(name, rows)
        with self._bounded(name):
            table.stage(codes, insert=True)

    def delete(self, name: str, rows: Any) -> None:
        table, codes = self._stage(name, rows)
        with self._bounded(name):
            table.stage(codes, insert=False)

    def upsert(self, name: str, rows: Any) -> None:
        """Insert each row and delete the other rows with its key."""
        schema = self._schema(name)
        if not schema.keys:
            raise UsageError(
                f"`{name}` has no key", code="no-key", span=schema.span,
                help=f"declare one: `.decl {name}(…) key({schema.columns[0].name if schema.columns else '…'})`",
            )  # fmt: skip
        table, codes = self._stage(name, rows)
        with self._bounded(name):
            table.stage_upsert(codes, schema.keys[0])

    def replace(self, name: str, rows: Any) -> None:
        """Replace all rows of the relation."""
        table, codes = self._stage(name, rows)
        with self._bounded(name):
            table.retract_all(as_view=False)
            table.stage(codes, insert=True)

    def _open_change(self) -> None:
        """Before the tables change, copy rows that users hold and that are only in the tables."""
        if self._broken:
            raise EngineError(
                "out of memory during a rollback; the tables are no longer valid",
                code="engine-broken",
                help="load the data into a new database",
            )
        if not self._staged and self._before is None:
            try:
                self._factory.fetch_all()
            except MemoryError as error:
                raise out_of_memory("the rows of the last transaction") from error

    def _stage(self, name: str, rows: Any) -> tuple[Table, Codes]:
        """Encode the rows of a statement. Nothing has changed if a value does not fit."""
        self._open_change()
        with self._bounded(name):
            codes = encode_rows(self._codec, self._schema(name), rows)
        self._staged.add(name)
        self._reached = False
        return self._now.tables[name], codes

    def propagate(self, *, several_turns: bool = False) -> dict[str, tuple[Rows, Rows]]:
        """Propagate the staged changes. Return the net insertions and deletions of every changed relation, base
        relations included."""
        if self._now.on_demand is not None:
            self._now.on_demand.several_turns = several_turns
        work = self.work = Work()
        self._codec.functions.begin()
        changed: list[str] = []
        for name in sorted(self._staged):
            table = self._now.tables[name]
            with self._bounded(name):
                table.settle()
            if table.word(T_DEL + 1) or table.word(T_INS + 1):
                changed.append(name)
        installed = self._now
        readers = installed.readers
        relevant = [name for name in changed if name in readers and self._is_relevant(name)]
        work.screened = sum(self._count_of(name) for name in changed if name not in relevant)
        due = {i for name in relevant for i in readers[name]}
        if self._before is not None:
            due |= {i for i, each in enumerate(installed.components) if each.fresh or each.rule_change is not None}
        visits = self._visits()
        waiting = sorted((installed.levels[number], number) for number in due)
        while waiting:
            for component in visits.level(waiting, skip_idle=self._optimizations.event_paths):
                for view in component.plan.views:
                    if self._count_of(view) or (self._before is not None and self._is_replaced(view)):
                        changed.append(view)
                        relevant.append(view)
                        for reader in readers.get(view, ()):
                            if reader not in due:
                                due.add(reader)
                                heapq.heappush(waiting, (installed.levels[reader], reader))
        on_demand = self._changes_on_demand(visits, relevant, due)
        work.skipped = len(installed.components) - work.components
        self._reached = True
        deltas = {name: self._delta(name) for name in changed}
        self._drivers = {name: (len(inserted), len(deleted)) for name, (inserted, deleted) in deltas.items()}
        return {**deltas, **on_demand}

    def _is_relevant(self, name: str) -> bool:
        """Test whether any changed row of a base relation can match a literal."""
        screening = self._now.screening
        return screening is None or self._before is not None or screening.is_relevant(name)

    def _changes_on_demand(
        self, visits: Visits, changed: Sequence[str], due: Collection[int]
    ) -> dict[str, tuple[Rows, Rows]]:
        """The changes of views on demand; stored copies are updated."""
        installed, views = self._now, self._now.on_demand
        reached = [installed.components[i].plan.views for i in sorted(due) if installed.components[i].is_on_demand]
        if views is None or not (reached or installed.redefined or views.follows_rules):
            return {}
        with self._bounded(", ".join(view for layer in reached for view in layer)), visits.on_demand(views.strategies):
            self._staged.update(views.copied)
            before = {
                view: self._rows_before(view) if views.reports(view) else self._no_rows(view)
                for view in installed.redefined
            }
            found, done = views.propagate(changed, before)
        self.work.components += len(reached)
        self.work.add(done)
        self.work.views[", ".join(views.strategies)] = done
        shown = {}
        for view, (plus, minus) in found.items():
            schema = installed.schemas[view]
            shown[view] = (self._factory.rows(schema, plus), self._factory.rows(schema, minus))
        return shown

    def _rows_before(self, view: str) -> Codes:
        """The rows that a view had before the open definition, if its columns have the same types."""
        before = self._before
        if before is None or view not in before.tables or not same_shape(before.schemas[view], self._now.schemas[view]):
            return self._no_rows(view)
        if before.on_demand is not None and view in before.on_demand.unstored:
            return before.on_demand.rows(view)
        return before.tables[view].in_state(OLD)

    def _no_rows(self, view: str) -> Codes:
        return np.empty((0, self._now.schemas[view].arity), np.int64)

    def _visits(self) -> Visits:
        live_queries = frozenset() if self._now.plan is None else self._now.plan.live_queries
        return Visits(self._now, self._staged, self._visited, self.work, self._bounded, self._runner, live_queries)

    def _count_of(self, name: str) -> int:
        """The number of rows of the relation that are inserted or deleted."""
        table = self._now.tables[name]
        return table.word(T_DEL + 1) + table.word(T_INS + 1)

    def _is_replaced(self, name: str) -> bool:
        """Test whether a view that had rows before got a new table in the open definition."""
        before = self._before
        if before is None or name not in before.tables:
            return False
        was_unstored = before.on_demand is not None and name in before.on_demand.unstored
        return was_unstored or before.tables[name] is not self._now.tables[name]

    def _delta(self, name: str) -> tuple[Rows, Rows]:
        table, schema = self._now.tables[name], self._now.schemas[name]
        if self._is_replaced(name):
            inserted, deleted = difference(table.in_state(NEW), self._rows_before(name))
            return self._factory.rows(schema, inserted), self._factory.rows(schema, deleted)
        return self._listed(schema, table, T_INS), self._listed(schema, table, T_DEL)

    def _listed(self, schema: Schema, table: Table, field: int) -> Rows:
        count = table.word(field + 1)
        return self._factory.lazy_rows(schema, count, lambda: table.listed(field, count))

    def reopen(self) -> None:
        """Keep the staged changes and undo their propagation: more statements may follow, and the next `propagate`
        returns the changes since the beginning of the transaction."""
        assert self._before is None or self.is_narrowed, "a definition is open: its propagation cannot be undone"
        with enough_memory("the rows of an open transaction"):
            self._factory.fetch_all()
        views = {view for component in self._now.components for view in component.plan.views}
        with self._undoing():
            for name in self._staged:
                table = self._now.tables[name]
                if name in views:
                    table.rollback()
                else:
                    table.unsettle()
            for component in self._visited:
                component.rollback()
            if self._now.on_demand is not None:
                self._now.on_demand.forget_changes()
            self._staged -= views
            self._visited = []
            self._reached = False

    def leave_out(self, plan: ProgramPlan) -> None:
        """Continue with a program without some views that no other view reads; staged changes stay staged, their
        propagation is undone."""
        self.reopen()
        if self._before is not None:
            narrowed, self._now, self._before = self._now, self._before, None
            drop(narrowed, self._storage, keep=self._now)
        self.install(plan)
        self.is_narrowed = True
        if self._now.on_demand is not None:
            self._now.on_demand.follow_rules(None)

    def accept(self) -> None:
        """Make the new state the current one. All steps that can fail come before the first table is changed."""
        with enough_memory("the end of the transaction"):
            for name in self._staged:
                self._now.tables[name].expect_accept()
        with uninterrupted():
            for name in self._staged:
                if self._now.schemas[name].role is not Role.BASE:
                    table = self._now.tables[name]
                    self._stored += table.word(T_INS + 1) - table.word(T_DEL + 1)
            for name in self._staged:
                self._now.tables[name].accept()
            for component in self._visited:
                component.accept()
            if self._before is not None:
                drop(self._before, self._storage, keep=self._now)
                schemas = self._now.schemas.items()
                self._stored = sum(self._now.tables[n].size for n, s in schemas if s.role is not Role.BASE)
            self._close_change()
        self.work.stored = self._stored
        self._collect()

    def rollback(self) -> None:
        """Restore the state before the change, and before the definition. If that fails, the engine refuses further
        work."""
        with self._undoing():
            if any(self._now.tables[name].is_loaded_into_cells for name in self._staged):
                self._factory.fetch_all(must_go_on=True)
            for name in self._staged:
                # A table that only this definition has is dropped whole.
                if self._before is None or self._before.tables.get(name) is self._now.tables[name]:
                    self._now.tables[name].rollback()
            for component in self._visited:
                component.rollback()
            if self._before is not None:
                self._factory.fetch_all(must_go_on=True)
                failed, self._now = self._now, self._before
                drop(failed, self._storage, keep=self._now)
            undone = [table for name in self._staged if (table := self._now.tables.get(name)) is not None]
            self._close_change()
        self._give_back([table for table in undone if table.is_mostly_free])
        self._collect()

    def _give_back(self, tables: list[Table]) -> None:
        """Release the memory of rolled-back rows, after rows that users hold are copied. Without memory for the copies,
        it stays reserved for the next change."""
        with suppress(MemoryError):
            if tables:
                self._factory.fetch_all()
            for table in tables:
                table.give_back()

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        try:
            with uninterrupted():
                yield
        except MemoryError as error:
            self._broken = True
            raise out_of_memory("the rollback of a transaction") from error

    def _collect(self) -> None:
        """Reclaim text after the end of a change. A sweep without memory is left to a later one: an error now would
        report an accepted change as failed."""
        now = self._now
        if now.text_columns is None:
            return
        with suppress(MemoryError):
            collect_garbage(self._codec.dictionary, now.text_columns, now.texts(), self._factory.alive)

    def _close_change(self) -> None:
        self._before = None
        self.is_narrowed = False
        self._now.redefined = frozenset()
        self._staged = set()
        self._visited = []
        self._reached = False

    # ---- reading -------------------------------------------------------------------------------------------

    def rows(self, name: str) -> Rows:
        """The rows of the relation in the state before any open change."""
        return self._factory.rows((self._before or self._now).schemas[name], self._codes(name))

    def save(self, name: str, folder: Path) -> int:
        """Write the committed rows into a folder as Parquet; return their number."""
        from upshot.engine.local.storage.restore import save_rows  # noqa: PLC0415 - pyarrow only when needed

        codes = self._codes(name)
        save_rows(folder, self._codec, self._schema(name), codes)
        return len(codes)

    def size(self, name: str) -> int:
        if self._unstored(name) is not None:
            return len(self._codes(name))
        return self._reading(name).size if not self._staged else int(np.count_nonzero(self._reading(name).bits() & OLD))

    def contains(self, name: str, row: Row) -> bool:
        return self.contains_all(name, [row])

    def contains_all(self, name: str, rows: Any) -> bool:
        """Test whether all rows (tuples, or an Arrow table) are in the relation."""
        codes = encode_rows(self._codec, self._schema(name), rows)
        views = self._unstored(name)
        if views is not None:
            return bool(np.all(views.has(name, codes)))
        return bool(np.all(self._reading(name).row_numbers(codes, OLD) >= 0))

    def query(
        self, schema: Schema, clauses: Iterable[Clause], given: GivenRows = EMPTY, helpers: Helpers = EMPTY
    ) -> Rows:
        """The answer in the state before any open change; parameters as in `query_open`."""
        return self._answer(self._before or self._now, "old", schema, tuple(clauses), self._coded(given), helpers)

    def query_open(self, schema: Schema, clauses: Iterable[Clause], given: GivenRows, helpers: Helpers = EMPTY) -> Rows:
        """The answer in the state after `propagate`. `given` are small relations with their rows; `helpers` are
        relations that the clauses define."""
        assert self._reached or not (self._staged or self._before), "staged changes are not propagated"
        return self._answer(self._now, "new", schema, tuple(clauses), self._coded(given), helpers)

    def query_many(
        self, asked: Sequence[tuple[Schema, Iterable[Clause], GivenRows, Helpers]], *, is_open: bool
    ) -> list[Rows]:
        """The answers to several queries, in order."""
        ask = self.query_open if is_open else self.query
        return [ask(*each) for each in asked]

    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]:
        return [self.contains(*key) for key in keys]

    def _coded(self, given: GivenRows) -> dict[str, tuple[Schema, Codes]]:
        found = {}
        for name, (known, rows) in given.items():
            codes = rows.codes_of(self._codec) if isinstance(rows, Rows) else None
            found[name] = (known, encode_rows(self._codec, known, rows) if codes is None else codes)
        return found

    def _answer(
        self, installed: LocalProgram, state: str, schema: Schema, clauses: tuple[Clause, ...],
        given: Mapping[str, tuple[Schema, Codes]], helpers: Mapping[str, Schema],
    ) -> Rows:  # fmt: skip
        with self._bounded("a query"):
            memo = self._optimizations.memo
            answers = queries.answers.Answers(installed, state, self._runner, memo=memo)
            selected = queries.answers.selected_rows(given, clauses, self._codec) if given else given
            codes = answers.answer(schema, clauses, selected, helpers)
        self.query_work = answers.work
        return self._factory.rows(schema, codes)

    def key_conflicts(self, name: str, most: int = 10) -> list[tuple[Row, Row]]:
        """Pairs of rows that would share a key if the open change were accepted; one row of each is inserted."""
        schema, views = self._schema(name), self._now.on_demand
        found: list[tuple[Row, Row]] = []
        for key in schema.keys:
            if views is not None and name in views.unstored:
                pairs = views.key_conflicts(name, key, most)
            else:
                pairs = key_conflicts(self._now.tables[name], key, most) if name in self._staged else []
            for pair in pairs:
                first, second = self._factory.rows(schema, np.array(pair, np.int64))
                found.append((first, second))
        return found

    def describe(self, view: str) -> str:
        """The join plans of a view's component for the current sizes."""
        for component in self._now.components:
            if view in component.plan.views:
                views = self._now.on_demand if component.is_on_demand else None
                if views is not None:
                    return views.describe(view)
                return component.describe(self._drivers, self.work.views.get(component.names))
        return ""

    @property
    def reserved(self) -> int:
        """Bytes used by tables, indexes and text."""
        return self._account.used

    def memory(self) -> dict[str, int]:
        """Bytes reserved per relation, and entries of the text dictionary."""
        found = {name: table.memory() for name, table in self._now.tables.items()}
        return {**found, "texts": len(self._codec.dictionary)}

    def set_progress(self, progress: Progress | None) -> None:
        self._runner.progress = progress

    def close(self) -> None:
        self._factory.fetch_all()
        drop(self._now, self._storage, keep=LocalProgram())
        self._now = LocalProgram()

    def _bounded(self, what: str) -> Bounded:
        """A section that must stay within the memory budget. Accepting and rolling back have no budget: they need
        little memory, and must succeed."""
        return Bounded(self._account, self.budget, what)

    def _schema(self, name: str) -> Schema:
        return self._now.schemas[name]

    def _codes(self, name: str) -> Codes:
        """The rows of a relation in the state before any open change."""
        views = self._unstored(name)
        with enough_memory(name):
            return views.rows(name) if views is not None else self._reading(name).in_state(OLD)

    def _unstored(self, name: str) -> LocalOnDemandViews | None:
        """The object that computes the view, if it is not stored."""
        views = (self._before or self._now).on_demand
        return views if views is not None and name in views.unstored else None

    def _reading(self, name: str) -> Table:
        return (self._before or self._now).tables[name]
