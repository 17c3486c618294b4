"""Values that follow from new ones, as they are shown: `?1 - 19`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.revise.linear import Linear, Symbolic, new_value, number_of
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Row


@dataclass(frozen=True, slots=True, repr=False)
class Formula:
    """What a value is for any new values: `name` is how that is written, `witness` what it came to with those that were
    tried."""

    name: str
    witness: Any = field(compare=False, default=None)

    def __repr__(self) -> str:
        """As it stands in rows: `?1 - 19`."""
        return self.name


def shown_row(row: Sequence[Symbolic], came_to: Row, names: Mapping[str, Placeholder], fixed: Mapping[str, Any]) -> Row:
    """A row that moves with new values, with placeholders and formulas for what does; `names` has the placeholders by
    what they are called in the row. New values that are `fixed` have one value only."""
    return tuple(_shown(value, now, names, fixed) for value, now in zip(row, came_to, strict=True))


def _shown(value: Symbolic, now: Any, names: Mapping[str, Placeholder], fixed: Mapping[str, Any]) -> Any:
    if not isinstance(value, Linear):
        return now
    if value.is_bare:
        return names.get(value.parts[0][0], now)
    made = Linear((), value.more)
    for name, factor in value.parts:
        number = None if name in names else number_of(fixed[name])
        made = made.plus((new_value(names[name].name) if number is None else Linear((), number)).times(factor))
    return Formula(in_words(made), now) if made.parts else now


def in_words(value: Linear) -> str:
    """A value as a program computes it.

    >>> in_words(new_value("?1").plus(Linear((), Fraction(-19))))
    '?1 - 19'
    """
    share = math.lcm(*(factor.denominator for _, factor in value.parts))
    whole = value.times(Fraction(share))
    terms = [(factor, name if abs(factor) == 1 else f"{abs(factor)} * {name}") for name, factor in whole.parts]
    terms += [(whole.more, _decimal(abs(whole.more)))] * bool(whole.more)
    terms.sort(key=lambda each: each[0] < 0)
    first, *others = terms
    text = f"{'-' if first[0] < 0 else ''}{first[1]}"
    text += "".join(f" {'-' if factor < 0 else '+'} {term}" for factor, term in others)
    return text if share == 1 else f"({text}) / {share}.0"


def _decimal(number: Fraction) -> str:
    return str(Decimal(number.numerator) / Decimal(number.denominator))
