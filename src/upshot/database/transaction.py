"""One `with` block of statements: committed whole when the block ends well, undone whole when it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.active.firing import Firing
from upshot.active.run import RuleRun
from upshot.active.tasks import Pending
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import DataError, UsageError
from upshot.database.changes import ChangeSet, Commit
from upshot.database.commit import begin_rules, commit
from upshot.database.engines import Deltas, Engine
from upshot.database.expectations import asked_for, require
from upshot.database.files.given_rows import given_rows
from upshot.database.rules.outbox import carry_out
from upshot.database.state import State
from upshot.engine.work import Work
from upshot.revise.request import Request

if TYPE_CHECKING:
    from upshot.core.schema import Schema


class Transaction:
    """Statements apply in order, and only their net effect counts. A statement that fails applies nothing; if its error
    is caught inside the block, the transaction goes on without it.

    While the block runs, queries (on this thread and others) see the state before it; other writers wait.
    """

    def __init__(
        self, state: State, meta: str | None = None, *, settles: Pending | None = None, grouped: bool = False
    ) -> None:
        """One that `settles` a task leaves what its own rules have to do after it to whoever does the task. One that is
        `grouped` belongs to an open group, which has the right to write, and sees to all that comes after."""
        self._state = state
        self._meta = meta
        self._settles = settles
        self._grouped = grouped
        self._stage = "new"
        self._answering = False
        self._commit: Commit | None = None
        self._rules: RuleRun | None = None
        self._expected: list[Request] = []

    def __enter__(self) -> Transaction:
        if self._stage != "new":
            raise self._misused("this transaction was already used", "open a new one with `db.transaction()`")
        self._state.open()
        if not self._grouped:
            self._state.writer.acquire("open a transaction")
        try:
            self._state.open()
        except UsageError:
            self._release()
            raise
        self._stage = "open"
        self._rules = begin_rules(self._state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state, failed, self._stage = self._state, self._stage == "failed", "rolled back"
        try:
            with state.lock:
                if failed:
                    pass
                elif kind is None:
                    self._commit = commit(state, self._meta, self._rules, self._settles, self._require)
                    self._stage = "committed"
                    if not self._grouped:
                        state.after_change()
                else:
                    state.engine.rollback()
        finally:
            self._release()
        if not self._grouped:
            state.feed.hand_over()
        if failed and kind is None:
            raise self._misused(
                "the transaction was rolled back because a rule failed", "do not catch the error inside the block"
            )
        if self._commit is not None and self._settles is None and not self._grouped:
            carry_out(state, self._commit.left, Transaction)

    def _release(self) -> None:
        if not self._grouped:
            self._state.writer.release()

    def undone(self) -> None:
        """The group it belonged to was not committed."""
        self._stage, self._commit = "rolled back", None

    @property
    def is_open(self) -> bool:
        """Whether its block is running."""
        return self._stage in ("open", "failed")

    # ---- statements -----------------------------------------------------------------------------

    def insert(self, name: str, rows: Any) -> None:
        """Adds rows; those that are there already change nothing."""
        target, given = self._given(name, rows)
        self._statement(lambda engine: engine.insert(target.name, given))

    def delete(self, name: str, rows: Any) -> None:
        """Removes rows; those that are not there change nothing."""
        target, given = self._given(name, rows)
        self._statement(lambda engine: engine.delete(target.name, given))

    def upsert(self, name: str, rows: Any) -> None:
        """Puts rows in the place of those with the same key. The relation needs a declared key."""
        target, given = self._given(name, rows)
        if not target.keys:
            columns = ", ".join(column.name for column in target.columns)
            raise DataError(
                f"`{name}` has no key to upsert by",
                code="no-key",
                help=f"declare one, as in `.decl {name}({columns}) key({columns.partition(',')[0]})`",
            )
        self._statement(lambda engine: engine.upsert(target.name, given))

    def replace(self, name: str, rows: Any) -> None:
        """Makes these the only rows of the relation; the difference is the change."""
        target, given = self._given(name, rows)
        self._statement(lambda engine: engine.replace(target.name, given))

    def expect(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> None:
        """Says what is to be so in the end, of views and base relations: these rows are there, and those are not.
        Otherwise the block ends in `not-as-expected` and nothing happens."""
        self._require_open()
        self._expected.append(Request(asked_for(self._state, insert or {}), asked_for(self._state, delete or {})))

    def _require(self, deltas: Deltas) -> None:
        for each in self._expected:
            require(self._state, deltas, each)

    def _statement(self, stage: Callable[[Engine], None]) -> None:
        """Stages, and lets immediate rules answer; if one of those fails, the whole transaction is over."""
        state, staged = self._state, False

        def once() -> None:
            nonlocal staged
            stage(state.engine)
            staged = True

        assert self._rules is not None, "open"
        with state.lock:
            if self._answering:
                hint = "let the rule insert or delete, or call the function after the commit"
                raise self._misused("a function called by a rule cannot change the transaction", hint)
            self._answering = True
            try:
                self._rules.statement(once)
            except BaseException:
                if staged:
                    self._stage = "failed"
                    state.engine.rollback()
                raise
            finally:
                self._answering = False

    def _given(self, name: str, rows: Any) -> tuple[Schema, Any]:
        self._require_open()
        target = self._state.base(name)
        return target, given_rows(target, rows, self._state.engine)

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
        """The version this transaction made; the one that already was, if no row came or went and there is no meta."""
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
    def left(self) -> tuple[Pending, ...]:
        """What its rules have to do after the commit; done when the `with` block has ended."""
        return self._result().left

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Violations of constraints that only warn."""
        return self._result().warnings

    @property
    def violations(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """The witnesses this transaction added, by constraint; of constraints that only warn, since others reject."""
        return self._result().violations

    @property
    def repaired(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """The witnesses this transaction took away, by constraint."""
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
