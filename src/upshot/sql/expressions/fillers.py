"""A value of each type, to stand where NULL was."""

from __future__ import annotations

import datetime

from upshot.core.structures import NIL
from upshot.core.types import BOOLEAN, DATE, FLOAT, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.syntax import literals
from upshot.syntax.ast import Constant


def filler(type: Type) -> Constant:
    """A value of the type, to stand where NULL was."""
    match type.kind:
        case Kind.NUMBER:
            return Constant(0)
        case Kind.UNSIGNED:
            return Constant(0, UNSIGNED)
        case Kind.FLOAT:
            return Constant(0.0, FLOAT)
        case Kind.SYMBOL:
            return Constant("", SYMBOL)
        case Kind.RECORD:
            return Constant(NIL, type.required())
        case Kind.BOOLEAN:
            return Constant(False, BOOLEAN)
        case Kind.DATE:
            return Constant(datetime.date(1970, 1, 1), DATE)
        case Kind.TIMESTAMP:
            return Constant(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), TIMESTAMP)
        case Kind.DECIMAL:
            return literals.tagged("decimal", f"{0:.{type.scale}f}")
