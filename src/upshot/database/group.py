"""Groups: transactions that become durable together. Each is a version of its own; one write stores all of them.

with db.group() as group:                  holds the write lock and the lock of the state: nobody sees its changes yet
    with group.transaction() as tx: …      version 5
    with group.transaction() as tx: …      fails: only this one is rolled back
    with group.transaction() as tx: …      version 6
                                           one write; then readers, subscribers and tasks of rules

Constraints are checked for every transaction (`commit.py`). The docstring of `constraints.py` says what to change to
check one at the end of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.core.errors import Error, RuleError, UsageError
from upshot.database import live
from upshot.database.durable.journal import meta_text
from upshot.database.rules.outbox import run_tasks
from upshot.database.transaction import Transaction
from upshot.database.watch import QueryFailure
from upshot.engine.local.kernel.interrupts import uninterrupted

if TYPE_CHECKING:
    from upshot.active.tasks import Pending
    from upshot.core.rows import Rows
    from upshot.database.engines import Deltas
    from upshot.database.state import DatabaseState
    from upshot.database.watch import AnyEvent, Topic

log = logging.getLogger("upshot.store")


@dataclass(slots=True)
class PendingGroup:
    """The unpublished effects of an open group: the `outbox` before it, its events, and the changes of base relations
    by each of its commits."""

    outbox: list[Pending]
    events: list[tuple[AnyEvent, Topic | None]] = field(default_factory=list)
    deltas: list[Deltas] = field(default_factory=list)


class Group:
    """For one `with` block, on one thread. A transaction whose error is caught inside the block fails alone. If the
    block ends with an error, or its write fails, all its transactions are rolled back and no subscriber is called;
    after a failed write it can be tried again (`retryable`).

    Results of its transactions may be read inside the block; they are final when the block has ended.
    """

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._stage = "new"
        self._transactions: list[Transaction] = []

    def __enter__(self) -> Group:
        if self._stage != "new":
            raise UsageError(
                "this group was already used", code="transaction-ended", help="open a new one with `db.group()`"
            )
        state = self._state
        state.open()
        state.writer.acquire("open a group")
        try:
            state.lock.acquire()
            try:
                state.open()
                state.remove_released_queries()
            except BaseException:
                state.lock.release()
                raise
        except BaseException:
            state.writer.release()
            raise
        state.open_group = PendingGroup(list(state.outbox))
        if state.journal is not None:
            state.journal.begin_group()
        self._stage = "open"
        return self

    def transaction(self, *, meta: Mapping[str, Any] | None = None) -> Transaction:
        """A transaction for a `with` block inside that of the group, one after the other."""
        if self._stage != "open" or not self._state.writer.is_mine:
            words = {"new": "has not begun", "open": "is open on another thread"}.get(self._stage, "has ended")
            help = "open transactions inside `with db.group() as group:`"
            raise UsageError(f"the group {words}", code="transaction-ended", help=help)
        if self._transactions and self._transactions[-1].is_open:
            message = "cannot open a transaction while another one of the group is open"
            raise UsageError(message, code="transaction-open", help="end its `with` block first")
        transaction = Transaction(self._state, meta_text(meta), grouped=True)
        self._transactions.append(transaction)
        return transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state, self._stage = self._state, "ended"
        group = state.open_group
        assert group is not None, "the block was entered"
        try:
            with uninterrupted():
                self._finish(group, failed=kind is not None)
            state.after_change()
        finally:
            state.lock.release()
            state.writer.release()
        state.feed.deliver()
        try:
            known = {id(each) for each in group.outbox}
            run_tasks(state, [each for each in state.outbox if id(each) not in known], Transaction)
        except RuleError as endless:
            # The group is committed, whatever its rules go on to do.
            log.error("rules that ran after a group of transactions: %s", endless)

    def _finish(self, group: PendingGroup, *, failed: bool) -> None:
        """Write the records of the group, or roll it back."""
        state = self._state
        try:
            if state.journal is not None:
                state.journal.drop_group() if failed else state.journal.write_group()
        except BaseException as error:
            self._undo(group)
            if isinstance(error, Error):
                error.retryable = not state.closed
            raise
        if failed:
            self._undo(group)
            return
        state.open_group, state.visible_version = None, state.version
        for event, topic in group.events:
            state.feed.announce(event, topic)

    def _undo(self, group: PendingGroup) -> None:
        """Return the engine to the state before the group, by the inverse of its base changes, last one first."""
        state, engine = self._state, self._state.engine
        state.open_group, state.outbox = None, group.outbox
        for event, topic in group.events:
            if isinstance(event, QueryFailure):
                state.feed.announce(event, topic)
        for transaction in self._transactions:
            transaction.undone()
        try:
            for deltas in reversed(group.deltas):
                for name, (inserted, deleted) in deltas.items():
                    if len(inserted):
                        engine.delete(name, _stageable(inserted))
                    if len(deleted):
                        engine.insert(name, _stageable(deleted))
            if group.deltas:
                state.propagate()
                before = live.faults.answers_before(state) if engine.is_narrowed else None
                engine.accept()
                if before is not None:
                    live.faults.resume(state, before, state.live.narrowed)
        except BaseException:
            # The state in memory differs from the store, and nobody may see it.
            log.critical("a group of transactions could not be rolled back in memory; the database is closed")
            state.shut()
            raise
        finally:
            state.version = state.visible_version


def _stageable(rows: Rows) -> Any:
    return rows.to_arrow() if rows.schema.columns else list(rows)
