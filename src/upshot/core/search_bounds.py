"""The bounds of a search for realizations."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from upshot.core.errors import UsageError
from upshot.core.json_values import to_json


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds at which a search ends.

    `rounds`: how deep it goes, which is how many rules, or repairs of constraints, may lead from what is asked for to a
    row that is brought in, each resting on the one before; what has nothing to do with each other does not add up.
    `new_constants`: how many values that do not occur yet one realization may need. `size`: how many base changes it
    may have. `seconds`: how long all of it may take. `constants` are tried wherever any value would do, beside those
    of the columns in question.
    """

    rounds: int = 40
    new_constants: int = 2
    size: int | None = None
    seconds: float = 10.0
    constants: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """`UsageError` at once if one of them is no bound: a search would meet it late, or never."""
        _require_whole("rounds", self.rounds)
        _require_whole("new_constants", self.new_constants)
        if self.size is not None:
            _require_whole("size", self.size)
        if not is_amount(self.seconds):
            raise _wrong("seconds", "a non-negative number", self.seconds, "seconds=2.5")
        object.__setattr__(self, "constants", _values(self.constants))


def is_amount(given: object) -> TypeGuard[float]:
    """Test whether this is a number from 0 on that can be counted with, which whole numbers beyond all floats
    cannot."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    return 0 <= given <= sys.float_info.max or given == math.inf


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(name, "a non-negative integer", value, f"{name}=3")


def _values(given: object) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise _wrong("constants", "a list of values", given, 'constants=["ops", 7]')
    found = tuple(given)
    for value in found:
        try:
            to_json(value)
        except TypeError:
            raise _wrong(
                "constants", "a list of values that a column can store", value, 'constants=["ops", 7]'
            ) from None
    return found


def _wrong(name: str, wanted: str, given: object, example: str) -> UsageError:
    shown = repr(given)
    words = f"`{name}` of the bounds must be {wanted}, not {shown if len(shown) <= 60 else type(given).__name__}"
    return UsageError(words, code="wrong-argument", help=f"as in upshot.Bounds({example})")
