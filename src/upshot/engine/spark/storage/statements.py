"""The net effect of the statements of a transaction on one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.core.rows import Row
from upshot.engine.spark.frames.joins import within, without
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, Types, in_driver, nothing, united
from upshot.engine.spark.storage.requests import FrameRequest, Steps
from upshot.engine.spark.storage.table import FrameTable, sifted
from upshot.plan.rule_plan import State

Key = tuple[int, ...]


class StatementKind(Enum):
    INSERT = "insert"
    DELETE = "delete"
    UPSERT = "upsert"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class TableStatement:
    """`rows` are distinct; those of an upsert have distinct keys, the last row of a key counts."""

    kind: StatementKind
    rows: Piece


class WrongAssumption(Exception):
    """A statement had no effect, and was propagated as if it had one."""


def settle_statements(table: FrameTable, statements: Sequence[TableStatement], session: SparkSession) -> Steps[None]:
    """Settle a base table: statements apply in order, only their net effect counts."""
    here = all(isinstance(statement.rows, LocalPiece) for statement in statements)
    replaces = any(statement.kind is StatementKind.REPLACE for statement in statements)
    if here and (table.committed.is_local or not replaces):
        yield from _SmallStatements(table, statements, session).settle()
    else:
        yield from _LargeStatements(table, statements, session).settle()


def settle_assuming(
    table: FrameTable, statements: Sequence[TableStatement], session: SparkSession
) -> Steps[None] | None:
    """Settle a base table before its files are read, as if every insert were of an absent row and every delete of a
    present one. The returned steps look this up, beside the views that depend on the table, and raise `WrongAssumption`
    if it is not so. None if nothing must be looked up, or the last change of the table was not of this kind."""
    kinds = {statement.kind for statement in statements}
    if table.committed.is_local or not table.had_effect or not kinds <= {StatementKind.INSERT, StatementKind.DELETE}:
        return None
    if not all(isinstance(statement.rows, LocalPiece) for statement in statements):
        return None
    small = _SmallStatements(table, statements, session)
    return small.check() if small.assume() else None


# ---- in the driver ---------------------------------------------------------------------------------------------


class _SmallStatements:
    """Statements whose rows are in the driver: the rows that they touch are looked up, then changed one by one."""

    def __init__(self, table: FrameTable, statements: Sequence[TableStatement], session: SparkSession) -> None:
        self._table, self._statements, self._session = table, statements, session
        self._key: Key | None = table.schema.keys[0] if table.schema.keys else None
        self._is_present: dict[Row, bool] = {}
        """The rows touched so far, and whether they are present now."""
        self._by_key: dict[Row, dict[Row, None]] = {}
        """Rows that are or were present, by the first key."""
        self._emptied = False
        self._assumed: dict[Row, bool] = {}
        """The rows that statements touch, and whether the first of them deletes the row."""
        for statement in statements:
            for row in in_driver(statement.rows).rows:
                self._assumed.setdefault(row, statement.kind is StatementKind.DELETE)
        self._touched = LocalPiece.of(self._assumed, table.types)

    def settle(self) -> Steps[None]:
        old = yield from self._look_up(self._touched)
        self._table.had_effect = self._is_assumed(old)
        upserts = any(statement.kind is StatementKind.UPSERT for statement in self._statements)
        if upserts and self._key is not None:
            wanted = keys_of(self._touched, self._key).places
            for row in old:
                if self._key_of(row) in wanted:
                    self._remember(row)
        for statement in self._statements:
            self._apply(statement, index=upserts)
        self._settle(old)

    def assume(self) -> bool:
        """Settle the table as if every statement had an effect; false if the driver knows that one has none."""
        removed, added = self._table.committed.removed.places, self._table.committed.added.places
        if any(row in (removed if deletes else added) for row, deletes in self._assumed.items()):
            return False
        for statement in self._statements:
            self._apply(statement, index=False)
        self._settle({row: None for row, deleted in self._assumed.items() if deleted})
        return True

    def check(self) -> Steps[None]:
        """Look up the rows that were assumed to be present, and those assumed to be absent."""
        old = yield from self._look_up(self._touched)
        if not self._is_assumed(old):
            self._table.had_effect = False
            raise WrongAssumption

    def _is_assumed(self, old: Mapping[Row, object]) -> bool:
        return all((row in old) == deleted for row, deleted in self._assumed.items())

    def _settle(self, old: Mapping[Row, object]) -> None:
        table = self._table
        inserted = [row for row, present in self._is_present.items() if present and row not in old]
        touched = old if self._emptied else [row for row in self._is_present if row in old]
        deleted = [row for row in touched if not self._is_present.get(row, False)]
        table.settle_change(LocalPiece.of(inserted, table.types), LocalPiece.of(deleted, table.types))

    def _look_up(self, touched: LocalPiece) -> Steps[Mapping[Row, object]]:
        """The old rows that are touched or share a key with a touched row."""
        contents, table = self._table.committed, self._table
        if contents.is_local:
            return contents.added.places
        if self._key is None:
            rows = touched.frame(self._session)
            hits_of_rows = contents.hits(self._session, rows, table.types, ranges=touched.ranges())
            (hits,) = yield [FrameRequest(hits_of_rows, table.types, here=True)]
            return dict.fromkeys(contents.sift(touched, [hits], present=True).rows)
        requests = [rows_by_key(contents, keys_of(touched, key), key, self._session) for key in table.schema.keys]
        answers = yield requests
        table.neighbors = {
            key: rows_with_key(contents, piece, keys_of(touched, key), key)
            for key, piece in zip(table.schema.keys, answers, strict=True)
        }
        return dict.fromkeys(table.neighbors[self._key])

    def _apply(self, statement: TableStatement, *, index: bool) -> None:
        rows = in_driver(statement.rows).rows
        match statement.kind:
            case StatementKind.REPLACE:
                self._emptied = True
                self._is_present = dict.fromkeys(rows, True)
            case StatementKind.DELETE:
                self._is_present.update(dict.fromkeys(rows, False))
            case StatementKind.INSERT:
                self._is_present.update(dict.fromkeys(rows, True))
            case StatementKind.UPSERT:
                for row in rows:
                    for other in self._by_key.get(self._key_of(row), ()):
                        self._is_present[other] = False
                    self._is_present[row] = True
                    self._remember(row)
        if index and statement.kind in (StatementKind.INSERT, StatementKind.REPLACE):
            for row in rows:
                self._remember(row)

    def _remember(self, row: Row) -> None:
        self._by_key.setdefault(self._key_of(row), {})[row] = None

    def _key_of(self, row: Row) -> Row:
        assert self._key is not None
        return tuple(row[column] for column in self._key)


def keys_of(rows: LocalPiece, key: Key) -> LocalPiece:
    """The keys that occur in the rows."""
    types = tuple(rows.types[column] for column in key)
    return LocalPiece.of(dict.fromkeys(tuple(row[column] for column in key) for row in rows.rows), types)


def rows_by_key(contents: Contents, keys: LocalPiece, key: Key, session: SparkSession) -> FrameRequest:
    """A request for the rows in files that have one of the keys."""
    ranges = {key[place]: ends for place, ends in keys.ranges().items()}
    hits = contents.hits(session, keys.frame(session), keys.types, key, ranges=ranges)
    return FrameRequest(hits, contents.types, here=True)


def rows_with_key(contents: Contents, hits: Piece | None, keys: LocalPiece, key: Key) -> list[Row]:
    """The rows that have one of the keys; `hits` are those in files."""
    here = [row for row in contents.added.rows if tuple(row[column] for column in key) in keys.places]
    removed = contents.removed.places
    return here + [row for row in in_driver(hits).rows if row not in removed] if hits is not None else here


# ---- in files --------------------------------------------------------------------------------------------------


class _LargeStatements:
    """Statements of which at least one is large: each is applied to the state after the earlier ones."""

    def __init__(self, table: FrameTable, statements: Sequence[TableStatement], session: SparkSession) -> None:
        self._table, self._statements, self._session = table, statements, session
        self._types: Types = table.types
        self._current = table.committed

    def settle(self) -> Steps[None]:
        all_inserted: list[Piece] = []
        all_deleted: list[Piece] = []
        for statement in self._statements:
            deleted = yield from self._deleted(statement)
            inserted: Piece = nothing(self._types)
            if statement.kind is not StatementKind.DELETE:
                inserted = yield from sifted(statement.rows, self._current, self._session, present=False)
            self._current = self._current.changed(deleted, inserted)
            all_inserted += [inserted] if inserted.count else []
            all_deleted += [deleted] if deleted.count else []
        if len(self._statements) == 1:
            self._table.settle(self._current, inserted, deleted)
        else:
            yield from self._net(all_inserted, all_deleted)

    def _deleted(self, statement: TableStatement) -> Steps[Piece]:
        """The rows that leave the current state."""
        current, rows, session = self._current, statement.rows, self._session
        if not current.count or statement.kind is StatementKind.INSERT:
            return nothing(self._types)
        if statement.kind is StatementKind.DELETE:
            return (yield from sifted(rows, current, session, present=True))
        frame = current.frame(session)
        if statement.kind is StatementKind.UPSERT:
            key = self._table.schema.keys[0]
            keys = rows.frame(session).select(*(f"c{column}" for column in key))
            kinds = tuple(self._types[column] for column in key)
            frame = within(frame, keys, kinds, key, small=isinstance(rows, LocalPiece))
        if rows.count:
            frame = without(frame, rows.frame(session), self._types, small=isinstance(rows, LocalPiece))
        (piece,) = yield [FrameRequest(frame, self._types, large=True)]
        return piece

    def _net(self, all_inserted: Sequence[Piece], all_deleted: Sequence[Piece]) -> Steps[None]:
        """Settle the net change: inserted rows that were absent before, deleted rows that were present."""
        old, new, types = self._table.committed, self._current, self._types
        requests = []
        for pieces, inside, outside in ((all_inserted, new, old), (all_deleted, old, new)):
            if pieces:
                frame = united([piece.frame(self._session) for piece in pieces]).distinct()
                requests.append(FrameRequest(self._between(frame, inside, outside), types, large=True))
        answers = yield requests
        inserted = answers[0] if all_inserted else nothing(types)
        deleted = answers[-1] if all_deleted else nothing(types)
        self._table.settle_change(inserted, deleted)

    def _between(self, frame: DataFrame, inside: Contents, outside: Contents) -> DataFrame:
        frame = within(frame, inside.frame(self._session), self._types, small=inside.is_local)
        return without(frame, outside.frame(self._session), self._types, small=outside.is_local)


# ---- keys ------------------------------------------------------------------------------------------------------


Near = Callable[[FrameTable, Key], Steps[list[Row]]]
"""The rows after a change that share a key with an inserted one, and the inserted ones."""


def key_conflicts(
    table: FrameTable, key: Key, most: int, session: SparkSession, near: Near | None = None
) -> Steps[list[tuple[Row, Row]]]:
    """Pairs of rows that share a key once the change is made, one of them at least inserted; bounded. `near` finds the
    rows where the table does not hold them."""
    inserted = table.inserted
    if not inserted.count:
        return []
    if near is not None:
        rows = yield from near(table, key)
        inserted = inserted if isinstance(inserted, LocalPiece) else LocalPiece.of(rows, table.types)
    elif isinstance(inserted, LocalPiece):
        rows = yield from _rows_near(table, inserted, key, session)
    else:
        rows = yield from _shared_keys(table, key, most, session)
        inserted = LocalPiece.of(rows, table.types)
    by_key: dict[Row, list[Row]] = {}
    for row in rows:
        by_key.setdefault(tuple(row[column] for column in key), []).append(row)
    pairs: list[tuple[Row, Row]] = []
    for row in inserted.rows:
        others = [other for other in by_key[tuple(row[column] for column in key)] if other != row]
        if others and len(pairs) < most:
            pairs.append((row, others[0]))
    return pairs


def _rows_near(table: FrameTable, inserted: LocalPiece, key: Key, session: SparkSession) -> Steps[list[Row]]:
    """The rows after a small change that share a key with an inserted one, and the inserted ones."""
    known = table.neighbors.get(key)
    if known is None:
        keys, committed = keys_of(inserted, key), table.contents(State.OLD)
        hits: Piece | None = None
        if not committed.is_local:
            (hits,) = yield [rows_by_key(committed, keys, key, session)]
        known = rows_with_key(committed, hits, keys, key)
    deleted = table.deleted.places if isinstance(table.deleted, LocalPiece) else {}
    return [row for row in known if row not in deleted] + inserted.rows


def _shared_keys(table: FrameTable, key: Key, most: int, session: SparkSession) -> Steps[list[Row]]:
    """Rows after a large change that share a key with another."""
    names = [f"c{column}" for column in key]
    types = tuple(table.types[column] for column in key)
    keys = table.inserted.frame(session).select(*names).distinct()
    near = within(table.frame(State.NEW), keys, types, key, small=False)
    shared = near.groupBy(*names).agg(F.count(F.lit(1)).alias("n")).filter("n > 1").select(*names).limit(most)
    pairs = within(table.frame(State.NEW), shared, types, key, small=True).limit(10 * most)
    (rows,) = yield [FrameRequest(pairs, table.types, here=True)]
    return in_driver(rows).rows
