"""Phrases that items share: options, and the `.` at the end of a clause."""

from __future__ import annotations

from upshot.syntax.bodies import text_of
from upshot.syntax.cursor import Cursor


def end_clause(c: Cursor, wanted: str, *, help: str = "") -> None:
    """Passes the `.`; where the next item plainly begins, its absence is reported and the clause kept."""
    if c.kind == "." and not (c.starts_line() and c.follows_name()):
        c.advance()
    elif c.kind in (".", "end", "directive") or (c.kind == "name" and c.at_margin()):
        message, label, help = "this clause has no end", "`.` missing", "end it with `.`"
        c.report("missing-period", message, c.last, c.last, label=label, help=help)
    else:
        c.unexpected(wanted, help=help)


def pair(c: Cursor) -> tuple[str, str]:
    """`key=value`."""
    key = c.take("name", "the name of an option")
    c.take("=")
    return key, _option_value(c)


def _option_value(c: Cursor) -> str:
    start, sign = c.start, ""
    if c.kind == "-":
        sign = "-"
        c.advance()
        if c.kind != "number":
            c.unexpected("a number")
    if c.kind not in ("name", "number", "string"):
        c.unexpected("a value", help="a value is a word, a number or quoted text")
    kind, spelling = c.kind, c.text
    c.advance()
    return text_of(c, spelling, start) if kind == "string" else sign + spelling


def options(c: Cursor) -> tuple[tuple[str, str], ...]:
    found = []
    while c.kind == "name" and c.peek()[0] == "=":
        found.append(pair(c))
    return tuple(found)
