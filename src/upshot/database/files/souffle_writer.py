"""Results as Soufflé writes them: `relation.csv` with tabs, blocks on standard output, sizes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from upshot.core.errors import UsageError, system_reason
from upshot.core.field_text import text_of
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.structures import plain_text
from upshot.core.types import Kind
from upshot.database.files.souffle_devices import json_text, write_sqlite
from upshot.database.files.souffle_options import FileOptions
from upshot.database.files.unwritable_text import refuse_unwritable

WORTH_ARROW = 100_000
"""Rows from which Arrow writes the file."""


def write_rows(rows: Rows, options: FileOptions) -> None:
    """Writes one sorted file, in a folder made when it is not there; nothing if a text could not be read back."""
    if options.device == "sqlite":
        write_sqlite(rows, options)
        return
    refuse_unwritable(rows, options)
    try:
        options.path.parent.mkdir(parents=True, exist_ok=True)
        if options.device == "json":
            with _opened(options) as stream:
                stream.write(json_text(rows, objects=options.objects))
            return
        if len(rows) >= WORTH_ARROW and _write_with_arrow(rows, options):
            return
        with _opened(options) as stream:
            if options.headers:
                stream.write(header(rows.schema, options) + "\n")
            stream.writelines(line + "\n" for line in lines(rows.schema, rows.sorted(), options))
    except OSError as error:
        message = f"cannot write `{options.path}`: {system_reason(error)}"
        raise UsageError(message, code="cannot-write", help="name a writable directory") from None


def block(rows: Rows, options: FileOptions) -> Iterator[str]:
    """The lines Soufflé prints for `IO=stdout`: the relation's name between rules, its rows, a rule."""
    yield "---------------"
    yield rows.schema.name
    if options.headers:
        yield header(rows.schema, options)
    yield "==============="
    yield from lines(rows.schema, rows.sorted(), options)
    yield "==============="


def size_line(name: str, size: int) -> str:
    r"""The line Soufflé prints for `.printsize`.

    >>> size_line("edge", 3)
    'edge\t3'
    """
    return f"{name}\t{size}"


def header(schema: Schema, options: FileOptions) -> str:
    return options.delimiter.join(column.name for column in schema.columns)


def lines(schema: Schema, rows: Iterable[tuple[Any, ...]], options: FileOptions) -> Iterator[str]:
    """One line a row; `()` for the row of a relation without columns."""
    quoted = [options.quoted and column.type.kind is Kind.SYMBOL for column in schema.columns]
    records = [column.type.kind is Kind.RECORD for column in schema.columns]
    for row in rows:
        if not row:
            yield "()"
            continue
        fields = (
            plain_text(value)
            if record and value is not None
            else '"' + value.replace('"', '""') + '"'
            if quote and value is not None
            else text_of(value)
            for value, quote, record in zip(row, quoted, records, strict=True)
        )
        yield options.delimiter.join(fields)


@contextmanager
def _opened(options: FileOptions) -> Iterator[IO[str]]:
    if options.compressed:
        with gzip.open(options.path, "wb") as packed, io.TextIOWrapper(packed, encoding="utf-8", newline="") as stream:
            yield stream
    else:
        with open(options.path, "w", encoding="utf-8", newline="") as stream:
            yield stream


_SAME_TEXT = (Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL, Kind.BOOLEAN)


def _write_with_arrow(rows: Rows, options: FileOptions) -> bool:
    """Writes the file if every value has the same text in Arrow; whether it did."""
    plain = all(c.type.kind in _SAME_TEXT and not c.type.nullable for c in rows.schema.columns)
    one_letter = len(options.delimiter) == 1 and options.delimiter.isascii()
    if not plain or not one_letter or options.quoted or options.compressed or options.headers:
        return False
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = rows.to_arrow()
    table = table.sort_by([(column.name, "ascending") for column in rows.schema.columns])
    written = arrow_csv.WriteOptions(include_header=False, delimiter=options.delimiter, quoting_style="none")
    try:
        arrow_csv.write_csv(table, str(options.path), write_options=written)
    except pa.ArrowInvalid:
        # Text with quotes in it: Soufflé writes it as it is, Arrow does not.
        return False
    return True
