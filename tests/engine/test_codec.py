"""Values to codes and back: nothing is lost, order is kept, what does not fit is refused by name."""

from __future__ import annotations

import datetime as dt
import math
import string
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.values import MONEY, ODD, ORDERED, TYPES, rank, same, values
from upshot.core.errors import DataError
from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.engine.local.storage.codec import Codec, Misfit
from upshot.engine.local.storage.encode_rows import encode_rows

few = settings(max_examples=40)
ALL_TYPES = [*TYPES, *(type.optional() for type in TYPES)]


def encoded(codec: Codec, values: list[Any], type: Type) -> list[int]:
    return list(map(codec.encoder(type), values))


def decoded(codec: Codec, codes: list[int], type: Type) -> list[Any]:
    return codec.decode(np.array(codes, np.int64), type)


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
@few
@given(data=st.data())
def test_what_is_coded_comes_back(type: Type, data: st.DataObject) -> None:
    codec = Codec()
    given_values = data.draw(st.lists(values(type), max_size=20))
    codes = encoded(codec, given_values, type)
    assert all(-(2**63) <= code < 2**63 for code in codes)
    back = decoded(codec, codes, type)
    assert all(same(one, other) for one, other in zip(given_values, back, strict=True)), (given_values, back)


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
@few
@given(data=st.data())
def test_equal_values_have_equal_codes_and_others_have_not(type: Type, data: st.DataObject) -> None:
    codec = Codec()
    one, other = data.draw(values(type)), data.draw(values(type))
    first, second = encoded(codec, [one, other], type)
    assert (first == second) == (one == other or (one != one and other != other))


@pytest.mark.parametrize("type", ORDERED, ids=str)
@few
@given(data=st.data())
def test_codes_are_ordered_as_their_values(type: Type, data: st.DataObject) -> None:
    codec = Codec()
    for nullable in (type, type.optional()):
        one, other = data.draw(values(nullable)), data.draw(values(nullable))
        if one is None or other is None:
            continue
        first, second = encoded(codec, [one, other], nullable)
        assert (first < second) == (rank(one) < rank(other))


def test_zero_has_no_sign_and_nan_no_payload() -> None:
    codec = Codec()
    quiet, signed = np.frombuffer(np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64), np.float64)
    codes = encoded(codec, [0.0, -0.0, math.nan, -math.nan, float(quiet), float(signed)], FLOAT)
    assert codes[0] == codes[1]
    assert len(set(codes[2:])) == 1
    assert math.copysign(1, decoded(codec, codes[1:2], FLOAT)[0]) == 1
    assert codes[2] > codec.encoder(FLOAT)(math.inf)


def test_timestamps_of_other_zones_are_the_same_instant() -> None:
    codec = Codec()
    berlin = dt.timezone(dt.timedelta(hours=2))
    here, there = dt.datetime(2026, 7, 1, 12, tzinfo=berlin), dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)
    codes = encoded(codec, [here, there], TIMESTAMP)
    assert codes[0] == codes[1]
    assert decoded(codec, codes[:1], TIMESTAMP) == [there]


def test_decimals_keep_the_scale_of_their_column() -> None:
    codec = Codec()
    codes = encoded(codec, [Decimal("1.5"), Decimal("1.50"), Decimal("15e-1"), 2], MONEY)
    assert codes == [150, 150, 150, 200]
    assert [str(value) for value in decoded(codec, codes, MONEY)] == ["1.50", "1.50", "1.50", "2.00"]


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.float64(1), np.float32(1)])
def test_a_float_column_takes_any_number(value: Any) -> None:
    codec = Codec()
    assert decoded(codec, [codec.encoder(FLOAT)(value)], FLOAT) == [1.0]


@pytest.mark.parametrize("value", [7, np.int64(7), np.int8(7), np.uint16(7)])
def test_a_number_column_takes_whole_numbers_of_any_width(value: Any) -> None:
    assert Codec().encoder(NUMBER)(value) == 7


class Text(str):
    __slots__ = ()


def test_text_of_a_subclass_is_kept_as_text() -> None:
    codec = Codec()
    code = codec.encoder(SYMBOL)(Text("a"))
    assert code == codec.encoder(SYMBOL)("a")
    assert type(decoded(codec, [code], SYMBOL)[0]) is str


REFUSED: list[tuple[Type, Any, str]] = [
    (NUMBER, 2**63, "number-out-of-range"),
    (NUMBER, -(2**63) - 1, "number-out-of-range"),
    (NUMBER, 10**400, "number-out-of-range"),
    (NUMBER, True, "wrong-type"),
    (NUMBER, 1.0, "wrong-type"),
    (NUMBER, "1", "wrong-type"),
    (NUMBER, Decimal(1), "wrong-type"),
    (NUMBER, None, "null-in-required-column"),
    (NUMBER.optional(), -(2**63), "reserved-value"),
    (UNSIGNED, -1, "number-out-of-range"),
    (UNSIGNED, 2**64, "number-out-of-range"),
    (UNSIGNED.optional(), 2**64 - 1, "reserved-value"),
    (FLOAT, "1.0", "wrong-type"),
    (FLOAT, True, "wrong-type"),
    (FLOAT, Decimal(1), "wrong-type"),
    (FLOAT, 10**400, "number-out-of-range"),
    (FLOAT, None, "null-in-required-column"),
    (SYMBOL, b"a", "wrong-type"),
    (SYMBOL, 1, "wrong-type"),
    (SYMBOL, "\ud800", "wrong-type"),
    (BOOLEAN, 1, "wrong-type"),
    (BOOLEAN, "true", "wrong-type"),
    (DATE, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "wrong-type"),
    (DATE, "2026-01-01", "wrong-type"),
    (TIMESTAMP, dt.datetime(2026, 1, 1), "wrong-type"),
    (TIMESTAMP, dt.date(2026, 1, 1), "wrong-type"),
    (MONEY, Decimal("0.001"), "decimal-scale"),
    (MONEY, Decimal("100000000"), "number-out-of-range"),
    (MONEY, Decimal("1e999999"), "number-out-of-range"),
    (MONEY, Decimal("1e-999999"), "decimal-scale"),
    (MONEY, 10**100, "number-out-of-range"),
    (MONEY, Decimal("NaN"), "wrong-type"),
    (MONEY, Decimal("Infinity"), "wrong-type"),
    (MONEY, 1.5, "wrong-type"),
    (MONEY, True, "wrong-type"),
]
IDS = [f"{type} {value!r}"[:40] for type, value, _ in REFUSED]


@pytest.mark.parametrize(("type", "value", "slug"), REFUSED, ids=IDS)
def test_what_a_column_cannot_hold_is_refused(type: Type, value: Any, slug: str) -> None:
    with pytest.raises(Misfit) as caught:
        Codec().encoder(type)(value)
    assert caught.value.slug == slug
    assert str(caught.value)[0] in string.ascii_letters + "`'"


@pytest.mark.parametrize(("type", "value", "slug"), REFUSED, ids=IDS)
def test_the_error_names_relation_row_and_column(type: Type, value: Any, slug: str) -> None:
    schema = Schema("r", (Column("n", NUMBER), Column("v", type)))
    good = ODD[type.kind][1] if type.kind is not Kind.DECIMAL else Decimal(1)
    with pytest.raises(DataError) as caught:
        encode_rows(Codec(), schema, [(1, good), (2, value), (3, good)])
    assert caught.value.code == slug
    assert "row 2 for `r`, column `v`" in caught.value.message
    assert caught.value.help == f"`{schema}`"


def test_rows_of_the_wrong_length_are_refused() -> None:
    schema = Schema("r", (Column("x", NUMBER), Column("y", NUMBER)))
    for row in ((), (1,), (1, 2, 3)):
        with pytest.raises(DataError) as caught:
            encode_rows(Codec(), schema, [(1, 2), row])
        assert caught.value.code == "wrong-arity"
        assert "row 2 for `r`" in caught.value.message
    assert encode_rows(Codec(), schema, []).shape == (0, 2)
    assert encode_rows(Codec(), Schema("t", ()), [(), ()]).shape == (2, 0)
