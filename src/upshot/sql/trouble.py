"""Errors in a statement, with their place: raised, and collected statement by statement."""

from __future__ import annotations

import logging
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


def unreadable(span: Span, error: Exception) -> Diagnostic:
    """The diagnostic of a statement on which the parser, or the reading of its tree, fails with an error that says
    nothing to users."""
    log.debug("cannot parse a statement", exc_info=error)
    return Diagnostic(
        "sql-unreadable",
        "cannot parse the statement",
        span,
        "somewhere in here",
        "check names, types and numbers; Upshot reads the SQL of PostgreSQL and Spark",
    )


@contextmanager
def understood(statement: Statement) -> Iterator[None]:
    """Inside, the tree of a statement is read: whatever goes wrong is refused with a diagnostic."""
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
    """A statement cannot be what it says; the diagnostic tells why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its tree, and where it stands. `dialect` is the spelling it was read in. `kind` is create, query,
    assertion or trigger; an assertion has a name beside the condition that is its tree, a trigger a form beside the
    statement that it runs."""

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
        # The tree knows where names and literals are, not the brackets around them.
        while text.count("(", start, end) > text.count(")", start, end) and text[end : end + 1] == ")":
            end += 1
        return Span(self.source, start, end)

    def query_place(self, select: exp.Expression) -> Span:
        """The span of a SELECT, from its first word on."""
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
        """Refuses a part of SQL that has no counterpart here."""
        self.refuse("sql-unsupported", f"{what} is not supported", node, help=help, label="cannot be maintained")
