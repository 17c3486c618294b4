"""Files that are named on the command line, and the errors for those that cannot be read."""

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
    """The name of the file in messages."""
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


def refuse_stdin_twice(program: Path, changes: Path | None) -> None:
    if program == STDIN == changes:
        raise UsageError("the program and the changes cannot both come from standard input", code="stdin-twice")


def open_bytes(path: Path, kind: str) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading. A `UsageError` names the path and the `kind` of file that is needed."""
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise UsageError(
            f"file `{path}` does not exist", code="no-such-file", help=f"name the {kind} to read"
        ) from None
    except IsADirectoryError:
        raise UsageError(
            f"`{path}` is a directory, not a file", code="not-a-file", help=f"name the {kind} to read"
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
    """The directory of a database. It must not be empty: a query does not create a database."""
    existing_directory(path, option)
    if not any(path.iterdir()):
        raise UsageError(
            f"directory `{path}` is empty and holds no database",
            code="not-a-store",
            help="name a database directory",
        )
    return path


def at_line(name: str, number: int, line: str, start: int = 0, end: int | None = None) -> Span:
    """The span of a line of a data file, made from that line alone."""
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
