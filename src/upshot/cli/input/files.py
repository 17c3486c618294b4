"""Files a user names on the command line, read with errors a user understands."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import DataError, ProgramError, UsageError, system_reason
from upshot.core.span import Source, Span

STDIN = Path("-")


def shown_name(path: Path) -> str:
    """The file as messages name it."""
    return "<stdin>" if path == STDIN else str(path)


def read_program(path: Path) -> Source:
    """The text of a program; `-` is standard input."""
    name = shown_name(path)
    with open_bytes(path, "program") as stream:
        data = stream.read()
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ProgramError([_not_utf8(name, data, error)]) from None


def open_bytes(path: Path, what: str) -> AbstractContextManager[BinaryIO]:
    """The file opened for reading, or a `UsageError` that says what is wrong with the path."""
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise UsageError(
            f"file `{path}` does not exist", code="no-such-file", help=f"name the {what} to read"
        ) from None
    except IsADirectoryError:
        raise UsageError(
            f"`{path}` is a directory, not a file", code="not-a-file", help=f"name the {what} to read"
        ) from None
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot read `{path}`: {reason}", code="unreadable-file") from None


def existing_directory(path: Path, option: str) -> Path:
    if not path.exists():
        raise UsageError(f"directory `{path}` does not exist", code="no-such-directory", help=f"check `{option}`")
    if not path.is_dir():
        raise UsageError(f"`{path}` is a file, not a directory", code="not-a-directory", help=f"check `{option}`")
    return path


def existing_store(path: Path, option: str) -> Path:
    """The directory, which is not empty: a query creates no database."""
    existing_directory(path, option)
    if not any(path.iterdir()):
        raise UsageError(
            f"directory `{path}` is empty and holds no database",
            code="not-a-store",
            help="name a database directory",
        )
    return path


def at_line(name: str, number: int, line: str, start: int = 0, end: int | None = None) -> Span:
    """The place of a line in a data file of which only that line is at hand."""
    skipped = "\n" * (number - 1)
    return Span(Source(name, skipped + line), len(skipped) + start, len(skipped) + (len(line) if end is None else end))


def decode_line(raw: bytes, name: str, number: int) -> str:
    """The line as text without its line end; a `DataError` names the line that is not UTF-8."""
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"`{name}` line {number}: byte {error.start + 1} is not UTF-8",
            code="not-utf8",
            span=at_line(name, number, raw.decode("utf-8", "replace").rstrip("\r\n")),
            help="save the file as UTF-8",
        ) from None


def _not_utf8(name: str, data: bytes, error: UnicodeDecodeError) -> Diagnostic:
    shown = Source(name, data.decode("utf-8", "replace"))
    start = len(data[: error.start].decode("utf-8", "replace"))
    return Diagnostic(
        "not-utf8",
        f"`{name}` is not UTF-8 text",
        Span(shown, start, start + 1),
        label=f"byte 0x{data[error.start]:02x}",
        help="save the file as UTF-8",
    )
