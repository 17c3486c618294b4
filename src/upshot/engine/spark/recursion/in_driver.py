"""A recursive component in the driver: what it reads and its views, held by a local engine; no round is a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upshot.check.program import CheckedProgram, ViewOptions
from upshot.core.schema import Role, Schema
from upshot.engine.limits import BudgetExceeded, Limits, in_bytes
from upshot.engine.local.kernel.layout import NEW, T_DEL, T_INS
from upshot.engine.spark.storage.driver_copy import DriverCopy, DriverMemory, needed_bytes
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs
from upshot.engine.spark.storage.table import FrameTable
from upshot.engine.work import ViewWork
from upshot.plan.program_plan import ComponentPlan, ProgramPlan, compile_program
from upshot.plan.rule_plan import State
from upshot.rewrite.stratified import stratified


@dataclass(frozen=True, slots=True)
class _Open:
    """A change that the copy has made and the tables may not yet have: the versions that the relations read have then,
    and those that the views had before. `accepted`: it cannot be undone here."""

    reads: Mapping[str, int]
    views: Mapping[str, int]
    accepted: bool

    def is_taken(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether the tables have taken exactly this change."""
        if any(tables[name].version != version for name, version in self.reads.items()):
            return False
        steps = [tables[view].steps_since(version) for view, version in self.views.items()]
        return all(each is not None and len(each) <= 1 for each in steps)


class RecursionInDriver:
    """Kept as long as the component is. What outgrows the driver's memory is answered by None, now and from then on."""

    def __init__(
        self, component: ComponentPlan, schemas: Mapping[str, Schema], jobs: Jobs, limits: Limits, memory: DriverMemory
    ) -> None:
        self._component, self._jobs, self._memory = component, jobs, memory
        self._limits = replace(limits, memory=None)
        self._plan = _whole_plan(component, schemas)
        self._copy: DriverCopy | None = None
        self._open: _Open | None = None
        self._outgrown = False

    def fits(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether the driver may hold the rows, as far as they are known."""
        return not self._outgrown and self._needed(tables) <= self._memory.left_for(self._copy)

    def _needed(self, tables: Mapping[str, FrameTable]) -> int:
        return needed_bytes(tables[name] for name in (*self._component.reads, *self._component.views))

    def refusal(self, tables: Mapping[str, FrameTable]) -> str:
        """The reason that the driver does not hold the rows."""
        if not self._memory.most:
            return "the driver is to hold nothing"
        if self._outgrown:
            return f"the driver may hold {in_bytes(self._memory.most)}, which was not enough"
        return (
            f"about {in_bytes(self._needed(tables))} are needed, and the driver may hold {in_bytes(self._memory.most)}"
        )

    def release(self) -> None:
        """Let go of the rows."""
        if self._copy is not None:
            self._copy.close()
        self._copy, self._open = None, None

    # ---- load and change -------------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece] | None:
        """The rows of the views in the new state of what they read."""
        self.release()
        views = self._component.views
        try:
            copy = self._copy = DriverCopy(self._plan, self._limits, self._jobs, self._memory)
            copy.bound()
            for name in self._component.reads:
                for insert, piece in tables[name].contents(State.NEW).parts():
                    copy.stage(name, piece, insert=insert)
            copy.propagate()
            found = {view: copy.piece(self._schema(view), copy.rows_in(view, NEW)) for view in views}
            self._count(copy, work)
            copy.accept()
        except BudgetExceeded:
            self._give_up()
            return None
        except BaseException:
            self.release()
            raise
        reads = {name: tables[name].pending_version or tables[name].version for name in self._component.reads}
        self._open = _Open(reads, {view: tables[view].version for view in views}, accepted=True)
        return found

    def maintain(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, tuple[Piece, Piece]] | None:
        """The inserted and the deleted rows of each view. The change stays open in the copy until it is known whether
        the tables have taken it."""
        views = self._component.views
        try:
            copy = self._followed(tables)
            changed = {name: tables[name] for name in self._component.reads if tables[name].matters}
            try:
                copy.stage_changes(changed)
                copy.propagate()
                found = {
                    view: (
                        copy.piece(self._schema(view), copy.changed_rows(view, T_INS)),
                        copy.piece(self._schema(view), copy.changed_rows(view, T_DEL)),
                    )
                    for view in views
                }
            except BaseException:
                copy.rollback()
                raise
        except BudgetExceeded:
            self._give_up()
            return None
        self._count(copy, work)
        # What does not matter to the views is not staged here, and is taken over with the next change.
        reads = {name: table.pending_version for name, table in changed.items()}
        self._open = _Open(reads, {view: tables[view].version for view in views}, accepted=False)
        return found

    def _followed(self, tables: Mapping[str, FrameTable]) -> DriverCopy:
        """The copy in the committed state of the tables."""
        opened, self._open = self._open, None
        copy = self._copy
        if opened is not None and copy is not None:
            taken = opened.is_taken(tables)
            if taken:
                if not opened.accepted:
                    copy.accept()
                names = (*opened.reads, *opened.views)
                copy.has_taken({name: tables[name].version for name in names})
            elif opened.accepted:
                self.release()
                copy = None
            else:
                copy.rollback()
        if copy is None:
            copy = self._copy = DriverCopy(self._plan, self._limits, self._jobs, self._memory)
            copy.start()
        copy.follow({name: tables[name] for name in (*self._component.reads, *self._component.views)})
        return copy

    def _schema(self, view: str) -> Schema:
        return self._plan.normal.schemas[view]

    def _count(self, copy: DriverCopy, work: ViewWork) -> None:
        """Add what the copy took; all its rounds are one to the engine."""
        for done in copy.work.views.values():
            rounds, done.rounds = done.rounds, 0
            work.add(done)
            done.rounds = rounds

    def _give_up(self) -> None:
        self.release()
        self._outgrown = True


def _whole_plan(component: ComponentPlan, schemas: Mapping[str, Schema]) -> ProgramPlan:
    """All rules of a component over what it reads. Keys are left out: they are checked elsewhere."""
    read = {name: Schema(name, schemas[name].columns) for name in sorted(component.reads)}
    views = {
        view: Schema(view, schemas[view].columns, Role.VIEW, lattice=schemas[view].lattice) for view in component.views
    }
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    program = stratified(empty, component.clauses, read | views, by="whole recursion")
    options = dict.fromkeys(component.views, ViewOptions(component.strategy.inner, policy=component.policy))
    return compile_program(replace(program, options=options))
