"""Views without stored rows: their changes, their rows and queries over them, by demand programs.

`StartedViews` computes their rows by production rules: `start` rules insert the first rows into temporary tables.
[Ceri & Widom 1994]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.optimizations import Optimizations
from upshot.core.schema import Schema
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel.layout import NEW, T_DEL, T_INS, T_NDEL, T_NINS, T_NRED
from upshot.engine.local.queries.demand_run import DemandRun, insert_rows
from upshot.engine.local.queries.queries import LocalQuery
from upshot.engine.local.storage.codec import null_code
from upshot.engine.local.storage.storage import Table, difference
from upshot.engine.work import ViewWork
from upshot.plan.cost import Decision, Experience, Situation, decide
from upshot.plan.demand_plans import change_program, reason_not_computed
from upshot.plan.program_plan import ProgramPlan
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.rewrite.demand.magic_sets import DemandQuery, query_views
from upshot.syntax.ast import Atom, Variable, Wildcard

Codes = NDArray[np.int64]
Change = tuple[Codes, Codes]


_LISTS = {"ins": T_INS, "del": T_DEL}
_MOST_RUNS = 32
"""The maximum number of cached demand programs; the oldest is dropped."""


class LocalOnDemandViews:
    """The views of a plan that are computed on demand, over the stored relations."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, Table], runner: Runner, optimizations: Optimizations
    ) -> None:
        self._plan, self._tables, self._runner, self._optimizations = plan, tables, runner, optimizations
        self._following: DemandProgram | None = None
        self._found: Mapping[str, Change] = {}
        """The changes of the last propagation."""
        self.several_turns = False
        """True if active rules have several turns in the open transaction; then more changes can trigger them."""
        self.started = StartedViews(plan, tables, runner)
        self._runs: dict[object, DemandRun] = {}
        self._queries: dict[tuple[str, str, str], DemandQuery] = {}
        self._experience = Experience()

    @property
    def strategies(self) -> Mapping[str, str]:
        return self._plan.on_demand.strategies

    @property
    def unstored(self) -> frozenset[str]:
        return self._plan.on_demand.unstored

    def follow_rules(self, program: DemandProgram | None) -> None:
        """Set the rules by which the next `propagate` follows a change of rules; None: no such rules."""
        self._following = program

    @property
    def copied(self) -> frozenset[str]:
        """The views with a stored copy, and those whose copy the open definition removes."""
        former = frozenset(view for view in self.unstored if self._tables[view].size)
        return self._plan.on_demand.kept | former

    # ---- changes -------------------------------------------------------------------------------------------

    def propagate(self, changed: Collection[str], redefined: Mapping[str, Codes]) -> tuple[dict[str, Change], ViewWork]:
        """Compute the net changes of all views and update stored copies. `redefined` maps redefined views to their rows
        before, which are compared with the new ones."""
        found: dict[str, Change] = {}
        work = ViewWork()
        situation = self._situation(changed)
        decision = self._decision(situation)
        if decision.recompute and self._following is None:
            shown = self.strategies.keys() & self._plan.source.schemas.keys() - redefined.keys()
            redefined = {**{view: self.rows(view, work=work) for view in shown}, **redefined}
        elif not self.strategies.keys() <= redefined.keys():
            found, work = self.changes(changed, redefined)
            self._experience.followed(situation, work.probed + work.derived)
            for view in found.keys() & self._plan.on_demand.kept:
                plus, minus = found[view]
                self._tables[view].stage(minus, insert=False)
                self._tables[view].stage(plus, insert=True)
                self._tables[view].settle()
        shown = {view for view in redefined.keys() & self._plan.source.schemas.keys() if self.reports(view)}
        rows = {view: self.rows(view, "new", work=work) for view in shown}
        for view in shown:
            found[view] = difference(rows[view], redefined[view])
            self._replace(view, rows[view])
        for view in redefined.keys() - shown:
            self._replace(view, redefined[view])
        if decision.recompute and shown:
            self._experience.computed(situation.read + situation.view_rows, work.probed + work.derived)
        work.decision = str(decision)
        self._found = found
        return found, work

    def reports(self, view: str) -> bool:
        """Test whether changes of the view are computed: they are reported, or change its stored copy."""
        if view in self.copied or not self._optimizations.event_paths:
            return True
        return view in self._plan.needed_changes(several_turns=self.several_turns)

    def forget_changes(self) -> None:
        """Forget the changes of the last propagation, since its transaction continues."""
        self._found = {}

    def _decision(self, situation: Situation) -> Decision:
        """Decide whether to follow the change, or to compute both states and compare them. Without experience, only
        changes of more than half of the rows are recomputed."""
        policies = {self._plan.strategies[view].policy for view in self.strategies}
        if policies == {"full"}:
            return replace(decide("incremental", situation, self._experience), recompute=True, reason="policy full")
        policy = next(each for each in ("strict", "incremental", "auto") if each in policies)
        if policy == "auto" and self._experience.per_row is None and 2 * situation.changed <= situation.read:
            reason = "less than half changed, and what computing all takes is not known yet"
            return replace(decide("incremental", situation, self._experience), reason=reason)
        return decide(policy, situation, self._experience)

    def _situation(self, changed: Collection[str]) -> Situation:
        """The situation, with the number of rows in the changed relations as an estimate for that in the views."""
        tables = [self._tables[name] for name in changed]
        inserted = sum(table.word(T_INS + 1) for table in tables)
        deleted = sum(table.word(T_DEL + 1) for table in tables)
        rows = sum(table.size for table in tables)
        return Situation(inserted, deleted, rows, rows)

    def compute(self, views: Collection[str]) -> None:
        """Fill the stored copies of these views."""
        for view in views:
            self._replace(view, self.rows(view, "new"))

    def _replace(self, view: str, rows: Codes) -> None:
        """Replace the stored copy; a copy that is no longer stored is emptied."""
        table, is_kept = self._tables[view], view in self._plan.on_demand.kept
        if table.size or is_kept:
            table.retract_all(as_view=False)
            if is_kept:
                table.stage(rows, insert=True)
            table.settle()

    @property
    def follows_rules(self) -> bool:
        """Test whether the views follow the open definition by rules."""
        return self._following is not None

    def changes(self, changed: Collection[str], redefined: Collection[str]) -> tuple[dict[str, Change], ViewWork]:
        """The net insertions and deletions of the views not in `redefined`, from the staged changes of stored
        relations."""
        signs = {
            name: frozenset(sign for sign, field in _LISTS.items() if self._tables[name].word(field + 1))
            for name in sorted(changed)
        }
        following, self._following = self._following, None
        several = self.several_turns
        run = self._run(
            ("rules",) if following is not None else ("changes", tuple(signs.items()), frozenset(redefined), several),
            lambda: (
                following
                or change_program(
                    self._plan, self._optimizations, changed=signs, redefined=redefined, several_turns=several
                )
            ),
        )
        inputs = {
            name: self._tables[meaning.relation].listed(_LISTS[meaning.state])
            for name, meaning in run.program.relations.items()
            if meaning.origin is RowOrigin.CHANGE and meaning.relation in signs
        }
        try:
            work = run.run(inputs)
            found = {view: self._net(run, view) for view in run.program.views if view in self._plan.source.schemas}
        finally:
            self._clear(run)
            if ("rules",) in self._runs:
                self._runs.pop(("rules",)).release()
        work.inserted = sum(len(plus) for plus, _ in found.values())
        work.deleted = sum(len(minus) for _, minus in found.values())
        return {view: change for view, change in found.items() if len(change[0]) or len(change[1])}, work

    def _net(self, run: DemandRun, view: str) -> Change:
        nothing = np.empty((0, self._plan.normal.schemas[view].arity), np.int64)
        names = (run.program.net(view, "plus"), run.program.net(view, "minus"))
        plus, minus = (run.rows(name) if name is not None else nothing for name in names)
        return plus, minus

    # ---- reading -------------------------------------------------------------------------------------------

    def rows(self, view: str, state: str = "old", *, work: ViewWork | None = None) -> Codes:
        """All rows of a view in a state."""
        if self.started.can_give(view, state):
            return self.started.rows(view, work)
        arity = self._plan.normal.schemas[view].arity
        return self.rows_for(view, "f" * arity, np.empty((1, 0), np.int64), state, work=work)

    def has(self, view: str, codes: Codes) -> NDArray[np.bool_]:
        """Test which of the rows are in the view; only rows needed to prove them are computed."""
        found = self.matching(view, range(codes.shape[1]), codes)
        there = set(map(tuple, found.tolist()))
        return np.fromiter((tuple(row) in there for row in codes.tolist()), np.bool_, len(codes))

    def matching(self, view: str, columns: Sequence[int], values: Codes, state: str = "old") -> Codes:
        """The rows of a view in a state that have, in these columns, one of these rows of values, and other rows
        computed for them. Columns in which a value is NULL are not bound: bindings are joined, and NULL never joins."""
        types = self._plan.normal.schemas[view].types
        missing = np.zeros(values.shape, np.bool_)
        for place, type in enumerate(types[column] for column in columns):
            if type.nullable:
                missing[:, place] = values[:, place] == null_code(type)
        if not missing.any():
            return self.rows_for(view, self._adornment(view, columns), values, state)
        found = []
        for pattern in np.unique(missing, axis=0):
            known = [place for place, null in enumerate(pattern) if not null]
            some = np.unique(values[(missing == pattern).all(axis=1)][:, known], axis=0)
            found.append(self.rows_for(view, self._adornment(view, [columns[place] for place in known]), some, state))
        return np.unique(np.concatenate(found), axis=0)

    def _adornment(self, view: str, columns: Collection[int]) -> str:
        return "".join("b" if place in columns else "f" for place in range(self._plan.normal.schemas[view].arity))

    def rows_for(
        self, view: str, adornment: str, bindings: Codes, state: str = "old", *, work: ViewWork | None = None
    ) -> Codes:
        """The rows of a view in a state that have one of the bindings in the columns that the adornment binds, and
        other rows computed for them."""
        key = (view, state, adornment)
        if key not in self._queries:
            self._queries[key] = query_views(self._plan.normal, self.strategies, {view: adornment}, state)
        query = self._queries[key]
        run = self._run(key, lambda: query.program)
        try:
            insert_rows(run.own[query.bindings[view]], bindings)
            done = run.run({})
            if work is not None:
                work.add(done)
            return run.rows(query.answers[view])
        finally:
            self._clear(run)

    def key_conflicts(self, view: str, key: tuple[int, ...], most: int) -> list[tuple[Codes, Codes]]:
        """At most `most` pairs of rows of a view in the new state with the same key, one of them new."""
        if view not in self._found:
            return []
        plus = self._found[view][0]
        ordered = sorted(key)
        rows = self.matching(view, ordered, np.unique(plus[:, ordered], axis=0), "new")
        added = set(map(tuple, plus.tolist()))
        holders: dict[tuple[int, ...], Codes] = {}
        pairs: list[tuple[Codes, Codes]] = []
        for row in sorted(rows, key=lambda row: tuple(row.tolist()) not in added):
            values = tuple(row[ordered].tolist())
            if values in holders and (tuple(holders[values].tolist()) in added) and len(pairs) < most:
                pairs.append((holders[values], row))
            holders.setdefault(values, row)
        return pairs

    def reaches(self, clauses: Collection[Clause]) -> bool:
        """Test whether a query reads unstored views."""
        names = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
        return not names.isdisjoint(self.unstored)

    # ---- programs ------------------------------------------------------------------------------------------

    def _run(self, key: object, make: Callable[[], DemandProgram]) -> DemandRun:
        run = self._runs.pop(key, None)
        if run is None:
            run = self._prepared(make(), self._plan.normal.schemas)
            if len(self._runs) >= _MOST_RUNS:
                self._runs.pop(next(iter(self._runs))).release()
        self._runs[key] = run
        return run

    def _prepared(self, program: DemandProgram, schemas: Mapping[str, Schema]) -> DemandRun:
        return DemandRun(program, self._tables, schemas, self._runner, memo=self._optimizations.memo)

    def _clear(self, run: DemandRun) -> None:
        run.clear()
        if run.is_oversized:
            self._runs = {key: each for key, each in self._runs.items() if each is not run}
            run.release()

    def texts(self) -> Iterator[int]:
        for run in self._runs.values():
            yield from run.texts()

    def describe(self, view: str) -> str:
        """The plans of the last change, or the reason why there are none for the view."""
        if reason := reason_not_computed(self._plan, view, self._optimizations):
            return reason
        for key, run in reversed(self._runs.items()):
            if isinstance(key, tuple) and key[0] == "changes":
                return run.describe()
        return "its rules are made when a change reaches it; `upshot rewrite` shows them all"

    def release(self) -> None:
        for run in self._runs.values():
            run.release()
        self._runs.clear()


class StartedViews:
    """The views of a plan with `strategy=production materialized=false`, over the stored relations."""

    def __init__(self, plan: ProgramPlan, tables: Mapping[str, Table], runner: Runner) -> None:
        self._plan, self._tables, self._runner = plan, tables, runner
        self._storage = runner.storage

    def can_give(self, view: str, state: str) -> bool:
        """Test whether start rules can compute the view in that state. They read relations in the new state; the state
        before an open change is computed by query rules."""
        if view not in self._plan.on_demand.started:
            return False
        return state == "new" or not any(
            self._tables[name].word(field)
            for component in self._plan.started
            for name in component.reads
            for field in (T_NINS, T_NDEL, T_NRED)
        )

    def can_answer(self, clauses: Collection[Clause], state: str) -> bool:
        """Test whether a query in that state is for all rows of one such view, without constants."""
        match tuple(clauses):
            case (Clause(body=(Atom(view, args),)),):
                names = [term.name for term in args if isinstance(term, Variable)]
                free = all(isinstance(term, Variable | Wildcard) for term in args) and len(set(names)) == len(names)
                return free and self.can_give(view, state)
            case _:
                return False

    def rows(self, view: str, work: ViewWork | None = None) -> Codes:
        with self._computed(view, work) as tables:
            return tables[view].in_state(NEW)

    def answer(self, schema: Schema, clauses: tuple[Clause, ...]) -> Codes:
        """The rows that the clauses derive for their head; the rows of the view are computed for this query only."""
        atom = clauses[0].body[0]
        assert isinstance(atom, Atom)
        with self._computed(atom.relation, None) as tables:
            for table in tables.values():
                table.accept()
            every = {**self._tables, **tables}
            query = LocalQuery(self._plan.normal.schemas, every, self._runner)
            return query.answer(schema, query.program(schema, clauses))

    @contextmanager
    def _computed(self, view: str, work: ViewWork | None) -> Iterator[dict[str, Table]]:
        """Tables of the view and of all unstored views below it, filled stratum by stratum, so that negated views are
        complete."""
        schemas = self._plan.normal.schemas
        needed = {view}
        for plan in reversed(self._plan.started):
            if not needed.isdisjoint(plan.views):
                needed |= {*plan.views, *plan.reads}
        plans = [plan for plan in self._plan.started if not needed.isdisjoint(plan.views)]
        made: dict[str, Table] = {}
        components: list[LocalComponent] = []
        try:
            for plan in plans:
                made |= {name: self._storage.create(schemas[name].arity) for name in plan.views}
            for plan in plans:
                component = LocalComponent(plan, {**self._tables, **made}, schemas, self._runner)
                components.append(component)
                done = component.propagate()
                if work is not None:
                    work.add(done)
            yield made
        finally:
            for component in components:
                component.release()
            for table in made.values():
                self._storage.drop(table)
