r"""Write results like Soufflé: `relation.csv` with tabs, blocks on standard output, sizes.

Text that would be read back differently is refused. A file without quotes ends a field at the delimiter and a row at
the line end. With quotes or without, `\N` in a nullable column is NULL.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError, system_reason
from upshot.core.field_text import NULL, text_of
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.structures import Misshapen, plain_text, read
from upshot.core.types import TEXTUAL, Kind, Type
from upshot.database.files.souffle_devices import json_text, write_sqlite
from upshot.database.files.souffle_options import FileOptions

if TYPE_CHECKING:
    import pyarrow as pa

WORTH_ARROW = 100_000
"""Arrow writes and checks files from this number of rows: for smaller ones, importing it takes longer than it saves."""


def write_rows(rows: Rows, options: FileOptions) -> None:
    """Write one sorted file, and its folder; nothing if a text would be read back differently."""
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
    """The lines that Soufflé prints for `IO=stdout`: the relation's name between rules, its rows, a rule."""
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
    """One line for each row; `()` for the row of a relation without columns."""
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
    """Write the file if every value has the same text in Arrow; return whether it did."""
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
        # Text with quotes: Soufflé writes it unchanged, Arrow does not.
        return False
    return True


# ---- text that would be read back differently ---------------------------------------------------------

LONGEST_SHOWN = 60


def refuse_unwritable(rows: Rows, options: FileOptions) -> None:
    """`DataError` if a value would be read back differently from the file."""
    if options.device in ("json", "sqlite"):
        return
    columns = [
        (position, _breaks(options, last=position == rows.schema.arity - 1), column.type.nullable)
        for position, column in enumerate(rows.schema.columns)
        if column.type.kind in TEXTUAL and (column.type.nullable or not options.quoted)
    ]
    if not columns:
        return
    table = rows.to_arrow() if len(rows) >= WORTH_ARROW else None
    for position, breaks, nullable in columns:
        if (type := rows.schema.columns[position].type).kind is Kind.RECORD:
            records = (row[position] for row in rows if row[position] is not None)
            found = next((plain for text in records if (plain := _unwritable_record(text, type, breaks))), None)
        elif table is None:
            texts = (row[position] for row in rows if row[position] is not None)
            found = next((text for text in texts if _is_unwritable(text, breaks, nullable)), None)
        else:
            found = _first_unwritable(table.column(position), breaks, nullable)
        if found is not None:
            raise _refusal(rows, options, position, found)


def _unwritable_record(text: str, type: Type, breaks: tuple[tuple[str, str], ...]) -> str:
    """The record as a file shows it if it would be read back differently; else the empty text."""
    plain = plain_text(text)
    try:
        same = read(plain, type, plain=True) == text
    except Misshapen:
        same = False
    return "" if same and not _is_unwritable(plain, breaks, False) else plain


def _breaks(options: FileOptions, *, last: bool) -> tuple[tuple[str, str], ...]:
    """The strings that a text must not contain, each with the text that follows: `a|` before the delimiter `||` ends
    too early."""
    if options.quoted:
        return ()
    return ((options.delimiter, "" if last else options.delimiter[:-1]), ("\n", ""), ("\r", ""))


def _is_unwritable(text: str, breaks: tuple[tuple[str, str], ...], nullable: bool) -> bool:
    return (nullable and text == NULL) or any(part in text + after for part, after in breaks)


def _first_unwritable(array: pa.ChunkedArray, breaks: tuple[tuple[str, str], ...], nullable: bool) -> str | None:
    import pyarrow.compute as pc

    masks = [pc.equal(array, NULL)] if nullable else []
    for part, after in breaks:
        texts = pc.binary_join_element_wise(array, after, "") if after else array
        masks.append(pc.match_substring(texts, part))
    places = [place for mask in masks if (place := pc.index(mask, True).as_py()) >= 0]
    return array[min(places)].as_py() if places else None


def _refusal(rows: Rows, options: FileOptions, position: int, text: str) -> DataError:
    column = rows.schema.columns[position]
    if text == NULL and column.type.nullable:
        cause = "in a nullable column it would be read back as NULL"
        hint = f"remove the row, or make the column not nullable: `{column.name}: {column.type.required()}`"
    elif column.type.kind is Kind.RECORD:
        cause = "a text in it has a mark of records or of the file, which files write without quotes"
        hint = "write another format: `upshot run -D -` prints rows, `to_parquet` keeps records whole"
    else:
        marks = (("\n", "a line feed"), ("\r", "a carriage return"), ("\t", "a tab"))
        shown = dict(marks).get(options.delimiter, f"the delimiter `{options.delimiter}`")
        marks_found = [words for mark, words in marks[:2] if mark in text] or [shown]
        cause = f"it holds {marks_found[0]}, which ends a {'field' if marks_found == [shown] else 'row'} of the file"
        hint = f"write the file with quotes: `.output {rows.schema.name}(rfc4180=true)`"
    return DataError(
        f"column `{column.name}` of `{rows.schema.name}` has the text {_short(text)}; {cause}",
        code="unwritable-text",
        help=hint,
    )


def _short(text: str) -> str:
    shown = repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…")
    return f"`{shown[1:-1]}`" if text != NULL else f"`{NULL}`"
