"""The transition tables of a rule's window: rows inserted, deleted, or updated by key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from upshot.core.operations import INSERTED, UPDATED
from upshot.core.rows import Row

if TYPE_CHECKING:
    from upshot.active.row_sets import RowSet
    from upshot.check.program import WindowTable
    from upshot.engine.rule_processor import Transition

Key = tuple[int, ...]


def rows_of(table: WindowTable, change: Transition[RowSet]) -> Collection[Row]:
    """The rows of a table, of the change of its relation."""
    if table.operation == UPDATED:
        return [old + new for old, new in updates(change, table.key)]
    return change.inserted if table.operation == INSERTED else change.deleted


def updates(change: Transition[RowSet], key: Key) -> Iterator[tuple[Row, Row]]:
    """Each deleted row with the inserted rows that have the same key. NULL in a key is the same as nothing, and a row
    that the rule itself deleted and another brought back is not updated."""
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
    """Test changes for updates, by the keys of their relations."""
    return lambda relation, change: relation in keys and any(True for _ in updates(change, keys[relation]))
