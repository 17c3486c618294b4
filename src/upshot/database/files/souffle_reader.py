"""Read fact files like Soufflé: one row a line, fields separated by tabs, text without quotes.

Arrow reads large files, column by column. A file that Arrow would not read exactly as described here is read line by
line; that reader is slow, and its errors name the line, the column and the value.
"""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, system_reason
from upshot.core.field_text import NULL, Unreadable, reader_of
from upshot.core.schema import Column, Schema
from upshot.core.span import Source, Span
from upshot.core.types import Kind
from upshot.database.files.souffle_devices import read_json, read_sqlite
from upshot.database.files.souffle_options import FileOptions

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]

WORTH_ARROW = 1 << 18
"""Arrow reads files from this size in bytes: for smaller ones, importing it takes longer than it saves."""


def read_facts(schema: Schema, options: FileOptions) -> list[Row] | pa.Table:
    """The rows of a relation's fact file: tuples if it is small, an Arrow table of the relation's columns if large."""
    if options.columns is not None and len(options.columns) != schema.arity:
        message = f"`columns` of `.input {schema.name}` names {len(options.columns)} fields for {schema.arity} columns"
        raise DataError(message, code="file-option", help=f"the relation is `{schema}`")
    if options.device == "sqlite":
        return read_sqlite(schema, options)
    data = _contents(schema, options)
    if options.device == "json":
        return read_json(schema, options, bytes(data))
    if schema.columns and len(data) >= WORTH_ARROW:
        table = _read_with_arrow(schema, options, data)
        if table is not None:
            return table
    return _FactLines(schema, options).rows(bytes(data))


def _contents(schema: Schema, options: FileOptions) -> bytes | mmap.mmap:
    if options.device == "stdin":
        return sys.stdin.buffer.read()
    path = options.path
    try:
        with open(path, "rb") as stream:
            if stream.read(2) == b"\x1f\x8b":
                stream.seek(0)
                return gzip.decompress(stream.read())
            if stream.seek(0, io.SEEK_END) < max(1, WORTH_ARROW):
                stream.seek(0)
                return stream.read()
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise _missing(schema, path) from None
    except (gzip.BadGzipFile, EOFError):
        raise DataError(f"`{path}` is a truncated gzip file", code="unreadable-file", help="write it again") from None
    except OSError as error:
        message = f"cannot read `{path}`: {system_reason(error)}"
        raise DataError(message, code="unreadable-file", help="name a readable file") from None


def _missing(schema: Schema, path: Path) -> DataError:
    hint = f'create the file, name its directory with `-F`, or write `.input {schema.name}(filename="…")`'
    return DataError(f"fact file `{path}` for `.input {schema.name}` does not exist", code="missing-facts", help=hint)


# ---- by Arrow ------------------------------------------------------------------------------------


def _read_with_arrow(schema: Schema, options: FileOptions, data: bytes | mmap.mmap) -> pa.Table | None:
    """The table; None if Arrow would read it differently from the line reader, or finds an error."""
    if any(column.type.kind is Kind.RECORD for column in schema.columns):
        return None
    if len(options.delimiter) != 1 or not options.delimiter.isascii() or _has_lone_carriage_return(data):
        return None
    if options.quoted and bytes(data).count(b'"') % 2:
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    from upshot.core.arrow_schema import arrow_schema  # imports pyarrow

    wanted = arrow_schema(schema)
    positions = options.columns or range(schema.arity)
    fields = [f"f{position}" for position in positions] if options.columns else list(wanted.names)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_csv.ReadOptions(
                column_names=None if options.columns else fields,
                autogenerate_column_names=bool(options.columns),
                skip_rows=int(options.headers),
                block_size=1 << 24,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char='"' if options.quoted else False,
                newlines_in_values=options.quoted,
                ignore_empty_lines=not _blank_is_a_row(schema),
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict(zip(fields, wanted.types, strict=True)),
                include_columns=fields if options.columns else None,
                null_values=["", NULL],
                strings_can_be_null=False,
                true_values=["true", "1"],
                false_values=["false", "0"],
            ),
        )
    except (pa.ArrowException, OSError):
        return None
    arrays = [_with_nulls(array, field) for array, field in zip(table.columns, wanted, strict=True)]
    if any(array.null_count and not field.nullable for array, field in zip(arrays, wanted, strict=True)):
        return None
    return pa.table(arrays, schema=wanted)


def _with_nulls(array: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not field.nullable or not pa.types.is_string(field.type):
        return array
    return pc.if_else(pc.equal(array, NULL), pa.scalar(None, field.type), array)


def _has_lone_carriage_return(data: bytes | mmap.mmap) -> bool:
    """Arrow ends a line at any carriage return, Soufflé only before a line feed."""
    place = data.find(b"\r")
    if place < 0:
        return False
    contents = bytes(data)
    return contents.count(b"\r") != contents.count(b"\r\n")


def _blank_is_a_row(schema: Schema) -> bool:
    """An empty line is the empty text in a relation with one text column; otherwise it is skipped."""
    return schema.arity == 1 and schema.types[0].kind is Kind.SYMBOL


# ---- line by line --------------------------------------------------------------------------------


class _FactLines:
    """The exact reader."""

    def __init__(self, schema: Schema, options: FileOptions) -> None:
        self._schema, self._options = schema, options
        self._name = "<stdin>" if options.device == "stdin" else str(options.path)
        self._positions = options.columns or tuple(range(schema.arity))
        self._readers = [reader_of(column.type) for column in schema.columns]

    def rows(self, data: bytes) -> list[Row]:
        text = self._decoded(data)
        lines = self._quoted(text) if self._options.quoted else self._plain(text)
        if self._options.headers:
            next(lines, None)
        if not self._schema.columns:
            return [self._nothing(number, line) for number, line, _ in lines if line]
        blank = _blank_is_a_row(self._schema)
        return [self._row(number, line, fields) for number, line, fields in lines if line or blank]

    def _plain(self, text: str) -> Iterator[tuple[int, str, list[str]]]:
        delimiter = self._options.delimiter
        for number, line in enumerate(_lines_of(text), 1):
            yield number, line, line.split(delimiter)

    def _quoted(self, text: str) -> Iterator[tuple[int, str, list[str]]]:
        """A field in quotes may contain line ends; a row is reported at its first line."""
        lines = _lines_of(text)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._options.delimiter, strict=True)
        start = 1
        try:
            for fields in reader:
                yield start, lines[start - 1] if start <= len(lines) else "", fields or [""]
                start = reader.line_num + 1
        except csv.Error as error:
            line = lines[min(start, len(lines)) - 1]
            raise self._wrong("wrong-row", start, line, 0, len(line), f"the quotes do not match ({error})") from None

    def _row(self, number: int, line: str, fields: list[str]) -> Row:
        expected = self._schema.arity if self._options.columns is None else max(self._positions) + 1
        if len(fields) < expected or (len(fields) > expected and self._options.columns is None):
            found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            raise self._wrong("wrong-arity", number, line, 0, len(line), f"{found} for {expected} columns")
        try:
            return tuple([read(fields[at]) for read, at in zip(self._readers, self._positions, strict=True)])
        except Unreadable:
            raise self._misread(number, line, fields) from None

    def _misread(self, number: int, line: str, fields: list[str]) -> DataError:
        for read, position, column in zip(self._readers, self._positions, self._schema.columns, strict=True):
            try:
                read(fields[position])
            except Unreadable as wrong:
                start = len(self._options.delimiter.join([*fields[:position], ""]))
                width = max(1, len(fields[position]))
                slug, words = _misfit(fields[position], column, str(wrong))
                return self._wrong(slug, number, line, start, start + width, words)
        raise AssertionError("every field can be read")

    def _nothing(self, number: int, line: str) -> Row:
        if line != "()":
            raise self._wrong(
                "wrong-arity", number, line, 0, len(line), "a relation without columns has only the row `()`"
            )
        return ()

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            number = data.count(b"\n", 0, error.start) + 1
            line = data.split(b"\n")[number - 1].decode("utf-8", "replace")
            words = f"byte 0x{data[error.start]:02x} is not UTF-8"
            raise self._wrong("not-utf8", number, line, 0, len(line), words) from None

    def _wrong(self, slug: str, number: int, line: str, start: int, end: int, words: str) -> DataError:
        # Only this line is available; line feeds before it keep its number.
        before = "\n" * (number - 1)
        start, end = min(start, len(line)), min(end, len(line))
        span = Span(Source(self._name, before + line), len(before) + start, len(before) + max(end, start))
        between = "tabs" if self._options.delimiter == "\t" else f"`{self._options.delimiter}`"
        hint = f"the relation is `{self._schema}`; fields are separated by {between}"
        return DataError(f"{self._name}:{number}:{start + 1}: {words}", code=slug, span=span, help=hint)


def _misfit(field: str, column: Column, expected: str) -> tuple[str, str]:
    """Slug and message for a field that is no value of its column."""
    match field:
        case "":
            return "null-in-required-column", f"the field is empty and column `{column.name}` is not nullable"
        case _ if field == NULL:
            return "null-in-required-column", f"`{NULL}` is NULL and column `{column.name}` is not nullable"
        case _:
            return "wrong-type", f"`{_short(field)}` in column `{column.name}` is not {expected}"


def _lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


def _short(field: str) -> str:
    return field if len(field) <= 60 else field[:59] + "…"
