"""The types of columns and values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
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
        """The type of all computed values of this type: a decimal with the most digits."""
        return replace(self, precision=most_digits(self.scale)) if self.kind is Kind.DECIMAL else self

    @property
    def is_wide(self) -> bool:
        """Test whether it is a decimal with more places than 64 bits can hold: it has 38 digits."""
        return self.kind is Kind.DECIMAL and self.scale > MOST_DIGITS

    @property
    def in_dictionary(self) -> bool:
        """Test whether the local engine encodes values as numbers of texts in a dictionary."""
        return self.kind in TEXTUAL or self.is_wide

    def exceeds(self, column: Type) -> bool:
        """Test whether a value of this type may have more digits than a column of the same kind and scale.

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
"""The most digits of a decimal of up to 18 places, whose code has 64 bits."""

WIDE_DIGITS = 38
"""The digits of a decimal with more places, as quotients and averages have."""

QUOTIENT_PLACES = 20
"""The places of a quotient, unless an operand has more."""

PRODUCT_PLACES = 24
"""The most places of a product; one with more is rounded."""


def most_digits(scale: int) -> int:
    """The most digits of a decimal of this scale."""
    return MOST_DIGITS if scale <= MOST_DIGITS else WIDE_DIGITS


DECIMAL_SIZES = (
    f"the precision is 1 to {MOST_DIGITS}, and {WIDE_DIGITS} for a scale of more; the scale is at most the precision"
)


def is_decimal(precision: int, scale: int) -> bool:
    """Test whether there are decimals of these sizes.

    >>> is_decimal(18, 2), is_decimal(38, 20), is_decimal(38, 2)
    (True, True, False)
    """
    if scale > MOST_DIGITS:
        return precision == WIDE_DIGITS and scale <= precision
    return 1 <= precision <= MOST_DIGITS and 0 <= scale <= precision


def scaled_integer(value: Decimal, scale: int) -> int:
    """The decimal times 10^scale, which is a whole number; exact for any number of digits.

    >>> scaled_integer(Decimal("-1.50"), 2)
    -150
    """
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    whole = whole * int(10**shift) if shift >= 0 else whole // int(10**-shift)
    return -whole if sign else whole


def decimal_of(whole: int | str, scale: int) -> Decimal:
    """The inverse of `scaled_integer`; exact for any number of digits.

    >>> decimal_of(-150, 2)
    Decimal('-1.50')
    """
    return Decimal(f"{whole}E-{scale}")


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
