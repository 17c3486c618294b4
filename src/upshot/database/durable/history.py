"""The past of a durable database, as its store tells it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from upshot.active.tasks import logged_notes
from upshot.core.errors import UsageError
from upshot.core.rows import Row, Rows, row_set
from upshot.database.changes import ChangeSet
from upshot.database.durable.journal import Journal
from upshot.database.program.stored_text import program_text
from upshot.database.watch import Event
from upshot.store import LoggedFiring, LoggedRelation, Store
from upshot.store.entries import ChangeRow, CommitRow, relations_from


@dataclass(frozen=True, slots=True)
class PastFiring:
    """A firing in the log: the `rule`, its `coupling`, and the `count` of the rows that it fired for. The `key` is
    empty if nothing ran after the commit."""

    rule: str
    coupling: str
    key: str
    version: int
    count: int
    _rows: Rows | None = field(repr=False)

    @property
    def has_rows(self) -> bool:
        """Test whether its rows are in the log, which has those of small firings only."""
        return self._rows is not None

    @property
    def rows(self) -> Rows:
        """The rows that it fired for."""
        if self._rows is None:
            raise UsageError(
                f"the {self.count:,} rows for which `{self.rule}` fired in version {self.version} are not in the log",
                code="history-not-kept",
                help="rows of small firings are; read the changes of the commit",
            )
        return self._rows


class PastCommit:
    """One commit of the past: `version`, `time` (UTC), `meta` as the committer gave it, and the `program` in force from
    then on if it changed. `changes` and `firings` are read when somebody asks, while the database is open."""

    __slots__ = ("_read", "_store", "meta", "program", "time", "version")

    def __init__(self, row: CommitRow, program: str | None, read: Callable[[], ChangeSet], store: Store) -> None:
        self.version = row.version
        self.time = dt.datetime.fromisoformat(row.time)
        self.meta: dict[str, Any] = json.loads(row.meta) if row.meta else {}
        self.program = program
        self._read, self._store = read, store

    @property
    def changes(self) -> ChangeSet:
        """The exact net change of every relation there was, as `tx.changes` showed it."""
        return self._read()

    @property
    def has_firings(self) -> bool:
        """Test whether the firings of this version are in the log: an older store has none of earlier ones."""
        return self.version > self._store.firings_since

    @property
    def firings(self) -> tuple[PastFiring, ...]:
        """The active rules that fired in its transaction, in order, as in `tx.firings`."""
        return tuple(_firing(self.version, each) for each in self._store.firings(self.version))

    def __repr__(self) -> str:
        return f"<commit {self.version}, {self.time:%Y-%m-%d %H:%M:%S}>"


def history(journal: Journal, since: int, until: int, *, reverse: bool = False) -> Iterator[PastCommit]:
    """The commits after `since`, oldest first, or newest first if `reverse`."""
    store = journal.store
    refuse_forgotten(store, since, until)
    programs = {row.version: program_text(row.program) for row in store.definitions(since, until)}
    return (
        PastCommit(row, programs.get(row.version), partial(_changes, store, row.version), store)
        for row in store.commits(since, until, reverse=reverse)
    )


def refuse_forgotten(store: Store, since: int, current: int) -> None:
    """`UsageError` unless every change since this version is known."""
    if isinstance(since, int) and store.oldest <= since <= current:
        return
    message = f"changes since version {since} are not kept; those since {store.oldest} are, until {current}"
    if isinstance(since, int) and since > current:
        message = f"there is no version {since} yet; the last one is {current}"
    help = f"give a version from {store.oldest} to {current}; a watch without `since` starts from all rows"
    raise UsageError(message, code="history-not-kept", help=help)


def _changes(store: Store, version: int) -> ChangeSet:
    found = store.changes(version)
    definition = store.definition_at(version)
    relations = relations_from(definition.relations) if definition else {}
    return ChangeSet(
        {name: relation.schema for name, relation in relations.items() if relation.visible},
        {name: (came, went) for name, (_, came, went) in found.items()},
    )


def past_events(store: Store, view: str, since: int, until: int) -> Iterator[Event]:
    """The events of a relation that a watcher missed. Where it got other columns, or was dropped and made anew, all of
    its rows come as a snapshot, as they did for those who watched."""
    started = store.definition_at(since)
    relation = relations_from(started.relations).get(view) if started else None
    was_there = relation is not None
    changes = _Ahead(store.changes_of(view, since, until))
    for definition in store.definitions(since, until):
        for change in changes.before(definition.version):
            yield _event(store, relation, change)
        relation = relations_from(definition.relations).get(view)
        found = list(changes.before(definition.version + 1))
        if relation is not None and view in json.loads(definition.reset):
            empty = ChangeRow(definition.version, view, 0, 0, None, None)
            if was_there or found:
                yield _event(store, relation, found[0] if found else empty, snapshot=was_there)
            was_there = True
        else:
            yield from (_event(store, relation, change) for change in found)
    for change in changes.before(until + 1):
        yield _event(store, relation, change)


def past_firings(store: Store, rule: str, since: int, until: int) -> Iterator[Event]:
    """The events of a rule that a watcher missed: the rows of all its firings in a version, once."""
    for version, found in groupby(store.firings_of(rule, since, until), lambda each: each[0]):
        rows = [_firing(version, firing).rows for _, firing in found]
        every = frozenset[Row]().union(*map(row_set, rows))
        schema = rows[-1].schema
        yield Event(rule, version, Rows.of(schema, list(every)), Rows.of(schema, []))


def _firing(version: int, found: LoggedFiring) -> PastFiring:
    coupling, key = logged_notes(found)
    return PastFiring(found.rule, coupling, key, version, found.count, found.rows)


class _Ahead:
    """Changes in the order of their versions, taken up to one version after the other."""

    def __init__(self, changes: Iterator[ChangeRow]) -> None:
        self._changes = changes
        self._next = next(changes, None)

    def before(self, version: int) -> Iterator[ChangeRow]:
        while self._next is not None and self._next.version < version:
            found, self._next = self._next, next(self._changes, None)
            yield found


def _event(store: Store, relation: LoggedRelation | None, change: ChangeRow, *, snapshot: bool = False) -> Event:
    assert relation is not None, "a relation that changes is there"
    inserted, deleted = store.rows(relation, change)
    return Event(change.relation, change.version, inserted, deleted, snapshot)
