"""One component of views in one attempt of a commit: from the change of its inputs to its own, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from upshot.core.errors import LimitError
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.recursion.recursion import Recursion
from upshot.engine.spark.rounds.derivations import count, grouped, new_rows
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, in_driver, nothing, signed
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable, TableStatistics, rows_without, settle_whole, spilled
from upshot.engine.work import ViewWork
from upshot.plan.component_plans import stage_plans
from upshot.plan.cost import Experience, Situation, decide
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_changes import RuleChange
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.rewrite.shapes import relations_read
from upshot.spark.types import framed
from upshot.strategies.strategy import Procedure

Taken = Callable[[str, Piece], None]

_SIGN = {Action.GAIN: 1, Action.LOSE: -1}


@dataclass(frozen=True, slots=True)
class ComponentStart:
    """The start of a component in a commit. `fresh`: its views are computed from nothing; `rule_change`: they follow a
    change of their rules; `recursion`: all rounds may run in the driver or in one job."""

    fresh: bool = False
    rule_change: RuleChange | None = None
    recursion: Recursion | None = None


class Propagation:
    """Settles the tables of the views; those that they read are settled before."""

    def __init__(
        self, plan: ComponentPlan, tables: Mapping[str, FrameTable], schemas: Mapping[str, Schema], jobs: Jobs,
        limits: Limits, start: ComponentStart,
    ) -> None:  # fmt: skip
        self.plan, self.work = plan, ViewWork()
        self._tables, self._schemas, self._session = tables, schemas, jobs.session
        self._limits, self._small, self._fresh = limits, jobs.small, start.fresh
        self._rule_change = start.rule_change if not start.fresh else None
        self._recursion = start.recursion
        self._views = {view: tables[view] for view in plan.views}
        self._working = {view: table.committed for view, table in self._views.items()}
        """The new state of the views so far."""
        self._driving: dict[tuple[str, Change], Piece] = {}
        """The new rows of the component's own views, which drive the rules of the next round."""

    # ---- strategies --------------------------------------------------------------------------------------------

    def run(self) -> Steps[None]:
        """Bring the views from the old state to the new one."""
        started = time.perf_counter()
        procedure = self.plan.strategy.procedure
        if self._recursion is not None and self._recursion.keeps_best:
            self._fresh = self._fresh or self._rule_change is not None
        afresh = self._fresh or (self._rule_change is None and self._starts_from_nothing())
        if procedure is Procedure.GROUPS:
            yield from grouped(self.plan.clauses[0], self._tables, self._schemas, self._session, self.work, afresh)
        elif procedure is Procedure.COUNTS:
            yield from self._count("load" if afresh else "count")
        elif procedure is Procedure.WHOLE or afresh or self._is_cheaper_anew():
            yield from self._load()
        else:
            yield from self._maintain()
        self.work.seconds = time.perf_counter() - started

    def _is_cheaper_anew(self) -> bool:
        """Test whether so much changed that recomputation is expected to take fewer steps than maintenance."""
        if not self.plan.strategy.weighs_recomputation or self._rule_change is not None:
            return False
        tables = [self._tables[name] for name in self.plan.reads]
        inserted = sum(table.inserted.count for table in tables)
        deleted = sum(table.deleted.count for table in tables)
        read, held = sum(table.size for table in tables), sum(table.size for table in self._views.values())
        decision = decide(self.plan.policy, Situation(inserted, deleted, read, held), Experience())
        self.work.decision = str(decision)
        return decision.recompute

    def _starts_from_nothing(self) -> bool:
        """Test whether the views are empty and most of their inputs are new: then one evaluation replaces n
        differentials."""
        if any(table.size for table in self._views.values()):
            return False
        tables = [self._tables[name] for name in self.plan.reads]
        return 2 * sum(table.inserted.count for table in tables) > sum(table.size for table in tables)

    def _load(self) -> Steps[None]:
        if self._recursion is not None:
            done = ViewWork()
            found = self._recursion.load(self._tables, done)
            self.work.jobs += done.jobs
            if found is not None:
                self.work.rounds += 1
                for view, rows in found.items():
                    self.work.derived += rows.count
                    self.work.inserted += rows.count
                    yield from settle_whole(self._views[view], Contents.of(rows), self._session)
                return
        self._working = {view: Contents(table.types) for view, table in self._views.items()}
        # Many input rows let expect a large result; one that is small comes back to the driver.
        large = sum(self._tables[name].new.count for name in self.plan.reads) > self._small
        yield from self._rounds("load", Change.INSERTED, self._working, present=False, take=self._insert, large=large)
        for view, table in self._views.items():
            yield from settle_whole(table, self._working[view], self._session)

    def _maintain(self) -> Steps[None]:
        """Algorithm 1. Over-deletion ends before rederivation starts: a row rederived early may depend on one still to
        be deleted. [Staudt & Jarke 1996, section 3.1] If the rules change too, rows of removed rules are deleted by the
        deletion rules of these, so that no row depends on a removed rule."""
        if (yield from self._maintain_whole()):
            return
        large = self._reads_much()
        over, remaining = yield from self._deletions(large=large)
        yield from self._insertions(over, remaining, large=large)

    def _deletions(self, *, large: bool) -> Steps[tuple[dict[str, Contents], dict[str, Contents]]]:
        """The over-deleted rows, and those of them that are not rederived."""
        over = {view: Contents(table.types) for view, table in self._views.items()}
        if self._has_seeds("delete"):
            yield from self._rounds("delete", Change.DELETED, over, present=False, take=_adding_to(over), large=large)
        remaining = dict(over)
        if any(each.count for each in over.values()):
            for view, deleted in over.items():
                self.work.deleted += deleted.count
                self._driving[view, Change.DELETED] = deleted
                self._working[view] = self._working[view].minus(deleted)
            yield from self._rounds(
                "rederive", Change.REDERIVED, remaining, present=True, take=self._rederiving(remaining)
            )
        return over, remaining

    def _insertions(
        self, over: Mapping[str, Contents], remaining: Mapping[str, Contents], *, large: bool
    ) -> Steps[None]:
        """Compute the insertions and settle the views."""
        inserted = {view: Contents(table.types) for view, table in self._views.items()}
        if self._has_seeds("insert"):
            adding = _adding_to(inserted)

            def insert(view: str, rows: Piece) -> None:
                self._insert(view, rows)
                adding(view, rows)

            yield from self._rounds(
                "insert", Change.INSERTED, self._working, present=False, take=insert, held=inserted, large=large
            )
        for view, table in self._views.items():
            new = yield from rows_without(inserted[view], over[view], self._session)
            gone = yield from rows_without(remaining[view], inserted[view], self._session)
            table.settle_change(new, gone)

    def _maintain_whole(self) -> Steps[bool]:
        """Run all rounds in the driver, or in parts, with the same strategy; false if that is not possible."""
        if self._recursion is None or self._rule_change is not None:
            return False
        found = yield from self._recursion.maintain(self._tables, self.work)
        self.work.rounds += found is not None
        for view, (inserted, deleted) in (found or {}).items():
            self._views[view].settle_change(inserted, deleted)
        return found is not None

    def _insert(self, view: str, rows: Piece) -> None:
        self.work.inserted += rows.count
        self._working[view] = self._working[view].plus(rows)

    def _rederiving(self, remaining: dict[str, Contents]) -> Taken:
        def take(view: str, rows: Piece) -> None:
            self.work.rederived += rows.count
            remaining[view] = remaining[view].minus(rows)
            self._working[view] = self._working[view].plus(rows)

        return take

    def _count(self, stage: str) -> Steps[None]:
        """Add the gained and lost derivations to the counts."""
        (table,) = self._views.values()
        plans = [plan for plan in self._plans(stage) if self._driven(plan)]
        large = stage == "load" and sum(self._tables[name].new.count for name in self.plan.reads) > self._small
        large = large or self._reads_much() or not all(self._is_small(plan) for plan in plans)
        counted = self._signed_heads(plans, small=not large)
        yield from count(table, counted, self._session, self.work, afresh=stage == "load", large=large)

    def _signed_heads(self, plans: Sequence[RulePlan], *, small: bool) -> list[DataFrame]:
        """The heads of each plan, with 1 for gained and -1 for lost derivations in a last column. Two plans that differ
        only in this are one, if few rows drive them: so the rows that they join are read once."""
        left, frames = list(plans), []
        while left:
            plan = left.pop(0)
            twin = next((each for each in left if small and self._are_one(plan, each)), None)
            if twin is not None:
                left.remove(twin)
                frames.append(self._heads_of_both(plan, twin))
            else:
                sign = f"c{len(framed(self._schemas[plan.head].types))}"
                frames.append(self._heads(plan, small=small).selectExpr("*", f"{_SIGN[plan.action]}L AS {sign}"))
        return frames

    def _are_one(self, plan: RulePlan, other: RulePlan) -> bool:
        """Test whether rows of both plans can be derived together; digits are tested for inserted derivations only."""
        columns = self._schemas[plan.head].columns
        tested = any(p.too_long(i, column.type) for p in (plan, other) for i, column in enumerate(columns))
        return plan.mirrors(other) and plan.action is not other.action and not tested

    def _heads_of_both(self, plan: RulePlan, twin: RulePlan) -> DataFrame:
        rows = signed([(self._few(each), _SIGN[each.action]) for each in (plan, twin)])
        return heads(
            plan, self._read, lambda *_: rows.frame(self._session), session=self._session, schemas=self._schemas,
            small=True, signed=True,
        )  # fmt: skip

    # ---- rounds ------------------------------------------------------------------------------------------------

    def _rounds(
        self, stage: str, change: Change, known: dict[str, Contents], *, present: bool, take: Taken,
        held: dict[str, Contents] | None = None, large: bool = False,
    ) -> Steps[None]:  # fmt: skip
        """Rounds of a stage until one finds nothing. A derived row is new if it is, or is not, `present` in the `known`
        rows; `take` adds it to all sets that it belongs to, among them `known` and `held`."""
        plans = self._plans(stage)
        due = [plan for plan in plans if plan.seed and self._driven(plan)]
        number = 0
        while due:
            number += 1
            self.work.rounds += 1
            found = yield from self._new_rows(due, known, present=present, large=large)
            self._driving = {(view, change): rows for view, rows in found.items() if rows.count}
            for view, rows in found.items():
                take(view, rows)
                for each in (known, self._working, held or {}):
                    if view in each:
                        each[view] = yield from spilled(each[view], self._small)
            if present and not any(each.count for each in known.values()):
                return
            due = [plan for plan in plans if not plan.seed and self._driven(plan)]
            if due and number >= self._limits.max_rounds:
                raise self._too_many_rounds(known)
            large = False

    def _new_rows(
        self, due: Sequence[RulePlan], known: Mapping[str, Contents], *, present: bool, large: bool
    ) -> Steps[dict[str, Piece]]:
        """The new rows that the plans derive, by view."""
        large = large or not all(self._is_small(plan) for plan in due)
        derived: dict[str, list[DataFrame]] = {}
        for plan in due:
            derived.setdefault(plan.head, []).append(self._heads(plan, small=not large))
        return (yield from new_rows(derived, known, self._session, self.work, present=present, large=large))

    def _heads(self, plan: RulePlan, *, small: bool) -> DataFrame:
        # Few changed rows join few rows; all rows of a relation may join any number.
        small = small and plan.driver is not None and plan.driver.change is not Change.ALL
        return heads(plan, self._read, self._drive, session=self._session, schemas=self._schemas, small=small)

    def _read(self, relation: str, state: State) -> DataFrame:
        if state is State.NEW and relation in self._views:
            return self._working[relation].frame(self._session, framed(self._views[relation].types))
        return self._tables[relation].frame(state)

    def _drive(self, relation: str, change: Change) -> DataFrame:
        return self._change(relation, change).frame(self._session)

    def _change(self, relation: str, change: Change) -> Piece:
        if relation in self._views:
            known = self._driving.get((relation, change))
            return known if known is not None else nothing(self._views[relation].types)
        return self._tables[relation].change(change)

    def _few(self, plan: RulePlan) -> LocalPiece:
        """The changed rows that drive a plan, which are in the driver."""
        assert plan.driver is not None
        return in_driver(self._change(plan.driver.match.relation, plan.driver.change))

    def _driven(self, plan: RulePlan) -> bool:
        """Test whether anything drives the plan."""
        driver = plan.driver
        if driver is None:
            return True
        if driver.change is Change.ALL:
            return self._rows_in(driver.match.relation, driver.match.state) > 0
        return self._change(driver.match.relation, driver.change).count > 0

    def _rows_in(self, relation: str, state: State) -> int:
        if state is State.NEW and relation in self._views:
            return self._working[relation].count
        table = self._tables[relation]
        return table.new.count if state is State.NEW else table.committed.count

    def _reads_much(self) -> bool:
        """Test whether the added or removed rules, which are evaluated whole, read more than the driver holds."""
        change = self._rule_change
        if change is None:
            return False
        read = {name for clause in (*change.removed, *change.added) for name in relations_read(clause)}
        return sum(self._tables[name].size for name in read) > self._small

    def _is_small(self, plan: RulePlan) -> bool:
        """Test whether the rows that drive the plan are in the driver."""
        if plan.driver is None or plan.driver.change is Change.ALL:
            return True
        return self._change(plan.driver.match.relation, plan.driver.change).is_local

    def _has_seeds(self, stage: str) -> bool:
        """Test whether anything drives the stage: a change of the right sign in a relation outside the component."""
        return any(plan.seed and self._driven(plan) for plan in self._plans(stage))

    def _plans(self, stage: str) -> list[RulePlan]:
        statistics = TableStatistics(self._tables, self._size)
        if self._rule_change is not None:
            return self._rule_change.plans(stage, statistics)
        return stage_plans(self.plan, stage, statistics)

    def _size(self, relation: str) -> int | None:
        return self._working[relation].count if relation in self._views else None

    def _too_many_rounds(self, known: Mapping[str, Contents]) -> LimitError:
        name = max(known, key=lambda view: known[view].count)
        return LimitError(
            f"`{name}` was still growing after {self._limits.max_rounds} rounds, with {known[name].count} rows",
            code="recursion-limit", help="limit the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip


def _adding_to(contents: dict[str, Contents]) -> Taken:
    def take(view: str, rows: Piece) -> None:
        contents[view] = contents[view].plus(rows)

    return take
