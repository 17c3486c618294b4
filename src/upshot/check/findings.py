"""The diagnostics of one run, each reported once, in the order of the text."""

from __future__ import annotations

from collections.abc import Collection

from upshot.core.diagnostic import Diagnostic, Severity, did_you_mean
from upshot.core.errors import ProgramError, unknown_relation
from upshot.core.span import Span

Notes = tuple[tuple[Span | None, str], ...]

_MOST_COMPARISONS = 20_000


class Findings:
    """Collects errors and warnings.

    Splitting a rule into clauses meets the same mistake several times: a finding with the same words at the same place
    is kept once.
    """

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.reported = 0
        """Errors reported so far, repetitions counted: what a caller compares to see whether a step went well."""
        self.met = 0
        """Findings of every severity so far, repetitions counted."""
        self._seen: set[tuple[str, str, int | None]] = set()
        self._suggestions: dict[str, str] = {}
        self._comparisons = 0

    def error(
        self, slug: str, message: str, span: Span | None, *, label: str = "", help: str = "", notes: Notes = ()
    ) -> None:
        self._add(Diagnostic(slug, message, span, label, help, notes, Severity.ERROR))

    def warn(self, slug: str, message: str, span: Span | None, *, label: str = "", help: str = "") -> None:
        self._add(Diagnostic(slug, message, span, label, help, (), Severity.WARNING))

    def note(self, slug: str, message: str, span: Span | None, *, label: str = "", help: str = "") -> None:
        self._add(Diagnostic(slug, message, span, label, help, (), Severity.NOTE))

    def include(self, diagnostic: Diagnostic) -> None:
        self._add(diagnostic)

    def repeat(self) -> None:
        """Count an error that an earlier step reported, in the step that meets it again."""
        self.reported += 1
        self.met += 1

    def suggest(self, name: str, known: Collection[str], otherwise: str) -> str:
        """The closest known name as a question, or what else to do."""
        if name in self._suggestions:
            return self._suggestions[name] or otherwise
        # Comparing names is quadratic: a text full of unknown names gets its first suggestions only.
        if self._comparisons + len(known) > _MOST_COMPARISONS or len(name) > 200:
            return otherwise
        self._comparisons += len(known)
        self._suggestions[name] = did_you_mean(name, known)
        return self._suggestions[name] or otherwise

    def unknown_relation(self, name: str, span: Span | None, known: Collection[str]) -> None:
        """Report a name that no relation has."""
        help = self.suggest(name, known, f"declare it: `.decl {name}(…)`")
        error = unknown_relation(name, (), otherwise=help)
        self.error(error.code, error.message, span, label="unknown", help=error.help)

    def raise_errors(self) -> None:
        if self.errors:
            raise ProgramError(sorted(self.errors, key=_position))

    def sorted_warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self.warnings, key=_position))

    def _add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        self.met += 1
        self.reported += diagnostic.severity is Severity.ERROR
        key = (diagnostic.slug, diagnostic.message, None if span is None else span.start)
        if key in self._seen:
            return
        self._seen.add(key)
        (self.errors if diagnostic.severity is Severity.ERROR else self.warnings).append(diagnostic)


def _position(diagnostic: Diagnostic) -> int:
    return -1 if diagnostic.span is None else diagnostic.span.start
