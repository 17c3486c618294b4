"""Arrow tables in and out: the same codes as row by row, the same refusals."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.values import MONEY, TYPES, same, values
from upshot.core.arrow_schema import arrow_schema, arrow_type
from upshot.core.errors import DataError
from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Type
from upshot.engine.local.storage.arrow_codec import decode_table, encode_table
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.encode_rows import encode_rows

ALL_TYPES = [*TYPES, *(type.optional() for type in TYPES)]


def one_column(type: Type) -> Schema:
    return Schema("r", (Column("v", type),))


def table_of(*columns: pa.Array) -> pa.Table:
    return pa.table(list(columns), names=[f"c{i}" for i in range(len(columns))])


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_a_table_has_the_codes_of_its_rows_and_comes_back(type: Type, data: st.DataObject) -> None:
    codec, schema = Codec(), one_column(type)
    column = data.draw(st.lists(values(type), max_size=12))
    cut = data.draw(st.integers(0, len(column)))
    chunks = [pa.array(part, arrow_type(type)) for part in (column[:cut], column[cut:])]
    coded = encode_table(codec, schema, pa.table([pa.chunked_array(chunks)], names=["v"]))
    assert np.array_equal(coded, encode_rows(codec, schema, [(value,) for value in column]))
    back = decode_table(codec, schema, coded)
    assert back.schema == arrow_schema(schema)
    assert back.num_rows == len(column)
    if type.kind is not FLOAT.kind:
        assert back.column(0).to_pylist() == column
    assert all(map(same, back.column(0).to_pylist(), codec.decode(coded[:, 0], type)))


@pytest.mark.parametrize(
    ("array", "type", "wanted"),
    [
        (pa.array([1, 2], pa.int8()), NUMBER, [1, 2]),
        (pa.array([1, 2], pa.uint64()), NUMBER, [1, 2]),
        (pa.array([2**64 - 1], pa.uint64()), UNSIGNED, [2**64 - 1]),
        (pa.array([1, 2], pa.int64()), FLOAT, [1.0, 2.0]),
        (pa.array([1.5, math.nan, -0.0], pa.float32()), FLOAT, [1.5, math.nan, 0.0]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), SYMBOL, ["a", "b", "a"]),
        (pa.array(["a", None], pa.large_string()), SYMBOL.optional(), ["a", None]),
        (pa.array(["a", None], pa.string_view()), SYMBOL.optional(), ["a", None]),
        (pa.array([None, None], pa.null()), SYMBOL.optional(), [None, None]),
        (pa.array([None, None], pa.null()), NUMBER.optional(), [None, None]),
        (pa.array([None], pa.null()), MONEY.optional(), [None]),
        (pa.array([True, None]), BOOLEAN.optional(), [True, None]),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), MONEY, [Decimal("1.50")]),
        (pa.array([3], pa.int8()), MONEY, [Decimal("3.00")]),
        (pa.array([3], pa.int64()), MONEY, [Decimal("3.00")]),
        (pa.array([], pa.string()), SYMBOL, []),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else str(each),
)
def test_related_arrow_types_are_taken(array: pa.Array, type: Type, wanted: list[Any]) -> None:
    codec = Codec()
    coded = encode_table(codec, one_column(type), table_of(array))
    assert all(map(same, codec.decode(coded[:, 0], type), wanted))
    assert len(coded) == len(wanted)


def test_a_dictionary_that_holds_null_itself_is_read_right() -> None:
    codec, schema = Codec(), one_column(SYMBOL.optional())
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 2], pa.int32()), pa.array(["a", None, "b"]))
    coded = encode_table(codec, schema, table_of(array))
    assert codec.decode(coded[:, 0], SYMBOL.optional()) == ["a", None, "b", None, "b"]


def test_chunks_with_different_dictionaries_are_read_right() -> None:
    codec = Codec()
    chunks = [pa.array(part).dictionary_encode() for part in (["a", "b"], ["b", "c"], ["c", "a"])]
    table = pa.table([pa.chunked_array(chunks)], names=["v"])
    coded = encode_table(codec, one_column(SYMBOL), table)
    assert codec.decode(coded[:, 0], SYMBOL) == ["a", "b", "b", "c", "c", "a"]


def test_slices_of_tables_are_read_from_their_start() -> None:
    codec = Codec()
    schema = Schema("r", (Column("x", NUMBER), Column("y", SYMBOL), Column("z", BOOLEAN.optional())))
    rows = [(i, f"t{i}", None if i % 3 == 0 else i % 2 == 0) for i in range(20)]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=["x", "y", "z"])
    assert np.array_equal(encode_table(codec, schema, table.slice(7, 9)), encode_rows(codec, schema, rows[7:16]))


@pytest.mark.parametrize(
    ("array", "type", "slug"),
    [
        (pa.array(["1"]), NUMBER, "wrong-type"),
        (pa.array([1.0]), NUMBER, "wrong-type"),
        (pa.array([2**63], pa.uint64()), NUMBER, "number-out-of-range"),
        (pa.array([-1]), UNSIGNED, "number-out-of-range"),
        (pa.array([1]), SYMBOL, "wrong-type"),
        (pa.array([b"a"]), SYMBOL, "wrong-type"),
        (pa.array([1]), BOOLEAN, "wrong-type"),
        (pa.array([1]), DATE, "wrong-type"),
        (pa.array([0], pa.timestamp("us")), TIMESTAMP, "wrong-type"),
        (pa.array([1001], pa.timestamp("ns", "UTC")), TIMESTAMP, "number-out-of-range"),
        (pa.array([Decimal("0.001")]), MONEY, "number-out-of-range"),
        (pa.array([10**15]), MONEY, "number-out-of-range"),
        (pa.array([1, None]), NUMBER, "null-in-required-column"),
        (pa.array([None, None], pa.null()), NUMBER, "null-in-required-column"),
        (pa.array([-(2**63), None]), NUMBER.optional(), "reserved-value"),
        (pa.array([2**64 - 1], pa.uint64()), UNSIGNED.optional(), "reserved-value"),
        (pa.array([10**8], pa.int32()).cast(pa.date32()), DATE, "number-out-of-range"),
        (pa.array([2**62], pa.timestamp("us", "UTC")), TIMESTAMP, "number-out-of-range"),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else str(each),
)
def test_what_a_column_cannot_hold_is_refused(array: pa.Array, type: Type, slug: str) -> None:
    with pytest.raises(DataError) as caught:
        encode_rows(Codec(), one_column(type), table_of(array))
    assert caught.value.code == slug
    assert "`r`" in caught.value.message
    assert "`v`" in caught.value.message


def test_a_table_with_too_few_columns_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        encode_rows(Codec(), Schema("r", (Column("x", NUMBER), Column("y", NUMBER))), table_of(pa.array([1])))
    assert caught.value.code == "wrong-arity"


def test_a_table_of_numbers_is_encoded_without_pandas() -> None:
    script = """
import sys, numpy, pyarrow, upshot
db = upshot.connect()
db.define(".decl r(x: number, y: unsigned, z: float, t: symbol)")
columns = {"x": numpy.arange(9), "y": numpy.arange(9, dtype="uint64"), "z": numpy.arange(9.0)}
arrays = [pyarrow.Array.from_buffers(t, 9, [None, pyarrow.py_buffer(columns[c])])
          for c, t in (("x", pyarrow.int64()), ("y", pyarrow.uint64()), ("z", pyarrow.float64()))]
texts = pyarrow.Array.from_buffers(pyarrow.string(), 9, [None, pyarrow.py_buffer(numpy.arange(10, dtype="int32")),
                                                         pyarrow.py_buffer(b"abcabcabc")])
table = pyarrow.Table.from_arrays([*arrays, texts], names=["x", "y", "z", "t"]).slice(2, 5)
db.register("r", pyarrow.concat_tables([table, table.slice(1, 1)]))
assert sorted(db.rows("r"))[0] == (2, 2, 2.0, "c") and len(db.rows("r")) == 5
print("pandas" in sys.modules)
"""
    assert (
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "False\n"
    )
