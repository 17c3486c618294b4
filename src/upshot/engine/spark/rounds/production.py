"""Production rules on Spark: a rule's turn is a job. Contents never change, so `old` is the state at its last turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from upshot.core.operations import DELETED, INSERTED
from upshot.engine.production_schedule import scheduled
from upshot.engine.rule_processor import Consideration, RuleProcessor
from upshot.engine.spark.rounds.component import Propagation
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, joined, nothing
from upshot.engine.spark.storage.requests import Steps
from upshot.engine.spark.storage.table import TableStatistics, differences, settle_whole, spilled
from upshot.plan.component_plans import production_plan
from upshot.plan.rule_plan import Change, RulePlan, State
from upshot.spark.types import framed
from upshot.strategies.production_rules import MATERIALIZE, ProductionRule, RulePurpose

_CHANGE = {INSERTED: Change.INSERTED, DELETED: Change.DELETED}
_STARTED = LocalPiece.of([()], ())


class PieceSets:
    """Sets of rows as pieces. The rules of a stratum never delete what they have inserted, nor change a row twice in
    the same way: parts have no row in common, and nothing need be taken from a set that is not empty."""

    def union(self, parts: Sequence[Piece]) -> Piece:
        some = [part for part in parts if part.count]
        return joined(some, some[0].types) if some else nothing(())

    def without(self, rows: Piece, others: Piece) -> Piece:
        assert not rows.count or not others.count, "a rule of a stratum deletes what the stratum inserted"
        return rows

    def is_empty(self, rows: Piece) -> bool:
        return rows.count == 0


class ProductionPropagation(Propagation):
    """Views that are maintained by their production rules alone."""

    def _load(self) -> Steps[None]:
        """From nothing: the `start` rules insert the first rows, the insertion rules the others."""
        self._working = {view: Contents(table.types) for view, table in self._views.items()}
        yield from self._process({(MATERIALIZE, INSERTED): _STARTED})
        for view, table in self._views.items():
            yield from settle_whole(table, self._working[view], self._session)

    def _maintain(self) -> Steps[None]:
        """From the changes of the inputs, which trigger the rules."""
        changes: dict[tuple[str, str], Piece] = {}
        for name in sorted(self.plan.reads):
            table = self._tables[name]
            changes |= {(name, DELETED): table.deleted, (name, INSERTED): table.inserted}
        yield from self._process(changes)
        for view, table in self._views.items():
            old, new = self._written[view, DELETED], self._written[view, INSERTED]
            table.settle_change(*(yield from differences(old, new, self._session)))

    def _process(self, changes: dict[tuple[str, str], Piece]) -> Steps[None]:
        processor: RuleProcessor[Piece] = RuleProcessor(scheduled(self.plan), PieceSets())
        rules = {rule.name: rule for rule in self.plan.production}
        self._seen: dict[str, dict[str, Contents]] = {}
        self._before = dict(self._working)
        self._contexts: dict[str, tuple[dict[str, Contents], dict[tuple[str, Change], Piece]]] = {}
        """For each rule in its turn: its `old` views, and the rows that drive it."""
        self._written = {
            (view, operation): Contents(table.types)
            for view, table in self._views.items()
            for operation in (INSERTED, DELETED)
        }
        for (relation, operation), rows in changes.items():
            processor.changed(relation, operation, rows)
        while turns := processor.together():
            if max(turn.number for turn in turns) > self._limits.max_rounds:
                raise self._too_many_rounds(self._working)
            some = [rules[turn.rule.name] for turn in turns]
            found = yield from self._turns(turns, some)
            for view, rows in found.items():
                yield from self._write(view, some[0], rows)
                processor.changed(view, some[0].clause.head.state, rows)

    def _turns(self, turns: Sequence[Consideration[Piece]], rules: Sequence[ProductionRule]) -> Steps[dict[str, Piece]]:
        """Evaluate rules of one group in one job; by view, the rows that they effectively inserted or deleted."""
        self.work.rounds += 1
        statistics = TableStatistics(self._tables, self._size)
        plans = []
        for turn, rule in zip(turns, rules, strict=True):
            driving: dict[tuple[str, Change], Piece] = {}
            relation, operation = rule.trigger
            if relation in self._views:
                driving[relation, _CHANGE[operation]] = getattr(turn.window.of(relation), operation)
            # A rule's window on the views of its stratum began at its last turn, on relations below with the wave.
            self._contexts[rule.name] = self._seen.get(rule.name, self._before), driving
            self._seen[rule.name] = dict(self._working)
            plans.append(replace(production_plan(rule, statistics), head=rule.view))
        deletes = rules[0].clause.head.state == DELETED
        large = rules[0].group is RulePurpose.START and self._reads_much()
        return (yield from self._new_rows(plans, self._working, present=deletes, large=large))

    def _reads_much(self) -> bool:
        return sum(self._tables[name].new.count for name in self.plan.reads) > self._small

    def _heads(self, plan: RulePlan, *, small: bool) -> DataFrame:
        self._old, self._driving = self._contexts[plan.name]
        return super()._heads(plan, small=small)

    def _is_small(self, plan: RulePlan) -> bool:
        self._old, self._driving = self._contexts[plan.name]
        return super()._is_small(plan)

    def _write(self, view: str, rule: ProductionRule, rows: Piece) -> Steps[None]:
        operation = rule.clause.head.state
        working = self._working[view]
        changed = working.minus(rows) if operation == DELETED else working.plus(rows)
        self._working[view] = yield from spilled(changed, self._small)
        self._written[view, operation] = yield from spilled(self._written[view, operation].plus(rows), self._small)
        if operation == DELETED:
            self.work.deleted += rows.count
        elif rule.group is RulePurpose.REINSERT:
            self.work.rederived += rows.count
        else:
            self.work.inserted += rows.count

    def _read(self, relation: str, state: State) -> DataFrame:
        if state is State.OLD and relation in self._views:
            return self._old[relation].frame(self._session, framed(self._views[relation].types))
        return super()._read(relation, state)
