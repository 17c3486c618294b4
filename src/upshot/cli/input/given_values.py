"""Values on the command line: those of new values and of constants to try."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from upshot.core.errors import ProgramError, UsageError
from upshot.core.json_values import JsonMisfit, json_reader
from upshot.core.types import TEXTUAL, Kind, Type
from upshot.database.realization import Realization
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Constant


def constant(text: str) -> Any:
    """The value that a text such as `7`, `"ops"` or `date("2026-01-31")` is in a program; any other is text itself."""
    try:
        found = parse_query(f"value({text})")
    except ProgramError:
        return text
    if isinstance(found, Atom) and len(found.args) == 1 and isinstance(found.args[0], Constant):
        return found.args[0].value
    return text


def new_values(given: Sequence[str], way: Realization) -> dict[str, Any]:
    """Parse `--value '?1=board'`: a value for each placeholder of the realization, of its type."""
    types = {each.name: each.type for each in way.placeholders}
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = f"?{name.strip().lstrip('?')}"
        if not equals:
            message = f"`{text}` is not a placeholder and a value"
            raise UsageError(message, code="wrong-argument", help="as in `--value '?1=board'`")
        if name not in types:
            listed = ", ".join(f"`{each}`" for each in types)
            hint = f"it has {listed}" if listed else "it has no placeholders: omit `--value`"
            raise UsageError(f"the realization has no placeholder `{name}`", code="wrong-argument", help=hint)
        found[name] = _typed(value.strip(), types[name], name)
    if missing := [name for name in types if name not in found]:
        raise UsageError(
            f"no value for placeholder {', '.join(f'`{name}`' for name in missing)}",
            code="placeholder-open",
            help=f"give the value: `--value '{missing[0]}=…'`",
        )
    return found


def _typed(text: str, type: Type, name: str) -> Any:
    value = text if type.kind in TEXTUAL and not text.startswith('"') else constant(text)
    if isinstance(value, dt.date | bool):
        return value
    if isinstance(value, int | float) and type.kind in (Kind.FLOAT, Kind.DECIMAL):
        # A decimal is what was written, not the nearest binary number.
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = text
    try:
        return json_reader(type)(value)
    except JsonMisfit as misfit:
        message = f"`{text}` is not a value for `{name}`: {misfit}"
        raise UsageError(message, code="wrong-argument", help=f"`{name}` needs a {type}") from None
