"""Short ways to a checked program and to what is wrong with one."""

from __future__ import annotations

from upshot.check import CheckedProgram, check, print_clause
from upshot.core.errors import ProgramError
from upshot.syntax import parse


def checked(text: str) -> CheckedProgram:
    return check(parse(text, "program.dl"))


def clauses(text: str, view: str = "p") -> list[str]:
    """The clauses of one view as text."""
    return [print_clause(c) for c in checked(text).clauses if c.head.relation == view]


def said(text: str) -> str:
    """All that is said about a wrong program; empty for a right one."""
    try:
        checked(text)
    except ProgramError as error:
        return str(error)
    return ""


def slugs(text: str) -> list[str]:
    """The slugs of all errors in the order of the text."""
    try:
        checked(text)
    except ProgramError as error:
        return [d.slug for d in error.diagnostics]
    return []


def warnings(text: str) -> list[tuple[str, str]]:
    """Slug and place (as text) of all warnings and notes."""
    return [(d.slug, d.span.text if d.span else "") for d in checked(text).warnings]
