"""Parse constants; `core.fact_text` prints them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from typing import NoReturn

from upshot.core.fact_text import ESCAPES
from upshot.core.structures import NIL
from upshot.core.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    MOST_DIGITS,
    NUMBER_RANGE,
    TIMESTAMP,
    UNSIGNED,
    UNSIGNED_RANGE,
    Kind,
    Type,
    most_digits,
)
from upshot.syntax.ast import Constant

TAGGED = ("date", "timestamp", "decimal")
"""Types whose constants are written `type("text")`."""

CONSTANT_NAMES = {
    "true": Constant(True, BOOLEAN),
    "false": Constant(False, BOOLEAN),
    "null": Constant(None),
    "nil": Constant(NIL, Type(Kind.RECORD)),
}

_INTEGER = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|(?P<dec>[0-9]+))(?P<unsigned>u?)")
_FLOAT = re.compile(r"[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_ADDRESS = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_LONGEST_NUMBER = 400


class BadLiteral(Exception):
    """A malformed literal: slug, message, help, and the part of the literal that is wrong."""

    def __init__(self, slug: str, message: str, help: str, start: int = 0, end: int | None = None) -> None:
        super().__init__(message)
        self.slug, self.message, self.help, self.start, self.end = slug, message, help, start, end


# ---- numbers ----------------------------------------------------------------------------------


def number(spelling: str, *, negative: bool = False) -> Constant:
    """The constant of a number token; without a type if the token can be a number, float or decimal, as `42`."""
    if found := _INTEGER.fullmatch(spelling):
        return _integer(found, negative)
    if (address := _ADDRESS.fullmatch(spelling)) and all(int(part) < 256 for part in address.groups()):
        number = int.from_bytes(int(part) for part in address.groups())
        return Constant(-number if negative else number)
    if not _FLOAT.fullmatch(spelling):
        raise BadLiteral("malformed-number", "not a number", "write `42`, `-3`, `0x1F`, `0b101`, `42u`, `4.2` or `1e3`")
    if len(spelling) > _LONGEST_NUMBER:
        raise BadLiteral("number-out-of-range", "this float is too long", "a float has at most 17 significant digits")
    value = float(spelling)
    if isinf(value):
        raise BadLiteral("number-out-of-range", "this float is too large", "the largest float is about 1.8e308")
    return Constant(-value if negative and value else value, FLOAT)


def _integer(found: re.Match[str], negative: bool) -> Constant:
    digits, base = next((found[g].lstrip("0"), b) for g, b in (("dec", 10), ("hex", 16), ("bin", 2)) if found[g])
    value = int(digits or "0", base) if len(digits) <= 64 else UNSIGNED_RANGE.stop
    if negative:
        value = -value
    if found["unsigned"]:
        if value in UNSIGNED_RANGE:
            return Constant(value, UNSIGNED)
        _out_of_range("unsigned numbers range from 0 to 18446744073709551615")
    if value in NUMBER_RANGE:
        return Constant(value)
    if value in UNSIGNED_RANGE:
        return Constant(value, UNSIGNED)
    _out_of_range(
        "numbers range from -9223372036854775808 to 9223372036854775807, unsigned ones to 18446744073709551615"
    )


def _out_of_range(help: str) -> NoReturn:
    raise BadLiteral("number-out-of-range", "this number does not fit in 64 bits", help)


# ---- texts ------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))")


def text(spelling: str) -> str:
    """The value of a string token, quotes removed and escapes resolved."""
    inner = spelling[1:-1]
    if "\\" in inner:
        inner = _ESCAPE.sub(_unescaped, inner)
    if not inner.isascii():
        _refuse_surrogates(inner)
    return inner


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code and int(code, 16) <= 0x10FFFF:
        return chr(int(code, 16))
    if found[4] in ESCAPES:
        return ESCAPES[found[4]]
    raise BadLiteral(
        "unknown-escape",
        "unknown escape sequence",
        r"""known are `\n \t \r \" \' \\ \a \b \f \v`, `\xHH`, `\uHHHH` and `\UHHHHHHHH`; a backslash is `\\`""",
        found.start() + 1,
        found.end() + 1,
    )


def _refuse_surrogates(inner: str) -> None:
    try:
        inner.encode()
    except UnicodeEncodeError:
        raise BadLiteral(
            "broken-character",
            "this text has half of a surrogate pair, which is not a character",
            r"write the whole character, as itself or as `\UHHHHHHHH`",
        ) from None


# ---- dates, timestamps, decimals --------------------------------------------------------------


def tagged(kind: str, spelling: str) -> Constant:
    """The constant `kind("spelling")`; kind is one of `TAGGED`."""
    match kind:
        case "date":
            return Constant(_date(spelling), DATE)
        case "timestamp":
            return Constant(_timestamp(spelling), TIMESTAMP)
        case _:
            return _decimal(spelling)


def _date(spelling: str) -> date:
    if _DATE.fullmatch(spelling):
        try:
            return date.fromisoformat(spelling)
        except ValueError:
            pass
    raise BadLiteral("malformed-literal", "not a date", 'write `date("2026-01-31")`')


def _timestamp(spelling: str) -> datetime:
    if found := _TIMESTAMP.fullmatch(spelling):
        fraction = found[3] or ":00"
        if "." in fraction:
            fraction = fraction.ljust(len(":00.000000"), "0")
        zone = "+00:00" if found[4] in (None, "Z") else found[4]
        try:
            return datetime.fromisoformat(f"{found[1]}T{found[2]}{fraction}{zone}").astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise BadLiteral("malformed-literal", "not a timestamp", 'write `timestamp("2026-01-31T10:00:00Z")`')


def _decimal(spelling: str) -> Constant:
    if not _DECIMAL.fullmatch(spelling):
        raise BadLiteral("malformed-literal", "not a decimal", 'write `decimal("1.50")`')
    whole, _, fraction = spelling.lstrip("+-").partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > (most := most_digits(len(fraction))):
        raise BadLiteral("number-out-of-range", "this decimal is too long", f"decimals have at most {most} digits")
    value = Decimal(spelling) or Decimal(spelling.lstrip("+-"))
    precision = max(digits, 1) if most == MOST_DIGITS else most
    return Constant(value, Type(Kind.DECIMAL, precision=precision, scale=len(fraction)))
