"""The types of columns and of the values in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Kind(Enum):
    """The physical kind of a value; subtypes and nullability are in `Type`."""

    NUMBER = "number"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    SYMBOL = "symbol"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    RECORD = "record"
    """A record, or a value of an algebraic data type: canonical text, see `core.structures`."""


@dataclass(frozen=True, slots=True)
class Type:
    """A column type. `name` is the declared subtype (`.type City <: symbol`), or the kind's own name.

    Python values: number/unsigned `int`, float `float`, symbol `str`, boolean `bool`, date `datetime.date`,
    timestamp `datetime.datetime` (aware, UTC, microseconds), decimal `decimal.Decimal`, record `str` (see
    `core.structures`, which reads the `definition`), NULL `None`.

    >>> str(Type(Kind.DECIMAL, precision=10, scale=2, nullable=True))
    'decimal(10,2)?'
    """

    kind: Kind
    name: str = ""
    nullable: bool = False
    precision: int = 0
    scale: int = 0
    definition: str = ""

    def required(self) -> Type:
        return replace(self, nullable=False) if self.nullable else self

    def optional(self) -> Type:
        return self if self.nullable else replace(self, nullable=True)

    def widest(self) -> Type:
        """The type with room for every value that a computation of this type can have: a decimal with all digits."""
        return replace(self, precision=MOST_DIGITS) if self.kind is Kind.DECIMAL else self

    def exceeds(self, column: Type) -> bool:
        """A value of this type may have more digits than the column, which is of the same kind and scale, declares.

        >>> Type(Kind.DECIMAL, precision=6, scale=2).exceeds(Type(Kind.DECIMAL, precision=4, scale=2))
        True
        """
        return column.kind is Kind.DECIMAL and self.precision > column.precision

    def __str__(self) -> str:
        name = self.name or self.kind.value
        if self.kind is Kind.DECIMAL and not self.name:
            name = f"decimal({self.precision},{self.scale})"
        return name + ("?" if self.nullable else "")


TEXTUAL = (Kind.SYMBOL, Kind.RECORD)
"""The kinds whose values are text."""

MOST_DIGITS = 18
"""The digits that a decimal has at most, whatever its column declares: its code has 64 bits."""

NUMBER = Type(Kind.NUMBER)
UNSIGNED = Type(Kind.UNSIGNED)
FLOAT = Type(Kind.FLOAT)
SYMBOL = Type(Kind.SYMBOL)
BOOLEAN = Type(Kind.BOOLEAN)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)

NUMBER_RANGE = range(-(2**63), 2**63)
UNSIGNED_RANGE = range(2**64)
"""Integers are 64-bit; leaving the range is an error, never a wrap-around."""
