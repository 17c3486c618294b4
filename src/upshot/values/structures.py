"""Functions that construct and destructure records and branches; `check` replaces `[a, b]` and `$A(a)` by them.

Their names cannot be written in a program. `[]` constructs a value: its first argument is its form, such as `P(number,
symbol)` or `$A(record)`. `.number` and the like return the field at a place; the test `[]` tests the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from upshot.core.structures import NEUTRAL, composed, field_of, has_form, parts, scalar
from upshot.core.types import Kind
from upshot.values.inverses import NONE, Image, Roots
from upshot.values.records import BuiltinFunction, BuiltinTest, FunctionMeaning
from upshot.values.signatures import ANY, Signature, fixed, only

MAKE = "[]"
"""The function that constructs a value, and the test of its branch."""


def form(name: str, kinds: Sequence[Kind]) -> str:
    """The first argument of `MAKE`; `name` is a record type, or a branch with its `$`.

    >>> form("P", (Kind.NUMBER, Kind.RECORD))
    'P(number, record)'
    """
    return f"{name}({', '.join(kind.value for kind in kinds)})"


@lru_cache(4096)
def read_form(text: str) -> tuple[str, tuple[Kind, ...]]:
    """The record type or branch of a form, and the kinds of its fields."""
    name, _, inner = text.removesuffix(")").partition("(")
    return name, tuple(Kind(each) for each in inner.split(", ")) if inner else ()


def _made(text: str, *values: Any) -> str:
    name, kinds = read_form(text)
    return composed(name[1:] if name.startswith("$") else "", values, kinds)


def _argument(image: Image) -> Roots:
    """The only value of a field for which the constructed value is this one; none if it has another form."""
    name, kinds = read_form(image.arguments[0])
    found, place = parts(image.value), image.place - 1
    if found is None or found[0] != name.partition("$")[2] or len(found[1]) != len(kinds):
        return NONE
    return Roots((scalar(found[1][place], kinds[place]),), are_all=True)


def _field(kind: Kind, text: str, place: int) -> Any:
    return field_of(text, place, kind)


def field_function(kind: Kind) -> str:
    """The name of the function that returns fields of a kind."""
    return f".{kind.value}"


_RECORD, _SYMBOL = only(Kind.RECORD), only(Kind.SYMBOL)

STRUCTURE_FUNCTIONS = (
    BuiltinFunction(
        MAKE, Signature((_SYMBOL, ANY), _RECORD, False, 1, None),
        {Kind.SYMBOL: FunctionMeaning(_made, inverse=_argument)}, "", "",
    ),
    *(
        BuiltinFunction(
            field_function(kind), fixed(only(kind), _RECORD, only(Kind.NUMBER)),
            {Kind.RECORD: FunctionMeaning(partial(_field, kind))}, "", "",
        )
        for kind in NEUTRAL
    ),
)  # fmt: skip

STRUCTURE_TEST = BuiltinTest(MAKE, (_SYMBOL, _RECORD), has_form, "", "")
