"""The records of the log: for each its fields, its row, its table, and how it is written and read.

To change a record or add one, edit its section here. `Encoded.rows` lists the rows of a commit; a record of a new kind
needs in `log` only the query that reads it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from upshot.core.rows import Rows
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Kind, Type
from upshot.store.encoding import FolderSide, decode, encode_all, encode_few, rows_of, size_of

R = TypeVar("R", bound="tuple[Any, ...]")


@dataclass(frozen=True, slots=True)
class LogTable(Generic[R]):
    """A table of the log. `columns` are in the order of the values that `row` takes; the checksum follows them. `word`
    names a row in errors. Rows of a table `of_commit` are removed with a commit that is retracted, those of a table
    `of_history` with a commit that is dropped as too old. A `later` table is added to older stores when they are
    opened."""

    name: str
    row: Callable[[Iterable[Any]], R]
    columns: str
    key: str = ""
    word: str = "commit"
    of_commit: bool = True
    of_history: bool = False
    later: bool = False
    index: str = ""
    """The name of an index and its columns."""

    def statements(self) -> list[str]:
        """The definition of the table in SQL."""
        new = " IF NOT EXISTS" if self.later else ""
        key, kind = (f", PRIMARY KEY ({self.key})", " WITHOUT ROWID") if self.key else ("", "")
        made = [f"CREATE TABLE{new} {self.name} ({self.columns}, crc INTEGER NOT NULL{key}){kind}"]
        if self.index:
            name, columns = self.index.split(" ", 1)
            made.append(f"CREATE INDEX{new} {name} ON {self.name} {columns}")
        return made


# ---- relations and programs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoggedRelation:
    """A relation whose changes are logged. Users may name `visible` ones."""

    schema: Schema
    visible: bool = True


Relations = Mapping[str, LoggedRelation]


@dataclass(frozen=True, slots=True)
class NewProgram:
    """A program that takes effect with a commit. `relations` are all whose changes are logged from then on; those in
    `reset` are empty before this commit. `hidden` identifies the normal form of the program: rows of hidden relations
    are valid only for the same one."""

    text: str
    relations: Relations
    reset: frozenset[str]
    hidden: str = ""


class DefinitionRow(NamedTuple):
    version: int
    program: str
    relations: str
    reset: str
    hidden: str


DEFINITIONS = LogTable(
    "definitions",
    DefinitionRow._make,
    "version INTEGER PRIMARY KEY, program TEXT NOT NULL, relations TEXT NOT NULL, reset TEXT NOT NULL, "
    "hidden TEXT NOT NULL",
    word="definition",
)


def _definition_row(version: int, program: NewProgram) -> DefinitionRow:
    relations, reset = relations_text(program.relations.values()), json.dumps(sorted(program.reset))
    return DefinitionRow(version, program.text, relations, reset, program.hidden)


def relations_text(relations: Iterable[LoggedRelation]) -> str:
    return json.dumps([_as_dict(relation) for relation in relations], separators=(",", ":"))


def relations_from(text: str) -> dict[str, LoggedRelation]:
    """The inverse of `relations_text`."""
    return {found.schema.name: found for found in map(_relation, json.loads(text))}


def _as_dict(relation: LoggedRelation) -> dict[str, Any]:
    schema = relation.schema
    return {
        "name": schema.name,
        "role": schema.role.value,
        "visible": relation.visible,
        "columns": [_column_dict(column) for column in schema.columns],
        "keys": schema.keys,
    }


def _column_dict(column: Column) -> dict[str, Any]:
    type = column.type
    found: dict[str, Any] = {"name": column.name, "kind": type.kind.value, "nullable": type.nullable}
    if type.name:
        found["subtype"] = type.name
    if type.precision:
        found |= {"precision": type.precision, "scale": type.scale}
    if type.definition:
        found["definition"] = type.definition
    return found


def _relation(found: dict[str, Any]) -> LoggedRelation:
    columns = tuple(_column(column) for column in found["columns"])
    keys = tuple(tuple(key) for key in found["keys"])
    return LoggedRelation(Schema(found["name"], columns, Role(found["role"]), keys), found["visible"])


def _column(found: dict[str, Any]) -> Column:
    kind, name = Kind(found["kind"]), found.get("subtype", "")
    precision, scale = found.get("precision", 0), found.get("scale", 0)
    return Column(found["name"], Type(kind, name, found["nullable"], precision, scale, found.get("definition", "")))


# ---- snapshots ---------------------------------------------------------------------------------------------


class SnapshotRow(NamedTuple):
    version: int
    time: str
    relations: str
    saved: str
    hidden: str


SNAPSHOTS = LogTable(
    "snapshots",
    SnapshotRow._make,
    "version INTEGER PRIMARY KEY, time TEXT NOT NULL, relations TEXT NOT NULL, saved TEXT NOT NULL, "
    "hidden TEXT NOT NULL",
    word="snapshot",
    of_commit=False,
)


def snapshot_row(version: int, relations: Relations, saved: Mapping[str, object], hidden: str) -> SnapshotRow:
    texts = relations_text(relations.values()), json.dumps(saved, separators=(",", ":"))
    return SnapshotRow(version, _now(), *texts, hidden)


# ---- tasks for after a commit ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutboxTask:
    """A task of a rule after a commit: `number` identifies it within the commit, `text` is JSON of `active/tasks.py`,
    `rows` are its arguments."""

    version: int
    number: int
    text: str
    rows: Rows


class OutboxRow(NamedTuple):
    """`task` is JSON, `rows` an encoded side."""

    version: int
    number: int
    task: str
    rows: bytes


OUTBOX = LogTable(
    "outbox",
    OutboxRow._make,
    "version INTEGER NOT NULL, number INTEGER NOT NULL, task TEXT NOT NULL, rows BLOB NOT NULL",
    key="version, number",
    word="task",
    later=True,
)


def _outbox_row(task: OutboxTask) -> OutboxRow:
    text = json.dumps({"columns": relations_text([LoggedRelation(task.rows.schema)]), "task": task.text})
    return OutboxRow(task.version, task.number, text, encode_all(task.rows))


def task_of(row: OutboxRow) -> OutboxTask:
    found = json.loads(row.task)
    return OutboxTask(row.version, row.number, found["task"], _rows(found["columns"], row.rows))


# ---- firings of active rules -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoggedFiring:
    """A firing of an active rule in a commit: `text` is JSON of `active/tasks.py`, `count` the number of its `rows`,
    which are None if they are too many for the log."""

    rule: str
    text: str
    count: int
    rows: Rows | None


class FiringRow(NamedTuple):
    """`text` is JSON, `size` the number of rows, `rows` an encoded side, None if they are too many."""

    version: int
    number: int
    rule: str
    text: str
    size: int
    rows: bytes | None


FIRINGS = LogTable(
    "firings",
    FiringRow._make,
    "version INTEGER NOT NULL, number INTEGER NOT NULL, rule TEXT NOT NULL, text TEXT NOT NULL, "
    "count INTEGER NOT NULL, rows BLOB",
    key="version, number",
    of_history=True,
    later=True,
    index="firings_of_rule (rule, version)",
)


def _firing_row(version: int, number: int, firing: LoggedFiring) -> FiringRow:
    """Only few rows are stored: the log of a bulk load is not doubled."""
    rows = None if firing.rows is None else encode_few(firing.rows)
    columns = "" if firing.rows is None else relations_text([LoggedRelation(firing.rows.schema)])
    text = json.dumps({"columns": columns, "firing": firing.text})
    return FiringRow(version, number, firing.rule, text, firing.count, rows)


def firing_of(row: FiringRow) -> LoggedFiring:
    found = json.loads(row.text)
    rows = None if row.rows is None else _rows(found["columns"], row.rows)
    return LoggedFiring(row.rule, found["firing"], row.size, rows)


def _rows(columns: str, side: bytes) -> Rows:
    """The rows of a task or a firing, with the columns that are stored beside them."""
    (relation,) = relations_from(columns).values()
    raw = decode(side)
    assert not isinstance(raw, FolderSide), "tasks and firings hold their rows themselves"
    return Rows.of(relation.schema, rows_of(relation.schema, raw))


# ---- commits -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit: inserted and deleted rows by relation; `meta` is a JSON object, as text. `tasks` are pending; `done`
    are completed tasks of earlier commits, by version and number. `firings` are in order."""

    version: int
    changes: Mapping[str, tuple[Rows, Rows]]
    meta: str | None = None
    program: NewProgram | None = None
    tasks: tuple[OutboxTask, ...] = ()
    done: tuple[tuple[int, int], ...] = ()
    firings: tuple[LoggedFiring, ...] = ()


class CommitRow(NamedTuple):
    version: int
    time: str
    meta: str | None
    relations: int
    rows: int
    bytes: int


COMMITS = LogTable(
    "commits",
    CommitRow._make,
    "version INTEGER PRIMARY KEY, time TEXT NOT NULL, meta TEXT, relations INTEGER NOT NULL, rows INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL",
    of_history=True,
)


class ChangeRow(NamedTuple):
    """The sides are the encoded inserted and deleted rows, None for no rows."""

    version: int
    relation: str
    inserted: int
    deleted: int
    inserted_side: bytes | None
    deleted_side: bytes | None


CHANGES = LogTable(
    "changes",
    ChangeRow._make,
    "version INTEGER NOT NULL, relation TEXT NOT NULL, inserted INTEGER NOT NULL, deleted INTEGER NOT NULL, came BLOB, "
    "went BLOB",
    key="version, relation",
    of_history=True,
    index="changes_of_relation (relation, version)",
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """All rows of one commit, ready to be written. `outbox` are its tasks, `done` those of earlier commits that it
    completes."""

    commit: CommitRow
    changes: tuple[ChangeRow, ...]
    definition: DefinitionRow | None = None
    outbox: tuple[OutboxRow, ...] = ()
    done: tuple[OutboxRow, ...] = ()
    firings: tuple[FiringRow, ...] = ()

    def rows(self) -> Iterator[tuple[LogTable[Any], tuple[Any, ...]]]:
        """The rows to write, each with its table."""
        yield COMMITS, self.commit
        yield from ((CHANGES, row) for row in self.changes)
        if self.definition is not None:
            yield DEFINITIONS, self.definition
        yield from ((OUTBOX, row) for row in self.outbox)
        yield from ((FIRINGS, row) for row in self.firings)


def encoded_entry(entry: Entry, changes: tuple[ChangeRow, ...], done: tuple[OutboxRow, ...]) -> Encoded:
    """The rows of a commit whose changes are encoded; `done` are the rows of the tasks that it completes."""
    firings = tuple(_firing_row(entry.version, number, each) for number, each in enumerate(entry.firings))
    size = sum(size_of(change.inserted_side) + size_of(change.deleted_side) for change in changes)
    size += sum(len(each.rows or b"") for each in firings)
    rows = sum(change.inserted + change.deleted for change in changes)
    commit = CommitRow(entry.version, _now(), entry.meta, len(changes), rows, size)
    definition = None if entry.program is None else _definition_row(entry.version, entry.program)
    return Encoded(commit, changes, definition, tuple(map(_outbox_row, entry.tasks)), done, firings)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


# ---- records and cursors, outside of commits --------------------------------------------------------

RECORDS = LogTable(
    "records",
    tuple,
    "kind TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL",
    key="kind, id",
    word="record",
    of_commit=False,
    later=True,
)
CURSORS = LogTable(
    "cursors",
    tuple,
    "name TEXT NOT NULL, version INTEGER NOT NULL",
    key="name",
    word="cursor",
    of_commit=False,
    later=True,
)

LOG_TABLES: tuple[LogTable[Any], ...] = (
    COMMITS, CHANGES, DEFINITIONS, SNAPSHOTS, OUTBOX, FIRINGS, RECORDS, CURSORS
)  # fmt: skip
