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
    """The bounds of a search.

    `rounds`: the depth, that is the longest chain of rules and repairs of constraints from a goal to an inserted row.
    `new_constants`: the most fresh values in one realization. `size`: the most base changes in one. `seconds`: the time
    limit. `constants` are tried as values of placeholders, besides the values of the columns.
    """

    rounds: int = 40
    new_constants: int = 2
    size: int | None = None
    seconds: float = 10.0
    constants: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Validate the bounds; raises `UsageError`."""
        _require_whole("rounds", self.rounds)
        _require_whole("new_constants", self.new_constants)
        if self.size is not None:
            _require_whole("size", self.size)
        if not is_amount(self.seconds):
            raise _wrong("seconds", "a non-negative number", self.seconds, "seconds=2.5")
        object.__setattr__(self, "constants", _values(self.constants))


def is_amount(value: object) -> TypeGuard[float]:
    """Test whether this is a non-negative number in the range of floats, or infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= sys.float_info.max or value == math.inf


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(name, "a non-negative integer", value, f"{name}=3")


def _values(constants: object) -> tuple[Any, ...]:
    if isinstance(constants, str | bytes | Mapping) or not isinstance(constants, Iterable):
        raise _wrong("constants", "a list of values", constants, 'constants=["ops", 7]')
    found = tuple(constants)
    for value in found:
        try:
            to_json(value)
        except TypeError:
            raise _wrong(
                "constants", "a list of values that a column can store", value, 'constants=["ops", 7]'
            ) from None
    return found


def _wrong(name: str, expected: str, value: object, example: str) -> UsageError:
    shown = repr(value)
    words = f"`{name}` of the bounds must be {expected}, not {shown if len(shown) <= 60 else type(value).__name__}"
    return UsageError(words, code="wrong-argument", help=f"as in upshot.Bounds({example})")
