"""The state of a database: its program, engine and subscribers, and the locks on them.

Two locks. `writer` is held by whoever changes something, for as long as a transaction is open: one writer at a time.
`lock` guards each single access to the engine: readers get in between the statements of an open transaction and see
the state before it.
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
    from upshot.database.program.compile import Compiled
    from upshot.database.watch import Told, Topic


@dataclass(slots=True)
class Batches:
    """One batch at a time is applied; its number is known from then on, and looked up in the store before."""

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
"""The most rules that one transaction may set off, one after the other."""


class WriteLock:
    """The right to change the database: one thread at a time, and never twice by the same thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    def acquire(self, deed: str) -> None:
        if self._owner == threading.get_ident():
            raise UsageError(
                f"cannot {deed} while a transaction is open on this thread",
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
        """Test whether this thread has the lock."""
        return self._owner == threading.get_ident()


MOST_REMEMBERED = 100_000
"""Base rows of the last commit that are remembered, for `why_changed` without a store."""


@dataclass(slots=True)
class PendingGroup:
    """The unreported effects of the commits of an open group: the events of watchers, the changes of base relations one
    commit after the other, and the tasks before the group."""

    outbox: list[Pending]
    events: list[tuple[Told, Topic | None]] = field(default_factory=list)
    deltas: list[Deltas] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The base rows that the last commit inserted and deleted, under the same program as before or not."""

    version: int
    same_program: bool
    deltas: Deltas

    @classmethod
    def of(cls, version: int, same_program: bool, deltas: Deltas, compiled: Compiled) -> LastCommit | None:
        """None for a commit of so many rows that remembering them would cost more than it is worth."""
        known = compiled.checked.schemas
        base = {name: each for name, each in deltas.items() if name in known and known[name].role is Role.BASE}
        rows = sum(len(inserted) + len(deleted) for inserted, deleted in base.values())
        return cls(version, same_program, base) if rows <= MOST_REMEMBERED else None


@dataclass(slots=True)
class DatabaseState:
    """The mutable heart of a database; everything it points to is replaced, never edited."""

    make_engine: Callable[[], Engine]
    engine: Engine
    compiled: Compiled
    version: int = 0
    closed: bool = False
    shown: int = -1
    """The version that anyone may be told of: while a group is open, the one before it."""
    writer: WriteLock = field(default_factory=WriteLock)
    lock: threading.RLock = field(default_factory=threading.RLock)
    feed: Feed = field(default_factory=Feed)
    live: LiveQueries = field(default_factory=LiveQueries)
    """The queries that somebody follows, which the engine has beside the program."""
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    """The questions whose answers are kept current."""
    journal: Journal | None = None
    """The journal of a durable database."""
    actions: Actions = field(default_factory=Actions)
    outbox: list[Pending] = field(default_factory=list)
    """The pending tasks of rules for after their commits."""
    make_call: MakeCall = at_once
    """Makes the calls among them."""
    max_firings: int = MAX_FIRINGS
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    memory_records: RecordAccess = field(default_factory=in_memory)
    """The records of a database without a store."""
    batches: Batches = field(default_factory=Batches)
    """The last batch of each stream that `apply_batch` has applied."""
    held: PendingGroup | None = None
    """The group that is open, if one is."""
    last: LastCommit | None = None
    """The base changes of the last commit, if they were few enough to keep."""
    warnings: tuple[Diagnostic, ...] = ()
    """Findings of opening the database."""
    reader: int | None = None
    """The thread inside a `Reading`, which holds the lock and must not wait for the right to write."""

    def __post_init__(self) -> None:
        self.shown = self.version

    @contextmanager
    def writing(self, deed: str) -> Iterator[Engine]:
        """The engine, for one whole change. What watchers are owed is handed over once the right is given back."""
        self.open()
        self.writer.acquire(deed)
        try:
            with self.lock:
                self.open()
                self.drop_unfollowed()
                yield self.engine
                self.after_change()
        finally:
            self.writer.release()
        self.feed.hand_over()

    def propagate(self, several_turns: bool = False) -> Deltas:
        """Propagate the open change, for rules of one or several turns; a live query that fails does not take part."""
        if self.live:
            return live.faults.propagate(self, several_turns)
        return self.engine.propagate(several_turns=several_turns)

    def drop_unfollowed(self) -> None:
        """Take out the live queries that nobody follows any more. The caller has the right to write."""
        if self.live.released:
            with self.lock:
                if not self.closed:
                    live.follow.take_back(self)

    def prepared(self, version: int, deltas: Deltas, proposal: Proposal) -> AbstractContextManager[object]:
        """A block that makes a commit visible. A durable database has it on the disk when the block is entered, and
        takes it back should the block fail."""
        if self.journal is None or version == self.version:
            return nullcontext()
        return self.journal.prepared(self.engine, version, self.compiled, deltas, proposal)

    def became(self, version: int, new: Compiled, deltas: Deltas) -> None:
        """The engine has accepted a change: this is the version now. In a group nobody is told before it ends."""
        if self.held is None:
            self.shown = version
        elif version != self.version:
            base = {name for name, schema in new.plan.normal.schemas.items() if schema.role is Role.BASE}
            self.held.deltas.append({name: delta for name, delta in deltas.items() if name in base})
        if version != self.version:
            self.last = LastCommit.of(version, self.compiled.program == new.program, deltas, new)
        self.version, self.compiled = version, new

    def tell(self, event: Told, topic: Topic | None = None) -> None:
        """Queues an event for those who watch its relation, after the group if one is open."""
        if self.held is None:
            self.feed.announce(event, topic)
        else:
            self.held.events.append((event, topic))

    def refuse_group(self) -> None:
        """`UsageError` inside a group: what it has done so far would be heard of twice."""
        if self.held is not None:
            hint = "watch before or after the group"
            raise UsageError("cannot watch while a group is open on this thread", code="transaction-open", help=hint)

    def after_change(self) -> None:
        """Do the background work of a durable database. The caller holds the write lock and the lock of the state."""
        if self.kept.places:
            # The change is made: what cannot be evicted within the limits of this thread is evicted at the next one.
            with suppress(LimitError):
                live.kept.trim(self)
        if self.journal is not None:
            self.journal.after_change(self.engine, self.version, self.compiled)

    @contextmanager
    def reading(self) -> Iterator[Engine]:
        """The engine, for one look at the last committed state."""
        with self.lock:
            self.open()
            yield self.engine

    @property
    def notes_questions(self) -> bool:
        """Test whether answers to questions that are asked again are kept: on unstored views, unless switched off."""
        return bool(self.kept.bound and self.compiled.plan.on_demand.unstored)

    @property
    def is_read_here(self) -> bool:
        """Test whether this thread is inside a `Reading`."""
        return self.reader == threading.get_ident()

    def records(self, kind: str) -> Records:
        """Notes of one kind that others keep with the database."""
        store = None if self.journal is None else self.journal.store
        return Records(kind, *(self.memory_records if store is None else (store.put_records, store.records)))

    def shut(self) -> None:
        """Ends all watches and lets go of the data. The caller holds the right to write and the lock."""
        self.closed = True
        self.feed.close()
        try:
            self.engine.close()
        finally:
            if self.journal is not None:
                self.journal.close()

    def open(self) -> None:
        """`UsageError` where the database cannot be used: it is closed, or a function that it calls asks it."""
        if RUNNING:
            self.functions.refuse_inside()
        if self.closed:
            message = "the database is closed"
            raise UsageError(message, code="closed", help="open a new one with `upshot.connect()`")

    @property
    def functions(self) -> UserFunctions:
        """The functions that rules call; every engine of the database has the same."""
        return self.engine.functions

    @property
    def schemas_with_undecided(self) -> Mapping[str, Schema]:
        """The schemas and those of relations without rows of their own, so that a text that reads one can be refused by
        name."""
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
        """The columns of a relation, or of the instances of an active rule."""
        rule = self.compiled.rule(name)
        return self.schema(name) if rule is None else rule.visible

    def base(self, name: str) -> Schema:
        """The base relation that takes rows for `name`: itself, or the hidden part of a view that also has facts."""
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
