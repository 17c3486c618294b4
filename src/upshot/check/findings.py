"""Collect the diagnostics of one check: each is reported once, in the order of the text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from upshot.core.diagnostic import Diagnostic, Severity, did_you_mean
from upshot.core.errors import ProgramError, unknown_relation
from upshot.core.span import Span

Notes = tuple[tuple[Span | None, str], ...]

_MOST_COMPARISONS = 20_000


class Findings:
    """The errors and warnings found so far.

    Splitting a rule into clauses finds the same mistake several times: findings with the same message at the same place
    are kept once.
    """

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.reported = 0
        """The number of errors so far, repetitions included: a step without errors leaves it unchanged."""
        self.met = 0
        """The number of findings of any severity so far, repetitions included."""
        self._seen: set[tuple[str, str, int | None]] = set()
        self._places: set[tuple[str, int | None]] = set()
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
        """Count an error again that an earlier step reported."""
        self.reported += 1
        self.met += 1

    def suggest(self, name: str, known: Collection[str], otherwise: str) -> str:
        """The closest known name as a question, or else `otherwise`."""
        if name in self._suggestions:
            return self._suggestions[name] or otherwise
        # Comparing names is quadratic: of many unknown names, only the first get suggestions.
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

    def unknown_column(self, name: str, relation: str, known: Collection[str], span: Span | None) -> None:
        """Report a name that no column of a relation has."""
        self.error(
            "unknown-column",
            f"`{name}` is not a column of `{relation}`",
            span,
            label=f"has no column `{name}`",
            help=self.suggest(name, known, f"its columns are {', '.join(known)}"),
        )

    def check_columns(
        self, names: Sequence[str], relation: str, known: Collection[str], owner: str, span: Span | None
    ) -> None:
        """Report unknown and repeated columns of a relation in a list of its `owner`."""
        for place, name in enumerate(names):
            if name not in known:
                self.unknown_column(name, relation, known, span)
            elif name in names[:place]:
                message, help = f"{owner} names column `{name}` twice", f"name `{name}` once"
                self.error("duplicate-column", message, span, label=f"`{name}` twice", help=help)

    def has(self, slug: str, span: Span) -> bool:
        """Test whether a finding with this slug begins at this place."""
        return (slug, span.start) in self._places

    def raise_errors(self) -> None:
        if self.errors:
            raise ProgramError(sorted(self.errors, key=_position))

    def sorted_warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self.warnings, key=_position))

    def _add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        self.met += 1
        self.reported += diagnostic.severity is Severity.ERROR
        start = None if span is None else span.start
        key = (diagnostic.slug, diagnostic.message, start)
        if key in self._seen:
            return
        self._seen.add(key)
        self._places.add((diagnostic.slug, start))
        (self.errors if diagnostic.severity is Severity.ERROR else self.warnings).append(diagnostic)


def _position(diagnostic: Diagnostic) -> int:
    return -1 if diagnostic.span is None else diagnostic.span.start
