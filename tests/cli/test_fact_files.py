"""Fact files in, result files out."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from upshot.cli import fact_files
from upshot.cli.fact_files import Facts, read_facts
from upshot.cli.file_options import file_options
from upshot.cli.result_files import block, write_file
from upshot.core.errors import DataError, ProgramError
from upshot.core.schema import Column, Schema
from upshot.core.types import DATE, FLOAT, NUMBER, SYMBOL, Type
from upshot.syntax.ast import Directive

Write = Callable[[str, str | bytes], Path]


def relation(*types: Type) -> Schema:
    return Schema("r", tuple(Column(f"c{n}", type) for n, type in enumerate(types)))


def read(path: Path, schema: Schema, **parameters: str) -> Facts:
    options, _ = file_options(Directive("input", "r", tuple(parameters.items())), path.parent)
    return read_facts(schema, options, lambda _: None)


PAIR = relation(NUMBER, SYMBOL)


def test_fields_stand_between_tabs_and_quotes_are_ordinary(write: Write) -> None:
    file = write("r.facts", '1\ta b\n2\t"x"\n')
    assert read(file, PAIR).rows == [(1, "a b"), (2, '"x"')]


def test_windows_line_ends_and_a_missing_last_one_are_fine(write: Write) -> None:
    assert read(write("r.facts", b"\xef\xbb\xbf1\ta\r\n2\tb"), PAIR).rows == [(1, "a"), (2, "b")]


def test_blank_lines_count_only_where_a_single_text_may_be_empty(write: Write) -> None:
    assert read(write("r.facts", "1\ta\n\n2\tb\n\n"), PAIR).rows == [(1, "a"), (2, "b")]
    assert read(write("r.facts", "a\n\nb\n"), relation(SYMBOL)).rows == [("a",), ("",), ("b",)]


def test_an_empty_file_is_an_empty_relation(write: Write) -> None:
    assert read(write("r.facts", ""), PAIR).rows == []


def test_a_relation_without_columns_is_true_or_false(write: Write) -> None:
    assert read(write("r.facts", "()\n"), relation()).rows == [()]
    assert read(write("r.facts", ""), relation()).rows == []
    with pytest.raises(DataError, match="has only the row"):
        read(write("r.facts", "1\n"), relation())


def test_souffles_parameters_are_understood(write: Write) -> None:
    write("other.txt", "name;number\nx;7\n")
    assert read(
        write("r.facts", ""), PAIR, filename="other.txt", delimiter=";", headers="true", columns="1:0"
    ).rows == [(7, "x")]


def test_quoted_files_may_hold_anything(write: Write) -> None:
    file = write("r.facts", '1,"a, ""b""\nc"\n2,\n')
    assert read(file, PAIR, rfc4180="true").rows == [(1, 'a, "b"\nc'), (2, "")]
    with pytest.raises(DataError, match="line 2: a quoted field has no end"):
        read(write("r.facts", '1,a\n2,"b\n'), PAIR, rfc4180="true")


def test_compressed_files_are_read(write: Write) -> None:
    write("r.facts.gz", gzip.compress(b"1\ta\n"))
    assert read(write("r.facts", ""), PAIR, compress="true").rows == [(1, "a")]
    write("r.facts.gz", b"plain")
    with pytest.raises(DataError, match="not a whole gzip file"):
        read(write("r.facts", ""), PAIR, compress="true")


@pytest.mark.parametrize(
    ("content", "slug", "words"),
    [
        ("1\ta\nx\tb\n", "wrong-type", 'line 2: column `c0`: "x" is not a number'),
        ("1\ta\n2 b\n", "wrong-arity", "line 2: 1 field, expected 2"),
        (b"1\ta\n2\t\xff\n", "not-utf8", "line 2: byte 3 is not UTF-8"),
    ],
)
def test_a_bad_line_is_named(write: Write, content: str | bytes, slug: str, words: str) -> None:
    with pytest.raises(DataError) as error:
        read(write("r.facts", content), PAIR)
    assert error.value.code == slug
    assert words in error.value.message
    assert error.value.span is not None
    assert error.value.span.line == 2


def test_extra_fields_are_not_read_and_said_once(write: Write) -> None:
    facts = read(write("r.facts", "1\ta\tx\n2\tb\ty\n"), PAIR)
    assert facts.rows == [(1, "a"), (2, "b")]
    assert [warning.slug for warning in facts.warnings] == ["extra-fields"]


def test_a_missing_file_says_where_it_was_sought(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path / "r.facts", PAIR)
    assert error.value.code == "missing-facts"
    assert str(tmp_path / "r.facts") in error.value.message


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"IO": "sqlite"}, "`IO=sqlite` is not supported"),
        ({"headers": "yes"}, "neither true nor false"),
        ({"delimiter": ""}, "cannot separate fields"),
        ({"columns": "a:b"}, "not a list of positions"),
    ],
)
def test_an_unsupported_parameter_is_refused(tmp_path: Path, parameters: dict[str, str], words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        file_options(Directive("input", "r", tuple(parameters.items())), tmp_path)


def test_an_unknown_parameter_is_a_warning(tmp_path: Path) -> None:
    _, warnings = file_options(Directive("input", "r", (("delimeter", ","),)), tmp_path)
    assert [(warning.slug, warning.help) for warning in warnings] == [("file-option", "did you mean `delimiter`?")]


@pytest.mark.parametrize(
    ("schema", "content"),
    [
        (PAIR, "1\ta b\n-2\t\n 3\té\n"),
        (relation(SYMBOL), "a\n\nb\n"),
        (relation(FLOAT, NUMBER), "1.5\t7\n1e3\t0\n"),
        (PAIR, "1\ta\textra\n"),
        (PAIR, "1\ta\n+2\tb\n"),
        (PAIR, "0x10\ta\n"),
    ],
)
def test_arrow_and_the_line_reader_read_the_same(
    write: Write, monkeypatch: pytest.MonkeyPatch, schema: Schema, content: str
) -> None:
    file = write("r.facts", content)
    slowly = read(file, schema).rows
    monkeypatch.setattr(fact_files, "WORTH_ARROW", 0)
    fast = read(file, schema).rows
    assert _tuples(fast) == _tuples(slowly)


def _tuples(rows: Any) -> list[tuple[Any, ...]]:
    return rows if isinstance(rows, list) else list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize("content", ["1\ta\nx\tb\n", "1\ta\n2\n", b"1\t\xff\n"])
def test_a_fault_in_a_large_file_is_named_all_the_same(
    write: Write, monkeypatch: pytest.MonkeyPatch, content: str | bytes
) -> None:
    monkeypatch.setattr(fact_files, "WORTH_ARROW", 0)
    with pytest.raises(DataError, match="line"):
        read(write("r.facts", content), PAIR)


# ---- results -------------------------------------------------------------------------------------


def written(
    tmp_path: Path, schema: Schema, rows: Iterable[tuple[Any, ...]], **parameters: str
) -> tuple[str, int | None]:
    options, _ = file_options(Directive("output", "r", tuple(parameters.items())), tmp_path / "new" / "out")
    ambiguous = write_file(schema, rows, options)
    return options.path.read_bytes().decode(), ambiguous


def test_results_are_written_with_tabs_into_a_new_directory(tmp_path: Path) -> None:
    schema = relation(NUMBER, SYMBOL, DATE, FLOAT)
    text, ambiguous = written(tmp_path, schema, [(1, "a b", date(2026, 1, 31), 3.0), (2, "", date(2026, 2, 1), 0.5)])
    assert text == "1\ta b\t2026-01-31\t3\n2\t\t2026-02-01\t0.5\n"
    assert ambiguous is None


def test_headers_and_quotes_are_written_where_asked(tmp_path: Path) -> None:
    text, ambiguous = written(tmp_path, PAIR, [(1, 'a,"b"\nc')], headers="true", rfc4180="true")
    assert text == 'c0,c1\n1,"a,""b""\nc"\n'
    assert ambiguous is None


def test_text_that_does_not_read_back_is_pointed_out(tmp_path: Path) -> None:
    _, ambiguous = written(tmp_path, PAIR, [(1, "fine"), (2, "a\tb"), (3, "c\nd")])
    assert ambiguous == 2


def test_a_relation_without_columns_is_written_as_souffle_does(tmp_path: Path) -> None:
    assert written(tmp_path, relation(), [()])[0] == "()\n"
    assert written(tmp_path, relation(), [])[0] == ""


def test_a_block_on_stdout_has_souffles_rulers(tmp_path: Path) -> None:
    options, _ = file_options(Directive("output", "r"), tmp_path)
    assert list(block(PAIR, [(1, "a")], options)) == [
        "---------------",
        "r",
        "===============",
        "1\ta",
        "===============",
    ]
