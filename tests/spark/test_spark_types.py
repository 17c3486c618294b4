"""Values survive the way to Spark and back unchanged, whatever the time zone of the session they came with."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.conftest import Place
from upshot.core.arrow_schema import arrow_schema
from upshot.core.rows import Rows
from upshot.core.schema import Column, Schema
from upshot.core.types import Kind, Type
from upshot.spark.location import child
from upshot.spark.session import private_session
from upshot.spark.types import (
    arrow_for_spark,
    arrow_schema_for_spark,
    literal,
    python_values,
    rows_for_spark,
    rows_from_spark,
    spark_schema,
    table_from_spark,
)

UTC = dt.UTC
VALUES: dict[Kind, tuple[Any, ...]] = {
    Kind.NUMBER: (0, -(2**63) + 1, 2**63 - 1, None),
    Kind.UNSIGNED: (0, 2**64 - 2, 2**63, None),
    Kind.FLOAT: (0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 0.1, None),
    Kind.SYMBOL: ("", "a\0b", "\0", "\U0001f600é", "e\u0301", "\n\r\t\\'\"`$", " ", "\uffff", None),
    Kind.BOOLEAN: (True, False, None),
    Kind.DATE: (
        dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), dt.date(1900, 2, 28),
        dt.date(2024, 2, 29), None,
    ),
    Kind.TIMESTAMP: (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(1582, 10, 10, 1, 2, 3, 4, UTC),
        dt.datetime(1884, 1, 1, 3, 30, 52, tzinfo=UTC), dt.datetime(2026, 3, 8, 5, 31, tzinfo=UTC), None,
    ),
    Kind.DECIMAL: (Decimal("12345678901234.5678"), Decimal("-0.0001"), Decimal("0.0000"), None),
}  # fmt: skip
TYPES = tuple(
    Type(kind, nullable=True, precision=18 if kind is Kind.DECIMAL else 0, scale=4 if kind is Kind.DECIMAL else 0)
    for kind in VALUES
)
SCHEMA = Schema("r", tuple(Column(f"column {i}", type) for i, type in enumerate(TYPES)))
ROWS = [tuple(VALUES[type.kind][i % len(VALUES[type.kind])] for type in TYPES) for i in range(72)]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return private_session(spark)


def shown(rows: Any) -> list[str]:
    """The rows by what they look like, type and all: 1.0 is not 1, and NaN is NaN."""
    return sorted(map(repr, rows))


def test_rows_go_to_a_frame_and_back(session: Any) -> None:
    table = rows_for_spark(ROWS, TYPES)
    assert table.schema == arrow_schema_for_spark(TYPES)
    back = session.createDataFrame(table, spark_schema(TYPES)).toArrow()
    assert shown(rows_from_spark(back, TYPES)) == shown(ROWS)


@pytest.mark.usefixtures("shared")
def test_tables_of_natural_types_go_through_parquet_and_back(session: Any, place: Place) -> None:
    natural = Rows.of(SCHEMA, ROWS).to_arrow()
    frame = session.createDataFrame(arrow_for_spark(natural, SCHEMA), spark_schema(TYPES))
    frame.write.parquet(child(place.uri, "rows"))
    back = table_from_spark(session.read.parquet(child(place.uri, "rows")).toArrow(), SCHEMA)
    assert back.schema == arrow_schema(SCHEMA)
    assert shown(back.to_pylist()) == shown(natural.to_pylist())


def test_constants_are_the_values_they_stand_for(session: Any) -> None:
    given = [(value, type) for type in TYPES for value in VALUES[type.kind]]
    row = session.range(1).select([literal(value, type).alias(f"x{i}") for i, (value, type) in enumerate(given)])
    table = row.toArrow()
    found = [python_values(table.column(i), type)[0] for i, (_, type) in enumerate(given)]
    assert list(map(repr, found)) == [repr(value) for value, _ in given]
    types = [arrow_schema_for_spark([type]).field(0).type for _, type in given]
    assert [field.type for field in table.schema] == types


def test_there_is_one_zero_and_one_nan_in_a_frame() -> None:
    schema = Schema("r", (Column("x", Type(Kind.FLOAT)),))
    natural = pa.table({"x": [-0.0, 0.0, -math.nan]})
    for table in (arrow_for_spark(natural, schema), rows_for_spark([(-0.0,), (0.0,), (-math.nan,)], schema.types)):
        assert [math.copysign(1, v) for v in table.column(0).to_pylist()] == [1.0, 1.0, 1.0]


def test_a_relation_without_columns_is_one_true_column(session: Any) -> None:
    schema = Schema("flag", ())
    for rows in ([], [()]):
        frame = session.createDataFrame(rows_for_spark(rows, ()), spark_schema(()))
        back = frame.toArrow()
        assert rows_from_spark(back, ()) == rows
        natural = table_from_spark(back, schema)
        assert (natural.num_columns, natural.num_rows) == (0, len(rows))
        assert arrow_for_spark(natural, schema).to_pylist() == [{"c0": True}] * len(rows)


def test_a_decimal_keeps_the_digits_that_its_column_does_not_declare() -> None:
    schema = Schema("r", (Column("x", Type(Kind.DECIMAL, precision=4, scale=2)),))
    table = rows_for_spark([(Decimal("198.20"),)], schema.types)
    assert rows_from_spark(table, schema.types) == [(Decimal("198.20"),)]
    assert table_from_spark(table, schema).column("x").to_pylist() == [Decimal("198.20")]
