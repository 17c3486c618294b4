"""Results as Soufflé writes them: `relation.csv` with tabs, blocks on stdout, sizes."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from upshot.cli.file_options import FileOptions
from upshot.cli.values import to_text
from upshot.core.errors import UsageError
from upshot.core.schema import Schema

Row = tuple[Any, ...]


def write_file(schema: Schema, rows: Iterable[Row], options: FileOptions) -> int | None:
    """Writes the file, in a directory made when it is not there; the first line that does not read back, if any."""
    ambiguous: int | None = None
    try:
        options.path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(options) as stream:
            if options.headers:
                stream.write(_header(schema, options) + "\n")
            for number, line in enumerate(lines(schema, rows, options), start=1 + options.headers):
                stream.write(line + "\n")
                if ambiguous is None and not reads_back(line, schema, options):
                    ambiguous = number
        return ambiguous
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot write `{options.path}`: {reason}", code="cannot-write", help="name another directory with `-D`"
        ) from None


def block(schema: Schema, rows: Iterable[Row], options: FileOptions) -> Iterator[str]:
    """The lines of a relation as Soufflé prints it on stdout."""
    yield "---------------"
    yield schema.name
    if options.headers:
        yield _header(schema, options)
    yield "==============="
    yield from lines(schema, rows, options)
    yield "==============="


def lines(schema: Schema, rows: Iterable[Row], options: FileOptions) -> Iterator[str]:
    """One line a row; a relation without columns that holds has the line `()`."""
    if not schema.columns:
        yield from ("()" for _ in rows)
    elif options.quoted:
        yield from map(_QuotedLine(options.delimiter), rows)
    else:
        join = options.delimiter.join
        for row in rows:
            yield join(map(to_text, row))


def reads_back(line: str, schema: Schema, options: FileOptions) -> bool:
    """False when some text in the line holds the delimiter or a line end: the file would read back as other rows."""
    if options.quoted or not schema.columns:
        return True
    return line.count(options.delimiter) == schema.arity - 1 and "\n" not in line and "\r" not in line


def _header(schema: Schema, options: FileOptions) -> str:
    return options.delimiter.join(column.name for column in schema.columns)


class _QuotedLine:
    def __init__(self, delimiter: str) -> None:
        self._text = io.StringIO(newline="")
        self._writer = csv.writer(self._text, delimiter=delimiter, lineterminator="")

    def __call__(self, row: Row) -> str:
        self._text.seek(0)
        self._text.truncate()
        self._writer.writerow(list(map(to_text, row)))
        return self._text.getvalue()


@contextmanager
def _opened(options: FileOptions) -> Iterator[IO[str]]:
    if options.compressed:
        with gzip.open(options.path, "wt", encoding="utf-8", newline="") as stream:
            yield stream
    else:
        with open(options.path, "w", encoding="utf-8", newline="") as plain:
            yield plain
