"""Change files: what a line means, and what is said about a bad one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from upshot.cli.input.changes import ChangeLine, parse_change, read_change_lines
from upshot.core.errors import DataError
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import FLOAT, NUMBER, SYMBOL

EDGE = Schema("edge", (Column("x", NUMBER), Column("y", NUMBER)))
NAMED = Schema("named", (Column("x", NUMBER), Column("name", SYMBOL.optional())))
WEIGHT = Schema("weight", (Column("w", FLOAT),))
RAIN = Schema("rain", ())
CLOSURE = Schema("closure", EDGE.columns, Role.VIEW)
SCHEMAS = {schema.name: schema for schema in (EDGE, NAMED, WEIGHT, RAIN, CLOSURE)}


def parsed(text: str) -> tuple[object, object]:
    change = parse_change(ChangeLine("changes.ndjson", 3, text.encode()), SCHEMAS)
    return change.insert, change.delete


def test_insertions_and_deletions_become_typed_rows() -> None:
    insert, delete = parsed('{"insert": {"edge": [[1, 2], [2, 3]], "weight": [[1]]}, "delete": {"named": [[1, null]]}}')
    assert insert == {"edge": [(1, 2), (2, 3)], "weight": [(1.0,)]}
    assert delete == {"named": [(1, None)]}


def test_a_fact_in_both_parts_cancels_out() -> None:
    insert, delete = parsed('{"insert": {"edge": [[1, 2], [2, 3]]}, "delete": {"edge": [[2, 3], [3, 4]]}}')
    assert insert == {"edge": [(1, 2)]}
    assert delete == {"edge": [(3, 4)]}


def test_not_a_number_cancels_out_too() -> None:
    insert, delete = parsed('{"insert": {"weight": [["NaN"]]}, "delete": {"weight": [["NaN"]]}}')
    assert insert == delete == {"weight": []}


def test_rows_may_be_objects() -> None:
    insert, _ = parsed('{"insert": {"edge": [{"y": 2, "x": 1}], "named": [{"x": 1}]}}')
    assert insert == {"edge": [(1, 2)], "named": [(1, None)]}


def test_a_relation_without_columns_has_the_empty_row() -> None:
    assert parsed('{"insert": {"rain": [[]]}}')[0] == {"rain": [()]}


def test_an_empty_transaction_is_one() -> None:
    assert parsed("{}") == ({}, {})


@pytest.mark.parametrize(
    ("line", "slug", "words"),
    [
        ("{", "not-json", "invalid JSON"),
        ('{"insert": {"weight": [[NaN]]}}', "not-json", "`NaN` is not JSON"),
        ('{"insert": {"edge": [[1' + "0" * 5000 + ",2]]}}", "wrong-type", "too many digits"),
        ('{"insert": {"weight": [[1e99999999999999999999]]}}', "wrong-type", "too many digits"),
        ("[" * 100_000, "not-json", "nested too deeply"),
        ("[1, 2]", "not-a-transaction", "a transaction must be a JSON object"),
        ('{"inserts": {}}', "not-a-transaction", "unknown key `inserts`"),
        ('{"insert": [[1, 2]]}', "not-a-transaction", "`insert` must be an object that maps relations to rows"),
        ('{"insert": {"edge": [[1,2]], "edge": [[2,3]]}}', "not-a-transaction", "duplicate key `edge`"),
        ('{"insert": {"edge": 7}}', "not-a-transaction", "`insert` of `edge` must be a list of rows"),
        ('{"insert": {"edge": [1, 2]}}', "wrong-row", "insert row 1 of `edge`: a row of `edge` must be a list, not 1"),
        ('{"insert": {"egde": [[1, 2]]}}', "unknown-relation", "unknown relation `egde`"),
        (
            '{"delete": {"edge": [[1, 2], [1]]}}',
            "wrong-arity",
            "delete row 2 of `edge`: a row of `edge` must have 2 values, not 1",
        ),
        ('{"insert": {"edge": [[1, "2"]]}}', "wrong-type", 'insert row 1 of `edge`: column `y`: "2" is not a number'),
        ('{"insert": {"edge": [[1, null]]}}', "null-in-required-column", "column `y`: NULL in a column"),
        ('{"insert": {"edge": [{"x": 1, "z": 2}]}}', "unknown-column", "unknown column `z`"),
        ('{"insert": {"edge": [{"x": 1}]}}', "wrong-arity", "column `y` is missing"),
        (b"\xff{}".decode("latin-1"), "not-json", "invalid JSON"),
    ],
)
def test_a_bad_line_names_file_line_and_cause(line: str, slug: str, words: str) -> None:
    with pytest.raises(DataError) as error:
        parsed(line)
    assert error.value.code == slug
    assert error.value.message.startswith("changes.ndjson:3: ")
    assert words in error.value.message
    assert error.value.span is not None
    assert (error.value.span.source.name, error.value.span.line) == ("changes.ndjson", 3)


def test_a_misspelled_relation_is_recognized() -> None:
    with pytest.raises(DataError) as error:
        parsed('{"insert": {"egde": []}}')
    assert error.value.help == "did you mean `edge`?"


def test_a_line_that_is_not_utf8_is_named() -> None:
    with pytest.raises(DataError) as error:
        parse_change(ChangeLine("changes.ndjson", 3, b'{"insert": \xff}'), SCHEMAS)
    assert error.value.code == "not-utf8"
    assert "line 3" in error.value.message


def test_blank_lines_are_passed_over_and_counted(write: Callable[[str, str | bytes], Path]) -> None:
    file = write("c.ndjson", b"\xef\xbb\xbf{}\r\n\n  \n{}")
    assert [line.number for line in read_change_lines(file)] == [1, 4]


@pytest.mark.parametrize("key", ["upsert", "update", "replace"])
def test_a_change_file_has_only_insertions_and_deletions(key: str) -> None:
    with pytest.raises(DataError, match=f"unknown key `{key}`") as caught:
        parsed(f'{{"{key}": {{"edge": [[1, 2]]}}}}')
    help = caught.value.diagnostic().help
    assert "only the keys `insert` and `delete`" in help
    assert "delete the old" in help
    assert "did you mean" not in help
