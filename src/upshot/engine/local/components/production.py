"""Production rules on the local engine: conditions run on the kernel, actions are staged in the tables.

A set of rows is an array of row numbers, which do not change while a transaction is open. `old` is a state bit of each
row, so before a rule runs, the rows in its window get the bit that they had at the start of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import LimitError
from upshot.core.operations import DELETED, INSERTED
from upshot.core.schema import Schema
from upshot.engine.local.components.phases import LocalStatistics, Phases
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import NEW, OLD, T_DEL, T_INS
from upshot.engine.local.storage.storage import Table
from upshot.engine.production_schedule import scheduled
from upshot.engine.rule_processor import Consideration, RuleProcessor, Transition
from upshot.engine.work import ViewWork
from upshot.plan.component_plans import derived, production_plan
from upshot.plan.program_plan import ComponentPlan
from upshot.strategies.production_rules import MATERIALIZE, ProductionRule, RulePurpose

Places = NDArray[np.int32]

_LIST = {INSERTED: T_INS, DELETED: T_DEL}
_ASKED = np.zeros(1, np.int32)
_NOWHERE = np.empty(0, np.int32)


class PlaceSets:
    """Sets of row numbers as sorted arrays."""

    def union(self, parts: Sequence[Places]) -> Places:
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate(parts)) if parts else _NOWHERE

    def without(self, rows: Places, others: Places) -> Places:
        return np.setdiff1d(rows, others, assume_unique=True) if len(others) else rows

    def is_empty(self, rows: Places) -> bool:
        return len(rows) == 0


class ProductionRules:
    """The production rules of one component."""

    def __init__(self, plan: ComponentPlan, schemas: Mapping[str, Schema], runner: Runner) -> None:
        self.plan, self._storage, self._runner = plan, runner.storage, runner
        self._rules = {rule.name: rule for rule in plan.production}
        self._phases = Phases(runner.storage, runner.codec)
        self._derived = {derived(view): runner.storage.create(schemas[view].arity) for view in plan.views}
        self._schemas = {**schemas, **{derived(view): schemas[view] for view in plan.views}}

    def load(self, tables: Mapping[str, Table], work: ViewWork) -> None:
        """Compute the views from nothing: `start` rules insert the first rows, insertion rules the others."""
        wave = _Wave(self, {view: tables[view] for view in self.plan.views}, tables, work)
        wave.empty()
        wave.processor.changed(MATERIALIZE, INSERTED, _ASKED)
        wave.run()

    def maintain(self, tables: Mapping[str, Table], work: ViewWork) -> None:
        """Update the views: the changes of the relations that they read trigger the rules."""
        wave = _Wave(self, {view: tables[view] for view in self.plan.views}, tables, work)
        for name in sorted(self.plan.reads):
            for operation in (DELETED, INSERTED):
                wave.processor.changed(name, operation, tables[name].places(_LIST[operation]))
        wave.run()

    def rule(self, name: str) -> ProductionRule:
        return self._rules[name]

    def derive(self, rule: ProductionRule, tables: Mapping[str, Table], work: ViewWork) -> NDArray[np.int64]:
        """The distinct heads that the rule's condition derives."""
        every = {**tables, **self._derived}
        reads = (*self.plan.views, *self.plan.reads)
        phase = self._phases.phase(
            rule.name, lambda: [production_plan(rule, LocalStatistics(every))], every, self._schemas, reads
        )
        out = self._derived[derived(rule.view)]
        try:
            self._runner.run(phase, [(rule.view, out)], None, {out.number: out}, work)
            return out.listed(T_INS)
        finally:
            out.rollback()

    @property
    def max_rounds(self) -> int:
        return self._runner.max_rounds

    def texts(self) -> Iterator[int]:
        return self._phases.texts()

    def release(self) -> None:
        self._phases.release()
        for table in self._derived.values():
            self._storage.drop(table)
        self._derived.clear()


class _Wave:
    """The rule processing of a component for one change."""

    def __init__(
        self, rules: ProductionRules, views: Mapping[str, Table], tables: Mapping[str, Table], work: ViewWork
    ) -> None:
        self.views = views
        self.processor: RuleProcessor[Places] = RuleProcessor(scheduled(rules.plan), PlaceSets())
        self._rules, self._tables, self._work = rules, tables, work
        self._log: list[tuple[str, str, Places]] = []
        self._unsure: dict[str, list[Places]] = {view: [] for view in views}
        """Rows whose `old` bit may have been changed for a window."""

    def empty(self) -> None:
        """Delete every row without triggering rules: a load is not a change of the views."""
        for view, table in self.views.items():
            if table.size:
                self._log.append((view, DELETED, np.flatnonzero(table.bits() & NEW).astype(np.int32)))
                table.retract_all(as_view=False)

    def run(self) -> None:
        try:
            while (turn := self.processor.next()) is not None:
                self._take(turn)
        finally:
            self._close()
        for table in self.views.values():
            table.settle()

    def _take(self, turn: Consideration[Places]) -> None:
        rule = self._rules.rule(turn.rule.name)
        if turn.number > self._rules.max_rounds:
            raise self._too_many_rounds()
        if rule.group is not RulePurpose.START:
            self._open(turn, rule)
        codes = self._rules.derive(rule, self._tables, self._work)
        operation = rule.clause.head.state
        table = self.views[rule.view]
        places = table.staged(codes, insert=operation == INSERTED)
        self._log.append((rule.view, operation, places))
        self._unsure[rule.view].append(places)
        self.processor.changed(rule.view, operation, places)
        self._count(rule, len(places))

    def _count(self, rule: ProductionRule, changed: int) -> None:
        if rule.clause.head.state == DELETED:
            self._work.deleted += changed
        elif rule.group is RulePurpose.REINSERT:
            self._work.rederived += changed
        else:
            self._work.inserted += changed

    def _open(self, turn: Consideration[Places], rule: ProductionRule) -> None:
        """Set the `old` bits of the component's views to the state at the start of the rule's window.

        Relations below keep their bits: they changed before the first turn of the stratum and do not change during its
        turns, so `old` is their state before the change for all of its rules. Taken literally, a rule at its second
        turn would read them in the current state, and might compute a value from rows that never existed together.
        """
        relation, operation = rule.trigger
        for view, table in self.views.items():
            transition = turn.window.of(view)
            self._show(table, transition, self._unsure[view])
            self._unsure[view] = [transition.inserted, transition.deleted]
            if view == relation:
                table.set_places(_LIST[operation], getattr(transition, operation))

    @staticmethod
    def _show(table: Table, transition: Transition[Places], unsure: Sequence[Places]) -> None:
        bits = table.bits()
        for places in unsure:
            bits[places] = (bits[places] & ~np.uint8(OLD)) | ((bits[places] & NEW) // (NEW // OLD))
        bits[transition.inserted] &= ~np.uint8(OLD)
        bits[transition.deleted] |= np.uint8(OLD)

    def _close(self) -> None:
        """Restore the `old` bits from before the change and empty the lists: `settle` computes the net lists."""
        for view, operation, places in reversed(self._log):
            bits = self.views[view].bits()
            if operation == DELETED:
                bits[places] |= np.uint8(OLD)
            else:
                bits[places] &= ~np.uint8(OLD)
        for table in self.views.values():
            for field in _LIST.values():
                table.set_places(field, _NOWHERE)

    def _too_many_rounds(self) -> LimitError:
        name, table = max(self.views.items(), key=lambda pair: pair[1].size)
        most = self._rules.max_rounds
        return LimitError(
            f"`{name}` was still growing after {most} rounds, with {table.size} rows",
            code="recursion-limit", help="limit the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip
