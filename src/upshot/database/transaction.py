"""Transactions: a `with` block of statements, committed when it ends normally and rolled back on an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import DataError, UsageError
from upshot.core.rows import row_set
from upshot.core.schema import Role
from upshot.database import queries, rules
from upshot.database.changes import ChangeSet, reported
from upshot.database.commit import begin_rules, commit_transaction
from upshot.database.files.input_rows import input_rows

if TYPE_CHECKING:
    from upshot.active.firing import Cause, Firing
    from upshot.active.run import RuleRun, RunState
    from upshot.active.tasks import Pending
    from upshot.core.diagnostic import Diagnostic
    from upshot.core.rows import Row, Rows
    from upshot.database.changes import Commit
    from upshot.database.engines import Deltas
    from upshot.database.state import DatabaseState
    from upshot.engine.work import Work
    from upshot.revise.request import Request


class Transaction:
    """Statements apply in order, and only their net effect counts. A statement that fails stages nothing; if its error
    is caught inside the block, the transaction goes on without it.

    While the block runs, queries (on this thread and others) see the state before it; other writers wait.
    """

    def __init__(
        self,
        state: DatabaseState,
        meta: str | None = None,
        *,
        completed_task: Pending | None = None,
        grouped: bool = False,
    ) -> None:
        """With a `completed_task`, the caller runs the tasks of its rules. A `grouped` transaction belongs to an open
        group, which holds the write lock and does everything after the commit."""
        self._state = state
        self._meta = meta
        self._completed_task = completed_task
        self._grouped = grouped
        self._stage = "new"
        self._answering = False
        self._commit: Commit | None = None
        self._rules: RuleRun | None = None
        self._expected: list[Request] = []
        self._savepoints: list[Savepoint] = []

    def __enter__(self) -> Transaction:
        if self._stage != "new":
            raise self._misused("this transaction was already used", "open a new one with `db.transaction()`")
        self._state.open()
        if not self._grouped:
            self._state.writer.acquire("open a transaction")
        try:
            self._state.open()
            if not self._grouped:
                self._state.remove_released_queries()
        except BaseException:
            self._release()
            raise
        self._stage = "open"
        self._rules = begin_rules(self._state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state, failed, self._stage = self._state, self._stage == "failed", "rolled back"
        self._savepoints.clear()
        try:
            with state.lock:
                if failed:
                    pass
                elif kind is None:
                    self._commit = commit_transaction(
                        state,
                        self._rules,
                        meta=self._meta,
                        completed_task=self._completed_task,
                        expect=self._require_expected if self._expected else None,
                    )
                    self._stage = "committed"
                    # Not methods of the transaction: a cycle of references would keep its changes in memory.
                    self._commit.changes.find_causes = partial(_causes, state, self._commit.version)
                    for firing in self._commit.firings:
                        firing.find_cause = partial(rules.transaction_rules.find_cause, state, self._commit.version)
                    if not self._grouped:
                        state.after_change()
                else:
                    state.engine.rollback()
        finally:
            self._release()
        if not self._grouped:
            state.feed.deliver()
        if failed and kind is None:
            raise self._misused(
                "the transaction was rolled back because a rule failed", "do not catch the error inside the block"
            )
        if self._commit is not None and self._commit.tasks and self._completed_task is None and not self._grouped:
            rules.outbox.run_tasks(state, self._commit.tasks, Transaction)

    def _release(self) -> None:
        if not self._grouped:
            self._state.writer.release()

    def undone(self) -> None:
        """Note that its group was rolled back."""
        self._stage, self._commit = "rolled back", None

    @property
    def is_open(self) -> bool:
        return self._stage in ("open", "failed")

    # ---- statements -----------------------------------------------------------------------------

    def insert(self, name: str, rows: Any) -> None:
        """Insert rows; rows that are present change nothing."""
        self._statement(self._state.engine.insert, name, rows)

    def delete(self, name: str, rows: Any) -> None:
        """Delete rows; rows that are absent change nothing."""
        self._statement(self._state.engine.delete, name, rows)

    def upsert(self, name: str, rows: Any) -> None:
        """Insert rows, each in place of the row with the same key. The relation needs a declared key."""
        self._require_open()
        target = self._state.base(name)
        if not target.keys:
            columns = ", ".join(column.name for column in target.columns)
            raise DataError(
                f"`{name}` has no key to upsert by",
                code="no-key",
                help=f"declare one, as in `.decl {name}({columns}) key({columns.partition(',')[0]})`",
            )
        self._statement(self._state.engine.upsert, name, rows)

    def replace(self, name: str, rows: Any) -> None:
        """Make these rows the whole contents of the relation; the difference is the change."""
        self._statement(self._state.engine.replace, name, rows)

    def expect(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> None:
        """Require that, at the end, the rows of `insert` are present and those of `delete` absent, in views and base
        relations. Otherwise the block ends in `not-as-expected` and is rolled back."""
        self._require_open()
        from upshot.database.expectations import request_of_rows  # noqa: PLC0415 - few transactions expect anything

        self._expected.append(request_of_rows(self._state, insert or {}, delete or {}))

    # ---- while it is open -----------------------------------------------------------------------

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body or SELECT in the state after the statements so far, views included."""
        with self._reading() as run:
            run.propagated()
            if isinstance(text, str) and queries.query.is_select(text):
                return queries.sql_answers.sql(self._state, text, parameters, is_open=True)
            return queries.query.query_open(self._state, text, **parameters)

    def rows(self, name: str) -> Rows:
        """All rows of a relation or view in that state."""
        with self._reading() as run:
            schema = self._state.schema(name)
            run.propagated()
            return queries.query.all_rows(self._state.engine, schema, is_open=True)

    def changes_so_far(self) -> ChangeSet:
        """The net changes of all relations by the statements so far, and by the rules that have run."""
        with self._reading() as run:
            return ChangeSet(self._state.schemas, reported(self._state.compiled.plan, run.propagated()))

    def process(self, rules: Iterable[str] | str | None = None) -> tuple[Firing, ...]:
        """A processing point: run the rules that would run at the end now, all or those named; the firings. If one
        fails, the transaction is rolled back."""
        with self._reading() as run:
            names, before = _rules_to_process(self._state, run, rules), len(run.firings)
            self._answering = True
            try:
                run.process(names)
            except BaseException:
                self._fail()
                raise
            finally:
                self._answering = False
            return tuple(run.firings[before:])

    def savepoint(self) -> Savepoint:
        """A savepoint, for a `with` block: an error that leaves the block undoes the statements in it and nothing else;
        so does `rollback()` of the savepoint."""
        return Savepoint(self._state, self._reading, self._savepoints)

    @contextmanager
    def _reading(self) -> Iterator[RuleRun]:
        """The rules of the transaction, which propagate the open change if necessary."""
        self._require_open()
        with self._state.lock:
            if self._answering:
                hint = "use `firing.query` inside the function"
                raise self._misused("a function called by a rule cannot use the transaction", hint)
            if self._rules is None:
                self._rules = rules.transaction_rules.transaction_rules(self._state)
            yield self._rules

    def _require_expected(self, deltas: Deltas) -> None:
        from upshot.database.expectations import require  # noqa: PLC0415 - see `expect`

        for each in self._expected:
            require(self._state, deltas, each)

    def _statement(self, stage: Callable[[str, Any], None], name: str, rows: Any) -> None:
        """Stage rows and run immediate rules; if one of those fails, the transaction is rolled back."""
        self._require_open()
        state, run, staged = self._state, self._rules, False
        target = state.base(name)
        rows = input_rows(target, rows, state.engine)
        with state.lock:
            if run is None:
                stage(target.name, rows)
                return
            if self._answering:
                hint = "let the rule insert or delete, or call the function after the commit"
                raise self._misused("a function called by a rule cannot change the transaction", hint)
            self._answering = True
            try:
                run.reopen()
                stage(target.name, rows)
                staged = True
                run.run_immediate()
            except BaseException:
                if staged:
                    self._fail()
                raise
            finally:
                self._answering = False

    def _fail(self) -> None:
        """Roll back the transaction and end its savepoints; further statements in the block are refused."""
        self._stage = "failed"
        self._savepoints.clear()
        self._state.engine.rollback()

    def _require_open(self) -> None:
        if self._stage != "open":
            other = {"new": "has not begun", "failed": "was rolled back because a rule failed"}
            words = other.get(self._stage, f"is {self._stage}")
            raise self._misused(f"the transaction {words}", "change rows inside `with db.transaction() as tx:`")

    # ---- results --------------------------------------------------------------------------------

    @property
    def changes(self) -> ChangeSet:
        """The exact net change of every relation, base relations included."""
        return self._result().changes

    @property
    def version(self) -> int:
        """The version of this commit; the version before it if no row changed and there is no `meta`."""
        return self._result().version

    @property
    def stats(self) -> Work:
        """The work counters of the propagation."""
        return self._result().stats

    @property
    def firings(self) -> tuple[Firing, ...]:
        """The active rules that fired, in order, with the instances each fired for."""
        return self._result().firings

    @property
    def tasks(self) -> tuple[Pending, ...]:
        """The tasks of its rules that run after the commit; when the `with` block has ended, they have run."""
        return self._result().tasks

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Violations of constraints that only warn."""
        return self._result().warnings

    @property
    def violations(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """The witnesses that this transaction inserted, by constraint; only of constraints that warn, since others
        reject."""
        return self._result().violations

    @property
    def repaired(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """The witnesses that this transaction deleted, by constraint."""
        return self._result().repaired

    def _result(self) -> Commit:
        if self._commit is None:
            words = {"new": "has not begun", "open": "is still open"}.get(self._stage, "was rolled back")
            raise self._misused(f"the transaction {words}: it has no result", "read results after the `with` block")
        return self._commit

    def _misused(self, message: str, hint: str) -> UsageError:
        return UsageError(message, code="transaction-open" if self._stage == "open" else "transaction-ended", help=hint)

    def __repr__(self) -> str:
        return f"<transaction, {self._stage}>"


def _causes(state: DatabaseState, version: int, changes: ChangeSet, name: str) -> dict[Row, Cause]:
    from upshot.database.queries.why import causes  # noqa: PLC0415 - rarely used

    return causes(state, version, changes, name)


def _rules_to_process(state: DatabaseState, run: RuleRun, names: object) -> frozenset[str]:
    """The rules of a processing point: all that run before the commit, unless some are named."""
    if names is None:
        return run.before_commit
    requested = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    known = {rule.name: rule for rule in state.compiled.checked.rules}
    for name in requested:
        if not isinstance(name, str):
            message = f"a rule must be given by its name, not by {type(name).__name__}"
            raise UsageError(message, code="wrong-argument", help='as in tx.process(rules=["audit"])')
        if name not in known:
            hint = did_you_mean(name, known) or f"the rules are {', '.join(f'`{each}`' for each in known) or 'none'}"
            raise UsageError(f"unknown rule `{name}`", code="unknown-rule", help=hint)
        if known[name].coupling == "after":
            hint = "name rules with `coupling=immediate` or `coupling=deferred`"
            raise UsageError(f"rule `{name}` runs after the commit", code="wrong-argument", help=hint)
    return frozenset(requested) & run.before_commit


class Savepoint:
    """A savepoint, for a `with` block: an error that leaves the block undoes the statements in it; `rollback()` undoes
    them without an error. Rules return to their state at the savepoint.

    The savepoints of a transaction are a stack: one ends with its block, with the transaction, and when one below it
    ends or is rolled back.
    """

    def __init__(
        self, state: DatabaseState, reading: Callable[[], AbstractContextManager[RuleRun]], stack: list[Savepoint]
    ) -> None:
        """`reading` raises if the transaction has ended; `stack` has its savepoints so far."""
        self._state, self._reading, self._stack = state, reading, stack
        with reading() as run:
            self._base = _base_changes(state, run.propagated())
            self._rules: RunState = run.remember()
        stack.append(self)

    def __enter__(self) -> Savepoint:
        with self._reading():
            self._above()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self not in self._stack:
            return
        if kind is not None:
            self.rollback()
        del self._stack[self._stack.index(self) :]

    def rollback(self) -> None:
        """Undo all statements since the savepoint, and the changes of rules."""
        engine = self._state.engine
        with self._reading() as run:
            above = self._above()
            run.reopen()
            # The engine starts again from the committed state: the state to be undone may not be computable.
            engine.rollback()
            for name, (inserted, deleted) in self._base.items():
                if inserted:
                    engine.insert(name, list(inserted))
                if deleted:
                    engine.delete(name, list(deleted))
            run.restore(self._rules)
            del self._stack[above:]

    def _above(self) -> int:
        """The index in the stack of the first savepoint after this one."""
        if self not in self._stack:
            hint = "roll back inside its `with` block, and inner savepoints before outer ones"
            raise UsageError("the savepoint has ended", code="savepoint-ended", help=hint)
        return self._stack.index(self) + 1


def _base_changes(state: DatabaseState, deltas: Deltas) -> dict[str, tuple[frozenset[Row], frozenset[Row]]]:
    schemas = state.compiled.checked.schemas
    return {
        name: (row_set(inserted), row_set(deleted))
        for name, (inserted, deleted) in deltas.items()
        if name in schemas and schemas[name].role is Role.BASE
    }
