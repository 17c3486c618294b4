"""Every mistake in a text, even if some of it could not be read."""

from __future__ import annotations

from upshot.check.checking import check
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.syntax.ast import Program

_DOUBTFUL = {
    "unknown-relation",
    "unknown-type",
    "unknown-constraint",
    "view-of-base-relation",
    "action-on-view",
    "unknown-rule",
}
"""Errors that an item that could not be read may have caused: they are not reported along with it."""


def with_findings(error: ProgramError, understood: Program) -> ProgramError:
    """The error of a text that could not be read whole, with what `check` finds in the part that was understood."""
    try:
        check(understood)
    except ProgramError as further:
        sure = [d for d in further.diagnostics if d.slug not in _DOUBTFUL]
        return ProgramError(sorted([*error.diagnostics, *sure], key=_place))
    return error


def _place(diagnostic: Diagnostic) -> tuple[str, int]:
    return (diagnostic.span.source.name, diagnostic.span.start) if diagnostic.span is not None else ("", 2**63)
