"""One `with` block of statements: committed whole when the block ends well, undone whole when it does not."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import DataError, UsageError
from upshot.database.changes import ChangeSet, Commit
from upshot.database.commit import commit
from upshot.database.given_rows import given_rows
from upshot.database.state import State
from upshot.engine.work import Work

if TYPE_CHECKING:
    from upshot.core.schema import Schema


class Transaction:
    """Statements apply in order, and only their net effect counts. A statement that fails applies nothing; if its error
    is caught inside the block, the transaction goes on without it.

    While the block runs, queries (on this thread and others) see the state before it; other writers wait.
    """

    def __init__(self, state: State, meta: str | None = None) -> None:
        self._state = state
        self._meta = meta
        self._stage = "new"
        self._commit: Commit | None = None

    def __enter__(self) -> Transaction:
        if self._stage != "new":
            raise self._misused("this transaction was used already", "open a new one with `db.transaction()`")
        self._state.open()
        self._state.writer.acquire("open a transaction")
        try:
            self._state.open()
        except UsageError:
            self._state.writer.release()
            raise
        self._stage = "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state, self._stage = self._state, "rolled back"
        try:
            with state.lock:
                if kind is None:
                    self._commit = commit(state, self._meta)
                    self._stage = "committed"
                    state.after_change()
                else:
                    state.engine.rollback()
        finally:
            state.writer.release()
        state.feed.hand_over()

    # ---- statements -----------------------------------------------------------------------------

    def insert(self, name: str, rows: Any) -> None:
        """Adds rows; those that are there already change nothing."""
        target, given = self._given(name, rows)
        with self._state.lock:
            self._state.engine.insert(target.name, given)

    def delete(self, name: str, rows: Any) -> None:
        """Removes rows; those that are not there change nothing."""
        target, given = self._given(name, rows)
        with self._state.lock:
            self._state.engine.delete(target.name, given)

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
        with self._state.lock:
            self._state.engine.upsert(target.name, given)

    def replace(self, name: str, rows: Any) -> None:
        """Makes these the only rows of the relation; the difference is the change."""
        target, given = self._given(name, rows)
        with self._state.lock:
            self._state.engine.replace(target.name, given)

    def _given(self, name: str, rows: Any) -> tuple[Schema, Any]:
        if self._stage != "open":
            words = "has not begun" if self._stage == "new" else f"is {self._stage}"
            raise self._misused(f"the transaction {words}", "change rows inside `with db.transaction() as tx:`")
        target = self._state.base(name)
        return target, given_rows(target, rows, self._state.engine)

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
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Violations of constraints that only warn."""
        return self._result().warnings

    def _result(self) -> Commit:
        if self._commit is None:
            words = {"new": "has not begun", "open": "is still open"}.get(self._stage, "was rolled back")
            raise self._misused(f"the transaction {words}: it has no result", "read results after the `with` block")
        return self._commit

    def _misused(self, message: str, hint: str) -> UsageError:
        return UsageError(message, code="transaction-open" if self._stage == "open" else "transaction-ended", help=hint)

    def __repr__(self) -> str:
        return f"<transaction, {self._stage}>"
