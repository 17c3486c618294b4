"""A recursive component: in the driver while it fits there, in parts that never meet, or by rounds of joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upshot.check.program import CheckedProgram, ViewOptions
from upshot.core.errors import LimitError
from upshot.core.schema import Role, Schema
from upshot.engine.limits import Limits
from upshot.engine.spark.recursion.parts import MOST_SHARED, Decomposed
from upshot.engine.spark.storage.driver_copy import DriverCopy, DriverMemory, InDriver
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable
from upshot.engine.work import ViewWork
from upshot.plan.choice import best_rows
from upshot.plan.pivot import decomposition
from upshot.plan.program_plan import ComponentPlan, ProgramPlan, compile_program
from upshot.plan.rule_plan import State
from upshot.rewrite.stratified import stratified


class Recursion:
    """Kept as long as the component is, from commit to commit.

    `load` and `maintain` are steps of a propagation: the tables that the component reads are settled, and the caller
    settles the views from the result. None means that rounds of joins are needed.
    """

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, jobs: Jobs, limits: Limits, memory: DriverMemory, *,
        most_shared: int = MOST_SHARED, most_held: int | None = None,
    ) -> None:  # fmt: skip
        """`most_shared`: the most bytes of relations that travel with a task; `most_held`: the most bytes that a worker
        may take, by default the bound of the session."""
        self.component = component
        self.driver = RecursionInDriver(component, normal.schemas, jobs, limits, memory)
        found = decomposition(component, normal)
        self._best = best_rows(normal, component.views)
        self._refusal = found.reason if found.program is None else ""
        self.parts: Decomposed | None = None
        if found.program is not None:
            self.parts = Decomposed(
                component, normal, found, jobs, limits, most_shared=most_shared, most_held=most_held
            )

    def load(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece] | None:
        """The rows of the views in the new state."""
        found = self.driver.load(tables, work) if self.fits_driver(tables) else None
        if found is None and self.parts is not None and self.parts.is_usable(tables):
            found = self.parts.load(tables, work)
        if found is None and self._best:
            raise self._too_large(tables)
        return found

    def maintain(
        self, tables: Mapping[str, FrameTable], work: ViewWork
    ) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """The inserted and the deleted rows of each view, by the component's own strategy; its counters are added to
        the work."""
        found = self.driver.maintain(tables, work) if self.fits_driver(tables) else None
        if found is None and self.parts is not None and self.parts.is_usable(tables):
            found = yield from self.parts.maintain(tables, work)
        if found is None and self._best:
            raise self._too_large(tables)
        return found

    @property
    def keeps_best(self) -> bool:
        """Test whether a view keeps the best row of each group: there are no rounds of joins for that."""
        return bool(self._best)

    def _tables(self, tables: Mapping[str, FrameTable]) -> list[FrameTable]:
        return [tables[name] for name in (*self.component.reads, *self.component.views)]

    def fits_driver(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether the driver may hold the inputs and the views."""
        return self.driver.fits(self._tables(tables))

    def _too_large(self, tables: Mapping[str, FrameTable]) -> LimitError:
        reason = self.driver.refusal(self._tables(tables))
        return LimitError(
            f"`{self._best[0]}` keeps the best row of each group, which is done in the driver: {reason}",
            code="lattice-beyond-driver",
            help="let the driver hold more (`upshot.driver.memory`), or read fewer rows",
        )

    def describe(self, tables: Mapping[str, FrameTable]) -> str:
        """Describe the execution of the component, with the reason."""
        if self.fits_driver(tables):
            return "load and change in the driver, which holds what is read and the views: no job takes part"
        reason = self.driver.refusal(self._tables(tables))
        if self._best:
            return f"not in the driver, where alone best rows are kept: {reason}"
        lines = [f"not in the driver: {reason}"]
        if self.parts is None:
            lines += [f"not decomposed: {self._refusal}", "load and change by rounds of joins on Spark"]
        else:
            lines.append(self.parts.describe(tables))
        return "\n".join(lines)

    def release(self) -> None:
        """Let go of the rows in the driver."""
        self.driver.release()


# ---- in the driver ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Open:
    """A change that the copy has made and the tables may not have accepted yet: the versions of the relations read
    after it, and those of the views before it. `accepted`: it cannot be undone here."""

    reads: Mapping[str, int]
    views: Mapping[str, int]
    accepted: bool

    def is_taken(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether the tables have accepted exactly this change."""
        if any(tables[name].version != version for name, version in self.reads.items()):
            return False
        steps = [tables[view].steps_since(version) for view, version in self.views.items()]
        return all(each is not None and len(each) <= 1 for each in steps)


class RecursionInDriver(InDriver[DriverCopy]):
    """The component on a local engine that holds its inputs and views; no round is a job."""

    def __init__(
        self, component: ComponentPlan, schemas: Mapping[str, Schema], jobs: Jobs, limits: Limits, memory: DriverMemory
    ) -> None:
        super().__init__(memory)
        self._reads, self._views = component.reads, component.views
        self._jobs, self._limits = jobs, replace(limits, memory=None)
        self._plan = _whole_plan(component, schemas)
        self._open: _Open | None = None

    def release(self) -> None:
        super().release()
        self._open = None

    def _new_copy(self) -> DriverCopy:
        self._copy = DriverCopy(self._plan, self._limits, self._jobs, self._memory)
        return self._copy

    def load(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece] | None:
        """The rows of the views in the new state of their inputs."""
        return self.tried(lambda: self._loaded(tables, work))

    def _loaded(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece]:
        self.release()
        copy = self._new_copy()
        try:
            copy.bound()
            for name in self._reads:
                for insert, piece in tables[name].contents(State.NEW).parts():
                    copy.stage(name, piece, insert=insert)
            copy.propagate()
            found = {view: copy.rows_in(view) for view in self._views}
            _count(copy, work)
            copy.accept()
        except BaseException:
            self.release()
            raise
        reads = {name: tables[name].pending_version or tables[name].version for name in self._reads}
        self._open = _Open(reads, {view: tables[view].version for view in self._views}, accepted=True)
        return found

    def maintain(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, tuple[Piece, Piece]] | None:
        """The inserted and the deleted rows of each view. The change stays open in the copy until it is known whether
        the tables have accepted it."""
        return self.tried(lambda: self._maintained(tables, work))

    def _maintained(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, tuple[Piece, Piece]]:
        copy = self._followed(tables)
        # A change that does not matter to the views is not staged here, but taken over before the next one.
        changed = {name: tables[name] for name in self._reads if tables[name].matters}
        try:
            copy.stage_changes(changed)
            copy.propagate()
            found = {view: copy.change_of(view) for view in self._views}
        except BaseException:
            copy.rollback()
            raise
        _count(copy, work)
        reads = {name: table.pending_version for name, table in changed.items()}
        self._open = _Open(reads, {view: tables[view].version for view in self._views}, accepted=False)
        return found

    def _followed(self, tables: Mapping[str, FrameTable]) -> DriverCopy:
        """The copy in the committed state of the tables."""
        opened, self._open = self._open, None
        copy = self._copy
        if opened is not None and copy is not None:
            if opened.is_taken(tables):
                if not opened.accepted:
                    copy.accept()
                copy.versions |= {name: tables[name].version for name in (*opened.reads, *opened.views)}
            elif opened.accepted:
                self.release()
                copy = None
            else:
                copy.rollback()
        if copy is None:
            copy = self._new_copy()
            copy.start()
        copy.follow({name: tables[name] for name in (*self._reads, *self._views)})
        return copy


def _count(copy: DriverCopy, work: ViewWork) -> None:
    """Add the counters of the copy but for its rounds: to the engine all of them are one."""
    for done in copy.work.views.values():
        work.add(replace(done, rounds=0))


def _whole_plan(component: ComponentPlan, schemas: Mapping[str, Schema]) -> ProgramPlan:
    """All rules of a component over its inputs. Keys are left out: they are checked elsewhere."""
    read = {name: Schema(name, schemas[name].columns) for name in sorted(component.reads)}
    views = {
        view: Schema(view, schemas[view].columns, Role.VIEW, lattice=schemas[view].lattice) for view in component.views
    }
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    program = stratified(empty, component.clauses, read | views, by="whole recursion")
    options = dict.fromkeys(component.views, ViewOptions(component.strategy.inner, policy=component.policy))
    return compile_program(replace(program, options=options))
