"""Deletions by backward/forward on the stored tables: state bits mark checked, proven and deleted rows.

A checked row leaves the new state and is marked as over-deleted; proven rows have a bit of their own. After a wave, the
checked rows that are not proven are deleted: they drive the next wave and then leave the old state too, so that no
search visits them again. At the end proven rows return to the new state, and all rows to the old state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from upshot.core.schema import Schema
from upshot.engine.local.components.phases import Phases
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import DEL, NEW, OLD, PROVEN, T_DEL, T_HI, T_LO, T_NDEL, T_NRED
from upshot.engine.local.storage.storage import Table
from upshot.engine.work import ViewWork
from upshot.plan.rule_plan import Change, RulePlan

_Ends = list[int]
"""A place in a list of each of the component's tables."""


class BackwardForward:
    """The deletion stage of one component; `plans` gives the rule plans of a stage."""

    def __init__(
        self, phases: Phases, runner: Runner, tables: Mapping[str, Table], schemas: Mapping[str, Schema],
        views: Sequence[str], reads: Sequence[str], plans: Callable[[str], list[RulePlan]],
    ) -> None:  # fmt: skip
        self._phases, self._runner, self._tables, self._schemas, self._plans = phases, runner, tables, schemas, plans
        self._reads = reads
        self._views = [(view, tables[view]) for view in views]
        self._numbered = {table.number: table for _, table in self._views}
        self._deleted = 0

    def run(self, work: ViewWork) -> None:
        """Delete the rows of the views that have no proof after the deletions below the component."""
        try:
            self._run("delete", work, resumed=False)
            done = [0] * len(self._views)
            while self._ends(T_NDEL) != done:
                done = self._wave(done, work)
        finally:
            self._end(work)

    def _wave(self, start: _Ends, work: ViewWork) -> _Ends:
        """Check the rows listed from `start` on; those that are not proven drive the next wave."""
        self._search(start, work)
        end = self._ends(T_NDEL)
        self._deleted = self._unproven()
        self._drive(start, end)
        self._run("delete", work)
        for (_, table), first, last in zip(self._views, start, end, strict=True):
            listed, bits = table.places(T_DEL)[first:last], table.bits()
            deleted = listed[(bits[listed] & PROVEN) == 0]
            bits[deleted] &= ~np.uint8(OLD)
        return end

    def _search(self, start: _Ends, work: ViewWork) -> None:
        """Search for proofs depth first, for all rows of the wave together: each unproven row checks one premise of a
        derivation, and the next one only if that proves nothing. When no premise is left, the search is complete: rows
        that are not proven have no proof."""
        end = self._ends(T_NDEL)
        self._prove(start, end, work)
        pending = [(start, end)]
        while pending and self._unproven() > self._deleted:
            self._drive(*pending[-1])
            before = self._ends(T_NDEL)
            self._run("check", work)
            after = self._ends(T_NDEL)
            if after == before:
                pending.pop()
                continue
            self._prove(before, after, work)
            pending.append((before, after))

    def _unproven(self) -> int:
        return sum(self._ends(T_NDEL)) - sum(self._ends(T_NRED))

    def _prove(self, start: _Ends, end: _Ends, work: ViewWork) -> None:
        """Prove rows in this part of the lists, and checked rows that follow from them."""
        before = self._ends(T_NRED)
        self._drive(start, end)
        self._run("prove", work, plans=self._first_proofs)
        after = self._ends(T_NRED)
        if after != before:
            self._drive(before, after)
            self._run("prove on", work, grows=Change.REDERIVED, plans=lambda: self._plans("prove"))

    def _first_proofs(self) -> list[RulePlan]:
        return [replace(plan, seed=False) for plan in self._plans("prove") if plan.seed]

    def _run(
        self, stage: str, work: ViewWork, *, resumed: bool = True, grows: Change | None = None,
        plans: Callable[[], list[RulePlan]] | None = None,
    ) -> None:  # fmt: skip
        made = plans if plans is not None else lambda: self._plans(stage)
        reads = (*(view for view, _ in self._views), *self._reads)
        phase = self._phases.phase(stage, made, self._tables, self._schemas, reads)
        if phase.count:
            self._runner.run(phase, self._views, grows, self._numbered, work, resumed=resumed)

    def _ends(self, field: int) -> _Ends:
        return [table.word(field) for _, table in self._views]

    def _drive(self, start: _Ends, end: _Ends) -> None:
        for (_, table), first, last in zip(self._views, start, end, strict=True):
            table.set(T_LO, first)
            table.set(T_HI, last)

    def _end(self, work: ViewWork) -> None:
        for _, table in self._views:
            listed, bits = table.places(T_DEL), table.bits()
            proven = listed[(bits[listed] & PROVEN) != 0]
            bits[listed] |= np.uint8(OLD)
            bits[proven] = OLD | NEW | DEL
            table.set(T_NRED, 0)
            work.asked += len(listed)
            work.answered += len(proven)
            work.deleted += len(listed) - len(proven)
