"""Views that are not maintained as stored rows: their changes, their rows, queries over them, by demand programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.spark.demand.demand_rounds import DemandRounds
from upshot.engine.spark.demand.in_driver import DemandInDriver
from upshot.engine.spark.demand.queries import Given
from upshot.engine.spark.storage.driver_copy import DriverMemory
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, in_driver, nothing, united
from upshot.engine.spark.storage.requests import FrameRequest, Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable, TableStatistics, differences, sifted
from upshot.engine.work import ViewWork
from upshot.plan.demand_plans import change_program, group_plans, groups_of, reason_not_computed
from upshot.plan.following import stored_in
from upshot.plan.program_plan import ProgramPlan
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.rewrite.demand.magic_sets import DemandQuery, query_clauses, query_views
from upshot.spark.types import column_names

Net = dict[str, tuple[Piece, Piece]]
"""For each view the inserted and the deleted rows."""

_MOST_PROGRAMS = 32
"""The most cached demand programs; the oldest is dropped."""

_EVERYTHING = LocalPiece.of([()], ())
"""The demand of a query without bound columns."""


Before = Callable[[str], Steps[Contents]]
"""The rows that a view had before the open definition, in its present shape."""


class OnDemandViews:
    """The views of a plan that are computed on demand, over the tables of stored relations."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, FrameTable], jobs: Jobs, limits: Limits, memory: DriverMemory
    ) -> None:
        self._plan, self._tables, self._limits = plan, tables, limits
        self._jobs, self._session, self._small = jobs, jobs.session, jobs.small
        self._programs: dict[object, DemandProgram] = {}
        self.several_turns = False
        """True if rules have several turns in the open transaction, for which more changes are computed."""
        self._questions: dict[object, DemandQuery] = {}
        components = [c for c in plan.components if c.views[0] in self.strategies]
        self.components = len(components)
        self.reads = frozenset(name for c in components for name in c.reads) - self.strategies.keys()
        """The stored relations that the views are derived from."""
        self._driver = DemandInDriver(plan, tables, self.reads, jobs, limits, memory)

    @property
    def strategies(self) -> Mapping[str, str]:
        return self._plan.on_demand.strategies

    @property
    def unstored(self) -> frozenset[str]:
        return self._plan.on_demand.unstored

    def release(self) -> None:
        """Release the rows in the driver."""
        self._driver.release()

    def is_reached(self) -> bool:
        """Test whether an input of the views changes, or an unstored view still has stored rows."""
        changed = any(self._tables[name].matters for name in self.reads)
        return changed or any(self._tables[view].committed.count for view in self.unstored)

    # ---- changes -------------------------------------------------------------------------------------------------

    def propagate(
        self,
        afresh: Collection[str],
        before: Before,
        following: DemandProgram | None,
        work: ViewWork,
        *,
        restores: bool,
    ) -> Steps[None]:
        """Settle the tables of the views. Those `afresh` are compared with the rows they had; `following`: the program
        by which all follow a change of their rules; `restores`: the other views have not changed."""
        started = time.perf_counter()
        found: Net = {}
        if not restores and self.strategies.keys() - set(afresh):
            found = yield from self.changes(afresh, following, work)
        for view, (inserted, deleted) in found.items():
            self._settle(view, inserted, deleted)
        shown = sorted(self._plan.source.schemas.keys() & set(afresh))
        rows = (yield from self._whole(shown, "new", work)) if shown else {}
        for view, piece in rows.items():
            contents, old = Contents.of(piece), (yield from before(view))
            inserted, deleted = yield from differences(old, contents, self._session)
            self._settle(view, inserted, deleted, contents)
        for view in self.unstored:
            table = self._tables[view]
            if table.pending is None and table.committed.count:
                table.settle(Contents(table.types), nothing(table.types), nothing(table.types))
        work.seconds += time.perf_counter() - started

    def _settle(self, view: str, inserted: Piece, deleted: Piece, contents: Contents | None = None) -> None:
        """The change of a view, and its stored copy after it, if it has one."""
        table = self._tables[view]
        if view in self.unstored:
            contents = Contents(table.types)
        elif contents is None:
            contents = table.committed.changed(deleted, inserted)
        table.settle(contents, inserted, deleted)

    def changes(self, afresh: Collection[str], following: DemandProgram | None, work: ViewWork) -> Steps[Net]:
        """The net insertions and deletions of the views, all but those `afresh`, that follow from the changes of the
        tables of stored relations, and of the rules if there are some for that."""
        reads = stored_in(following) if following is not None else set()
        views = [view for view in self.strategies if view in self._plan.source.schemas and view not in afresh]
        found = self._driver.run(lambda copy: copy.net_changes(views, afresh, following, work), reads)
        if found is None:
            found = yield from self._changes_by_rounds(afresh, following, work)
        work.inserted += sum(inserted.count for inserted, _ in found.values())
        work.deleted += sum(deleted.count for _, deleted in found.values())
        return {view: change for view, change in found.items() if change[0].count or change[1].count}

    def _changes_by_rounds(
        self, afresh: Collection[str], following: DemandProgram | None, work: ViewWork
    ) -> Steps[Net]:
        reads = self.reads if following is None else stored_in(following)
        signs = {name: self._signs(name) for name in sorted(reads) if self._tables[name].matters}
        program = following or self._program(signs, frozenset(afresh))
        given = {
            name: self._change(meaning.relation, meaning.state)
            for name, meaning in program.relations.items()
            if meaning.origin is RowOrigin.CHANGE and meaning.relation in signs
        }
        run = self._run(program, self._plan.normal.schemas)
        found: Net = {}
        try:
            yield from run.run(given)
            for view in program.views:
                if view in self._plan.source.schemas:
                    found[view] = self._net(run, view, "plus"), self._net(run, view, "minus")
        finally:
            run.release(piece for change in found.values() for piece in change)
        work.add(run.work)
        return found

    def _signs(self, name: str) -> frozenset[str]:
        return frozenset(sign for sign in ("ins", "del") if self._change(name, sign).count)

    def _change(self, name: str, sign: str) -> Piece:
        return self._tables[name].inserted if sign == "ins" else self._tables[name].deleted

    def _net(self, run: DemandRounds, view: str, state: str) -> Piece:
        name = run.program.net(view, state)
        return run.rows(name) if name is not None else nothing(self._tables[view].types)

    def _program(self, signs: Mapping[str, frozenset[str]], afresh: frozenset[str]) -> DemandProgram:
        key = (tuple(signs.items()), afresh, self.several_turns)
        program = self._programs.pop(key, None)
        if program is None:
            program = change_program(
                self._plan,
                self._limits.optimizations,
                changed=signs,
                redefined=afresh,
                several_turns=self.several_turns,
            )
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
        self._programs[key] = program
        return program

    def _run(
        self, program: DemandProgram, schemas: Mapping[str, Schema], tables: Mapping[str, FrameTable] | None = None
    ) -> DemandRounds:
        stored = tables if tables is not None else self._tables
        return DemandRounds(program, stored, schemas, self._jobs, self._limits)

    # ---- reading -------------------------------------------------------------------------------------------------

    def rows(self, view: str) -> Steps[Piece]:
        """All rows of a view before any open change."""
        found = yield from self._whole([view], "old", ViewWork())
        return found[view]

    def _whole(self, views: Iterable[str], state: str, work: ViewWork) -> Steps[dict[str, Piece]]:
        adornments = {view: "f" * len(self._tables[view].types) for view in views}
        return (yield from self._asked(adornments, dict.fromkeys(adornments, _EVERYTHING), state, work))

    def present(self, view: str, rows: Piece) -> Steps[int]:
        """The number of the rows that the view has; only rows needed to prove them are read."""
        found = yield from self._matching(view, range(len(rows.types)), rows, "old")
        there = yield from sifted(rows, Contents.of(found), self._session, present=True)
        return there.count

    def with_key(self, table: FrameTable, key: Sequence[int]) -> Steps[list[Row]]:
        """The rows of an unstored view after the open change that share a key with an inserted one; and some more."""
        view, columns = table.schema.name, sorted(key)
        types = tuple(table.types[column] for column in columns)
        keys = table.inserted.frame(self._session).select(*(f"c{c}" for c in columns)).distinct()
        (asked,) = yield [FrameRequest(keys.toDF(*column_names(len(types))), types)]
        found = yield from self._matching(view, columns, asked, "new")
        if not found.is_local:
            (found,) = yield [FrameRequest(found.frame(self._session), table.types, here=True)]
        return in_driver(found).rows

    def _matching(self, view: str, columns: Sequence[int], values: Piece, state: str) -> Steps[Piece]:
        """The rows of a view in a state that have one of these rows of values in these columns, and others found on the
        way. Columns in which a value is NULL stay free: bindings are joined, and joins never match NULL."""
        arity = len(self._tables[view].types)
        found: list[Piece] = []
        for known, some in (yield from self._by_nulls(values)):
            bound = {columns[place] for place in known}
            adornment = "".join("b" if column in bound else "f" for column in range(arity))
            answers = yield from self._asked({view: adornment}, {view: some}, state, ViewWork())
            found.append(answers[view])
        if len(found) == 1:
            return found[0]
        types = self._tables[view].types
        if all(piece.is_local for piece in found):
            return LocalPiece.of(dict.fromkeys(row for piece in found for row in in_driver(piece).rows), types)
        (piece,) = yield [FrameRequest(united([piece.frame(self._session) for piece in found]), types, repeats=True)]
        return piece

    def _by_nulls(self, values: Piece) -> Steps[list[tuple[list[int], Piece]]]:
        """The rows by the columns in which they are not NULL, with those columns alone; of rows in files, the columns
        that are not nullable."""
        types = values.types
        if not any(type.nullable for type in types):
            return [(list(range(len(types))), values)]
        if isinstance(values, LocalPiece):
            found: dict[tuple[int, ...], dict[Row, None]] = {}
            for row in values.rows:
                known = tuple(place for place, value in enumerate(row) if value is not None)
                found.setdefault(known, {})[tuple(row[place] for place in known)] = None
            return [(list(at), LocalPiece.of(rows, tuple(types[i] for i in at))) for at, rows in found.items()]
        known = tuple(place for place, type in enumerate(types) if not type.nullable)
        if not known:
            return [([], _EVERYTHING)]
        frame = values.frame(self._session).select(*(f"c{place}" for place in known)).distinct()
        kept = tuple(types[place] for place in known)
        (piece,) = yield [FrameRequest(frame.toDF(*column_names(len(kept))), kept)]
        return [(list(known), piece)]

    def reaches(self, clauses: Iterable[Clause]) -> bool:
        """Test whether a query reads views that are not stored."""
        names = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
        return not names.isdisjoint(self.unstored)

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], state: str, given: Given, helpers: Mapping[str, Schema]
    ) -> Steps[Piece]:
        """The rows that a query's clauses derive for its head in a state: magic sets over the definitions of unstored
        views and of the `helpers`, which the clauses define themselves."""
        names = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
        stored = names & self._plan.normal.schemas.keys() - self.strategies.keys()
        rows = self._driver.run(lambda copy: copy.answer(schema, clauses, state, given, helpers), stored)
        if rows is not None:
            return rows
        question, program = query_clauses(
            self._plan.normal, self.unstored, schema, clauses, state=state,
            inputs={name: known for name, (known, _) in given.items()}, helpers=helpers,
        )  # fmt: skip
        tables = dict(self._tables)
        for name, (known, piece) in given.items():
            tables[name] = FrameTable(known, self._session, small=self._small)
            tables[name].committed = Contents.of(piece)
        found = yield from self._answers(question, {}, ViewWork(), program.schemas, tables)
        return found[schema.name]

    def _asked(
        self, adornments: Mapping[str, str], bindings: Mapping[str, Piece], state: str, work: ViewWork
    ) -> Steps[dict[str, Piece]]:
        """The rows of views in a state that have one of the bindings, and others that were found on the way."""
        found = self._driver.run(lambda copy: copy.matching(adornments, bindings, state, work))
        if found is not None:
            return found
        key = (tuple(adornments.items()), state)
        if key not in self._questions:
            if len(self._questions) >= _MOST_PROGRAMS:
                self._questions.pop(next(iter(self._questions)))
            self._questions[key] = query_views(self._plan.normal, self.strategies, adornments, state)
        return (yield from self._answers(self._questions[key], bindings, work, self._plan.normal.schemas))

    def _answers(
        self, question: DemandQuery, bindings: Mapping[str, Piece], work: ViewWork, schemas: Mapping[str, Schema],
        tables: Mapping[str, FrameTable] | None = None,
    ) -> Steps[dict[str, Piece]]:  # fmt: skip
        run = self._run(question.program, schemas, tables)
        found: dict[str, Piece] = {}
        try:
            yield from run.run({question.bindings[view]: rows for view, rows in bindings.items()})
            found |= {view: run.rows(name) for view, name in question.answers.items()}
        finally:
            run.release(found.values())
        work.add(run.work)
        return found

    # ---- printing ------------------------------------------------------------------------------------------------

    def describe(self, view: str) -> str:
        """The rules of the last change, as they would run now, or why none follow it to the view."""
        if reason := reason_not_computed(self._plan, view, self._limits.optimizations):
            return reason
        where = self._driver.describe()
        if not self._programs:
            return f"{where}\nits rules are made when a change reaches it; `upshot rewrite` shows them all"
        program = list(self._programs.values())[-1]
        statistics = TableStatistics(self._tables, lambda name: None if name in self._tables else 0)
        lines = [where]
        for group in groups_of(program):
            gate = group.gate
            lines.append("as long as anything is new:" if gate is None else f"when all is quiet, gate {gate}:")
            plans = group_plans(program, group, statistics, memo=self._limits.optimizations.memo)
            lines += [f"  {line}" for plan in plans for line in str(plan).split("\n")]
        return "\n".join(lines)


class OnDemandTask:
    """The task of all views on demand in one attempt of a commit. It begins when their inputs are settled."""

    def __init__(
        self, views: OnDemandViews, afresh: Collection[str], before: Before, following: DemandProgram | None, *,
        restores: bool,
    ) -> None:  # fmt: skip
        self.views, self.work, self.began = views, ViewWork(), False
        self._afresh, self._before, self._following, self._restores = afresh, before, following, restores

    @property
    def defines(self) -> bool:
        """Test whether it is part of an open definition."""
        return bool(self._afresh) or self._following is not None or self._restores

    @property
    def reads(self) -> frozenset[str]:
        """The stored relations that it is derived from."""
        return self.views.reads.union(stored_in(self._following) if self._following is not None else ())

    def begin(self) -> Steps[None] | None:
        if not self._afresh and self._following is None and (self._restores or not self.views.is_reached()):
            return None
        self.began = True
        return self.views.propagate(self._afresh, self._before, self._following, self.work, restores=self._restores)
