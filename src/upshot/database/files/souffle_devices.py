"""Relations in JSON files and SQLite databases: `IO=json` and `IO=sqlite` of `.input` and `.output`.

A JSON file is an array of rows, each an array, or an object with the columns as keys. In a SQLite database a relation
is the table of its name, which `.output` replaces. Both have values as in JSON (`core.json_values`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from upshot.core.errors import DataError, UsageError, system_reason
from upshot.core.json_values import JsonMisfit, row_reader, rows_to_json, to_json
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.structures import NIL
from upshot.core.types import NUMBER_RANGE, Kind
from upshot.database.files.souffle_options import FileOptions

Row = tuple[Any, ...]


def read_json(schema: Schema, options: FileOptions, data: bytes) -> list[Row]:
    exact = any(column.type.kind is Kind.DECIMAL for column in schema.columns)
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_float=Decimal if exact else None)
    except (ValueError, RecursionError) as error:
        raise _wrong(options, f"not JSON: {error}") from None
    if not isinstance(found, list):
        raise _wrong(options, "not an array of rows")
    return list(_rows(schema, options, (_listed(schema, row) for row in found)))


def _listed(schema: Schema, row: Any) -> Any:
    """The row as an array, also from an object with the columns as keys. As in Soufflé, null is `nil` in a record
    column."""
    if isinstance(row, dict):
        names = [column.name for column in schema.columns]
        if sorted(row) != sorted(names):
            raise JsonMisfit(f"an object must have the keys {', '.join(names)}", "unknown-column")
        row = [row[name] for name in names]
    if not isinstance(row, list) or None not in row or len(row) != schema.arity:
        return row
    records = [type.kind is Kind.RECORD and not type.nullable for type in schema.types]
    return [NIL if value is None and is_record else value for value, is_record in zip(row, records, strict=True)]


def _rows(schema: Schema, options: FileOptions, rows: Iterable[Any]) -> Iterator[Row]:
    read, done = row_reader(schema), 0
    try:
        for row in rows:
            yield read(row)
            done += 1
    except JsonMisfit as wrong:
        raise DataError(
            f"`{options.path}`, row {done + 1}: {wrong}", code=wrong.code, span=schema.span, help=f"`{schema}`"
        ) from None


def json_text(rows: Rows, *, objects: bool) -> str:
    """The rows in order, as an array of arrays, or of objects."""
    if not objects:
        return rows_to_json(rows.sorted()) + "\n"
    made = [dict(zip(rows.columns, map(to_json, row), strict=True)) for row in rows.sorted()]
    return json.dumps(made, ensure_ascii=False) + "\n"


def read_sqlite(schema: Schema, options: FileOptions) -> list[Row]:
    """The rows of the table with the relation's name."""
    import sqlite3  # noqa: PLC0415 - few programs have a database as a device

    if not options.path.is_file():
        message = f"database `{options.path}` for `.input {schema.name}` does not exist"
        raise DataError(message, code="missing-facts", help="create it, or name another with `filename`")
    columns = ", ".join(_quoted(column.name) for column in schema.columns) or "1"
    try:
        with contextlib.closing(sqlite3.connect(options.path)) as connection:
            found = connection.execute(f"SELECT {columns} FROM {_quoted(schema.name)}").fetchall()  # noqa: S608
    except sqlite3.Error as error:
        raise _wrong(options, str(error)) from None
    if not schema.columns:
        return [()] * bool(found)
    kinds = [type.kind for type in schema.types]
    rows = ([_json_value(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in found)
    return list(_rows(schema, options, rows))


def _json_value(value: Any, kind: Kind) -> Any:
    """The value as in JSON: SQLite has no booleans, and no integers beyond 64 bits with a sign."""
    if kind is Kind.BOOLEAN and value in (0, 1):
        return bool(value)
    return int(value) if kind is Kind.UNSIGNED and isinstance(value, str) and value.isdecimal() else value


def write_sqlite(rows: Rows, options: FileOptions) -> None:
    """Replace the table of the relation by its rows."""
    import sqlite3  # noqa: PLC0415 - few programs have a database as a device

    schema, name = rows.schema, _quoted(rows.schema.name)
    columns = ", ".join(
        f"{_quoted(column.name)} {_AFFINITY.get(column.type.kind, 'TEXT')}" for column in schema.columns
    )
    marks = ", ".join("?" * max(schema.arity, 1))
    try:
        options.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(options.path)) as connection, connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} ({columns or 'present INTEGER'})")
            values = ([_stored(value) for value in row] or [1] for row in rows.sorted())
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)  # noqa: S608
    except (sqlite3.Error, OSError) as error:
        reason = system_reason(error) if isinstance(error, OSError) else str(error)
        message = f"cannot write `{options.path}`: {reason}"
        raise UsageError(message, code="cannot-write", help="name a writable database") from None


_AFFINITY = {Kind.NUMBER: "INTEGER", Kind.UNSIGNED: "", Kind.FLOAT: "REAL", Kind.BOOLEAN: "INTEGER"}


def _stored(value: Any) -> Any:
    """The value for SQLite; an integer beyond its range as text."""
    if isinstance(value, int) and value not in NUMBER_RANGE:
        return str(value)
    return to_json(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wrong(options: FileOptions, why: str) -> DataError:
    return DataError(f"cannot read `{options.path}`: {why}", code="unreadable-file", help="check the file and its `IO`")
