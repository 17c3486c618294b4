r"""Text that a Soufflé file cannot hold: written down, it would be read back as something else.

A file without quotes ends a field at the delimiter and a row at the line end. With quotes or without, `\N` in a
nullable column is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.errors import DataError
from upshot.core.field_text import NULL
from upshot.core.rows import Rows
from upshot.core.structures import Misshapen, plain_text, read
from upshot.core.types import TEXTUAL, Kind, Type
from upshot.database.files.souffle_options import FileOptions

if TYPE_CHECKING:
    import pyarrow as pa

WORTH_ARROW = 100_000
"""Rows from which Arrow looks through the columns: below, importing it takes longer than it saves."""

LONGEST_SHOWN = 60


def refuse_unwritable(rows: Rows, options: FileOptions) -> None:
    """`DataError` if a value could not be read back from the file."""
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
    """The record as a file shows it, if it could not be read back from there; else nothing."""
    plain = plain_text(text)
    try:
        same = read(plain, type, plain=True) == text
    except Misshapen:
        same = False
    return "" if same and not _is_unwritable(plain, breaks, False) else plain


def _breaks(options: FileOptions, *, last: bool) -> tuple[tuple[str, str], ...]:
    """The strings that a text must not contain, each with what follows the text: `a|` before the delimiter `||` ends
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
        held = [words for mark, words in marks[:2] if mark in text] or [shown]
        cause = f"it holds {held[0]}, which ends a {'field' if held == [shown] else 'row'} of the file"
        hint = f"write the file with quotes: `.output {rows.schema.name}(rfc4180=true)`"
    return DataError(
        f"column `{column.name}` of `{rows.schema.name}` has the text {_short(text)}; {cause}",
        code="unwritable-text",
        help=hint,
    )


def _short(text: str) -> str:
    shown = repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…")
    return f"`{shown[1:-1]}`" if text != NULL else f"`{NULL}`"
