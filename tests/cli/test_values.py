"""Values to and from JSON."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from upshot.core.json_values import (
    JsonMisfit,
    from_json,
    row_reader,
    rows_to_json,
    to_json,
    type_from_json,
    type_to_json,
)
from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type

MONEY = Type(Kind.DECIMAL, precision=6, scale=2)
MOMENT = datetime(2026, 1, 31, 9, 0, 0, 250000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "type", "value"),
    [
        (42, NUMBER, 42),
        (-(2**63), NUMBER, -(2**63)),
        (2**64 - 1, UNSIGNED, 2**64 - 1),
        (3, FLOAT, 3.0),
        (Decimal("0.1"), FLOAT, 0.1),
        ("Infinity", FLOAT, math.inf),
        ("text", SYMBOL, "text"),
        ("", SYMBOL, ""),
        (True, BOOLEAN, True),
        ("2026-01-31", DATE, date(2026, 1, 31)),
        ("2026-01-31T10:00:00.25+01:00", TIMESTAMP, MOMENT),
        ("2026-01-31T09:00:00.25Z", TIMESTAMP, MOMENT),
        ("2026-01-31 09:00:00.25", TIMESTAMP, MOMENT),
        ("1.50", MONEY, Decimal("1.50")),
        (Decimal("1.5"), MONEY, Decimal("1.50")),
        (-7, MONEY, Decimal("-7.00")),
        (None, NUMBER.optional(), None),
    ],
)
def test_a_json_value_becomes_the_value_of_its_column(given: Any, type: Type, value: Any) -> None:
    found = from_json(given, type)
    assert found == value
    assert found is None or isinstance(found, value.__class__)


@pytest.mark.parametrize(
    ("given", "type", "words"),
    [
        ("42", NUMBER, '"42" is not a number'),
        (True, NUMBER, "true is not a number"),
        (Decimal("1.5"), NUMBER, "1.5 is not a number"),
        (2**63, NUMBER, "9223372036854775808 is outside the range of number"),
        (-1, UNSIGNED, "-1 is outside the range of unsigned"),
        (Decimal("1e999"), FLOAT, "1E+999 is outside the range of float"),
        (10**400, FLOAT, "is outside the range of float"),
        ("nan", FLOAT, '"nan" is not a float'),
        (1, SYMBOL, "1 is not a symbol"),
        ("\ud800", SYMBOL, "text with half of a surrogate pair"),
        (0, BOOLEAN, "0 is not a boolean"),
        ("31.1.2026", DATE, '"31.1.2026" is not a date such as 2026-01-31'),
        ("20260131", DATE, '"20260131" is not a date such as 2026-01-31'),
        (5, DATE, "5 is not a date"),
        ("yesterday", TIMESTAMP, '"yesterday" is not a timestamp such as'),
        ("1.505", MONEY, '"1.505" is not a decimal(6,2)'),
        ("12345.00", MONEY, '"12345.00" is not a decimal(6,2)'),
        ("1e999", MONEY, '"1e999" is not a decimal(6,2)'),
        (None, NUMBER, "NULL in a column that is not nullable"),
        (-(2**63), NUMBER.optional(), "is the one value that a nullable number cannot store"),
        ("2026-01-31T10:00:00.1234567Z", TIMESTAMP, "has more than microsecond precision"),
        (-1.5, UNSIGNED, "-1.5 is not an unsigned"),
        ([1], NUMBER, "a list is not a number"),
        ({}, SYMBOL, "an object is not a symbol"),
    ],
)
def test_a_json_value_of_another_type_is_refused_by_name(given: Any, type: Type, words: str) -> None:
    with pytest.raises(JsonMisfit) as error:
        from_json(given, type)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "value", [0, -1, 2**63, 0.1, math.inf, "a\tb", True, date(2026, 1, 31), MOMENT, Decimal("1.50")]
)
def test_a_value_printed_as_json_reads_back(value: Any) -> None:
    types = {bool: BOOLEAN, int: UNSIGNED if value in (2**63,) else NUMBER, float: FLOAT, str: SYMBOL, date: DATE}
    type = types.get(value.__class__, TIMESTAMP if isinstance(value, datetime) else MONEY)
    printed = to_json(value)
    given = Decimal(repr(printed)) if isinstance(printed, float) else printed
    assert from_json(given, type) == value


def test_not_a_number_is_one_value() -> None:
    assert from_json("NaN", FLOAT) is from_json("NaN", FLOAT)


def test_rows_are_printed_without_blanks_and_without_escapes() -> None:
    assert rows_to_json([("é", 1.5), (None, math.nan)]) == '[["é",1.5],[null,"NaN"]]'


@pytest.mark.parametrize(
    "type", [NUMBER, UNSIGNED.optional(), FLOAT, SYMBOL.optional(), BOOLEAN, DATE, TIMESTAMP, MONEY]
)
def test_a_type_printed_as_json_reads_back(type: Type) -> None:
    assert type_from_json(type_to_json(type)) == type


@pytest.mark.parametrize("text", ["", "text", "number??", "decimal", "number(1,2)", "decimal(1)", "number "])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(JsonMisfit):
        type_from_json(text)


def test_a_row_is_read_by_its_schema_and_refused_by_the_name_of_the_column() -> None:
    read = row_reader(Schema("r", (Column("x", NUMBER), Column("d", DATE.optional()))))
    assert read([1, "2026-01-31"]) == (1, date(2026, 1, 31))
    assert read([1, None]) == (1, None)
    for row, words in (([1], "2 values, not 1"), ({}, "must be a list, not an object"), (["a", None], "column `x`")):
        with pytest.raises(JsonMisfit, match=words):
            read(row)
