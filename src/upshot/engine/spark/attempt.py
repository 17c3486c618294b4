"""One attempt to propagate a change: base relations first, then every component that is reached, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.components.screening import Screening
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.encode_rows import encode_rows
from upshot.engine.local.storage.storage import Storage
from upshot.engine.spark.demand.on_demand import OnDemandTask
from upshot.engine.spark.frames.joins import one_task
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.installed import Installed
from upshot.engine.spark.rounds.backward_forward import BackwardForwardPropagation
from upshot.engine.spark.rounds.component import ComponentStart, Propagation
from upshot.engine.spark.rounds.production import ProductionPropagation
from upshot.engine.spark.storage.pieces import LocalPiece, united
from upshot.engine.spark.storage.requests import FrameRequest, Jobs, Steps, Task, run_together
from upshot.engine.spark.storage.statements import TableStatement, settle_assuming, settle_statements
from upshot.engine.spark.storage.table import FrameTable, TableStatistics
from upshot.engine.work import Work
from upshot.plan.component_plans import stage_plans
from upshot.plan.program_plan import ComponentPlan, ProgramPlan
from upshot.plan.rule_plan import Action, Change, State
from upshot.plan.rule_plans import MATCHED, guard_plans
from upshot.rewrite.changes.screening import relevant_rows
from upshot.strategies.strategy import Procedure


class Attempt:
    """From staged statements to settled tables. After a failure, rolling the tables back undoes it; files that it has
    written are removed by the engine."""

    def __init__(
        self, installed: Installed, jobs: Jobs, limits: Limits, on_demand: OnDemandTask | None, *, assumes: bool
    ) -> None:
        """`assumes`: statements may be assumed to have an effect, which is looked up in the job of the first round."""
        skipped = on_demand.views.strategies if on_demand is not None else {}
        self._installed, self._plan, self._tables = installed, installed.plan, installed.tables
        # Guards are made from the present rules; in an open definition, views may follow from the earlier ones.
        defines = bool(installed.fresh or installed.rule_changes) or (on_demand is not None and on_demand.defines)
        self._screens = limits.optimizations.screening and not defines
        components: Sequence[ComponentPlan] = self._plan.components if self._plan is not None else ()
        self._components = [each for each in components if each.views[0] not in skipped]
        self._on_demand, self._jobs, self._limits = on_demand, jobs, limits
        self._running: dict[str, Propagation] = {}
        self._assumes = assumes
        self.has_assumed = False
        """True if some statements were assumed to have an effect."""
        self.work = Work()

    def run(self, staged: Mapping[str, Sequence[TableStatement]]) -> list[str]:
        """Settle all tables; the answer names those that changed."""
        makers = {view: _name(component) for component in self._components for view in component.views}
        tasks = [task for name, statements in sorted(staged.items()) for task in self._base(name, statements)]
        based = {name: f"+{name}" for name in staged}
        checks = {task.name for task in tasks if task.name.startswith("?")}
        for component in self._components:
            after = {makers[name] for name in component.reads if name in makers}
            after |= {based[name] for name in component.reads if name in based}
            if component.recursive:
                # Its parts run in a separate job, however many rounds they take: not on an assumption.
                after |= checks & {f"?{name}" for name in component.reads}
            tasks.append(Task(_name(component), partial(self._begin, component), frozenset(after)))
        if self._on_demand is not None:
            below = self._on_demand.reads
            named = {makers[name] for name in below if name in makers} | {based[n] for n in below if n in based}
            tasks.append(Task(_ON_DEMAND, self._on_demand.begin, frozenset(named)))
        here = all(isinstance(s.rows, LocalPiece) for statements in staged.values() for s in statements)
        self._jobs.compile(not here or not all(table.committed.is_local for table in self._tables.values()))
        with one_task(self._tables.values(), sum(s.rows.count for statements in staged.values() for s in statements)):
            run_together(tasks, self._jobs, self._count_jobs)
            # Written now, so that a loss is noticed in the attempt, and accepting cannot fail.
            compact = [Task(name, t.compact) for name, t in self._tables.items() if t.pending is not None]
            run_together(compact, self._jobs, self._count_jobs)
        return self._summed(staged)

    def _base(self, name: str, statements: Sequence[TableStatement]) -> list[Task]:
        """The tasks of a base relation. An assumption is checked first: after a failure no other answer is used."""
        table = self._tables[name]
        check = settle_assuming(table, statements, self._jobs.session) if self._assumes else None
        if check is None:
            return [Task(f"+{name}", partial(self._settle, table, statements))]
        self.has_assumed = True
        return [Task(f"?{name}", lambda: check), Task(f"+{name}", partial(self._settle, table, ()))]

    def _settle(self, table: FrameTable, statements: Sequence[TableStatement]) -> Steps[None]:
        if statements:
            yield from settle_statements(table, statements, self._jobs.session)
        if self._plan is not None and self._screens:
            yield from screen(self._plan, table, self._jobs.session, self._limits)

    def _begin(self, component: ComponentPlan) -> Steps[None] | None:
        views, installed = component.views, self._installed
        start = ComponentStart(
            views in installed.fresh, installed.rule_changes.get(views), installed.recursions.get(views)
        )
        if not start.fresh and start.rule_change is None:
            if not any(self._tables[name].matters for name in component.reads):
                return None
            if self._limits.optimizations.event_paths and self._is_idle(component):
                return None
        if start.rule_change is not None:
            # Production rules do not follow a change of rules themselves.
            component = start.rule_change.after
        kind = _KINDS.get(component.strategy.procedure, Propagation)
        propagation = kind(component, self._tables, installed.schemas, self._jobs, self._limits, start)
        self._running[_name(component)] = propagation
        return propagation.run()

    def _is_idle(self, component: ComponentPlan) -> bool:
        """Test whether the change has no effect: the views are empty, so that nothing can be deleted, and nothing below
        drives a rule that adds a row. This holds for most constraints most of the time."""
        stage = component.strategy.adds
        if stage is None or any(self._tables[view].size for view in component.views):
            return False
        adding = [
            plan.driver
            for plan in stage_plans(component, stage, TableStatistics(self._tables))
            if plan.seed and plan.driver is not None and plan.action is not Action.LOSE
        ]
        return not any(self._tables[driver.match.relation].change(driver.change).count for driver in adding)

    def _count_jobs(self, name: str, jobs: int) -> None:
        if name in self._running:
            self._running[name].work.jobs += jobs
        elif name == _ON_DEMAND and self._on_demand is not None:
            self._on_demand.work.jobs += jobs

    def _summed(self, staged: Mapping[str, Sequence[TableStatement]]) -> list[str]:
        """Add up the work counters; returns the relations that changed, in order."""
        work = self.work
        changed = [name for name in sorted(staged) if self._tables[name].changed]
        read = {name for component in self._components for name in component.reads}
        read |= self._on_demand.reads if self._on_demand is not None else frozenset()
        work.screened = sum(
            self._tables[name].changed for name in changed if name not in read or not self._tables[name].matters
        )
        for component in self._components:
            done = self._running.get(_name(component))
            if done is None:
                work.skipped += 1
                continue
            work.components += 1
            work.add(done.work)
            work.views[_name(component)] = done.work
            for view in component.views:
                if self._tables[view].changed or self._tables[view].previous is not None:
                    changed.append(view)
        return changed + self._summed_on_demand()

    def _summed_on_demand(self) -> list[str]:
        task, work = self._on_demand, self.work
        if task is None:
            return []
        if not task.began:
            work.skipped += task.views.components
            return []
        work.components += task.views.components
        work.add(task.work)
        work.views[", ".join(task.views.strategies)] = task.work
        return [view for view in task.views.strategies if self._tables[view].changed]


_KINDS: Mapping[Procedure, type[Propagation]] = {
    Procedure.TRIGGERS: ProductionPropagation,
    Procedure.WAVES: BackwardForwardPropagation,
}

_ON_DEMAND = "views on demand"
"""The name of their task; no view has this name."""


def _name(component: ComponentPlan) -> str:
    return ", ".join(component.views)


# ---- screening: changes that no literal of any rule can match ----------------------------------------------------

_FIRST = 64
"""Rows that are tested before all others: most changes matter, and a few rows show it."""


def screen(plan: ProgramPlan, table: FrameTable, session: SparkSession, limits: Limits) -> Steps[None]:
    """Mark a settled table of a base relation if no row of its change can matter to a view. A small change takes no
    job: it is tested in the driver, by the local engine."""
    views = [view for layer in plan.normal.strata for view in layer]
    guards = relevant_rows(plan.normal, table.schema.name, views) if table.changed else None
    if guards is None:
        return
    if not guards:
        table.is_irrelevant = True
    elif isinstance(table.inserted, LocalPiece) and isinstance(table.deleted, LocalPiece):
        rows = [*table.inserted.rows, *table.deleted.rows]
        parts = (rows[:_FIRST], rows[_FIRST:])
        table.is_irrelevant = not any(_any_matches(plan, table.schema, part, limits) for part in parts if part)
    else:
        (found,) = yield [FrameRequest(_matching(guards, table, session).limit(1), table.types, here=True)]
        table.is_irrelevant = not found.count


def _any_matches(plan: ProgramPlan, schema: Schema, rows: Sequence[Row], limits: Limits) -> bool:
    """Test whether a literal matches one of the rows, in temporary tables of the local engine."""
    storage, codec = Storage(), Codec()
    changed = storage.create(schema.arity)
    screening = Screening(plan, {schema.name: changed}, Runner(storage, codec, limits))
    try:
        changed.stage(encode_rows(codec, schema, list(rows)), insert=True)
        changed.settle()
        return screening.is_relevant(schema.name)
    finally:
        screening.release()
        storage.drop(changed)


def _matching(guards: Sequence[Clause], table: FrameTable, session: SparkSession) -> DataFrame:
    schema = table.schema
    schemas = {schema.name: schema, MATCHED: schema}

    def read(_: str, state: State) -> DataFrame:
        return table.frame(state)

    def drive(_: str, change: Change) -> DataFrame:
        return table.change(change).frame(session)

    plans = guard_plans(guards, TableStatistics({schema.name: table}))
    return united([heads(plan, read, drive, session=session, schemas=schemas) for plan in plans])
