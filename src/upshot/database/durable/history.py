"""The history of a durable database, read from its log: commits, past events and firings, the commits that changed a
row."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from upshot.active.tasks import logged_notes
from upshot.core.errors import UsageError
from upshot.core.operations import DELETED, INSERTED
from upshot.core.rows import Row, Rows, row_set
from upshot.core.types import Kind
from upshot.database.changes import ChangeSet
from upshot.database.durable.journal import Journal
from upshot.database.files.arrow_tables import tuples_of
from upshot.database.program.stored_text import program_text
from upshot.database.watch import Event
from upshot.reasons.derivation import Moment
from upshot.store.entries import ChangeRow, CommitRow, LoggedFiring, LoggedRelation, relations_from
from upshot.store.store import Store


@dataclass(frozen=True, slots=True)
class PastFiring:
    """A firing in the log: the `rule`, its `coupling`, and the `count` of its rows. The `key` is empty if it had no
    task after the commit."""

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
        if self._rows is None:
            raise UsageError(
                f"the {self.count:,} rows for which `{self.rule}` fired in version {self.version} are not in the log",
                code="history-not-kept",
                help="rows of small firings are; read the changes of the commit",
            )
        return self._rows


class PastCommit:
    """A past commit: `version`, `time` (UTC), `meta` of its transaction, and the `program` if it changed. `changes` and
    `firings` are read on use, while the database is open."""

    __slots__ = ("_read", "_store", "meta", "program", "time", "version")

    def __init__(self, row: CommitRow, program: str | None, read: Callable[[], ChangeSet], store: Store) -> None:
        self.version = row.version
        self.time = dt.datetime.fromisoformat(row.time)
        self.meta: dict[str, Any] = json.loads(row.meta) if row.meta else {}
        self.program = program
        self._read, self._store = read, store

    @property
    def changes(self) -> ChangeSet:
        """The exact net change of every relation at that time, like `tx.changes`."""
        return self._read()

    @property
    def has_firings(self) -> bool:
        """Test whether the firings of this version are in the log; older stores did not log them."""
        return self.version > self._store.log.firings_since()

    @property
    def firings(self) -> tuple[PastFiring, ...]:
        """The active rules that fired in its transaction, in order, like `tx.firings`."""
        return tuple(_firing(self.version, each) for each in self._store.firings(self.version))

    def __repr__(self) -> str:
        return f"<commit {self.version}, {self.time:%Y-%m-%d %H:%M:%S}>"


def history(journal: Journal, since: int, until: int, *, reverse: bool = False) -> Iterator[PastCommit]:
    """The commits after `since`, oldest first, or newest first if `reverse`."""
    store = journal.store
    refuse_dropped(store, since, until)
    programs = {row.version: program_text(row.program) for row in store.log.definitions(since, until)}
    return (
        PastCommit(row, programs.get(row.version), partial(_changes, store, row.version), store)
        for row in store.log.commits(since, until, reverse=reverse)
    )


def refuse_dropped(store: Store, since: int, current: int) -> None:
    """`UsageError` unless all changes since this version are kept."""
    if isinstance(since, int) and store.oldest <= since <= current:
        return
    message = f"changes since version {since} are not kept; those since {store.oldest} are, until {current}"
    if isinstance(since, int) and since > current:
        message = f"there is no version {since} yet; the last one is {current}"
    help = f"give a version from {store.oldest} to {current}; a watch without `since` starts from all rows"
    raise UsageError(message, code="history-not-kept", help=help)


def _changes(store: Store, version: int) -> ChangeSet:
    found = store.changes(version)
    definition = store.log.definition_at(version)
    relations = relations_from(definition.relations) if definition else {}
    return ChangeSet(
        {name: relation.schema for name, relation in relations.items() if relation.visible},
        {name: (inserted, deleted) for name, (_, inserted, deleted) in found.items()},
    )


def past_events(store: Store, view: str, since: int, until: int) -> Iterator[Event]:
    """The events of a relation that a subscriber missed. Where it got other columns, or was dropped and defined again,
    all its rows come as a snapshot, as for current subscribers."""
    started = store.log.definition_at(since)
    relation = relations_from(started.relations).get(view) if started else None
    existed = relation is not None
    changes = _ChangesByVersion(store.log.changes_of(view, since, until))
    for definition in store.log.definitions(since, until):
        for change in changes.before(definition.version):
            yield _event(store, relation, change)
        relation = relations_from(definition.relations).get(view)
        found = list(changes.before(definition.version + 1))
        if relation is not None and view in json.loads(definition.reset):
            empty = ChangeRow(definition.version, view, 0, 0, None, None)
            if existed or found:
                yield _event(store, relation, found[0] if found else empty, snapshot=existed)
            existed = True
        else:
            yield from (_event(store, relation, change) for change in found)
    for change in changes.before(until + 1):
        yield _event(store, relation, change)


def past_firings(store: Store, rule: str, since: int, until: int) -> Iterator[Event]:
    """The events of a rule that a subscriber missed: one for each version, with the rows of all its firings."""
    for version, found in groupby(store.firings_of(rule, since, until), lambda each: each[0]):
        rows = [_firing(version, firing).rows for _, firing in found]
        every = frozenset[Row]().union(*map(row_set, rows))
        schema = rows[-1].schema
        yield Event(rule, version, Rows.of(schema, list(every)), Rows.of(schema, []))


def _firing(version: int, found: LoggedFiring) -> PastFiring:
    coupling, key = logged_notes(found)
    return PastFiring(found.rule, coupling, key, version, found.count, found.rows)


class _ChangesByVersion:
    """Changes in the order of their versions, consumed up to one version after the other."""

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


# ---- the commits that changed a row -----------------------------------------------------------------

Key = tuple[str, Row]

FIRST_COUNT = 64
"""The versions that are read at once, at first."""
FEW = 10_000
"""Changes with more rows are searched with Arrow."""


def moments_of(store: Store, facts: Collection[Key], until: int) -> dict[Key, Moment]:
    """The last insertion of each of these present base rows, as far as the log reaches. The log is read backwards until
    every row is found."""
    wanted: dict[str, set[Row]] = {}
    for relation, row in facts:
        wanted.setdefault(relation, set()).add(row)
    found: dict[Key, Moment] = {}
    for relation, rows in wanted.items():
        for known, change in _backwards(store, relation, until):
            inserted = _among(store.rows(known, change)[0], rows)
            found |= {(relation, row): moment(store, change.version) for row in inserted}
            rows -= inserted
            if not rows:
                break
    return found


def last_change(store: Store, key: Key, until: int) -> tuple[int, str] | None:
    """The last version that changed a row, and how; None if it is not in the log."""
    return next(_changes_of(store, key, until), None)


@dataclass(frozen=True, slots=True)
class PastChange:
    """A commit that inserted or deleted a row: `change` is `inserted` or `deleted`."""

    version: int
    change: str
    time: dt.datetime
    meta: Mapping[str, Any]


def row_history(store: Store, key: Key, until: int) -> tuple[PastChange, ...]:
    """The commits that inserted or deleted a row, oldest first, as far as the log reaches."""
    found = []
    for version, change in _changes_of(store, key, until):
        commit = moment(store, version)
        assert commit.time is not None, "a commit in the log has its time"
        found.append(PastChange(version, change, commit.time, commit.meta))
    return tuple(reversed(found))


def _changes_of(store: Store, key: Key, until: int) -> Iterator[tuple[int, str]]:
    """The versions that inserted or deleted a row, newest first."""
    relation, row = key
    for known, change in _backwards(store, relation, until):
        inserted, deleted = store.rows(known, change)
        if _among(inserted, {row}):
            yield change.version, INSERTED
        elif _among(deleted, {row}):
            yield change.version, DELETED


def _backwards(store: Store, relation: str, until: int) -> Iterator[tuple[LoggedRelation, ChangeRow]]:
    """The changes of a relation, newest first, read in growing ranges."""
    count = FIRST_COUNT
    while until > store.oldest:
        after = max(until - count, store.oldest)
        for change in reversed(list(store.log.changes_of(relation, after, until))):
            definition = store.log.definition_at(change.version)
            known = relations_from(definition.relations).get(relation) if definition else None
            if known is not None:
                yield known, change
        until, count = after, 2 * count


def _among(rows: Rows, wanted: set[Row]) -> set[Row]:
    """The wanted rows that are present. Of many rows only those are decoded that share a value with a wanted one."""
    if not len(rows):
        return set()
    if len(rows) <= FEW:
        return wanted & row_set(rows)
    import pyarrow as pa  # noqa: PLC0415 - only for large changes
    import pyarrow.compute as pc  # noqa: PLC0415

    kinds = [column.type.kind for column in rows.schema.columns]
    place = next((place for place, kind in enumerate(kinds) if kind in _EXACT), None)
    table = rows.to_arrow()
    if place is not None:
        values = pa.array([row[place] for row in wanted], table.column(place).type)
        table = table.filter(pc.is_in(table.column(place), value_set=values))
    return wanted & row_set(tuples_of(table))


_EXACT = (Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL, Kind.RECORD)


def moment(store: Store, version: int) -> Moment:
    row: CommitRow = next(iter(store.log.commits(version - 1, version)))
    return Moment(version, dt.datetime.fromisoformat(row.time), json.loads(row.meta) if row.meta else {})
