"""The positions of the keys in a TOML text, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error, ProgramError
from upshot.core.span import Source, Span

Path = tuple[str, ...]
_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")
_STRINGS = ('"""', "'''", '"', "'")
_AT = re.compile(r"line (\d+), column (\d+)")


def read_toml(source: Source) -> tuple[dict[str, Any], dict[Path, Span]]:
    """The content and the place of every key and table header; a text that is no TOML is a `ProgramError`."""
    try:
        content = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise ProgramError([_not_toml(source, str(error))]) from None
    return content, places(source)


def places(source: Source) -> dict[Path, Span]:
    """The place of each key, by its full path. What is inside an inline table has the place of the table's key.

    >>> found = places(Source("p.toml", "name = 'a'"))
    >>> found[("name",)].line
    1
    """
    found: dict[Path, Span] = {}
    table: Path = ()
    for start, end in _statements(source.text):
        statement = source.text[start:end]
        if statement.startswith("["):
            table = _names(statement.lstrip("[ \t"))
            path = table
        else:
            path = table + _names(statement)
            end = start + len(statement.partition("=")[0].rstrip())
        for depth in range(1, len(path) + 1):
            found.setdefault(path[:depth], Span(source, start, end))
        found[path] = Span(source, start, end)
    return found


@contextmanager
def placed(span: Span | None) -> Iterator[None]:
    """Errors raised inside without a place get this place in the pipeline file."""
    try:
        yield
    except Error as error:
        error.span = error.span or span
        raise


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of the headers and assignments, which begin a line outside strings, brackets and comments."""
    at, depth, begun = 0, 0, -1
    while at < len(text):
        string = next((mark for mark in _STRINGS if text.startswith(mark, at)), "")
        if string:
            begun = at if begun < 0 else begun
            at = _after_string(text, at, string)
            continue
        character = text[at]
        if character == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if character == "\n" and depth == 0 and begun >= 0:
            yield begun, at
            begun = -1
        elif not character.isspace() and begun < 0:
            begun = at
        depth += (character in "[{") - (character in "]}")
        at += 1
    if begun >= 0:
        yield begun, len(text)


def _after_string(text: str, at: int, mark: str) -> int:
    at += len(mark)
    while at < len(text) and not text.startswith(mark, at):
        at += 2 if text[at] == "\\" and mark[0] == '"' else 1
    return at + len(mark)


def _names(text: str) -> Path:
    """The parts of a dotted key at the beginning of the text."""
    parts, at = [], 0
    while match := _PART.match(text, at):
        word = match[1]
        parts.append(tomllib.loads(f"k = {word}")["k"] if word[0] in "\"'" else word)
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(parts)


def _not_toml(source: Source, words: str) -> Diagnostic:
    found = _AT.search(words)
    lines = source.text.splitlines(keepends=True)
    line, column = (int(found[1]), int(found[2])) if found else (max(len(lines), 1), 1)
    start = sum(len(text) for text in lines[: line - 1]) + column - 1
    message = words.partition(" (at")[0].lower()
    span = Span(source, min(start, len(source.text)), min(start + 1, len(source.text)))
    return Diagnostic("not-toml", f"the pipeline file is not TOML: {message}", span)
