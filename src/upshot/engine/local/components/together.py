"""Update views that do not depend on themselves or on one another in one run of the kernel.

A commit that reaches eighty constraints does little work for each of them; in separate runs, the start of a run would
take most of the time. The plans are in the order of the stages, so that deletion ends before rederivation starts;
without recursion each plan runs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upshot.core.schema import Schema
from upshot.engine.local.components.assemble import Phase
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.phases import Phases, Sizes, are_near, sizes_of
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import (
    P_CODE,
    P_PROBED,
    P_SEED,
    PLAN_WORDS,
    T_NDEL,
    T_NINS,
    T_NRED,
)
from upshot.engine.local.storage.storage import Table, places_of
from upshot.engine.work import ViewWork
from upshot.plan.rule_plan import RulePlan

FEWEST = 4
"""The minimum number of components for a shared run; fewer suffice if they are half of their group."""

MOST = 96
"""The maximum number of members of a group. Their plans are assembled together, again when a relation that one of them
reads has outgrown its plan, and every run visits all of them; the Python code that starts a run is the same for any
number."""


@dataclass(slots=True)
class _Laid:
    """The plans of a phase in its table: the words of each plan, its seed flag, the member that owns it, and the first
    plan of each member (not for members after the last plan). `due` are the members whose plans run now; `marks` has
    room for the counters at the start of each member and at the end."""

    phase: Phase
    words: NDArray[np.int64]
    seeds: NDArray[np.int64]
    owners: NDArray[np.int64]
    starts: NDArray[np.int64]
    marks: NDArray[np.int64]
    due: list[int]


class Together:
    """A group of components of one level that are maintained by rules and not recursive."""

    def __init__(
        self,
        members: Sequence[LocalComponent],
        tables: Mapping[str, Table],
        schemas: Mapping[str, Schema],
        runner: Runner,
    ) -> None:
        self._number = {member.names: number for number, member in enumerate(members)}
        self._members, self._tables, self._schemas, self._runner = members, tables, schemas, runner
        self._phases = Phases(runner.storage, runner.codec)
        self._views = [view for member in members for view in member.views]
        self._numbered = {table.number: table for _, table in self._views}
        self._storage = runner.storage
        self._lengths = places_of((table for _, table in self._views), T_NDEL, T_NRED, T_NINS).reshape(-1, 3)
        """The addresses of the numbers of listed rows, a row for each view."""
        self._firsts = np.cumsum([0, *(len(member.views) for member in members[:-1])])
        """The place of each member's first view among all."""
        self._reads = tuple(dict.fromkeys(name for member in members for name in member.read_or_written))
        self._planned: list[tuple[list[RulePlan], Sizes]] = [([], [])] * len(members)
        """The plans of each member, with the sizes that they were made for."""
        self._laid: _Laid | None = None

    def is_worth_it(self, due: int) -> bool:
        """Test whether that many members are enough for a shared run."""
        return due >= FEWEST or 1 < due >= len(self._members) / 2

    def propagate(self, due: Sequence[LocalComponent]) -> tuple[list[ViewWork], ViewWork, list[LocalComponent]]:
        """Update these members. Return the work of each, the total, and the members with touched rows. The time is
        divided by the numbers of rows looked up or derived."""
        # A dense table without a cell for a code makes a run start again, which would count derivations twice.
        for member in due:
            for _, table in member.views:
                if table.cells is not None:
                    table.spread()
        laid, total = self._lay_out(), ViewWork()
        numbers = [self._number[component.names] for component in due]
        self._choose(laid, numbers)
        self._runner.run(laid.phase, self._views, None, self._numbered, total)
        counted, is_touched = self._counted(laid, total)[numbers], self._touched()[numbers]
        each = total.seconds / (total.probed + total.derived + len(due))
        # Members without work share one record of counters.
        works = [ViewWork(rounds=total.rounds, seconds=each)] * len(due)
        touched, active = [], np.flatnonzero(counted.any(axis=1) | is_touched)
        for place, counters in zip(active.tolist(), counted[active].tolist(), strict=True):
            component = due[place]
            work = works[place] = ViewWork(rounds=total.rounds)
            work.probed, work.matched, work.derived, changed = counters
            work.filtered = work.derived - changed
            work.seconds = each * (work.probed + work.derived + 1)
            component.was_loaded = False
            if is_touched[place]:
                component.end_shared(work)
                total.rederived += work.rederived
                total.inserted += work.inserted
                total.deleted += work.deleted
                touched.append(component)
        total.rounds *= len(due)
        return works, total, touched

    def _choose(self, laid: _Laid, numbers: list[int]) -> None:
        """Let the plans of these members run, and no others."""
        if numbers != laid.due:
            chosen = np.zeros(len(self._members), np.int64)
            chosen[numbers] = 1
            laid.words[:, P_SEED] = laid.seeds * chosen[laid.owners]
            laid.due = numbers

    def _counted(self, laid: _Laid, total: ViewWork) -> NDArray[np.int64]:
        """The work of the plans of each member: rows probed, matched, derived and changed."""
        begun = len(laid.starts)
        laid.marks[:begun] = laid.words[laid.starts, P_PROBED:]
        laid.marks[begun:] = total.probed, total.matched, total.derived, total.derived - total.filtered
        return laid.marks[1:] - laid.marks[:-1]

    def _touched(self) -> NDArray[np.bool_]:
        """For each member whether a row of it was touched."""
        listed = self._storage.words_at(self._lengths).any(axis=1)
        return np.logical_or.reduceat(listed, self._firsts)

    def _lay_out(self) -> _Laid:
        phase = self._phases.phase("all stages", self._plans, self._tables, self._schemas, self._reads)
        if self._laid is None or self._laid.phase is not phase:
            words = phase.table.view(np.int64, phase.count * PLAN_WORDS).reshape(phase.count, PLAN_WORDS)
            codes = [start for start, _ in phase.origin] + [np.iinfo(np.int64).max]
            firsts = np.cumsum([0, *(len(plans) for plans, _ in self._planned)])
            starts = np.searchsorted(words[:, P_CODE], np.array(codes, np.int64)[firsts])
            owners = np.repeat(np.arange(len(self._members)), np.diff(starts))
            marks = np.zeros((len(starts), PLAN_WORDS - P_PROBED), np.int64)
            self._laid = _Laid(phase, words, words[:, P_SEED].copy(), owners, starts[starts < phase.count], marks, [])
        return self._laid

    def _plans(self) -> list[RulePlan]:
        """The plans of all members; those of members whose relations have not drifted are kept."""
        for number, member in enumerate(self._members):
            plans, sizes = self._planned[number]
            if not sizes or not are_near(sizes, self._storage):
                plans = [plan for stage in member.plan.strategy.stages for plan in member.plans(stage)]
                self._planned[number] = plans, sizes_of(member.read_or_written, self._tables)
        return [plan for plans, _ in self._planned for plan in plans]

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the rules."""
        return self._phases.texts()

    def release(self) -> None:
        self._laid = None
        self._phases.release()
