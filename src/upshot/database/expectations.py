"""Expectations of a transaction, checked at its end: rows that must be present and rows that must be absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from upshot.check.types.constants import fit
from upshot.core.errors import DataError
from upshot.core.fact_text import fact
from upshot.core.rows import one_nan
from upshot.core.types import Kind
from upshot.database.files.arrow_tables import tuples_of
from upshot.database.files.input_rows import input_rows
from upshot.database.tried_changes import TriedChanges
from upshot.revise.request import Request

if TYPE_CHECKING:
    from upshot.core.schema import Schema
    from upshot.database.engines import Deltas
    from upshot.database.state import DatabaseState
    from upshot.revise.request import Key, Row

NOT_AS_EXPECTED = "not-as-expected"


def requested_keys(state: DatabaseState, rows_by_name: Mapping[str, Any]) -> frozenset[Key]:
    """The rows of a request, each with the relation that stores it."""
    found: set[Key] = set()
    for name, rows in rows_by_name.items():
        schema = state.schema(name)
        listed = input_rows(schema, rows)
        if not isinstance(listed, list):
            listed = tuples_of(listed)
        for row in listed:
            with state.reading() as engine:
                engine.contains(name, row)
            found.add((name, one_nan(as_stored(row, schema))))
    return frozenset(found)


def request_of_rows(state: DatabaseState, insert: Mapping[str, Any], delete: Mapping[str, Any]) -> Request:
    """A request that the rows of `insert` are present and those of `delete` absent."""
    return Request(requested_keys(state, insert), requested_keys(state, delete))


def as_stored(row: Row, schema: Schema) -> Row:
    """A row as the relation returns it: decimals have the scale of their column, numbers in float columns are floats,
    records are text."""
    return tuple(
        fit(value, column.type)[0]
        if column.type.kind in (Kind.DECIMAL, Kind.RECORD)
        or (column.type.kind is Kind.FLOAT and not isinstance(value, float))
        else value
        for value, column in zip(row, schema.columns, strict=True)
    )


def require(state: DatabaseState, deltas: Deltas, expected: Request) -> None:
    """`not-as-expected` if a row is absent that must be present, or present that must be absent."""
    change = TriedChanges(state, deltas)
    for keys, present in ((expected.insert, True), (expected.delete, False)):
        for key in sorted(keys, key=repr):
            if change.holds(key) != present:
                shown = fact(state.schemas[key[0]], key[1])
                raise DataError(
                    f"row `{shown}` would {'not' if present else 'still'} exist",
                    code=NOT_AS_EXPECTED,
                    help="nothing was committed: read the current rows and change the transaction",
                )
