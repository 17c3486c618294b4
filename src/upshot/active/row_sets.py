"""Sets of rows for rules: Python sets, and changes that stay encoded until their values are read; the transition tables
of a window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from upshot.core.operations import INSERTED, UPDATED
from upshot.core.rows import Row, Rows, row_set

if TYPE_CHECKING:
    from upshot.check.program import WindowTable
    from upshot.engine.rule_processor import Transition


class ChangedRows(Collection[Row]):
    """Rows of a change in codes of the engine. Most changes are only counted, or passed on to a query; they become
    Python values when they are iterated."""

    __slots__ = ("_set", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._set: frozenset[Row] | None = None

    def as_set(self) -> frozenset[Row]:
        if self._set is None:
            self._set = row_set(self.rows)
        return self._set

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.as_set())

    def __contains__(self, row: object) -> bool:
        return row in self.as_set()

    def __deepcopy__(self, memo: object) -> ChangedRows:
        return self


RowSet = frozenset[Row] | ChangedRows
NONE: frozenset[Row] = frozenset()


def changed_rows(rows: Rows) -> RowSet:
    return NONE if not len(rows) else ChangedRows(rows) if rows.is_coded else row_set(rows)


def query_rows(rows: Collection[Row]) -> list[Row] | Rows:
    return rows.rows if isinstance(rows, ChangedRows) else list(rows)


def same_rows(left: RowSet, right: RowSet) -> bool:
    if left is right or len(left) != len(right) or not left:
        return len(left) == len(right)
    if isinstance(left, ChangedRows) and isinstance(right, ChangedRows):
        found = left.rows.has_codes_of(right.rows)
        if found is not None:
            return found
    return _as_set(left) == _as_set(right)


class PythonSets:
    """Unions and differences; an operation without effect returns the same rows."""

    def union(self, parts: Sequence[RowSet]) -> RowSet:
        some = [rows for rows in parts if len(rows)]
        return NONE if not some else some[0] if len(some) == 1 else NONE.union(*map(_as_set, some))

    def without(self, rows: RowSet, others: RowSet) -> RowSet:
        if not len(rows) or not len(others):
            return rows
        return NONE if rows is others else _as_set(rows) - _as_set(others)

    def is_empty(self, rows: RowSet) -> bool:
        return not len(rows)


def _as_set(rows: RowSet) -> frozenset[Row]:
    return rows.as_set() if isinstance(rows, ChangedRows) else rows


# ---- transition tables ------------------------------------------------------------------------------

Key = tuple[int, ...]


def rows_of(table: WindowTable, change: Transition[RowSet]) -> Collection[Row]:
    if table.operation == UPDATED:
        return [old + new for old, new in updates(change, table.key)]
    return change.inserted if table.operation == INSERTED else change.deleted


def updates(change: Transition[RowSet], key: Key) -> Iterator[tuple[Row, Row]]:
    """Each deleted row with the inserted rows of the same key. A key with NULL matches nothing, and a row that is
    deleted and inserted again is not updated."""
    fewer, more = sorted((change.deleted, change.inserted), key=len)
    if not fewer:
        return
    found: dict[Row, list[Row]] = {}
    for row in fewer:
        if None not in (values := tuple(row[place] for place in key)):
            found.setdefault(values, []).append(row)
    for row in more:
        for other in found.get(tuple(row[place] for place in key), ()):
            if row != other:
                yield (row, other) if more is change.deleted else (other, row)


def has_updates(keys: Mapping[str, Key]) -> Callable[[str, Transition[RowSet]], bool]:
    return lambda relation, change: relation in keys and any(True for _ in updates(change, keys[relation]))
