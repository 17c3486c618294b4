"""Recover the state of a store: the newest snapshot, and the changes since."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.engine.saved import Saved
from upshot.store.encoding import FolderSide, Raw, decode, is_folder, read_folder, rows_of
from upshot.store.entries import ChangeRow, CommitRow, DefinitionRow, Relations, SnapshotRow, relations_from
from upshot.store.errors import damaged
from upshot.store.folders import check_files
from upshot.store.log import Log

if TYPE_CHECKING:
    import pyarrow as pa

    from upshot.store.lake import Mirror

_MANY = 200_000
"""Small changes are netted in Python up to this many rows, then they become a table."""


@dataclass(slots=True)
class Tail:
    """The rows that are replayed when a store is opened: those of the snapshot, and of the changes since; how many of
    these, and how many bytes, are in the log itself. A commit counts one row even if no row changed."""

    snapshot_rows: int = 0
    rows: int = 0
    small_rows: int = 0
    small_bytes: int = 0

    def grow(self, changes: Iterable[ChangeRow], sign: int = 1) -> None:
        """Add the changes of one commit, or subtract them."""
        self.rows += sign
        for change in changes:
            for count, side in ((change.inserted, change.inserted_side), (change.deleted, change.deleted_side)):
                self.rows += sign * count
                if side is not None and not is_folder(side):
                    self.small_rows += sign * count
                    self.small_bytes += sign * len(side)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The last version, the current program (empty before the first), the logged relations, and their rows. `hidden` is
    the normal form under which hidden relations were written."""

    version: int = 0
    program: str = ""
    relations: Relations = field(default_factory=dict)
    saved: dict[str, Saved] = field(default_factory=dict)
    hidden: str = ""
    snapshot: int = 0
    """The version of the snapshot that was used; 0 if there was none."""
    tail: Tail = field(default_factory=Tail)


def recover(log: Log, root: Path, mirror: Mirror | None = None) -> Recovered:
    """The state of the store. Every needed file exists and is complete, or `store-damaged` is raised."""
    last = log.last_version()
    newest = next(iter(log.snapshots()), None)
    replay = _Replay(root, mirror)
    after = newest.version if newest else 0
    if after > last:
        raise damaged(f"there is a snapshot of version {after} and the last commit is {last}")
    if newest:
        replay.start(newest, log.definition_at(after))
    if last > after and log.first_version() > after + 1:
        raise damaged(f"the commit of version {after + 1} is missing")
    definitions = {definition.version: definition for definition in log.definitions(after, last)}
    version = after
    for commit in log.commits(after, last):
        if commit.version != version + 1:
            raise damaged(f"the commit of version {version + 1} is missing")
        version = commit.version
        replay.step(commit, definitions.get(version), log.changes(version))
    if version != last:
        raise damaged(f"the commit of version {version + 1} is missing")
    return Recovered(last, replay.program, replay.relations, replay.finished(), replay.hidden, after, replay.tail)


class _Replay:
    """The commits since a snapshot, in order."""

    def __init__(self, root: Path, mirror: Mirror | None) -> None:
        self._root, self._mirror = root, mirror
        self._rows: dict[str, _Accumulated] = {}
        self.program = self.hidden = ""
        self.relations: Relations = {}
        self.tail = Tail()

    def start(self, snapshot: SnapshotRow, definition: DefinitionRow | None) -> None:
        self.program = definition.program if definition else ""
        self.hidden = snapshot.hidden
        self.relations = relations_from(snapshot.relations)
        saved = json.loads(snapshot.saved)
        if saved.keys() != self.relations.keys():
            raise damaged(f"the snapshot of version {snapshot.version} does not hold the relations it says")
        for name, found in saved.items():
            accumulated = self._rows[name] = _Accumulated(self._root, self._mirror)
            if found["rows"]:
                files = tuple((n, s, c) for n, s, c in found["files"])
                accumulated.start(self.relations[name].schema, FolderSide(found["folder"], files), found["rows"])
                self.tail.snapshot_rows += found["rows"]

    def step(self, commit: CommitRow, definition: DefinitionRow | None, changes: list[ChangeRow]) -> None:
        if definition is not None:
            self.program, self.hidden = definition.program, definition.hidden
            self.relations = relations_from(definition.relations)
            kept = self.relations.keys() - json.loads(definition.reset)
            self._rows = {
                n: self._rows[n] if n in kept else _Accumulated(self._root, self._mirror) for n in self.relations
            }
        if len(changes) != commit.relations:
            raise damaged(f"version {commit.version} changed {commit.relations} relations and has {len(changes)}")
        self.tail.grow(changes)
        for change in changes:
            if change.relation not in self._rows:
                raise damaged(f"version {commit.version} changes `{change.relation}`, which did not exist")
            relation = self.relations[change.relation]
            self._rows[change.relation].add(relation.schema, decode(change.inserted_side), decode(change.deleted_side))

    def finished(self) -> dict[str, Saved]:
        return {name: rows.saved(self.relations[name].schema) for name, rows in self._rows.items()}


@dataclass(frozen=True, slots=True)
class _Folder:
    """A Parquet folder, and the names of its columns when it was written."""

    path: Path
    columns: tuple[str, ...]


class _Accumulated:
    """The rows of one relation. Small changes are netted: since each is exact, an inserted and deleted row cancels
    out."""

    def __init__(self, root: Path, mirror: Mirror | None) -> None:
        self._root, self._mirror = root, mirror
        self._start: tuple[_Folder, int] | None = None
        self._changes: list[tuple[pa.Table | _Folder, pa.Table | _Folder]] = []
        self._net: dict[Raw, bool] = {}

    def start(self, schema: Schema, side: FolderSide, rows: int) -> None:
        self._start = self._checked(schema, side), rows

    def add(self, schema: Schema, inserted_side: list[Raw] | FolderSide, deleted_side: list[Raw] | FolderSide) -> None:
        if isinstance(inserted_side, FolderSide) or isinstance(deleted_side, FolderSide):
            self._flush(schema)
            self._changes.append((self._part(schema, inserted_side), self._part(schema, deleted_side)))
            return
        net = self._net
        for rows, inserted in ((deleted_side, False), (inserted_side, True)):
            for row in rows:
                if net.get(row, inserted) is not inserted:
                    del net[row]
                else:
                    net[row] = inserted
        if len(net) > _MANY:
            self._flush(schema)

    def _flush(self, schema: Schema) -> None:
        if self._net:
            inserted_side = [row for row, inserted in self._net.items() if inserted]
            deleted_side = [row for row, inserted in self._net.items() if not inserted]
            self._changes.append((_table(schema, inserted_side), _table(schema, deleted_side)))
            self._net = {}

    def _part(self, schema: Schema, side: list[Raw] | FolderSide) -> pa.Table | _Folder:
        return _table(schema, side) if isinstance(side, list) else self._checked(schema, side)

    def _checked(self, schema: Schema, side: FolderSide) -> _Folder:
        folder = self._root / side.folder
        if self._mirror is not None:
            self._mirror.fetch(folder, [name for name, _, _ in side.files])
        check_files(folder, side.files)
        return _Folder(folder, _names(schema))

    def saved(self, schema: Schema) -> Saved:
        """All rows under the current names of the columns. A folder with other names becomes a table: engines find
        columns by name."""
        self._flush(schema)
        changes = [
            (_renamed(schema, inserted_side), _renamed(schema, deleted_side))
            for inserted_side, deleted_side in self._changes
        ]
        if self._start is None:
            return Saved(None, 0, tuple(changes))
        folder, rows = self._start
        found = _renamed(schema, folder)
        if isinstance(found, Path):
            return Saved(found, rows, tuple(changes))
        return Saved(None, 0, ((found, _table(schema, [])), *changes))


def _renamed(schema: Schema, part: pa.Table | _Folder) -> pa.Table | Path:
    if isinstance(part, _Folder):
        return part.path if part.columns == _names(schema) else read_folder(schema, part.path)
    return part.rename_columns(_names(schema)) if schema.columns else part


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(column.name for column in schema.columns)


def _table(schema: Schema, raw: list[Raw]) -> pa.Table:
    """Arrow keeps no rows without columns: the row of a relation without columns is one value `true`."""
    if not schema.columns:
        import pyarrow as pa  # noqa: PLC0415 - only where such a relation changed

        return pa.table({"c0": pa.array([True] * len(raw), pa.bool_())})
    return Rows.of(schema, rows_of(schema, raw)).to_arrow()
