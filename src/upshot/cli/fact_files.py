"""Fact files as Soufflé reads them: one row a line, fields between tabs, no quotes."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from upshot.cli.file_options import FileOptions
from upshot.cli.files import at_line, decode_line
from upshot.cli.values import NotAValue, from_text
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Kind

if TYPE_CHECKING:
    import pyarrow

Row = tuple[Any, ...]
Progress = Callable[[float], None]

WORTH_ARROW = 1 << 20
"""Bytes from which a file is read by Arrow: below, importing it costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of a file, as tuples or as an Arrow table with the relation's columns in order."""

    rows: list[Row] | pyarrow.Table
    warnings: tuple[Diagnostic, ...] = ()


def read_facts(schema: Schema, options: FileOptions, progress: Progress) -> Facts:
    """The rows of one relation; a `DataError` names the file, the line, the column and what was found there."""
    if options.standard:
        return _read_lines(schema, options, sys.stdin.buffer, "<stdin>", progress)
    table = _read_with_arrow(schema, options)
    if table is not None:
        return Facts(table)
    try:
        with open(options.path, "rb") as stream:
            return _read_stream(schema, options, stream, progress)
    except FileNotFoundError:
        raise _missing(schema, options) from None
    except IsADirectoryError:
        raise DataError(f"the fact file `{options.path}` is a directory", code="not-a-file") from None
    except (gzip.BadGzipFile, EOFError):
        raise DataError(
            f"`{options.path}` is not a whole gzip file", code="unreadable-file", help="leave out `compress=true`"
        ) from None
    except PermissionError:
        raise DataError(f"cannot read `{options.path}`: permission denied", code="unreadable-file") from None


def _missing(schema: Schema, options: FileOptions) -> DataError:
    return DataError(
        f"there is no fact file `{options.path}` for `.input {schema.name}`",
        code="missing-facts",
        help="name its directory with `-F`, or the file in `.input " + schema.name + '(filename="…")`',
    )


def _read_stream(schema: Schema, options: FileOptions, stream: BinaryIO, progress: Progress) -> Facts:
    name = str(options.path)
    if options.compressed:
        with gzip.open(stream) as plain:
            return _read_lines(schema, options, plain, name, progress)
    return _read_lines(schema, options, stream, name, progress)


# ---- line by line --------------------------------------------------------------------------------


def _read_lines(schema: Schema, options: FileOptions, lines: Iterable[bytes], name: str, progress: Progress) -> Facts:
    reader = _Reader(schema, options, name)
    rows: list[Row] = []
    for number, line in _numbered(lines, name, progress):
        if number == 1 and options.headers:
            continue
        if options.quoted:
            rows += reader.quoted_rows(number, line)
        else:
            rows += reader.row(number, line)
    reader.end()
    return Facts(rows, tuple(reader.warnings))


_PROGRESS_STEP = 10_000


def _numbered(lines: Iterable[bytes], name: str, progress: Progress) -> Iterator[tuple[int, str]]:
    read = 0
    for number, raw in enumerate(lines, start=1):
        read += len(raw)
        if number % _PROGRESS_STEP == 0:
            progress(read)
            read = 0
        yield number, decode_line(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, name, number)
    progress(read)


class _Reader:
    """Turns lines into rows of one relation."""

    def __init__(self, schema: Schema, options: FileOptions, name: str) -> None:
        self._schema = schema
        self._delimiter = options.delimiter
        self._name = name
        self._positions = options.columns or tuple(range(schema.arity))
        self._least = max(self._positions, default=-1) + 1
        self._blank_is_row = schema.arity == 0 or (schema.arity == 1 and schema.types[0].kind is Kind.SYMBOL)
        self._pending: list[str] = []
        self._pending_from = 0
        self.warnings: list[Diagnostic] = []
        if len(self._positions) != schema.arity:
            raise DataError(
                f"`.input {schema.name}` names {len(self._positions)} columns of the file, "
                f"the relation has {schema.arity}",
                code="file-option",
            )

    def row(self, number: int, line: str) -> list[Row]:
        if not line and not self._blank_is_row:
            return []
        if not self._schema.columns:
            return self._nullary(number, line)
        return [self._converted(number, line, line.split(self._delimiter))]

    def quoted_rows(self, number: int, line: str) -> list[Row]:
        """A field in quotes may go on over line ends: lines are kept until the quotes are even."""
        if not self._pending:
            self._pending_from = number
        self._pending.append(line)
        text = "\n".join(self._pending)
        if text.count('"') % 2:
            return []
        self._pending.clear()
        if not text and not self._blank_is_row:
            return []
        if not self._schema.columns:
            return self._nullary(number, text)
        csv.field_size_limit(max(csv.field_size_limit(), len(text)))
        fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter), [""])
        return [self._converted(self._pending_from, text, fields)]

    def end(self) -> None:
        if self._pending:
            raise DataError(
                f"`{self._name}` line {self._pending_from}: a quoted field has no end",
                code="wrong-row",
                span=at_line(self._name, self._pending_from, self._pending[0]),
            )

    def _nullary(self, number: int, line: str) -> list[Row]:
        if line not in ("", "()"):
            raise self._wrong("wrong-arity", number, line, "a relation without columns has only the row `()`")
        return [()] if line else []

    def _converted(self, number: int, line: str, fields: list[str]) -> Row:
        if len(fields) < self._least:
            raise self._wrong(
                "wrong-arity", number, line, f"{len(fields)} field{'s' * (len(fields) != 1)}, expected {self._least}"
            )
        if len(fields) > self._least and not self.warnings and self._positions == tuple(range(self._least)):
            self.warnings.append(self._extra(number, line, len(fields)))
        values = []
        for position, column in zip(self._positions, self._schema.columns, strict=True):
            try:
                values.append(from_text(fields[position], column.type))
            except NotAValue as wrong:
                raise self._wrong("wrong-type", number, line, f"column `{column.name}`: {wrong}") from None
        return tuple(values)

    def _wrong(self, slug: str, number: int, line: str, words: str) -> DataError:
        return DataError(
            f"`{self._name}` line {number}: {words}",
            code=slug,
            span=self._span(number, line),
            help=f"the relation is `{self._schema}`, fields stand between {self._between()}",
        )

    def _between(self) -> str:
        return "tabs" if self._delimiter == "\t" else f"`{self._delimiter}`"

    def _extra(self, number: int, line: str, found: int) -> Diagnostic:
        return Diagnostic(
            "extra-fields",
            f"`{self._name}` line {number}: {found} fields for {self._least} columns; the rest is not read",
            self._span(number, line),
            severity=Severity.WARNING,
        )

    def _span(self, number: int, line: str) -> Span:
        return at_line(self._name, number, line.split("\n")[0])


# ---- by Arrow ------------------------------------------------------------------------------------


def _read_with_arrow(schema: Schema, options: FileOptions) -> pyarrow.Table | None:
    """The file as a table, or None where it is small, has types or options Arrow reads otherwise, or has any fault:
    reading it line by line then finds the fault and names it."""
    if not _fit_for_arrow(schema, options):
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {Kind.NUMBER: pa.int64(), Kind.UNSIGNED: pa.uint64(), Kind.FLOAT: pa.float64(), Kind.SYMBOL: pa.string()}
    names = [column.name for column in schema.columns]
    try:
        return arrow_csv.read_csv(
            options.path,
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=int(options.headers)),
            parse_options=arrow_csv.ParseOptions(
                delimiter=options.delimiter, quote_char=False, ignore_empty_lines=schema.arity > 1
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={column.name: types[column.type.kind] for column in schema.columns},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError):
        return None


_ARROW_KINDS = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)


def _fit_for_arrow(schema: Schema, options: FileOptions) -> bool:
    plain = not (options.compressed or options.quoted or options.columns) and len(options.delimiter) == 1
    kinds = all(column.type.kind in _ARROW_KINDS and not column.type.nullable for column in schema.columns)
    return plain and kinds and schema.arity > 0 and options.delimiter.isascii() and _size(options.path) >= WORTH_ARROW


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
