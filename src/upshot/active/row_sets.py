"""Sets of rows that rules compare: Python's own, and changes that stay as the engine has them until they must be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from upshot.core.rows import Row, Rows, row_set


class ChangedRows(Collection[Row]):
    """Rows of a change in codes of the engine. Most changes are only counted, or given to a query as they are; they
    become Python values when somebody looks at them."""

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
    """The rows of a change, as they are if they are coded."""
    return NONE if not len(rows) else ChangedRows(rows) if rows.is_coded else row_set(rows)


def given_rows(rows: Collection[Row]) -> list[Row] | Rows:
    """The rows as a query takes them."""
    return rows.rows if isinstance(rows, ChangedRows) else list(rows)


def same_rows(left: RowSet, right: RowSet) -> bool:
    """Test whether both have the same rows."""
    if left is right or len(left) != len(right) or not left:
        return len(left) == len(right)
    if isinstance(left, ChangedRows) and isinstance(right, ChangedRows):
        found = left.rows.has_codes_of(right.rows)
        if found is not None:
            return found
    return _as_set(left) == _as_set(right)


class PythonSets:
    """Unions and differences; those that change nothing leave the rows as they are."""

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
