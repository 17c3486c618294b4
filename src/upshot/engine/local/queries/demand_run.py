"""Demand programs on the kernel: rules without a gate to their fixpoint, then the lowest gate with waiting rows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from upshot.core.schema import Schema
from upshot.engine.local.components.aggregates import AggregateView
from upshot.engine.local.components.assemble import Phase
from upshot.engine.local.components.phases import LocalStatistics, Phases
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import NEW, OLD, T_HI, T_INS, T_LIVE, T_LO, T_NINS, T_NRED, T_NSLOTS, TABLE_WORDS
from upshot.engine.local.storage.storage import Storage, Table
from upshot.engine.work import ViewWork
from upshot.plan.demand_plans import DemandGroup, filters, group_plans, groups_of
from upshot.plan.rule_plan import Change
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, RowOrigin
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.syntax.ast import Atom

Codes = NDArray[np.int64]

_MOST_ROOM, _MOST_ROOM_EACH = 1 << 18, 1 << 9
"""The number of rows for which a program may keep room between two runs, and the addition for each table: making a
table again takes as long as deriving some hundred rows."""


@dataclass(slots=True)
class _DemandPass:
    """A group of rules, the places of its driving tables, and the number of rows of each that it has processed."""

    group: DemandGroup
    places: NDArray[np.int64]
    seen: NDArray[np.int64]
    folds: tuple[tuple[str, AggregateView, int], ...] = ()
    """The aggregates of the gate: the relation of their groups, the fold, the state of the rows."""


class _Tables:
    """Words of many tables, read and written in one step: most tables stay empty in most runs."""

    def __init__(self, storage: Storage, tables: Iterable[Table]) -> None:
        self._storage = storage
        self.numbers = np.array([table.number for table in tables], np.int64)
        self._words = ctypes.c_int64 * (TABLE_WORDS * (int(self.numbers.max(initial=0)) + 1))

    def _described(self) -> NDArray[np.int64]:
        memory = self._words.from_address(self._storage.tables)
        return np.frombuffer(memoryview(memory), np.int64).reshape(-1, TABLE_WORDS)

    def words(self, field: int) -> NDArray[np.int64]:
        """One word of every table."""
        found: NDArray[np.int64] = self._described()[self.numbers, field]
        return found

    def set_windows(
        self, places: NDArray[np.int64], first: NDArray[np.int64] | int, end: NDArray[np.int64] | int
    ) -> None:
        """Set the rows that drive the next round, for the tables at these places."""
        described, numbers = self._described(), self.numbers[places]
        described[numbers, T_LO] = first
        described[numbers, T_HI] = end


class DemandRun:
    """A demand program with tables for all relations that are not stored; they are empty between two runs."""

    def __init__(
        self, program: DemandProgram, stored: Mapping[str, Table], schemas: Mapping[str, Schema], runner: Runner, *,
        memo: bool = True,
    ) -> None:  # fmt: skip
        self.program, self._memo = program, memo
        self._storage, self._runner = runner.storage, runner
        self.own = {
            name: runner.storage.create(program.schemas[name].arity)
            for name, meaning in program.relations.items()
            if meaning.origin is not RowOrigin.STORED
        }
        self._stored = sorted({m.relation for m in program.relations.values() if m.origin is RowOrigin.STORED})
        self._tables: dict[str, Table] = {**{name: stored[name] for name in self._stored}, **self.own}
        self._schemas = {
            **{name: schemas[name] for name in self._stored},
            # Messages name the relation that the rows are about.
            **{name: replace(program.schemas[name], name=program.relations[name].relation) for name in self.own},
        }
        self._numbered = {table.number: table for table in self.own.values()}
        self._phases = Phases(runner.storage, runner.codec)
        self._own = list(self.own.items())
        self._all = _Tables(runner.storage, self.own.values())
        self._places = {name: place for place, name in enumerate(self.own)}
        held = [program.relations[name].origin for name in self.own]
        self._bindings = np.array([each is RowOrigin.BINDINGS for each in held], np.bool_)
        self._answers = np.array([each is RowOrigin.ANSWERS for each in held], np.bool_)
        self._set_passes(groups_of(program))
        results = {program.net(view, sign) for view in program.views for sign in ("plus", "minus")}
        self._leaving = sorted((gate, name) for name, gate in program.last_read.items() if name in self.own)
        self._passing = np.array([self._places[name] for _, name in self._leaving], np.int64)
        self._leaving = [(gate, name) for gate, name in self._leaving if name not in results]
        self._left = 0
        self._filters = filters(program)

    # ---- running -------------------------------------------------------------------------------------------

    def run(self, changes: Mapping[str, Codes]) -> ViewWork:
        """Derive everything from these rows of the relations of changes; return the work."""
        work = ViewWork()
        for name, codes in changes.items():
            insert_rows(self.own[name], codes)
        self._fixpoint(work, resumed=False)
        while self._open_lowest(work):
            self._fixpoint(work, resumed=True)
        if len(self._passing):
            work.peak = max(work.peak, int(self._all.words(T_LIVE)[self._passing].sum()))
        work.asked, work.answered = self._counted()
        for name in self._filters:
            self._count_potential(name, work)
        return work

    def _fixpoint(self, work: ViewWork, *, resumed: bool) -> None:
        """Run the rules without a gate to their fixpoint."""
        if resumed:
            lengths = self._all.words(T_NINS)
            if not np.any(self._free.seen < lengths):
                return
            self._all.set_windows(self._free.places, self._free.seen, lengths)
        phase, numbers = self._phase(self._free.group), self._all.numbers
        self._runner.run(phase, self._own, Change.INSERTED, self._numbered, work, resumed=resumed, numbers=numbers)
        self._free.seen[:] = self._all.words(T_NINS)

    def _open_lowest(self, work: ViewWork) -> bool:
        """Process the rows that wait at the lowest gate with waiting rows; return whether there were any."""
        waiting = np.flatnonzero(self._gate_seen < self._all.words(T_NINS)[self._gate_places])
        if not len(waiting):
            return False
        each = self._gates[self._gate_of[waiting[0]]]
        self._pass_by(each.group, work)
        lengths = self._all.words(T_NINS)[each.places]
        for groups, fold, mask in each.folds:
            place = int(np.flatnonzero(each.places == self._places[groups])[0])
            first, end = int(each.seen[place]), int(lengths[place])
            if first < end:
                insert_rows(fold.table, fold.folded(self.own[groups].listed(T_INS)[first:end], mask))
        if each.group.rules:
            self._all.set_windows(each.places, each.seen, lengths)
            self._runner.run(self._phase(each.group), (), None, self._numbered, work, resumed=True)
        each.seen[:] = lengths
        return True

    def _pass_by(self, group: DemandGroup, work: ViewWork) -> None:
        """Drop relations that no rule from this gate on reads, and update the peak."""
        if not len(self._passing):
            return
        work.peak = max(work.peak, int(self._all.words(T_LIVE)[self._passing].sum()))
        assert group.gate is not None
        while self._left < len(self._leaving) and self._leaving[self._left][0] < group.gate:
            name = self._leaving[self._left][1]
            self._left += 1
            if self.own[name].word(T_NINS):
                self._count_potential(name, work)
                self.own[name].wipe()
                place = self._places[name]
                self._all.set_windows(np.array([place]), 0, 0)
                self._free.seen[place] = 0
                self._gate_seen[self._gate_places == place] = 0

    def _phase(self, group: DemandGroup) -> Phase:
        return self._phases.phase(
            str(group.gate),
            lambda: group_plans(self.program, group, LocalStatistics(self._tables), memo=self._memo),
            self._tables,
            self._schemas,
            self._stored,
        )

    def _set_passes(self, groups: Sequence[DemandGroup]) -> None:
        """Lay out the counts of all gates in one array, in order, so that one comparison finds waiting rows."""
        free, *gates = groups
        drivers = [self._drivers(group) for group in gates]
        self._free = _DemandPass(free, np.arange(len(self.own)), np.zeros(len(self.own), np.int64))
        self._gate_of = [number for number, names in enumerate(drivers) for _ in names]
        self._gate_places = np.array([self._places[name] for names in drivers for name in names], np.int64)
        self._gate_seen = np.zeros(len(self._gate_places), np.int64)
        ends = list(accumulate((len(names) for names in drivers), initial=0))
        self._gates = [
            _DemandPass(group, self._gate_places[a:b], self._gate_seen[a:b], tuple(map(self._fold, group.folds)))
            for group, a, b in zip(gates, ends, ends[1:], strict=False)
        ]

    def _drivers(self, group: DemandGroup) -> list[str]:
        first = [rule.clause.body[0] for rule in (*group.rules, *group.folds)]
        return list(dict.fromkeys(literal.relation for literal in first if isinstance(literal, Atom)))

    def _fold(self, rule: DemandRule) -> tuple[str, AggregateView, int]:
        clause = rule.clause
        fold = aggregate_of(clause)
        assert fold is not None
        groups, (rows,) = clause.body[0], conjunction(fold.body)
        assert isinstance(groups, Atom)
        assert isinstance(rows, Atom)
        meaning = self.program.relations[rows.relation]
        is_stored = meaning.origin is RowOrigin.STORED
        source = meaning.relation if is_stored else rows.relation
        mask = OLD if is_stored and meaning.state == "old" else NEW
        head = clause.head.relation
        view = AggregateView(
            clause, self._schemas[head], self._schemas[source], self.own[head], self._tables[source], self._runner.codec
        )
        return groups.relation, view, mask

    def _count_potential(self, name: str, work: ViewWork) -> None:
        """Count the potential changes in a relation, if it has such, and those that rules had to test."""
        potential = self.own[name]
        if name in self._filters and potential.word(T_NINS):
            work.potential += potential.word(T_NINS)
            work.questions += int(np.count_nonzero(potential.row_numbers(self.rows(self._filters[name]), NEW) >= 0))

    def _counted(self) -> tuple[int, int]:
        """The numbers of queried bindings and of answers."""
        sizes = self._all.words(T_LIVE)
        return int(sizes[self._bindings].sum()), int(sizes[self._answers].sum())

    # ---- results -------------------------------------------------------------------------------------------

    def rows(self, name: str) -> Codes:
        """The rows of a relation of the rules, as a copy."""
        table = self.own[name]
        return table.listed(T_INS) if table.word(T_NINS) else np.empty((0, table.arity), np.int64)

    @property
    def capacity(self) -> int:
        """The rows for which its tables have slots."""
        return int(self._all.words(T_NSLOTS).sum()) * 7 // 10

    @property
    def is_oversized(self) -> bool:
        """Test whether its tables have far more room than most changes need. A program with many tables takes longer to
        make, so it may keep more room."""
        return self.capacity > _MOST_ROOM + _MOST_ROOM_EACH * len(self._own)

    def clear(self) -> None:
        """Drop all derived rows."""
        for place in np.flatnonzero(self._all.words(T_NINS)).tolist():
            self._own[place][1].wipe()
        self._all.set_windows(self._free.places, 0, 0)
        self._free.seen[:] = 0
        self._gate_seen[:] = 0
        self._left = 0

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the rules."""
        yield from self._phases.texts()
        for each in self._gates:
            for _, fold, _ in each.folds:
                yield from fold.texts()

    def describe(self) -> str:
        lines = []
        for each in (self._free, *self._gates):
            gate = each.group.gate
            lines.append("as long as anything is new:" if gate is None else f"when all is quiet, gate {gate}:")
            plans = group_plans(self.program, each.group, LocalStatistics(self._tables), memo=self._memo)
            lines += [f"  {line}" for plan in plans for line in str(plan).split("\n")]
        return "\n".join(lines)

    def release(self) -> None:
        self._phases.release()
        for table in self.own.values():
            self._storage.drop(table)


def insert_rows(table: Table, codes: Codes) -> None:
    """Insert rows into a table whose list of inserted rows is read while it grows."""
    if len(codes):
        table.stage(codes, insert=True)
        table.settle()
        table.reserve(0)  # now the rows count as inserted, so there is less room in the list
        table.set(T_NRED, 0)
