"""One component of views with its plans: loaded once, then maintained by its strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, assert_never

from upshot.core.schema import Schema
from upshot.engine.limits import is_by_rounds_alone, is_changed_later
from upshot.engine.local import components
from upshot.engine.local.components.assemble import Phase
from upshot.engine.local.components.phases import LocalStatistics, Phases
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import T_DEL, T_INS, T_LIVE, T_NDEL, T_NINS, T_NRED, T_PLAIN, TABLE_WORDS
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.storage.storage import Table
from upshot.engine.work import ViewWork
from upshot.plan.component_plans import seeds_of, stage_plans
from upshot.plan.cost import FEW, Experience, Situation, decide, estimate
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_changes import RuleChange
from upshot.plan.rule_plan import Action, Change, RulePlan, about, rounds_read
from upshot.plan.walks import walk_of
from upshot.strategies.strategy import Procedure, Stores
from upshot.syntax.ast import Atom

if TYPE_CHECKING:
    from upshot.engine.local.components.aggregates import AggregateView
    from upshot.engine.local.components.backward_forward import BackwardForward

_ADDING = (Action.INSERT, Action.GAIN)

_FAR_OFF = 10
"""A plan whose matches exceed the estimate by this factor was made for other data."""


class LocalComponent:
    """A component with its tables. `fresh`: its views are not computed yet."""

    def __init__(
        self, plan: ComponentPlan, tables: Mapping[str, Table], schemas: Mapping[str, Schema], runner: Runner
    ) -> None:
        self.plan = plan
        self.names = ", ".join(plan.views)
        self.fresh = True
        self.is_on_demand = plan.strategy.demand is not None
        self._tables, self._schemas, self._runner = tables, schemas, runner
        self._storage = runner.storage
        self.views = [(view, tables[view]) for view in plan.views]
        self.read_or_written = (*plan.views, *plan.reads)
        self._phases = Phases(runner.storage, runner.codec)
        triggers = plan.strategy.procedure is Procedure.TRIGGERS
        self._production = components.production.ProductionRules(plan, schemas, runner) if triggers else None
        self._was_fresh = False
        self.was_loaded = False
        """True if its last visit computed all rows."""
        self.rule_change: RuleChange | None = None
        """In an open definition, the change of rules that the rows must follow."""
        self._experience = Experience()
        self._seeds: dict[str, tuple[tuple[int, Action], ...]] = {}
        """For each stage its drivers from outside: the word that counts the changes of a relation, and the action on
        the head."""
        folds = plan.strategy.procedure is Procedure.GROUPS
        joins = plan.strategy.procedure in (Procedure.COUNTS, Procedure.FIXPOINTS, Procedure.WAVES)
        self.runs_once = not plan.recursive and plan.strategy.procedure in (Procedure.COUNTS, Procedure.FIXPOINTS)
        """Its rules need no rounds, so they can share a run with those of other components."""
        self._may_recompute = plan.strategy.weighs_recomputation
        self._sizes = [_places(table)[0] for _, table in self.views]
        self._read = [_places(tables[name]) for name in plan.reads]
        self._positive = [
            [
                _places(tables[each.relation])
                for each in clause.body
                if isinstance(each, Atom) and each.relation in plan.reads
            ]
            for clause in (plan.clauses if joins else ())
        ]
        """For each clause the relations outside the component that must have rows for a derivation."""
        self._aggregates = [self._aggregate(i) for i in range(len(plan.clauses))] if folds else []

    def _aggregate(self, number: int) -> AggregateView:
        clause = self.plan.clauses[number]
        first = clause.body[0]
        assert isinstance(first, Atom)
        name, source, codec = clause.head.relation, first.relation, self._runner.codec
        return components.aggregates.AggregateView(
            clause, self._schemas[name], self._schemas[source], self._tables[name], self._tables[source], codec
        )

    def moved_to(self, tables: Mapping[str, Table]) -> LocalComponent:
        """The same component, after a definition that does not change it."""
        self._tables, self.views = tables, [(view, tables[view]) for view in self.plan.views]
        return self

    def adopt(self, old: LocalComponent) -> None:
        """Take over the state of a component with the same rules; plans are made again."""
        self._aggregates, self._experience = old._aggregates, old._experience

    # ---- change --------------------------------------------------------------------------------------------

    def propagate(self) -> ViewWork:
        """Update the views from the old state to the new one; return the work."""
        started = time.perf_counter()
        work = ViewWork()
        self.was_loaded = False
        if self.fresh or (self._starts_from_nothing() and self.rule_change is None):
            self._load(work)
        elif self.rule_change is not None:
            self._follow_rules(self.rule_change, work)
        else:
            self._follow(work)
        work.seconds = time.perf_counter() - started
        return work

    def _follow(self, work: ViewWork) -> None:
        """Update the views by the procedure of their strategy."""
        match self.plan.strategy.procedure:
            case Procedure.COUNTS:
                self._count("count", work)
            case Procedure.GROUPS:
                self._aggregate_change(work, load=False)
            case Procedure.WHOLE:
                self._load(work)
            case Procedure.TRIGGERS:
                assert self._production is not None
                self._production.maintain(self._tables, work)
            case Procedure.FIXPOINTS | Procedure.WAVES:
                self._follow_or_recompute(work)
            case Procedure.DEMAND:
                raise AssertionError("views on demand are computed together")
            case other:
                assert_never(other)

    def is_shareable(self) -> bool:
        """Test whether the change is followed by rules that can share a run with those of other components."""
        if self.fresh or self.rule_change is not None or not self.runs_once or self._starts_from_nothing():
            return False
        return not self._may_recompute or self.plan.policy != "auto" or self._is_small_change()

    def _is_small_change(self) -> bool:
        """Test whether the change is so small that it is always followed."""
        words, changed = self._storage.words, 0
        for _, inserted, deleted in self._read:
            changed += words[inserted] + words[deleted]
        return changed < FEW

    def is_idle(self) -> bool:
        """Test whether the change cannot affect the views: they are empty, and no change below drives a rule that adds
        rows, or each rule reads a relation without rows. This is usual for constraints, and for active rules without
        bindings."""
        if self.fresh or self.rule_change is not None or self._has_rows():
            return False
        if self._is_barred():
            return True
        stage = self.plan.strategy.adds
        return stage is not None and not self._has_seeds(stage, _ADDING)

    def _is_barred(self) -> bool:
        """Test whether every clause reads a relation that is empty in both states."""
        words = self._storage.words
        for places in self._positive:
            for size, inserted, deleted in places:
                if not (words[size] or words[inserted] or words[deleted]):
                    break
            else:
                return False
        return bool(self._positive)

    def _has_rows(self) -> bool:
        words = self._storage.words
        for size in self._sizes:  # noqa: SIM110 - called for every view that a commit reaches
            if words[size]:
                return True
        return False

    def _follow_rules(self, change: RuleChange, work: ViewWork) -> None:
        """Update the views from the old rules and the old state to the new ones. Deletions use the deletion rules of
        the old rules, so that no row depends on a removed rule."""
        phases = Phases(self._runner.storage, self._runner.codec)
        statistics = LocalStatistics(self._tables)
        numbered = {table.number: table for _, table in self.views}

        def run(stage: str, grows: Change | None) -> None:
            phase = phases.phase(stage, lambda: change.plans(stage, statistics), self._tables, self._schemas, ())
            self._runner.run(phase, self.views, grows, numbered, work)

        try:
            if self.plan.strategy.procedure is Procedure.COUNTS:
                run("count", None)
                self.settle(work)
                return
            if self.plan.strategy.procedure is Procedure.WAVES:
                self._backward_forward(phases, lambda stage: change.plans(stage, statistics)).run(work)
            else:
                run("delete", Change.DELETED)
                work.deleted += self._runner.changed
                run("rederive", Change.REDERIVED)
                work.rederived += self._runner.changed
            run("insert", Change.INSERTED)
            work.inserted += self._runner.changed
            for _, table in self.views:
                table.finalize()
        finally:
            phases.release()

    def _follow_or_recompute(self, work: ViewWork) -> None:
        """Run the alternative with fewer expected steps, if the policy allows both."""
        situation = self._situation()
        decision = decide(self.plan.policy, situation, self._experience)
        work.decision = str(decision)
        if decision.recompute:
            self._load(work)
        else:
            self._maintain(work)
            self._experience.followed(situation, work.probed + work.derived)

    def _situation(self) -> Situation:
        words, inserted, deleted, read, view_rows = self._storage.words, 0, 0, 0, 0
        for size, insertions, deletions in self._read:
            read += words[size]
            inserted += words[insertions]
            deleted += words[deletions]
        for size in self._sizes:
            view_rows += words[size]
        return Situation(inserted, deleted, read, view_rows)

    def _starts_from_nothing(self) -> bool:
        """Test whether the views are empty and most rows that they read are new: then one evaluation of each rule
        replaces its differentials."""
        if self._has_rows():
            return False
        words, new = self._storage.words, 0
        for size, inserted, _ in self._read:
            new += 2 * words[inserted] - words[size]
        return new > 0

    def _load(self, work: ViewWork) -> None:
        self._was_fresh, self.fresh = self.fresh, False
        self.was_loaded = True
        self._compute(work)
        if self._size() >= self._runner.worth_preparing and is_changed_later():
            self._prepare_changes()

    def _compute(self, work: ViewWork) -> None:
        """Compute the views from nothing."""
        if self._aggregates:
            self._aggregate_change(work, load=True)
        elif self.plan.strategy.stores is Stores.COUNTS:
            self._count("load", work)
        elif self._production is not None:
            self._production.load(self._tables, work)
        else:
            for _, table in self.views:
                table.begin_load()
            if not self._load_by_walks(work):
                self._run("load", Change.INSERTED, work)
                work.inserted += self._runner.changed
            self._experience.computed(self._size(), work.probed + work.derived)
            for _, table in self.views:
                table.end_load()

    def _size(self) -> int:
        """The number of rows of the views and of the relations that they read."""
        return sum(self._tables[name].size for name in self.read_or_written)

    def _prepare_changes(self) -> None:
        """Build the indexes that changes will probe; otherwise the first change would take as long as the load. The
        plans are dropped: the first change plans its stages when its drivers are known."""
        for aggregate in self._aggregates:
            aggregate.prepare_changes()
        if self.plan.strategy.procedure in (Procedure.COUNTS, Procedure.FIXPOINTS, Procedure.WAVES):
            for stage in self.plan.strategy.stages:
                self._phase(stage)
            self._phases.release()
        for name in self.read_or_written:
            self._tables[name].look_ahead()

    def _load_by_walks(self, work: ViewWork) -> bool:
        """Load a large closure into an empty table by walks; return whether that was possible."""
        table, walk = self.views[0][1], walk_of(self.plan, self._schemas)
        read = sum(self._tables[name].size for name in self.plan.reads)
        if walk is None or not table.word(T_PLAIN) or read < self._runner.worth_walking or is_by_rounds_alone():
            return False
        seeds = self._phases.phase(
            "seeds", lambda: [each for each in self.plans("load") if each.seed], self._tables, self._schemas,
            self.plan.reads,
        )  # fmt: skip
        self._runner.run(seeds, self.views, Change.INSERTED, {table.number: table}, work)
        if table.size:
            MACHINE.expect(table.size * 50)
            components.walks.load_by_walks(walk, self._tables, self._runner, work)
        return True

    def _maintain(self, work: ViewWork) -> None:
        """Algorithm 1. Over-deletion ends before rederivation starts: a row rederived early may rest on one still to be
        deleted. [Staudt & Jarke 1996, section 3.1]"""
        for _, table in self.views:
            table.spread_if_sparse()
        in_waves = self.plan.strategy.procedure is Procedure.WAVES
        if in_waves:
            if self._has_seeds("delete"):
                self._backward_forward(self._phases, self.plans).run(work)
        elif self._has_seeds("delete"):
            self._run("delete", Change.DELETED, work)
            work.deleted += self._runner.changed
        if not in_waves and any(table.word(T_DEL + 1) for _, table in self.views):
            self._run("rederive", Change.REDERIVED, work)
            work.rederived += self._runner.changed
        if self._has_seeds("insert"):
            self._run("insert", Change.INSERTED, work)
            work.inserted += self._runner.changed
        for _, table in self.views:
            table.finalize()

    def _backward_forward(self, phases: Phases, plans: Callable[[str], list[RulePlan]]) -> BackwardForward:
        reads = sorted(self.plan.reads)
        return components.backward_forward.BackwardForward(
            phases, self._runner, self._tables, self._schemas, self.plan.views, reads, plans
        )

    def _count(self, stage: str, work: ViewWork) -> None:
        if stage == "load" or self._has_seeds(stage):
            self._run(stage, None, work)
        self.settle(work)

    def end_shared(self, work: ViewWork) -> None:
        """Compute the views' net changes after a shared run."""
        if not self._may_recompute:
            self.settle(work)
            return
        situation = self._situation()
        work.decision = str(decide(self.plan.policy, situation, self._experience))
        self._experience.followed(situation, work.probed + work.derived)
        for _, table in self.views:
            work.deleted += table.word(T_NDEL)
            work.rederived += table.word(T_NRED)
            work.inserted += table.word(T_NINS)
            table.finalize()

    def settle(self, work: ViewWork) -> None:
        """Compute the views' net changes after their rules have run."""
        for _, table in self.views:
            table.settle()
            work.inserted += table.word(T_INS + 1)
            work.deleted += table.word(T_DEL + 1)

    def _aggregate_change(self, work: ViewWork, *, load: bool) -> None:
        for aggregate in self._aggregates:
            work.derived += aggregate.load() if load else aggregate.apply()
        self.settle(work)

    def accept(self) -> None:
        self._was_fresh, self.rule_change = False, None
        for aggregate in self._aggregates:
            aggregate.accept()

    def rollback(self) -> None:
        self.fresh, self._was_fresh = self.fresh or self._was_fresh, False
        for aggregate in self._aggregates:
            aggregate.rollback()

    # ---- phases --------------------------------------------------------------------------------------------

    def _run(self, stage: str, grows: Change | None, work: ViewWork) -> None:
        numbered = {table.number: table for _, table in self.views}
        phase = self._phase(stage)
        # Only the component's own relations change size during the rounds.
        replan = partial(self._phase, stage) if rounds_read(phase.plans, self.plan.views) else None
        self._runner.run(phase, self.views, grows, numbered, work, replan=replan)

    def _phase(self, stage: str) -> Phase:
        return self._phases.phase(stage, lambda: self.plans(stage), self._tables, self._schemas, self.read_or_written)

    def plans(self, stage: str) -> list[RulePlan]:
        """The rule plans of a stage for the current sizes."""
        return stage_plans(self.plan, stage, LocalStatistics(self._tables))

    def _has_seeds(self, stage: str, actions: Collection[Action] = ()) -> bool:
        """Test whether a change outside the component drives the stage, or those of its plans that have these
        actions."""
        if stage not in self._seeds:
            self._seeds[stage] = tuple(
                (_places(self._tables[relation])[1 + (change is Change.DELETED)], action)
                for relation, change, action in seeds_of(self.plan, stage)
            )
        words = self._storage.words
        for place, action in self._seeds[stage]:  # noqa: SIM110 - called for every view that a commit reaches
            if words[place] and (not actions or action in actions):
                return True
        return False

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the component's rules."""
        yield from self._phases.texts()
        if self._production is not None:
            yield from self._production.texts()
        for aggregate in self._aggregates:
            yield from aggregate.texts()

    def describe(self, drivers: Mapping[str, tuple[int, int]], work: ViewWork | None) -> str:
        """The plans of all stages. `drivers`: the numbers of rows that the last change inserted and deleted, by
        relation; `work`: its work here."""
        if self._aggregates:
            return "groups touched by the change are brought up to date from running totals"
        lines, plans = [], []
        for stage in self.plan.strategy.stages:
            lines.append(f"{stage}:")
            made = self.plans(stage)
            lines += [f"  {line}" for plan in made for line in plan.described().split("\n")]
            plans += made
        if work is not None and not self.was_loaded:
            lines.append(_compared(plans, drivers, work))
        if self._may_recompute:
            now = self._situation()
            lines.append(estimate(now.read, now.view_rows, self._experience).described(self.plan.policy))
        return "\n".join(lines)

    def release(self) -> None:
        self._phases.release()
        if self._production is not None:
            self._production.release()


def _places(table: Table) -> tuple[int, int, int]:
    """The places of the words with the numbers of rows, of inserted and of deleted rows: commits read them for every
    view that they reach."""
    first = table.number * TABLE_WORDS
    return first + T_LIVE, first + T_NINS, first + T_NDEL


def _compared(plans: Iterable[RulePlan], drivers: Mapping[str, tuple[int, int]], work: ViewWork) -> str:
    """The expected and the actual matches of the last change. There may be fewer than expected: a search for another
    derivation ends at the first one."""
    own = {Change.DELETED: work.deleted, Change.REDERIVED: work.rederived, Change.INSERTED: work.inserted}
    expected = 0.0
    for plan in plans:
        if plan.driver is None:
            continue
        change, inserted_deleted = plan.driver.change, drivers.get(plan.driver.match.relation, (0, 0))
        is_own = plan.driver.of_head or not plan.seed
        rows = own.get(change, 0) if is_own else inserted_deleted[change is Change.DELETED]
        expected += rows * plan.cost
    line = f"matches of the last change: expected ~{about(expected)}, found {work.matched:,}"
    if work.matched > _FAR_OFF * max(expected, 1):
        line += f" (off by {about(work.matched / max(expected, 1))}×: these rows match more than others)"
    return line
