"""The public class `Database`: a program, the rows of its base relations, and views that follow them exactly."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from upshot.core.errors import RuleError, UsageError
from upshot.core.lazy_exports import lazy_base
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database import durable, explain, files, live, queries, rules
from upshot.database import program as programs
from upshot.database.engines import Engine, ReportsProgress, local_engine
from upshot.database.state import MAX_FIRINGS, DatabaseState
from upshot.database.transaction import Transaction
from upshot.database.watch import EVERYTHING, Callback, CommitCallback, Event, Subscription

if TYPE_CHECKING:
    from upshot.active.caller import MakeCall
    from upshot.active.firing import Firing
    from upshot.active.tasks import Pending
    from upshot.core.diagnostic import Diagnostic
    from upshot.database.changes import Changes, Commit, Definition
    from upshot.database.durable.history import PastCommit
    from upshot.database.durable.journal import Journal
    from upshot.database.durable.past_version import PastVersion
    from upshot.database.durable.records import Records
    from upshot.database.durable.retention import Compacted, Cursors
    from upshot.database.durable.stream_batches import AppliedBatch
    from upshot.database.explain.explain import Explanation
    from upshot.database.group import Group
    from upshot.database.live.follow import LiveHandle
    from upshot.database.live.kept import KeptUse
    from upshot.database.placement import Placement
    from upshot.database.program.verify import Verified
    from upshot.database.queries.models import Models
    from upshot.database.queries.query import ConsistentRead
    from upshot.database.queries.what_if import WhatIf
    from upshot.database.queries.why import Explains
    from upshot.database.realize import Revises
    from upshot.database.rules.actions import Function
    from upshot.engine.user_functions import Fold
    from upshot.syntax.ast import Directive, Program
else:
    Explains = lazy_base(
        "upshot.database.queries.why", "Explains", "why", "why_not", "why_changed", "row_history", "explained_schema"
    )
    Revises = lazy_base("upshot.database.realize", "Revises", "realize", "search_reach", "apply", "repairs")


class Database(Explains, Revises):
    """Safe to share between threads: one writer at a time, readers see the last commit.

    >>> db = Database()
    >>> _ = db.define('''
    ...     .decl edge(x: number, y: number)
    ...     .decl path(x: number, y: number)
    ...     path(X, Y) :- edge(X, Y).
    ...     path(X, Z) :- path(X, Y), edge(Y, Z).
    ... ''')
    >>> with db.transaction() as tx:
    ...     tx.insert("edge", [(1, 2), (2, 3)])
    >>> tx.changes["path"].inserted.sorted()
    [(1, 2), (1, 3), (2, 3)]
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine] = local_engine,
        *,
        state: DatabaseState | None = None,
        max_firings: int = MAX_FIRINGS,
        lazy: bool = False,
    ) -> None:
        """An empty database, or the one with this state, whose pending changes of rules run now. With `lazy` the engine
        is made on first use."""
        self._make_engine, self._max_firings, self._first_use = make_engine, max_firings, threading.Lock()
        if lazy:
            return
        self._state = state or empty_state(make_engine)
        self._state.max_firings = max_firings
        if self._state.outbox:
            self._resume()

    @cached_property
    def _state(self) -> DatabaseState:  # type: ignore[override]  # the base classes only read it
        """Made on first use with its engine, so that opening a database costs next to nothing."""
        with self._first_use:
            if "_state" not in self.__dict__:
                self.__dict__["_state"] = empty_state(self._make_engine)
                self._state.max_firings = self._max_firings
            made: DatabaseState = self.__dict__["_state"]
            return made

    def _resume(self) -> None:
        try:
            self._run_tasks([each for each in self._state.outbox if not each.is_call])
        except RuleError as error:
            # What was committed stays committed, so the database can be opened.
            rules.outbox.log.error("rules that had still to run: %s", error)

    # ---- the program ----------------------------------------------------------------------------

    def define(self, program: str | os.PathLike[str], *, name: str | None = None) -> Definition:
        """Add a program text or file. It replaces the relations that it declares or has rules for; all others stay, and
        views whose definition did not change keep their rows. On any error the program is unchanged."""
        with self._state.writing("define a program"):
            return programs.redefine.redefine(
                self._state, programs.compile.compile_text(program, self._state.compiled, name)
            )

    def add_rule(self, text: str) -> Definition:
        """Add rules to views; what they derive in addition is propagated, not recomputed."""
        with self._state.writing("add a rule"):
            return programs.redefine.redefine(
                self._state, programs.compile.compile_with_rules(text, self._state.compiled)
            )

    def remove_rule(self, text: str) -> Definition:
        """Remove rules, given as they were written; the rows that only they derived are deleted."""
        with self._state.writing("remove a rule"):
            return programs.redefine.redefine(
                self._state, programs.compile.compile_without_rules(text, self._state.compiled)
            )

    def drop(self, name: str) -> Definition:
        """Remove a view, constraint or active rule that nothing uses, or a base relation that is also empty."""
        with self._state.writing("drop a relation"):
            return programs.redefine.drop(self._state, name)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations by name, with their columns and roles."""
        self._state.open()
        return self._state.schemas

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the active rules, in the order of their definition."""
        self._state.open()
        return tuple(rule.name for rule in self._state.compiled.checked.rules)

    @property
    def program(self) -> Program:
        """The current program: all texts that were defined, merged."""
        self._state.open()
        return self._state.compiled.program

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Findings of opening the database: rows that an earlier version of Upshot should not have stored."""
        self._state.open()
        return self._state.warnings

    @property
    def policies(self) -> Mapping[str, str]:
        """The policy of each constraint: `reject` or `warn`."""
        self._state.open()
        return {name: found.on_violation for name, found in self._state.compiled.checked.constraints.items()}

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The `.input`, `.output` and `.printsize` of the program, in order."""
        self._state.open()
        return self._state.compiled.checked.directives

    @property
    def placement(self) -> Placement:
        """The engine that propagates changes, and the reason."""
        self._state.open()
        from upshot.database.placement import placement_of  # noqa: PLC0415 - for Spark

        return placement_of(self._state.engine)

    @property
    def version(self) -> int:
        """The number of the last commit; 0 before the first."""
        self._state.open()
        return self._state.visible_version

    # ---- changes --------------------------------------------------------------------------------

    def transaction(self, *, meta: Mapping[str, Any] | None = None) -> Transaction:
        """A transaction for a `with` block. `meta`, any mapping that JSON can hold, is kept with the commit in a
        durable database, for `history`. A transaction with `meta` makes a version even if no row changes."""
        self._state.open()
        return Transaction(self._state, None if meta is None else durable.journal.meta_text(meta))

    def apply_batch(self, frame: Any, batch_id: int, relation: str, *, stream: str | None = None) -> AppliedBatch:
        """Apply a micro-batch of changes as one transaction, for `foreachBatch` of a Spark stream: the same id twice
        changes nothing, since the commit stores it. `frame` has the columns of the relation, and one with the operation
        for each row: `_change` (1 or -1), `op` (insert, delete, update, upsert) or that of a Delta change data feed;
        without one, rows are inserted, or replace the rows with the same key. Ids are counted by `stream`, by default
        the relation."""
        self._state.open()
        return durable.stream_batches.apply_batch(
            self._state, durable.stream_batches.Batch(frame, batch_id, relation, stream or relation)
        )

    def group(self) -> Group:
        """A group of transactions for a `with` block, opened by `group.transaction()`: each makes its own version or
        fails alone, and those that succeed become durable with one write when the block ends. Until then readers wait,
        and no subscriber is called."""
        self._state.open()
        from upshot.database.group import Group  # noqa: PLC0415 - imports this class

        return Group(self._state)

    def register(self, name: str, table: Any) -> Commit:
        """Make a whole table (pandas, Arrow, Polars, or a Parquet or CSV path) the contents of a base relation, which
        is declared from the table if it does not exist."""
        self._state.open()
        commit = files.register.register(self._state, name, table)
        self._run_tasks(commit.tasks)
        return commit

    def what_if(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> WhatIf:
        """The changes of these insertions and deletions, and the constraints they would violate; nothing is
        committed."""
        self._state.open()
        return queries.what_if.what_if(self._state, insert or {}, delete or {})

    # ---- functions --------------------------------------------------------------------------------

    def function(self, name: str, function: Callable[..., Any] | Fold, *, arrow: bool = False) -> Definition | None:
        """Register the code of `.functor name(…)`, which rules call as `@name(…)`. It takes the values of one row and
        returns one; with `arrow`, whole Arrow columns of distinct rows. A `fold` has a `Fold`. New code for a function
        that rules call is a definition: views that call it are recomputed, and the result is what changed."""
        self._state.open()
        return programs.functors.register(self._state, name, function, arrow=arrow)

    def refresh(self, name: str) -> Definition:
        """Compute the values of a stateful function again, and all that depends on them: a definition, with exact
        changes."""
        self._state.open()
        return programs.functors.refresh(self._state, name)

    # ---- models -----------------------------------------------------------------------------------

    def models(self, limit: int | None = 10) -> Models:
        """The perfect models of a program whose rules have alternatives in their heads, `s(X) | t(X) :- r(X).`, over
        the current rows: at most `limit`, with the rows of all models (`cautious`) and of any model (`brave`). Computed
        at each call; the relations that differ between models are not maintained."""
        self._state.open()
        with self._state.reading():
            return queries.models.models(self._state, limit)

    # ---- active rules -----------------------------------------------------------------------------

    def action(self, name: str, function: Function) -> None:
        """Register a function for rules that `call` it. It takes the list of rows, or the values of one if the rule
        says `per=instance`; a parameter named `firing` gets the whole firing. Pending calls of it, of an earlier
        process or after a failure, are made now; so are changes that failed because it was missing."""
        self._state.open()
        self._state.actions.register(name, function)
        self._run_tasks([each for each in self._state.outbox if _waits_for(each, name)])

    def call_with(self, make_call: MakeCall) -> None:
        """Set the caller of functions that run after a commit; by default the committing thread calls them.
        `PatientCaller` waits for a bounded time."""
        self._state.open()
        self._state.make_call = make_call

    def activate(self, rule: str, **bindings: Any) -> Definition:
        """Activate a rule for these values of its parameters: the first ones replace "for all", later ones are added;
        without any, it is active for all. A definition, which a durable database keeps."""
        return self._switch(rule, bindings, active=True)

    def deactivate(self, rule: str, **bindings: Any) -> Definition:
        """Remove values that a rule was activated for; without any, the rule is inactive."""
        return self._switch(rule, bindings, active=False)

    def _switch(self, rule: str, bindings: Mapping[str, Any], *, active: bool) -> Definition:
        with self._state.writing("activate a rule" if active else "deactivate a rule"):
            return programs.switch.switch(self._state, rule, bindings, active=active)

    def pending(self) -> tuple[Firing, ...]:
        """The firings of pending tasks, each with the error that stopped it."""
        with self._state.reading():
            return tuple(each.firing for each in self._state.outbox)

    @property
    def tasks_left(self) -> int:
        """The number of pending tasks of rules, calls and changes one by one; does not wait."""
        return len(self._state.outbox)

    def retry(self) -> None:
        """Run the pending tasks of rules again."""
        self._state.open()
        self._run_tasks(list(self._state.outbox))

    def discard(self, key: str) -> None:
        """Remove the tasks of the firing with this key."""
        with self._state.writing("discard a firing"):
            found = [each for each in self._state.outbox if each.firing.key == key]
            if not found:
                hint = "`db.pending()` lists pending firings with their keys"
                raise UsageError(f"no pending firing has the key `{key}`", code="wrong-argument", help=hint)
            for each in found:
                rules.outbox.complete_task(self._state, each)

    def _run_tasks(self, pending: Sequence[Pending]) -> None:
        if pending:
            rules.outbox.run_tasks(self._state, pending, Transaction)

    # ---- answers --------------------------------------------------------------------------------

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body; `$x` takes the value of the parameter `x`. Inside an open transaction the answer
        comes from the state before it. `QueryWarning` if a variable looks like text without quotes."""
        self._state.open()
        return queries.query.query(self._state, text, parameters, warns=True)

    def sql(self, text: str, /, **parameters: Any) -> Rows:
        """The answer to a query in SQL, each row once, in the order of its ORDER BY; `:x` takes the value of the
        parameter `x`. Inside an open transaction the answer comes from the state before it."""
        self._state.open()
        return queries.sql_answers.sql(self._state, text, parameters)

    def as_of(self, text: str, /, **parameters: Any) -> int | None:
        """The version that a query in SQL names with `VERSION AS OF`, None if it names none."""
        with self._state.reading():
            return queries.sql_answers.as_of(self._state, text, parameters)

    def rows(self, name: str) -> Rows:
        with self._state.reading() as engine:
            return engine.rows(self._state.schema(name).name)

    def reading(self) -> ConsistentRead:
        """Several answers from one version, for a `with` block: `at.version`, `at.query(…)`, `at.rows(…)`."""
        self._state.open()
        return queries.query.ConsistentRead(self._state)

    def at(self, version: int) -> PastVersion:
        """A past version: `query`, `sql`, `rows`, `why`, `why_not`, `realize`, `what_if` as if it were the last. In a
        durable database any version that is kept, for relations with the same definition today; in memory the last
        two."""
        with self._state.reading():
            return durable.past_version.PastVersion(self._state, version, lambda state: Database(state=state))

    def first_version(self, name: str) -> int:
        """The earliest version in which a relation can be read with `at`."""
        with self._state.reading():
            return durable.past_states.first_version(self._state, self._state.schema(name).name)

    def changes(self, view: str, /, since: int, until: int | None = None, **parameters: Any) -> Changes:
        """The net change of a relation, or of the answers to a query, from version `since` to version `until`, by
        default the last one: `inserted` and `deleted` rows."""
        last = self.version if until is None else until
        with live.shapes.arguments_of("changes", "since", "until"):
            return durable.past_version.net_changes(self._state, self.at, view, (since, last), parameters)

    def hold_version(self, most: int) -> Callable[[], Database] | None:
        """A function that makes an immutable database in memory of the current version, later and on any thread. None
        if there are more than `most` rows, if they are on Spark, or if transactions call functions, which expect one
        thread."""
        with self._state.reading():
            self._state.refuse_group()
            frozen = durable.past_version.frozen_version(self._state, most)
        return None if frozen is None else lambda: Database(state=frozen.opened(), max_firings=frozen.max_firings)

    def watch(
        self,
        view: str,
        callback: Callback | None = None,
        /,
        since: int | None = None,
        *,
        every: float | None = None,
        events: str = "all",
        limit: int | None = None,
        **parameters: Any,
    ) -> Subscription:
        """Call the callback with all rows of the relation first, then with each commit's exact changes to it, in order,
        once. `view` may be any rule body or SELECT, with values for its `$x` or `:x` as `parameters`; queries that
        differ in values only share one plan. `every`: at most one event in this many seconds, with the net change;
        `events`: `insert` or `delete` for rows of one sign; `limit`: the most rows of a sign in one event. With `since`
        a version, it starts with the changes after that one; a database in memory has only the current one. The name of
        an active rule stands for its firings: those of each commit are inserted rows, past ones are not kept. A nervous
        view reports more than its exact changes: keep no copy from them."""
        if callback is None:
            callback = parameters.pop("callback", None)
        elif "callback" in parameters:
            raise live.shapes.refused_parameter("watch", "callback")
        if not callable(callback):
            raise UsageError(
                "the callback is not callable", code="wrong-argument", help="pass a function with one parameter"
            )
        state = self._state
        state.open()
        requested = live.event_filter.EventFilter(every, events, limit)
        event_filter = None if requested == live.event_filter.EventFilter() else requested
        if parameters or not live.shapes.is_name(view):
            with live.shapes.arguments_of("watch", "since", "every", "events", "limit"):
                return live.follow.follow(state, view, callback, parameters, since, event_filter)
        return live.follow.watch_relation(state, view, callback, since, event_filter)

    def hold_query(self, text: str, /, **parameters: Any) -> LiveHandle:
        """Keep a query current without a callback, for subscribers of commits: its changes are in `CommitEvent.live`,
        until the handle is closed."""
        self._state.open()
        return live.follow.hold(self._state, text, parameters)

    def query_reads(
        self, text: str, values: Mapping[str, Any], may_read: Callable[[str], bool] = lambda _: True
    ) -> frozenset[str]:
        """The relations that a rule body or SELECT names. It is checked with the relations that `may_read` allows only,
        so that no error reveals others."""
        schemas, functors = self.schemas, self._state.compiled.checked.functors
        known = {name: schema for name, schema in schemas.items() if may_read(name)}
        return live.shapes.query_reads(text, values, known, functors)

    def limit_live_queries(self, seconds: float | None) -> None:
        """Bound the time of all followed queries in one commit. At the bound, those that took more than an equal share
        end, and their followers get the error."""
        self._state.live.seconds = seconds

    def keep_answers(self, rows: int) -> None:
        """Bound the rows of answers that are kept current for repeated queries, by default 100,000; 0 keeps none.
        Queries with parameters on a view with `materialized=false` are computed on demand; when one is repeated with
        the same values, commits keep its answer current until it exceeds the bound or 1,000 commits pass without a
        query."""
        with self._state.writing("limit kept answers"):
            live.kept.limit(self._state, rows)

    @property
    def kept_answers(self) -> KeptUse:
        """The counters of `keep_answers`: kept parameters and rows, answers looked up and computed."""
        self._state.open()
        return live.kept.use(self._state)

    def watch_commits(self, callback: CommitCallback) -> Subscription:
        """Call the callback with every commit and definition from now on, in order, once, with all changes. The
        `version` of the subscription is the one it starts after."""
        state = self._state
        with state.reading():
            state.refuse_group()
            subscription = Subscription(EVERYTHING, callback, state.feed, state.visible_version)
            state.feed.add(subscription)
        return subscription

    def past_events(self, view: str, since: int, until: int) -> Iterator[Event]:
        """The events of a watched relation for the versions after `since`, up to `until`; a durable database reads them
        lazily. `history-not-kept` if the log does not reach back to `since`."""
        with self._state.reading():
            store = self._journal("has no history").store
            durable.history.refuse_dropped(store, since, until)
            return durable.history.past_events(store, view, since, until)

    def reports_changes(self, name: str) -> bool:
        """Test whether all changes of a relation are computed and reported; not those of a view with `events=none`."""
        self._state.open()
        return self._state.compiled.plan.reported(name) == ("plus", "minus")

    def reports_net_changes(self, name: str) -> bool:
        """Test whether a copy of the relation can follow its changes; not those of a view with `semantics=nervous`."""
        self._state.open()
        return name not in self._state.compiled.plan.on_demand.nervous

    @property
    def identity(self) -> str:
        """A name that no other database has: versions of different databases cannot be compared."""
        return self._state.identity

    @property
    def is_durable(self) -> bool:
        """Test whether the database outlives its process."""
        return self._state.journal is not None

    # ---- durable databases ------------------------------------------------------------------------

    def history(self, since: int = 0, *, reverse: bool = False) -> Iterator[PastCommit]:
        """The commits of a durable database after a version, oldest first, or newest first if `reverse`, read
        lazily."""
        with self._state.reading():
            return durable.history.history(self._journal("has no history"), since, self._state.version, reverse=reverse)

    def last_meta(self) -> Mapping[str, Any] | None:
        """The `meta` of the newest commit that has one; None if there is none."""
        with self._state.reading():
            journal = self._state.journal
            text = None if journal is None else journal.store.log.last_meta()
        return None if text is None else json.loads(text)

    def snapshot(self) -> int:
        """Write a snapshot of all rows of a durable database, so that opening it need not replay earlier commits;
        return its version. Happens automatically when it pays."""
        with self._state.writing("write a snapshot") as engine:
            state = self._state
            self._journal("cannot write a snapshot").snapshot(engine, state.version, state.compiled)
            return state.version

    def compact(self) -> Compacted:
        """Drop the history beyond the bounds now, in small steps between which commits go on. Happens automatically as
        commits are made."""
        return durable.retention.compact(self._state)

    def backup(self, target: str | os.PathLike[str]) -> int:
        """Copy a durable database into a new or empty folder, as of one commit, while others go on; return its version.
        The copy is a database of its own, to be opened with `upshot.connect`."""
        return durable.opening.backup(self._state, target)

    @property
    def cursors(self) -> Cursors:
        """The cursors of readers of the change log, by name; changes they have not read are kept, within bounds."""
        return durable.retention.Cursors(self._state)

    def records(self, kind: str) -> Records:
        """Records of one kind that are kept with the database, outside of its relations: JSON objects by id, with
        `put(id, record)`, `remove(id)` and `all()`. In a durable database they are on disk when `put` returns."""
        self._state.open()
        return self._state.records(kind)

    def _journal(self, lacks: str) -> Journal:
        from upshot.store.errors import not_durable  # noqa: PLC0415 - for durable databases

        if self._state.journal is None:
            raise not_durable(lacks)
        return self._state.journal

    # ---- insight --------------------------------------------------------------------------------

    def explain(self, name: str | None = None) -> Explanation:
        """Explain the maintenance of one view or all views, and the firing of one active rule or all of them. `.svg()`
        draws the network."""
        return explain.explain.explain(self._state, name)

    def verify(self) -> Verified:
        """Recompute every view from the base rows and compare; raises `VerifyError` on any difference."""
        return programs.verify.verify(self._state)

    def report_progress(self, report: Callable[[str, int], None] | None) -> None:
        """Call `report` from time to time while a view is computed in this process, with its name and its rows so
        far."""
        with self._state.reading() as engine:
            if isinstance(engine, ReportsProgress):
                engine.set_progress(report)

    # ---- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End all subscriptions and release the data; closing twice is allowed."""
        state = self._state
        if state.closed:
            return
        state.writer.acquire("close the database")
        try:
            with state.lock:
                state.shut()
        finally:
            state.writer.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._state.closed:
            return "<upshot database, closed>"
        return f"<upshot database, {len(self._state.schemas)} relations, version {self._state.version}>"


def _waits_for(pending: Pending, function: str) -> bool:
    """Test whether registering a function lets the task run: it calls the function, or it is a change that failed
    because a function was missing."""
    if pending.is_call:
        return pending.actions[0].target == function
    error = pending.firing.error
    return isinstance(error, RuleError) and error.code == "unknown-action"


def empty_state(make_engine: Callable[[], Engine]) -> DatabaseState:
    engine, compiled = make_engine(), programs.compile.empty_program()
    engine.install(compiled.plan)
    engine.propagate()
    engine.accept()
    return DatabaseState(make_engine, engine, compiled)
