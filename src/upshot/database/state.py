"""The state of a database: its program, engine and subscribers, and the locks on them.

Two locks. A thread that changes something holds `writer` for as long as its transaction is open: one writer at a time.
`lock` guards each single access to the engine: readers run between the statements of an open transaction and see the
state before it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.active.caller import at_once
from upshot.core.errors import DataError, LimitError, UsageError, unknown_relation
from upshot.core.schema import Role
from upshot.database import explain, live
from upshot.database.changes import undecided_relation
from upshot.database.durable.records import Records, in_memory
from upshot.database.live.live_queries import KeptAnswers, LiveQueries
from upshot.database.rules.actions import Actions
from upshot.database.watch import Feed
from upshot.engine.user_functions import RUNNING, UserFunctions

if TYPE_CHECKING:
    from upshot.active.caller import MakeCall
    from upshot.active.tasks import Pending
    from upshot.core.diagnostic import Diagnostic
    from upshot.core.schema import Schema
    from upshot.database.commit import Proposal
    from upshot.database.durable.journal import Journal
    from upshot.database.durable.records import RecordAccess
    from upshot.database.engines import Deltas, Engine
    from upshot.database.group import PendingGroup
    from upshot.database.program.compile import Compiled
    from upshot.database.watch import AnyEvent, Topic


@dataclass(slots=True)
class Batches:
    """The number of the last batch of each stream, read from the store once. `guard` lets one batch be applied at a
    time."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    _last: dict[str, int] = field(default_factory=dict)

    def last(self, stream: str, stored: Callable[[str], int | None]) -> int | None:
        if stream not in self._last:
            found = stored(stream)
            if found is None:
                return None
            self._last[stream] = found
        return self._last[stream]

    def applied(self, stream: str, batch: int) -> None:
        self._last[stream] = batch


MAX_FIRINGS = 1_000
"""The most firings of rules in one transaction, each caused by the one before."""


class WriteLock:
    """The write lock: one thread at a time, and never twice by the same thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    def acquire(self, action: str) -> None:
        if self._owner == threading.get_ident():
            raise UsageError(
                f"cannot {action} while a transaction is open on this thread",
                code="transaction-open",
                help="end the `with db.transaction()` block first",
            )
        self._lock.acquire()
        self._owner = threading.get_ident()

    def acquire_if_free(self) -> bool:
        """Acquire the lock if it is free; return whether this thread has it now."""
        if self._owner == threading.get_ident() or not self._lock.acquire(blocking=False):
            return False
        self._owner = threading.get_ident()
        return True

    def release(self) -> None:
        self._owner = None
        self._lock.release()

    @property
    def is_mine(self) -> bool:
        return self._owner == threading.get_ident()


MOST_REMEMBERED = 100_000
"""The most base rows of the last commit that are kept in memory, for `why_changed` without a store."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The base rows that the last commit inserted and deleted, and whether it left the program unchanged."""

    version: int
    same_program: bool
    deltas: Deltas

    @classmethod
    def of(cls, version: int, same_program: bool, deltas: Deltas, compiled: Compiled) -> LastCommit | None:
        """None for a commit of too many rows."""
        known = compiled.checked.schemas
        base = {name: each for name, each in deltas.items() if name in known and known[name].role is Role.BASE}
        rows = sum(len(inserted) + len(deleted) for inserted, deleted in base.values())
        return cls(version, same_program, base) if rows <= MOST_REMEMBERED else None


@dataclass(slots=True)
class DatabaseState:
    """The mutable state of a database. Its parts are replaced, never edited."""

    make_engine: Callable[[], Engine]
    engine: Engine
    compiled: Compiled
    version: int = 0
    closed: bool = False
    visible_version: int = -1
    """The version that users see: while a group is open, the one before it."""
    writer: WriteLock = field(default_factory=WriteLock)
    lock: threading.RLock = field(default_factory=threading.RLock)
    feed: Feed = field(default_factory=Feed)
    live: LiveQueries = field(default_factory=LiveQueries)
    """The queries with subscribers, installed in the engine beside the program."""
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    """The repeated queries whose answers are kept current."""
    journal: Journal | None = None
    """None for a database in memory."""
    actions: Actions = field(default_factory=Actions)
    outbox: list[Pending] = field(default_factory=list)
    """The tasks of rules that run after their commits."""
    make_call: MakeCall = at_once
    """Makes the function calls among these tasks."""
    max_firings: int = MAX_FIRINGS
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    memory_records: RecordAccess = field(default_factory=in_memory)
    """The records (`db.records`) of a database without a store."""
    batches: Batches = field(default_factory=Batches)
    open_group: PendingGroup | None = None
    last_commit: LastCommit | None = None
    """None if it changed too many rows."""
    warnings: tuple[Diagnostic, ...] = ()
    """Findings of opening the database."""
    reader: int | None = None
    """The thread inside a `ConsistentRead`: it holds the lock and must not wait for the write lock."""

    def __post_init__(self) -> None:
        self.visible_version = self.version

    @contextmanager
    def writing(self, action: str) -> Iterator[Engine]:
        """The engine, for one whole change. Subscribers are called after the write lock is released."""
        self.open()
        self.writer.acquire(action)
        try:
            with self.lock:
                self.open()
                self.remove_released_queries()
                yield self.engine
                self.after_change()
        finally:
            self.writer.release()
        self.feed.deliver()

    def propagate(self, several_turns: bool = False) -> Deltas:
        """Propagate the open change; live queries that fail are left out of it. `several_turns`: rules have several
        turns."""
        if self.live:
            return live.faults.propagate(self, several_turns)
        return self.engine.propagate(several_turns=several_turns)

    def remove_released_queries(self) -> None:
        """Remove the live queries without subscribers. The caller holds the write lock."""
        if self.live.released:
            with self.lock:
                if not self.closed:
                    live.follow.remove_released(self)

    def recorded(self, version: int, deltas: Deltas, proposal: Proposal) -> AbstractContextManager[object]:
        """A block that makes a commit visible. In a durable database the record is on disk when the block is entered,
        and removed if the block fails."""
        if self.journal is None or version == self.version:
            return nullcontext()
        return self.journal.recorded(self.engine, version, self.compiled, deltas, proposal)

    def advance(self, version: int, new: Compiled, deltas: Deltas) -> None:
        """Make this the current version, after the engine accepted its change. Users see the version of a group when
        the group ends."""
        if self.open_group is None:
            self.visible_version = version
        elif version != self.version:
            base = {name for name, schema in new.plan.normal.schemas.items() if schema.role is Role.BASE}
            self.open_group.deltas.append({name: delta for name, delta in deltas.items() if name in base})
        if version != self.version:
            self.last_commit = LastCommit.of(version, self.compiled.program == new.program, deltas, new)
        self.version, self.compiled = version, new

    def publish(self, event: AnyEvent, topic: Topic | None = None) -> None:
        """Queue an event for the subscribers of its topic; in a group, when the group ends."""
        if self.open_group is None:
            self.feed.announce(event, topic)
        else:
            self.open_group.events.append((event, topic))

    def refuse_group(self) -> None:
        """`UsageError` inside a group: a subscriber would get its changes so far twice."""
        if self.open_group is not None:
            hint = "watch before or after the group"
            raise UsageError("cannot watch while a group is open on this thread", code="transaction-open", help=hint)

    def after_change(self) -> None:
        """Evict kept answers, write a due snapshot, drop old commits. The caller holds the write lock and the lock of
        the state."""
        if self.kept.places:
            # Answers that cannot be evicted within the limits of this thread are evicted after the next change.
            with suppress(LimitError):
                live.kept.trim(self)
        if self.journal is not None:
            self.journal.after_change(self.engine, self.version, self.compiled)

    @contextmanager
    def reading(self) -> Iterator[Engine]:
        """The engine, for one read of the last committed state."""
        with self.lock:
            self.open()
            yield self.engine

    @property
    def keeps_answers(self) -> bool:
        """Test whether answers to repeated queries are kept: there are unstored views, and it is not switched off."""
        return bool(self.kept.bound and self.compiled.plan.on_demand.unstored)

    @property
    def in_consistent_read(self) -> bool:
        """Test whether this thread is inside a `ConsistentRead`."""
        return self.reader == threading.get_ident()

    def records(self, kind: str) -> Records:
        store = None if self.journal is None else self.journal.store
        return Records(kind, *(self.memory_records if store is None else (store.put_records, store.log.records)))

    def shut(self) -> None:
        """End all subscriptions and close the engine. The caller holds the write lock and the lock of the state."""
        self.closed = True
        self.feed.close()
        try:
            self.engine.close()
        finally:
            if self.journal is not None:
                self.journal.close()

    def open(self) -> None:
        """`UsageError` if the database is closed, or if a user function that it is calling uses it."""
        if RUNNING:
            self.functions.refuse_inside()
        if self.closed:
            message = "the database is closed"
            raise UsageError(message, code="closed", help="open a new one with `upshot.connect()`")

    @property
    def functions(self) -> UserFunctions:
        return self.engine.functions

    @property
    def schemas_with_undecided(self) -> Mapping[str, Schema]:
        """The schemas, and those of relations that differ between models, so that a query of one is refused by name."""
        checked = self.compiled.checked
        if not checked.undecided:
            return self.schemas
        return {**self.schemas, **{name: checked.schemas[name] for name in checked.undecided}}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations a user may name."""
        return self.compiled.visible

    def schema(self, name: str) -> Schema:
        schemas = self.schemas
        if name in self.compiled.checked.undecided:
            raise undecided_relation(name)
        if name not in schemas:
            raise unknown_relation(name, schemas)
        return schemas[name]

    def watchable(self, name: str) -> Schema:
        """The columns of a relation, or of the firings of an active rule."""
        rule = self.compiled.rule(name)
        return self.schema(name) if rule is None else rule.visible

    def base(self, name: str) -> Schema:
        """The base relation that stores the rows inserted into `name`: itself, or the hidden part of a view that has
        facts too."""
        schema = self.schema(name)
        home = self.compiled.home(name)
        if home is not None:
            return self.compiled.schema(home)
        checked = self.compiled.checked
        relations = explain.dependencies.base_relations_of(name, checked)
        below = ", ".join(f"`{relation}`" for relation in relations if relation not in checked.parts)
        kind = "constraint" if schema.role is Role.CONSTRAINT else "view"
        if not below and any(checked.parts.get(relation) == name for relation in relations):
            hint = f"declare `.input {name}`, and rows can be inserted into it"
        elif below:
            hint = f"change the base relations it depends on, {below}, or have `db.realize` find the changes"
        else:
            hint = "it depends on no base relation"
        raise DataError(
            f"`{name}` is a {kind}: its rows are derived and cannot be changed directly",
            code="not-a-base-relation",
            help=hint,
        )
