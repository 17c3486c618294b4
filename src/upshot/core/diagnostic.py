"""Diagnostics: errors in a program or its data, with slug, place, cause and help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from upshot.core.span import Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `label` is printed after the caret; each of `notes` is a further place with a message."""

    slug: str
    message: str
    span: Span | None = None
    label: str = ""
    help: str = ""
    notes: tuple[tuple[Span | None, str], ...] = ()
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return render(self)

    @property
    def code(self) -> str:
        """The slug, by the name that it has in errors."""
        return self.slug


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text, in the form compilers print.

    >>> print(render(Diagnostic("empty-program", "nothing to run", help="write a rule")))
    error[empty-program]: nothing to run
      = help: write a rule
    """
    lines = [f"{diagnostic.severity.value}[{diagnostic.slug}]: {diagnostic.message}"]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic.span, diagnostic.label)
        if diagnostic.span.within:
            lines.append(f"  = note: in {diagnostic.span.within}")
    for span, words in diagnostic.notes:
        lines.append(f"  = note: {words}")
        if span is not None:
            lines += _excerpt(span, "")
    if diagnostic.help:
        lines.append(f"  = help: {diagnostic.help}")
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n\n".join(render(d) for d in diagnostics)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the closest known name; empty if none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else ""


_LONGEST_LINE = 160


def _excerpt(span: Span, label: str) -> list[str]:
    text = span.source.text
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    column = span.start - start
    shown = text[start:end].replace("\t", " ")
    if len(shown) > _LONGEST_LINE:
        cut = max(0, min(column - _LONGEST_LINE // 2, len(shown) - _LONGEST_LINE))
        shown, column = shown[cut : cut + _LONGEST_LINE], column - cut
    width = max(1, min(span.end, end) - span.start, 1)
    width = min(width, max(1, len(shown) - column))
    number = str(span.line)
    gutter = " " * len(number)
    caret = " " * column + "^" * width + (f" {label}" if label else "")
    return [
        f"{gutter}--> {span.source.name}:{span.line}:{span.column}",
        f"{gutter} |",
        f"{number} | {shown}",
        f"{gutter} | {caret}",
    ]
