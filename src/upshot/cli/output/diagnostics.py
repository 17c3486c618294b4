"""Diagnostics as the command line prints them: colored text or a JSON object, with commands instead of Python calls."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from upshot.core.diagnostic import Diagnostic, Severity, render
from upshot.core.errors import Error, ProgramError

_COLORS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.NOTE: "\x1b[1;36m"}
_RESET = "\x1b[0m"


def of_error(error: Error) -> tuple[Diagnostic, ...]:
    """All diagnostics of an error."""
    return error.diagnostics if isinstance(error, ProgramError) else (error.diagnostic(),)


def as_text(diagnostic: Diagnostic, *, color: bool) -> str:
    """The diagnostic as `render` prints it, its first words in the color of its severity."""
    text = render(replace(diagnostic, help=on_the_command_line(diagnostic.help)))
    if not color:
        return text
    title, _, rest = text.partition(": ")
    return f"{_COLORS[diagnostic.severity]}{title}{_RESET}: {rest}"


def as_fields(diagnostic: Diagnostic) -> dict[str, object]:
    """The diagnostic as a JSON object; `file`, `line` and `column` are null without a place. `slug` repeats `code` for
    scripts of older versions."""
    span = diagnostic.span
    fields: dict[str, object] = {
        "code": diagnostic.slug,
        "slug": diagnostic.slug,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "file": span.source.name if span else None,
        "line": span.line if span else None,
        "column": span.column if span else None,
    }
    if diagnostic.help:
        fields["help"] = on_the_command_line(diagnostic.help)
    if diagnostic.label:
        fields["label"] = diagnostic.label
    if diagnostic.notes:
        fields["notes"] = [
            {"message": text, "file": place and place.source.name, "line": place and place.line}
            for place, text in diagnostic.notes
        ]
    return fields


def as_json(diagnostic: Diagnostic) -> str:
    return json.dumps(as_fields(diagnostic), ensure_ascii=False)


_SPELLINGS = (
    (r"`db\.realize`, or `upshot update`,", "`upshot update`"),
    (r"`db\.realize`", "`upshot update`"),
    (r"with this one among the `constants` of its bounds", "with this one in `--constant`"),
    (r"raise `bounds`", "raise `--bounds`"),
    (r"`why_not`", "`upshot why-not`"),
    (r"`why`", "`upshot why`"),
    (r'as in cost=\{"(.+?)": (.+)\}', r"as in `--cost \1=\2`"),
    (r",? (?:and|or) use (?:it in )?`db\.sql`$", ""),
    (r"`with db\.transaction\(\) as tx: .*`", "a change file, with `--changes`"),
    (r"register it: `db\.function.*; for a command, name", "name"),
    (r"`db\.models\(\)`, or ", ""),
    (r"`db\.what_if`", "`upshot what-if`"),
    (r"as soon as db\.action\(.*\) registers it", "once `--actions` names a file with the function"),
)
"""Python calls in help texts, and the commands that replace them."""


def on_the_command_line(help: str) -> str:
    """The help text with commands and options instead of Python calls.

    >>> on_the_command_line("`why_not` shows what is missing")
    '`upshot why-not` shows what is missing'
    """
    for pattern, command in _SPELLINGS:
        help = re.sub(pattern, command, help)
    return help
