"""The base of sinks: a sink reports the version it holds, and takes the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as at

from upshot.core.errors import DataError, UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.database.changes import Changes

CHANGE, VERSION = "_change", "_version"
"""The columns of a change log beside those of its view: +1 or -1, and the version of the store with this change."""

Columns = Mapping[str, str]
"""Names and types of columns, in order, in the words of a program."""


class Sink:
    """A place outside that follows one view.

    A sink itself records the version that it holds, in one step with its rows: so a version that is passed twice is
    stored once.
    """

    view: str
    place: str
    """The name of the sink in messages, as in "the delta table `lake/mod_dep`"; no two are equal."""
    is_table = True
    """True if the sink has its own columns, which must be those of the view."""
    whole = False
    """True if the sink takes the whole view each time, so that versions in between may be left out."""

    def columns(self) -> Columns | None:
        """The columns the sink has, or None if there is nothing there yet."""
        raise NotImplementedError

    def wanted(self, schema: Schema) -> Columns:
        """The columns the sink must have for a view of this schema."""
        return view_columns(schema)

    def stored_version(self, *, announced: bool = False) -> int | None:
        """The version of the view in the sink; None if it is new. Raises if the place has other data, unless the sink
        was `announced` and they may be left from an interrupted start: `start` removes them."""
        raise NotImplementedError

    def start(self, rows: Rows, version: int) -> None:
        """Make a new sink hold these rows."""
        raise NotImplementedError

    def apply(self, changes: Changes, version: int) -> None:
        """Take the changes of a version, unless the sink holds that version already."""
        raise NotImplementedError(f"{self.place} takes whole views")

    def replace(self, rows: Rows, version: int) -> None:
        """For a `whole` sink: take the rows of a version, unless the sink holds that version already."""
        raise NotImplementedError(f"{self.place} takes changes")


def all_inserted(rows: Rows) -> Changes:
    """The change that inserts all rows, with which a change log starts."""
    return Changes(rows, Rows.of(rows.schema, []))


def word(type: Type) -> str:
    """A type as sinks store it, without subtype and NULL.

    >>> from upshot.core.types import SYMBOL
    >>> word(SYMBOL.optional()), word(Type(Kind.DECIMAL, precision=10, scale=2))
    ('symbol', 'decimal(10,2)')
    """
    return f"decimal({max(type.precision, 1)},{type.scale})" if type.kind is Kind.DECIMAL else type.kind.value


def arrow_word(arrow: pa.DataType) -> str:
    """The word for a column's type in a Parquet file."""
    kinds: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (at.is_integer, "number"),
        (at.is_floating, "float"),
        (at.is_string, "symbol"),
        (at.is_large_string, "symbol"),
        (at.is_boolean, "boolean"),
        (at.is_date, "date"),
        (at.is_timestamp, "timestamp"),
    )
    if at.is_decimal(arrow):
        return _decimal_word(arrow.precision, arrow.scale)
    return next((kind for test, kind in kinds if test(arrow)), str(arrow))


def _decimal_word(precision: int, scale: int) -> str:
    """A decimal of a lake: the one with twenty digits holds unsigned numbers."""
    return "unsigned" if (precision, scale) == (20, 0) else f"decimal({precision},{scale})"


_WORDS = {
    "byte": "number",
    "short": "number",
    "integer": "number",
    "long": "number",
    "float": "float",
    "double": "float",
    "string": "symbol",
}


def type_word(name: str) -> str:
    """The word for a column's type as Delta and Spark write it in JSON.

    >>> type_word("long"), type_word("decimal(20,0)"), type_word("timestamp")
    ('number', 'unsigned', 'timestamp')
    """
    decimal = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    return _decimal_word(int(decimal[1]), int(decimal[2])) if decimal else _WORDS.get(name, name)


def view_columns(schema: Schema) -> dict[str, str]:
    return {column.name: word(column.type) for column in schema.columns}


def log_columns(schema: Schema) -> dict[str, str]:
    return {**view_columns(schema), CHANGE: "number", VERSION: "number"}


def refuse_schema(sink: Sink, schema: Schema) -> None:
    """Raise if the sink cannot store the view: no columns, names that clash, or other columns than the sink has."""
    if not sink.is_table:
        return
    names = [column.name for column in schema.columns]
    if not names:
        message = f"`{schema.name}` has no columns, so {sink.place} cannot store it"
        raise UsageError(message, code="sink-columns", help='give the view a column, or use `format = "console"`')
    folded = [name.lower() for name in (*names, CHANGE, VERSION)]
    clash = next((name for name in names if folded.count(name.lower()) > 1), None)
    if clash is not None:
        message = f"column `{clash}` of `{schema.name}` clashes with another column of {sink.place}"
        hint = f"column names ignore case, and `{CHANGE}` and `{VERSION}` are reserved"
        raise UsageError(message, code="sink-columns", help=hint)
    there = sink.columns()
    if there is not None and list(there.items()) != list(sink.wanted(schema).items()):
        raise schema_change(sink, there, schema)


def schema_change(sink: Sink, there: Columns, schema: Schema) -> DataError:
    """The error for a sink whose columns are not those of the view."""
    wanted = sink.wanted(schema)
    differ = [f"`{name}` is new" for name in wanted if name not in there]
    differ += [f"`{name}` is missing" for name in there if name not in wanted]
    differ += [
        f"`{name}` was {there[name]} and is now {wanted[name]}"
        for name in wanted
        if name in there and there[name] != wanted[name]
    ]
    message = f"{sink.place} has other columns than `{schema.name}`: {'; '.join(differ) or 'another order'}"
    hint = "use another path, or remove the old data to rewrite it"
    return DataError(message, code="schema-change", help=hint)


def not_ours(place: str) -> UsageError:
    """The error for a sink's place that holds something this pipeline did not write."""
    return UsageError(
        f"{place} has data that this pipeline did not write",
        code="sink-occupied",
        help="use a separate path for each sink; existing data is never overwritten",
    )
