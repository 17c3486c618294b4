"""Demand programs on the kernel: rules without a gate to their fixpoint, then the lowest gate that has rows waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from upshot.core.schema import Schema
from upshot.engine.local.aggregates import AggregateView
from upshot.engine.local.assemble import Phase
from upshot.engine.local.codec import Codec
from upshot.engine.local.layout import NEW, OLD, T_HI, T_INS, T_LO, T_NINS, T_NRED
from upshot.engine.local.phases import Phases, TableStatistics
from upshot.engine.local.runner import Runner
from upshot.engine.local.storage import Storage, Table
from upshot.engine.work import ViewWork
from upshot.plan.demand_plans import Group, group_plans, groups_of
from upshot.plan.rule_plan import Change
from upshot.rewrite.demand import DemandProgram, DemandRule, Held
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.syntax.ast import Atom

Codes = NDArray[np.int64]


@dataclass(slots=True)
class _Pass:
    """A group of rules and how many rows of each driving relation it has seen."""

    group: Group
    drivers: tuple[str, ...]
    seen: dict[str, int] = field(default_factory=dict)
    folds: tuple[tuple[str, AggregateView, int], ...] = ()
    """Aggregates behind the gate: the relation of their groups, the fold, the state of the rows."""


class DemandRun:
    """A demand program with tables for all that is not stored; they are empty between two runs."""

    def __init__(
        self, program: DemandProgram, stored: Mapping[str, Table], schemas: Mapping[str, Schema], storage: Storage,
        codec: Codec, runner: Runner,
    ) -> None:  # fmt: skip
        self.program = program
        self._storage, self._codec, self._runner = storage, codec, runner
        self.own = {
            name: storage.create(program.schemas[name].arity)
            for name, meaning in program.relations.items()
            if meaning.held is not Held.STORED
        }
        self._stored = sorted({m.relation for m in program.relations.values() if m.held is Held.STORED})
        self._tables: dict[str, Table] = {**{name: stored[name] for name in self._stored}, **self.own}
        self._schemas = {
            **{name: schemas[name] for name in self._stored},
            **{name: program.schemas[name] for name in self.own},
        }
        self._numbered = {table.number: table for table in self.own.values()}
        self._phases = Phases(storage, codec)
        self._passes = [self._pass(group) for group in groups_of(program)]

    # ---- running -------------------------------------------------------------------------------------------

    def run(self, changes: Mapping[str, Codes]) -> ViewWork:
        """Everything the rules derive from the given rows of the relations that hold changes."""
        work = ViewWork()
        for name, codes in changes.items():
            insert_rows(self.own[name], codes)
        free, *gates = self._passes
        self._fixpoint(free, work, resumed=False)
        while any(self._open(each, work) for each in gates):
            self._fixpoint(free, work, resumed=True)
        self._count(work)
        return work

    def _fixpoint(self, each: _Pass, work: ViewWork, *, resumed: bool) -> None:
        if resumed and not self._set_windows(each):
            return
        own = list(self.own.items())
        phase = self._phase(each.group)
        work.add(self._runner.run(phase, own, Change.INSERTED, self._numbered, resumed=resumed))
        for name, table in own:
            each.seen[name] = table.word(T_NINS)

    def _open(self, each: _Pass, work: ViewWork) -> bool:
        """Let the rows that wait at a gate through; whether there were any."""
        waiting = self._set_windows(each)
        for groups, fold, mask in each.folds:
            table = self.own[groups]
            first, end = each.seen.get(groups, 0), table.word(T_NINS)
            if first < end:
                waiting = True
                insert_rows(fold.table, fold.folded(table.listed(T_INS)[first:end], mask))
        if not waiting:
            return False
        if each.group.rules:
            work.add(self._runner.run(self._phase(each.group), (), None, self._numbered, resumed=True))
        for name in each.drivers:
            each.seen[name] = self.own[name].word(T_HI)
        return True

    def _set_windows(self, each: _Pass) -> bool:
        """The rows that a pass has not seen become the driving rows of its first round; whether there are any."""
        found = False
        for name in each.drivers:
            table = self.own[name]
            first, end = each.seen.get(name, 0), table.word(T_NINS)
            table.set(T_LO, first)
            table.set(T_HI, end)
            found = found or first < end
        return found

    def _phase(self, group: Group) -> Phase:
        return self._phases.phase(
            str(group.gate),
            lambda: group_plans(self.program, group, TableStatistics(self._tables)),
            self._tables,
            self._schemas,
            self._stored,
        )

    def _pass(self, group: Group) -> _Pass:
        if group.gate is None:
            return _Pass(group, tuple(self.own))
        first = [rule.clause.body[0] for rule in (*group.rules, *group.folds)]
        drivers = dict.fromkeys(literal.relation for literal in first if isinstance(literal, Atom))
        return _Pass(group, tuple(drivers), folds=tuple(map(self._fold, group.folds)))

    def _fold(self, rule: DemandRule) -> tuple[str, AggregateView, int]:
        clause = rule.clause
        fold = aggregate_of(clause)
        assert fold is not None
        groups, (rows,) = clause.body[0], conjunction(fold.body)
        assert isinstance(groups, Atom)
        assert isinstance(rows, Atom)
        meaning = self.program.relations[rows.relation]
        is_stored = meaning.held is Held.STORED
        source = meaning.relation if is_stored else rows.relation
        mask = OLD if is_stored and meaning.state == "old" else NEW
        head = clause.head.relation
        view = AggregateView(
            clause, self._schemas[head], self._schemas[source], self.own[head], self._tables[source], self._codec
        )
        return groups.relation, view, mask

    def _count(self, work: ViewWork) -> None:
        for name, meaning in self.program.relations.items():
            if meaning.held is Held.ASKED:
                work.asked += self.own[name].size
            elif meaning.held is Held.ANSWERS:
                work.answered += self.own[name].size

    # ---- results -------------------------------------------------------------------------------------------

    def rows(self, name: str) -> Codes:
        """The rows of a relation of the rules, as a copy."""
        return self.own[name].listed(T_INS)

    @property
    def capacity(self) -> int:
        """The rows that its tables have room for."""
        return sum(table.capacity for table in self.own.values())

    def clear(self) -> None:
        """Forget what was derived."""
        for table in self.own.values():
            if table.word(T_NINS):
                table.wipe()
        for each in self._passes:
            each.seen.clear()

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the rules."""
        yield from self._phases.texts()
        for each in self._passes:
            for _, fold, _ in each.folds:
                yield from fold.texts()

    def describe(self) -> str:
        lines = []
        for each in self._passes:
            gate = each.group.gate
            lines.append("as long as anything is new:" if gate is None else f"when all is quiet, gate {gate}:")
            plans = group_plans(self.program, each.group, TableStatistics(self._tables))
            lines += [f"  {line}" for plan in plans for line in str(plan).split("\n")]
        return "\n".join(lines)

    def release(self) -> None:
        self._phases.release()
        for table in self.own.values():
            self._storage.drop(table)


def insert_rows(table: Table, codes: Codes) -> None:
    """Put rows into a table whose list of inserted rows is read while it grows."""
    if len(codes):
        table.stage(codes, insert=True)
        table.settle()
        table.set(T_NRED, 0)
