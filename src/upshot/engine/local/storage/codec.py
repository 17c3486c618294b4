"""Encode values as 64-bit codes that have the values' order (except text), and back.

Integers are their own codes, unsigned ones shifted by 2⁶³; floats have an order-preserving bit pattern, decimals are
scaled, dates and timestamps are days and microseconds; text and decimals of more than 18 places have codes in a
dictionary.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upshot.core.structures import Misshapen, canonical
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, WIDE_DIGITS, Kind, Type, decimal_of
from upshot.engine.local.kernel.memory import Account
from upshot.engine.local.storage.text_order import TextOrder
from upshot.engine.user_functions import UserFunctions

_FLIP = 0x7FFFFFFFFFFFFFFF
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_CANONICAL_NAN = math.nan

_ENTRY = 180
"""Approximate bytes of a text in the dictionary beside its characters."""

DAYS = dt.date.min.toordinal() - _EPOCH_DAY, dt.date.max.toordinal() - _EPOCH_DAY
MICROSECONDS = (
    (dt.datetime.min.replace(tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND,
    (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND,
)
"""The codes of the first and the last date and time."""


def null_code(type: Type) -> int:
    """The code of NULL: the smallest code, or the largest for `unsigned`, so that it replaces a rarely used value."""
    return 2**63 - 1 if type.kind is Kind.UNSIGNED else -(2**63)


class Misfit(Exception):
    """A value that its column cannot store; `slug` is the error's code, the text the reason."""

    def __init__(self, slug: str, why: str) -> None:
        super().__init__(why)
        self.slug = slug


class Dictionary:
    """Text values by code. `sweep` reclaims the codes of unused values."""

    def __init__(self, account: Account | None = None) -> None:
        self._account = account or Account()
        self.codes: dict[str, int] = {}
        self.values: list[str] = []
        self._free: list[int] = []
        self.added_since_sweep = 0
        self.sweeps = 0
        self.unranked: list[int] | None = None
        """Codes assigned since the last ranking; None if codes are not ranked."""

    def code(self, value: str) -> int:
        """The value's code; a new one is assigned if it has none."""
        code = self.codes.get(value)
        if code is None:
            self._account.check(_ENTRY + len(value))
            self._account.used += _ENTRY + len(value)
            if self._free:
                code = self._free.pop()
                self.values[code] = value
            else:
                code = len(self.values)
                self.values.append(value)
            self.codes[value] = code
            self.added_since_sweep += 1
            if self.unranked is not None:
                self.unranked.append(code)
        return code

    def sweep(self, used: NDArray[np.bool_]) -> int:
        """Remove every value whose code is not marked; return the number of removed values."""
        removed = 0
        used[self._free] = True
        for code in np.flatnonzero(~used).tolist():
            value = self.values[code]
            if self.codes.get(value) == code:
                del self.codes[value]
                self._account.used -= _ENTRY + len(value)
                self.values[code] = ""
                self._free.append(code)
                removed += 1
        self.added_since_sweep = 0
        self.sweeps += 1
        return removed

    def __len__(self) -> int:
        return len(self.codes)


class Codec:
    """Conversion between Python values and codes, for one database."""

    def __init__(self, account: Account | None = None, functions: UserFunctions | None = None) -> None:
        self.dictionary = Dictionary(account)
        self.functions = functions or UserFunctions()
        self._account = account
        self._order: TextOrder | None = None

    def order(self) -> TextOrder:
        """The ranks of text by code; they are kept after the first use."""
        if self._order is None:
            self._order = TextOrder(self.dictionary, self._account)
        return self._order

    def encoder(self, type: Type) -> Callable[[Any], int]:
        """The function that encodes one value of the type, or raises `Misfit`."""
        encode = self._required_encoder(type)
        null = null_code(type)

        def encode_or_null(value: Any) -> int:
            if value is None:
                if not type.nullable:
                    raise Misfit("null-in-required-column", f"NULL in a column of type `{type}`")
                return null
            code = encode(value)
            if code == null and type.nullable:
                raise Misfit(
                    "reserved-value", f"`{value}` is the one value that a nullable `{type}` column cannot store"
                )
            return code

        return encode_or_null

    def _required_encoder(self, type: Type) -> Callable[[Any], int]:
        match type.kind:
            case Kind.NUMBER:
                return _encode_number
            case Kind.UNSIGNED:
                return _encode_unsigned
            case Kind.FLOAT:
                return _encode_float
            case Kind.SYMBOL:
                return self._encode_symbol
            case Kind.RECORD:
                return lambda value: self._encode_record(value, type)
            case Kind.BOOLEAN:
                return _encode_boolean
            case Kind.DATE:
                return _encode_date
            case Kind.TIMESTAMP:
                return _encode_timestamp
            case Kind.DECIMAL if type.is_wide:
                return lambda value: self.dictionary.code(text_of_wide(value, type))
            case Kind.DECIMAL:
                return lambda value: _digits_of(value, type)

    def _encode_symbol(self, value: Any) -> int:
        if not isinstance(value, str):
            raise _wrong(value, "text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit("wrong-type", f"{value!a} is not valid Unicode text") from None
        return self.dictionary.code(value if type(value) is str else str(value))

    def text_codes(self, texts: Sequence[str | None], type: Type) -> NDArray[np.int64]:
        """The codes of a column of texts, or of records as texts, or `Misfit`. The texts are valid Unicode, so those of
        `symbol` need no test; `type` is nullable if there is a NULL among them."""
        code = self.dictionary.code if type.kind is Kind.SYMBOL else self._required_encoder(type.required())
        null = null_code(type)
        return np.array([null if text is None else code(text) for text in texts], np.int64)

    def _encode_record(self, value: Any, type_: Type) -> int:
        """Encode a record. Values made by rules are canonical text already, and their type has no definition."""
        if isinstance(value, str) and (code := self.dictionary.codes.get(value)) is not None and not type_.definition:
            return code
        try:
            return self.dictionary.code(canonical(value, type_))
        except Misshapen as wrong:
            raise _wrong(value, str(wrong)) from None

    def decode(self, codes: NDArray[np.int64], type: Type) -> list[Any]:
        """A column's codes as Python values."""
        items: list[int] = codes.tolist()
        values = self.dictionary.values
        null = null_code(type)
        decoder: Callable[[int], Any]
        match type.kind:
            case Kind.NUMBER:
                return items if not type.nullable else [None if c == null else c for c in items]
            case Kind.SYMBOL | Kind.RECORD:
                if not type.nullable:
                    return [values[c] for c in items]
                decoder = values.__getitem__
            case Kind.UNSIGNED:
                decoder = _decode_unsigned
            case Kind.FLOAT:
                decoder = decode_float
            case Kind.BOOLEAN:
                decoder = bool
            case Kind.DATE:
                decoder = _decode_date
            case Kind.TIMESTAMP:
                decoder = _decode_timestamp
            case Kind.DECIMAL if type.is_wide:
                decoder = lambda code: decimal_of(wide_digits(values[code]), type.scale)  # noqa: E731
            case Kind.DECIMAL:
                scale = type.scale
                decoder = lambda code: decimal.Decimal(code).scaleb(-scale)  # noqa: E731
        if type.nullable:
            return [None if c == null else decoder(c) for c in items]
        return [decoder(c) for c in items]


def _wrong(value: Any, expected: str) -> Misfit:
    return Misfit("wrong-type", f"expected {expected}, found {value!r} of type `{type(value).__name__}`")


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise _wrong(value, "an integer")
    return int(value)


def _encode_number(value: Any) -> int:
    number = _integer(value)
    if number not in NUMBER_RANGE:
        raise Misfit("number-out-of-range", f"`{number}` is outside the 64-bit range of `number`")
    return number


def _encode_unsigned(value: Any) -> int:
    number = _integer(value)
    if number not in UNSIGNED_RANGE:
        raise Misfit("number-out-of-range", f"`{number}` is outside the range of `unsigned`, 0 to 2^64 - 1")
    return number - 2**63


def _decode_unsigned(code: int) -> int:
    return code + 2**63


def _encode_float(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _wrong(value, "a floating-point number")
    try:
        return encode_float(float(value))
    except OverflowError:
        raise Misfit("number-out-of-range", "the integer is too large for a `float`") from None


def encode_float(value: float) -> int:
    """The order-preserving code; there is one NaN, above all other values, and one zero."""
    if value != value:
        value = _CANONICAL_NAN
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _FLIP


def decode_float(code: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", code if code >= 0 else code ^ _FLIP))[0]
    return value


def encode_floats(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """As `encode_float`, for a whole column."""
    clean = values + 0.0
    clean[np.isnan(clean)] = _CANONICAL_NAN
    bits = clean.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(_FLIP))


def decode_floats(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(codes >= 0, codes, codes ^ np.int64(_FLIP)).view(np.float64)


def _encode_boolean(value: Any) -> int:
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(value, "true or false")
    return int(value)


def _encode_date(value: Any) -> int:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise _wrong(value, "a date")
    return value.toordinal() - _EPOCH_DAY


def _decode_date(code: int) -> dt.date:
    return dt.date.fromordinal(code + _EPOCH_DAY)


def _encode_timestamp(value: Any) -> int:
    if not isinstance(value, dt.datetime):
        raise _wrong(value, "a timestamp")
    if value.tzinfo is None:
        raise Misfit("wrong-type", f"timestamp {value.isoformat()} has no time zone; add one")
    return (value - _EPOCH) // _MICROSECOND


def _decode_timestamp(code: int) -> dt.datetime:
    return _EPOCH + code * _MICROSECOND


_ABOVE_ALL: int = 10**WIDE_DIGITS


def wide_text(digits: int) -> str:
    """The digits of a wide decimal as a text of the dictionary; the order of the texts is that of the values.

    >>> wide_text(-1) < wide_text(0) < wide_text(10)
    True
    """
    return f"{digits + _ABOVE_ALL:0{WIDE_DIGITS + 1}d}"


def text_of_wide(value: Any, type_: Type) -> str:
    """The text of the dictionary for a value of a wide decimal type, or `Misfit`."""
    return wide_text(_digits_of(value, type_))


def wide_digits(text: str) -> int:
    """The digits of a wide decimal, from its text in the dictionary."""
    return int(text) - _ABOVE_ALL


def _digits_of(value: Any, type_: Type) -> int:
    """The digits of a decimal, as a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        raise _wrong(value, f"a `{type_}`")
    exact = decimal.Decimal(value)
    if not exact.is_finite():
        raise Misfit("wrong-type", f"`{value}` is not a finite decimal")
    with decimal.localcontext(prec=120):
        if exact.adjusted() > 40:
            raise Misfit("number-out-of-range", f"`{value}` has more digits than `{type_}`")
        if exact and exact.adjusted() < -type_.scale - 1:
            raise Misfit("decimal-scale", f"`{value}` has more than {type_.scale} decimal places")
        scaled = exact.scaleb(type_.scale)
        if scaled != scaled.to_integral_value():
            raise Misfit("decimal-scale", f"`{value}` has more than {type_.scale} decimal places")
        code = int(scaled)
    if abs(code) >= 10**type_.precision:
        raise Misfit("number-out-of-range", f"`{value}` has more digits than `{type_}`")
    return code
