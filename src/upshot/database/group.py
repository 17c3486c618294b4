"""Transactions that become durable together: each a version of its own, one write to the disk for all of them.

with db.group() as group:                  the right to write, and the lock: nobody sees anything of it yet
    with group.transaction() as tx: …      version 5
    with group.transaction() as tx: …      fails: undone alone
    with group.transaction() as tx: …      version 6
                                           one write; then readers, watchers and rules that run after a commit
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.core.errors import Error, RuleError, UsageError
from upshot.database import live
from upshot.database.durable.journal import meta_text
from upshot.database.rules.outbox import carry_out
from upshot.database.state import PendingGroup
from upshot.database.transaction import Transaction
from upshot.database.watch import QueryFailure
from upshot.engine.local.kernel.interrupts import uninterrupted

if TYPE_CHECKING:
    from upshot.core.rows import Rows
    from upshot.database.state import DatabaseState

log = logging.getLogger("upshot.store")


class Group:
    """For one `with` block, on one thread. A transaction whose error is caught inside the block fails alone. If the
    block itself ends with an error, or the write does, no transaction of the group ever happened: the database is as
    before, nobody was told, and what the write failed with can be tried again (`retryable`).

    Results of its transactions may be read inside the block; they count when the block has ended.
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
                state.drop_unfollowed()
            except BaseException:
                state.lock.release()
                raise
        except BaseException:
            state.writer.release()
            raise
        state.held = PendingGroup(list(state.outbox))
        if state.journal is not None:
            state.journal.hold()
        self._stage = "open"
        return self

    def transaction(self, *, meta: Mapping[str, Any] | None = None) -> Transaction:
        """A transaction for a `with` block inside that of the group; the next one after it has ended."""
        if self._stage != "open" or not self._state.writer.is_mine:
            words = {"new": "has not begun", "open": "is open on another thread"}.get(self._stage, "has ended")
            help = "open transactions inside `with db.group() as group:`"
            raise UsageError(f"the group {words}", code="transaction-ended", help=help)
        if self._transactions and self._transactions[-1].is_open:
            message = "cannot open a transaction while another one of the group is open"
            raise UsageError(message, code="transaction-open", help="end its `with` block first")
        made = Transaction(self._state, meta_text(meta), grouped=True)
        self._transactions.append(made)
        return made

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state, self._stage = self._state, "ended"
        held = state.held
        assert held is not None, "open"
        try:
            with uninterrupted():
                self._finish(held, failed=kind is not None)
            state.after_change()
        finally:
            state.lock.release()
            state.writer.release()
        state.feed.hand_over()
        try:
            known = {id(each) for each in held.outbox}
            carry_out(state, [each for each in state.outbox if id(each) not in known], Transaction)
        except RuleError as endless:
            # The group stands, whatever its rules go on to do.
            log.error("rules that ran after a group of transactions: %s", endless)

    def _finish(self, held: PendingGroup, *, failed: bool) -> None:
        """Writes the group, or undoes it."""
        state = self._state
        try:
            if state.journal is not None:
                state.journal.drop_held() if failed else state.journal.write_held()
        except BaseException as error:
            self._undo(held)
            if isinstance(error, Error):
                error.retryable = not state.closed
            raise
        if failed:
            self._undo(held)
            return
        state.held, state.shown = None, state.version
        for event, topic in held.events:
            state.feed.announce(event, topic)

    def _undo(self, held: PendingGroup) -> None:
        """Takes the engine back to the state before the group: the base changes the other way round, last one first."""
        state, engine = self._state, self._state.engine
        state.held, state.outbox = None, held.outbox
        for event, topic in held.events:
            if isinstance(event, QueryFailure):
                state.feed.announce(event, topic)
        for transaction in self._transactions:
            transaction.undone()
        try:
            for deltas in reversed(held.deltas):
                for name, (inserted, deleted) in deltas.items():
                    if len(inserted):
                        engine.delete(name, _given(inserted))
                    if len(deleted):
                        engine.insert(name, _given(deleted))
            if held.deltas:
                state.propagate()
                before = live.faults.answers_before(state) if engine.is_narrowed else None
                engine.accept()
                if before is not None:
                    live.faults.resume(state, before, state.live.narrowed)
        except BaseException:
            # What is in memory is not what is on the disk, and nobody may see it.
            log.critical("a group of transactions could not be rolled back in memory; the database is closed")
            state.shut()
            raise
        finally:
            state.version = state.shown


def _given(rows: Rows) -> Any:
    return rows.to_arrow() if rows.schema.columns else list(rows)
