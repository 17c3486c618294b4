"""Demand programs by rounds of joins: rules without a gate to their fixpoint, then the lowest gate with rows waiting.

Every round is one job for all rules that have something new to read, of any views and states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from upshot.core.errors import LimitError
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.spark.frames.aggregates import group_values
from upshot.engine.spark.frames.joins import within
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.rounds.derivations import new_rows
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, joined
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable, TableStatistics, sifted, spilled
from upshot.engine.work import ViewWork
from upshot.plan.demand_plans import DemandGroup, filters, group_plans, groups_of, waits_for
from upshot.plan.rule_plan import Change, RulePlan, State
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, RowOrigin
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.spark.types import framed
from upshot.syntax.ast import Atom


@dataclass(slots=True)
class _Pass:
    """A group of rules, and the number of new pieces of each relation that it has seen."""

    group: DemandGroup
    plans: list[RulePlan] | None = None
    seen: dict[str, int] = field(default_factory=dict)


_Due = tuple[Sequence[RulePlan], Sequence[DemandRule], dict[str, Piece]]
"""Rules and aggregates of a group, and the new rows that drive them."""


class DemandRounds:
    """One run of a demand program. The tables of stored relations are settled, and not changed."""

    def __init__(
        self, program: DemandProgram, tables: Mapping[str, FrameTable], schemas: Mapping[str, Schema],
        jobs: Jobs, limits: Limits,
    ) -> None:  # fmt: skip
        self.program, self.work = program, ViewWork()
        self._tables, self._limits, self._workspace = tables, limits, jobs.workspace
        self._session, self._small = jobs.session, jobs.small
        # Messages name the relation that the rows are about.
        about = {name: meaning.relation for name, meaning in program.relations.items()}
        self._schemas = {**schemas, **{n: replace(s, name=about[n]) for n, s in program.schemas.items()}}
        own = [name for name, meaning in program.relations.items() if meaning.origin is not RowOrigin.STORED]
        self._known = {name: Contents(program.schemas[name].types) for name in own}
        self._grown: dict[str, list[Piece]] = {name: [] for name in own}
        """The new rows of each relation of the rules, round by round."""
        self._windows: dict[str, Piece] = {}
        """The rows that drive the rules of the current round."""
        self._given: set[str] = set()
        results = {program.net(view, sign) for view in program.views for sign in ("plus", "minus")}
        passing = sorted((gate, name) for name, gate in program.last_read.items() if name in self._known)
        self._passing = [name for _, name in passing]
        self._leaving = deque((gate, name) for gate, name in passing if name not in results)
        self._filters = filters(program)

    # ---- running -------------------------------------------------------------------------------------------------

    def run(self, given: Mapping[str, Piece]) -> Steps[None]:
        """Derive all rows from the given rows of some relations of the rules."""
        for name, rows in given.items():
            self._given.update(rows.folders())
            yield from self._take(name, rows)
        groups = groups_of(self.program)
        free, *gates = (_Pass(group) for group in groups)
        order = waits_for(self.program, groups)
        seeds = [plan for plan in self._plans(free) if plan.driver is None]
        if seeds:
            yield from self._round([(seeds, (), {})])
        yield from self._fixpoint(free)
        while waiting := {each.group.gate: each for each in gates if self._waiting(each)}:
            yield from self._pass_by(min(gate for gate in waiting if gate is not None), [free, *gates])
            # Gates that cannot reach each other share a round.
            yield from self._advance(
                [each for gate, each in waiting.items() if gate is not None and order[gate].isdisjoint(waiting)]
            )
            yield from self._fixpoint(free)
        self._count()
        for name in self._filters:
            yield from self._count_potential(name)

    def _pass_by(self, gate: int, passes: Iterable[_Pass]) -> Steps[None]:
        """Drop the rows that no rule from this gate on reads, and count the others. Nothing waits at a lower gate, so
        all rules there have seen the dropped rows."""
        self._count_held()
        while self._leaving and self._leaving[0][0] < gate:
            _, name = self._leaving.popleft()
            if self._known[name].count:
                yield from self._count_potential(name)
                gone = self._folders(name)
                self._grown[name], self._known[name] = [], Contents(self._known[name].types)
                for each in passes:
                    each.seen.pop(name, None)
                self._workspace.drop(gone - self._given.union(*map(self._folders, self._known)))

    def _count_held(self) -> None:
        self.work.peak = max(self.work.peak, sum(self._known[name].count for name in self._passing))

    def _fixpoint(self, free: _Pass) -> Steps[None]:
        while self._waiting(free):
            yield from self._advance([free])

    def _advance(self, passes: Sequence[_Pass]) -> Steps[None]:
        """One round of some groups, driven by all rows that they have not seen."""
        due: list[_Due] = []
        for each in passes:
            windows = self._waiting(each)
            plans = [p for p in self._plans(each) if p.driver is not None and p.driver.match.relation in windows]
            folds = [fold for fold in each.group.folds if _groups_of(fold) in windows]
            due.append((plans, folds, windows))
            for name in windows:
                each.seen[name] = len(self._grown[name])
        yield from self._round(due)

    def _waiting(self, each: _Pass) -> dict[str, Piece]:
        found = {}
        for name in self._drivers(each):
            pieces = self._grown[name][each.seen.get(name, 0) :]
            if pieces:
                found[name] = joined(pieces, self._known[name].types)
        return found

    def _drivers(self, each: _Pass) -> list[str]:
        """The relations whose new rows the group waits for."""
        planned = [plan.driver.match.relation for plan in self._plans(each) if plan.driver is not None]
        return list(dict.fromkeys([*planned, *(_groups_of(fold) for fold in each.group.folds)]))

    def _plans(self, each: _Pass) -> list[RulePlan]:
        if each.plans is None:
            memo = self._limits.optimizations.memo
            each.plans = group_plans(self.program, each.group, TableStatistics(self._tables, self._size), memo=memo)
        return each.plans

    def _size(self, relation: str) -> int | None:
        return self._known[relation].count if relation in self._known else None

    # ---- rounds --------------------------------------------------------------------------------------------------

    def _round(self, due: Sequence[_Due]) -> Steps[None]:
        self.work.rounds += 1
        large = not all(isinstance(piece, LocalPiece) for _, _, windows in due for piece in windows.values())
        derived: dict[str, list[DataFrame]] = {}
        for plans, folds, self._windows in due:
            for plan in plans:
                derived.setdefault(plan.head, []).append(self._heads(plan, small=not large))
            for fold in folds:
                derived.setdefault(fold.clause.head.relation, []).append(self._folded(fold, small=not large))
        found = yield from new_rows(derived, self._known, self._session, self.work, large=large)
        for name, rows in found.items():
            yield from self._take(name, rows)
        if self.work.rounds > self._limits.max_rounds:
            raise self._too_many_rounds()

    def _take(self, name: str, rows: Piece) -> Steps[None]:
        if rows.count:
            self._grown[name].append(rows)
            contents = self._known[name].plus(rows)
            self._known[name] = yield from spilled(contents, self._small)

    def _heads(self, plan: RulePlan, *, small: bool) -> DataFrame:
        return heads(
            plan, self._read, self._drive, session=self._session, schemas=self._schemas,
            small=small and plan.driver is not None,
        )  # fmt: skip

    def _folded(self, rule: DemandRule, *, small: bool) -> DataFrame:
        """The values of the groups that wait, whose rows are all there."""
        fold = aggregate_of(rule.clause)
        assert fold is not None
        (rows,) = conjunction(fold.body)
        assert isinstance(rows, Atom)
        meaning = self.program.relations[rows.relation]
        if meaning.origin is RowOrigin.STORED:
            frame = self._read(meaning.relation, State.OLD if meaning.state == "old" else State.NEW)
        else:
            frame = self._read(rows.relation, State.NEW)
        groups = self._windows[_groups_of(rule)]
        if groups.types:
            frame = within(frame, groups.frame(self._session), groups.types, small=small)
        return group_values(rule.clause, self._schemas, frame)

    def _read(self, relation: str, state: State) -> DataFrame:
        if relation in self._known:
            return self._known[relation].frame(self._session, framed(self._known[relation].types))
        return self._tables[relation].frame(state)

    def _drive(self, relation: str, change: Change) -> DataFrame:
        return self._windows[relation].frame(self._session)

    def _too_many_rounds(self) -> LimitError:
        name = max(self._known, key=lambda each: self._known[each].count)
        about = self.program.relations[name].relation
        return LimitError(
            f"what `{about}` was asked for was still growing after {self._limits.max_rounds} rounds, "
            f"with {self._known[name].count} rows",
            code="recursion-limit", help="limit the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip

    # ---- results -------------------------------------------------------------------------------------------------

    def rows(self, name: str) -> Piece:
        """The rows of a relation of the rules."""
        return joined(self._grown[name], self._known[name].types)

    def _count(self) -> None:
        self._count_held()
        for name, meaning in self.program.relations.items():
            if meaning.origin is RowOrigin.BINDINGS:
                self.work.asked += self._known[name].count
            elif meaning.origin is RowOrigin.ANSWERS:
                self.work.answered += self._known[name].count

    def _count_potential(self, name: str) -> Steps[None]:
        """Count potential changes, if the relation has some, and the proofs that the rules started."""
        if name in self._filters:
            asked = self.rows(self._filters[name])
            put = yield from sifted(asked, self._known[name], self._session, present=True)
            self.work.potential += self._known[name].count
            self.work.questions += put.count
            self._workspace.drop(put.folders())

    def _folders(self, name: str) -> set[str]:
        """The directories of the rows of a relation of the rules."""
        found = {path for piece in self._grown[name] for path in piece.folders()}
        return found.union(self._known[name].folders())

    def release(self, keep: Iterable[Piece] = ()) -> None:
        """Remove the files of all derived rows except these pieces."""
        kept = self._given.union(*(piece.folders() for piece in keep))
        made = set[str]().union(*map(self._folders, self._known))
        self._workspace.drop(made - kept)


def _groups_of(fold: DemandRule) -> str:
    """The relation that lists the groups of an aggregate whose rows are complete."""
    groups = fold.clause.body[0]
    assert isinstance(groups, Atom)
    return groups.relation
