"""Statements, and errors with a place in a statement."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error, unknown_relation
from upshot.core.span import Source, Span

if TYPE_CHECKING:
    from upshot.sql.trigger_reading import TriggerForm

log = logging.getLogger(__name__)
_CALL = re.compile(r"\w*\(\s*\Z")


def unreadable(span: Span, error: Exception) -> Diagnostic:
    """The diagnostic of an internal error of the parser or of the translation."""
    log.debug("cannot parse a statement", exc_info=error)
    return Diagnostic(
        "sql-unreadable",
        "cannot parse the statement",
        span,
        "somewhere in here",
        "check names, types and numbers; Upshot reads the SQL of PostgreSQL and Spark",
    )


def _unmatched(text: str) -> tuple[int, int]:
    """The numbers of parentheses that are closed but not opened in the text, and opened but not closed."""
    closed = opened = 0
    for each in text:
        if each == "(":
            opened += 1
        elif each == ")" and opened:
            opened -= 1
        elif each == ")":
            closed += 1
    return closed, opened


@contextmanager
def understood(statement: Statement) -> Iterator[None]:
    """Refuse the statement with a diagnostic if its translation fails with an internal error."""
    try:
        yield
    except (Refused, Error):
        raise
    except RecursionError:
        help = "move a part of it to a view or a query in WITH"
        raise Refused(Diagnostic("too-deep", "the statement is nested too deeply", statement.span, help=help)) from None
    except Exception as error:
        raise Refused(unreadable(statement.span, error)) from error


class Refused(Exception):
    """A statement has an error, or is not supported."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its tree and its place. `dialect` is the one in which it was parsed. `kind` is create, query,
    assertion or trigger. The tree of an assertion is its condition, that of a trigger the statement that it runs."""

    kind: str
    tree: exp.Expression
    span: Span
    dialect: str
    name: exp.Identifier | None = None
    trigger: TriggerForm | None = None

    @property
    def source(self) -> Source:
        return self.span.source

    def place(self, node: exp.Expression | None) -> Span:
        """The span of a part of the tree; the whole statement if the tree has none."""
        found: list[tuple[int, int]] = []
        if node is not None:
            for each in node.walk():
                start, end = each.meta.get("start"), each.meta.get("end")
                if isinstance(start, int) and isinstance(end, int):
                    found.append((start, end + 1))
        if not found:
            return self.span
        start, end = min(start for start, _ in found), max(end for _, end in found)
        text = self.source.text
        # The tree has the places of names and literals, but not of brackets, nor of the names of all functions.
        closed, opened = _unmatched(text[start:end])
        while closed and (call := _CALL.search(text, 0, start)):
            start, closed = call.start(), closed - 1
        while opened and text[end : end + 1] == ")":
            end, opened = end + 1, opened - 1
        end += 2 * text.startswith("()", end)
        return Span(self.source, start, end)

    def spelled(self, node: exp.Expression) -> str:
        """The expression in the dialect of the statement; a function of the current time as in the text."""
        if isinstance(node, exp.CurrentTimestamp) and (found := self.place(node)) != self.span:
            return found.text
        return node.sql(self.dialect)

    def query_place(self, select: exp.Expression) -> Span:
        """The span of a SELECT, including its first word."""
        found = self.place(select)
        start = self.source.text.upper().rfind("SELECT", self.span.start, found.start)
        return found if start < 0 else Span(self.source, start, found.end)

    def refuse(
        self, slug: str, message: str, node: exp.Expression | None = None, *, help: str, label: str = ""
    ) -> NoReturn:
        raise Refused(Diagnostic(slug, message, self.place(node), label, help))

    def unknown_relation(self, identifier: exp.Expression, known: Iterable[str], otherwise: str) -> NoReturn:
        """Refuse a name that no table or view has."""
        error = unknown_relation(identifier.name, known, otherwise=otherwise)
        self.refuse(error.code, error.message, identifier, help=error.help)

    def unsupported(self, what: str, node: exp.Expression | None = None, *, help: str) -> NoReturn:
        """Refuse an unsupported part of SQL."""
        self.refuse("sql-unsupported", f"{what} is not supported", node, help=help, label="cannot be maintained")
