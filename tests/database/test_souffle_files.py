from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.database.souffle_directives import load_inputs, write_outputs
from upshot.database.files import souffle_reader

TYPES = """
.decl t(n: number, u: unsigned?, f: float, s: symbol, b: boolean, d: date, w: timestamp, m: decimal(6,2), o: symbol?)
.input t
.output t
"""
LINE = "-3\t\t1.5\ta b \ttrue\t2026-01-31\t2026-01-31T10:00:00Z\t1.5\t\\N\n"


@pytest.fixture(params=["by line", "by Arrow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs on both readers."""
    if request.param == "by Arrow":
        monkeypatch.setattr(souffle_reader, "WORTH_ARROW", 0)
    return str(request.param)


def load(db: upshot.Database, folder: Path, program: str, **files: str | bytes) -> upshot.Transaction:
    for name, content in files.items():
        (folder / f"{name}.facts").write_bytes(content if isinstance(content, bytes) else content.encode())
    db.define(program)
    return load_inputs(db, folder)


def refused(folder: Path, program: str, **files: str | bytes) -> upshot.DataError:
    with upshot.connect() as db, pytest.raises(upshot.DataError) as error:
        load(db, folder, program, **files)
    return error.value


PAIR = ".decl e(x: number, y: symbol)  .input e"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("1\ta\n2\tb\n", {(1, "a"), (2, "b")}),
        ("1\ta\n2\tb", {(1, "a"), (2, "b")}),
        ("1\ta\r\n2\tb\r\n", {(1, "a"), (2, "b")}),
        ("", set()),
        ("\n\n1\ta\n\n", {(1, "a")}),
        ("\ufeff1\tü\n", {(1, "ü")}),
        (' 7 \t "quoted" , \n', {(7, ' "quoted" , ')}),
        ("1\t\n", {(1, "")}),
        ("0x1F\ta\n0b11\tb\n+4\tc\n", {(31, "a"), (3, "b"), (4, "c")}),
        ("1\t\\N\n", {(1, r"\N")}),
        ("1\ta\rb\n", {(1, "a\rb")}),
        ("9223372036854775807\ta\n-9223372036854775808\tb\n", {(2**63 - 1, "a"), (-(2**63), "b")}),
    ],
)
def test_fact_files_are_read_as_souffle_reads_them(
    db: upshot.Database, tmp_path: Path, reader: str, content: str, rows: Any
) -> None:
    load(db, tmp_path, PAIR, e=content)
    assert db.rows("e") == rows


def test_every_type_is_read_and_written(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    load(db, tmp_path, TYPES, t=LINE + LINE.replace("true", "0"))
    assert len(db.rows("t")) == 2
    written = write_outputs(db, tmp_path / "out", io.StringIO())
    assert written == [tmp_path / "out" / "t.csv"]
    text = written[0].read_text()
    assert text.splitlines()[1] == LINE.replace("\t\t", "\t\\N\t").replace("\t1.5\t\\N", "\t1.50\t\\N").rstrip("\n")
    with upshot.connect() as again:
        load(again, tmp_path, TYPES, t=text)
        assert again.rows("t") == db.rows("t")


def test_null_is_backslash_n_or_an_empty_field_that_is_not_text(
    db: upshot.Database, tmp_path: Path, reader: str
) -> None:
    load(db, tmp_path, ".decl e(x: number?, s: symbol?)  .input e", e="\t\n\\N\t\\N\n")
    assert db.rows("e") == {(None, ""), (None, None)}


def test_times_without_a_zone_are_utc(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    load(db, tmp_path, ".decl e(w: timestamp)  .input e", e="2026-01-31 10:00:00\n2026-01-31T12:00:00+02:00\n")
    assert len(db.rows("e")) == 1


def test_a_single_text_column_keeps_empty_lines(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    load(db, tmp_path, ".decl e(s: symbol)  .input e", e="a\n\nb\n")
    assert db.rows("e") == {("a",), ("",), ("b",)}


def test_relations_without_columns(db: upshot.Database, tmp_path: Path) -> None:
    load(db, tmp_path, ".decl on() .input on  .decl off() .input off  .output on  .output off", on="()\n", off="")
    assert db.rows("on") == {()}
    assert db.rows("off") == set()
    out = io.StringIO()
    write_outputs(db, None, out)
    assert out.getvalue() == (
        "---------------\non\n===============\n()\n===============\n---------------\noff\n===============\n===============\n"
    )
    assert refused(tmp_path, ".decl on() .input on", on="1\n").code == "wrong-arity"


def test_options_of_input(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    (tmp_path / "data.csv").write_text('id,ignored,"the name"\n1,x,"a, ""b"""\n2,y,"two\nlines"\n')
    program = (
        '.decl e(name: symbol, id: number)  .input e(filename="data.csv", rfc4180=true, headers=true, columns="2:0")'
    )
    load(db, tmp_path, program)
    assert db.rows("e") == {('a, "b"', 1), ("two\nlines", 2)}


def test_delimiters_of_one_or_more_characters(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    program = """
        .decl e(x: number, y: symbol)  .input e(delimiter=",")
        .decl f(x: number, y: symbol)  .input f(delimiter="||")
    """
    load(db, tmp_path, program, e="1,a\tb\n", f="1||a|b\n")
    assert db.rows("e") == {(1, "a\tb")}
    assert db.rows("f") == {(1, "a|b")}


def test_gzip_is_recognized_by_content(db: upshot.Database, tmp_path: Path, reader: str) -> None:
    load(db, tmp_path, PAIR, e=gzip.compress(b"1\ta\n"))
    assert db.rows("e") == {(1, "a")}
    assert refused(tmp_path, PAIR, e=gzip.compress(b"1\ta\n" * 100)[:-12]).code == "unreadable-file"


def test_a_missing_file_says_where_it_was_expected(tmp_path: Path) -> None:
    error = refused(tmp_path, PAIR)
    assert error.code == "missing-facts"
    assert "e.facts" in error.message
    assert "filename" in error.help


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("1\ta\n2\n", "wrong-arity", "e.facts:2:1"),
        ("1\ta\n2\tb\tc\n", "wrong-arity", "e.facts:2:1"),
        ("1\ta\nx7\tb\n", "wrong-type", "e.facts:2:1"),
        ("\ta\n", "null-in-required-column", "e.facts:1:1"),
        ("1\ta\n9223372036854775808\tb\n", "wrong-type", "e.facts:2:1"),
        ("1.5\tb\n", "wrong-type", "e.facts:1:1"),
        ("\\N\ta\n", "null-in-required-column", "e.facts:1:1"),
        (b"1\ta\n2\t\xff\n", "not-utf8", "e.facts:2"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_column(
    tmp_path: Path, reader: str, content: str | bytes, code: str, place: str
) -> None:
    error = refused(tmp_path, PAIR, e=content)
    assert error.code == code
    assert place in error.message
    assert place in str(error)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("", "the field is empty and column `y` is not nullable"),
        ("\\N", r"`\N` is NULL and column `y` is not nullable"),
    ],
)
def test_null_in_a_required_column_is_called_that(tmp_path: Path, reader: str, field: str, words: str) -> None:
    error = refused(tmp_path, ".decl e(x: symbol, y: number)  .input e", e=f"a\t{field}\n")
    assert error.code == "null-in-required-column"
    assert words in error.message


def test_the_column_of_a_bad_field_is_counted_in_characters(tmp_path: Path, reader: str) -> None:
    error = refused(tmp_path, ".decl e(x: symbol, y: date)  .input e", e="äöü\t2026-13-01\n")
    assert "e.facts:1:5" in error.message
    assert "column `y`" in error.message
    assert "2026-01-31" in error.message


def test_unbalanced_quotes_are_diagnosed(tmp_path: Path, reader: str) -> None:
    error = refused(tmp_path, ".decl e(x: symbol)  .input e(rfc4180=true)", e='fine\n"never ends\n')
    assert error.code == "wrong-row"
    assert "e.facts:2" in error.message


def test_a_failing_file_loads_nothing(tmp_path: Path) -> None:
    with upshot.connect() as db:
        with pytest.raises(upshot.DataError):
            load(db, tmp_path, PAIR + " .decl f(x: number) .input f", e="1\ta\n", f="no\n")
        assert db.rows("e") == set()


def test_wrong_options_are_collected(db: upshot.Database, tmp_path: Path) -> None:
    db.define('.decl e(x: number)  .input e(IO=kafka, delimeter=",", headers=maybe)')
    with pytest.raises(upshot.ProgramError) as error:
        load_inputs(db, tmp_path)
    assert [diagnostic.slug for diagnostic in error.value.diagnostics] == ["file-option"] * 3
    assert "did you mean `delimiter`?" in str(error.value)


def test_outputs_go_to_files_blocks_and_sizes(db: upshot.Database, tmp_path: Path) -> None:
    db.define(
        '.decl e(x: number, s: symbol)  e(2, "b").  e(10, "a\\"q").  .printsize e  .output e'
        ".decl f(x: number, s: symbol)  f(X, S) :- e(X, S)."
        '.output f(filename="sub/f.txt", rfc4180=true, headers=true)'
        ".decl g(x: number)  g(1).  .output g(IO=stdout)  .decl h(x: float)  h(1.0).  h(0.1).  .output h(compress=true)"
    )
    out = io.StringIO()
    written = write_outputs(db, tmp_path, out)
    assert out.getvalue() == "e\t2\n---------------\ng\n===============\n1\n===============\n"
    assert [path.relative_to(tmp_path).as_posix() for path in written] == ["e.csv", "sub/f.txt", "h.csv.gz"]
    assert (tmp_path / "e.csv").read_text() == '2\tb\n10\ta"q\n'
    assert (tmp_path / "sub/f.txt").read_text() == 'x,s\n2,"b"\n10,"a""q"\n'
    assert gzip.decompress((tmp_path / "h.csv.gz").read_bytes()) == b"0.1\n1\n"


def test_large_outputs_are_the_same_by_arrow(
    db: upshot.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.define(".decl e(x: number, s: symbol, b: boolean)  .output e  .decl q(s: symbol)  .output q")
    with db.transaction() as tx:
        tx.insert("e", [(10, "a", True), (9, "ü", False), (9, "b", False), (-1, "", True)])
        tx.insert("q", [('with "quotes"',), ("a, b",)])
    write_outputs(db, tmp_path / "plain", io.StringIO())
    monkeypatch.setattr("upshot.database.files.souffle_writer.WORTH_ARROW", 0)
    write_outputs(db, tmp_path / "arrow", io.StringIO())
    for name in ("e.csv", "q.csv"):
        assert (tmp_path / "arrow" / name).read_text() == (tmp_path / "plain" / name).read_text()


@pytest.fixture(params=["by row", "by Arrow"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by Arrow":
        monkeypatch.setattr("upshot.database.files.souffle_writer.WORTH_ARROW", 0)
        monkeypatch.setattr("upshot.database.files.souffle_writer.WORTH_ARROW", 0)


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize(
    ("text", "options", "words", "cure"),
    [
        ("a\tb", "", r"`a\tb`; it holds a tab, which ends a field", "rfc4180=true"),
        ("a\nb", "", r"`a\nb`; it holds a line feed, which ends a row", "rfc4180=true"),
        ("a\r", "", r"`a\r`; it holds a carriage return, which ends a row", "rfc4180=true"),
        ("a,b", '(delimiter=",")', "it holds the delimiter `,`", "rfc4180=true"),
        ("a|", '(delimiter="||")', "it holds the delimiter `||`", "rfc4180=true"),
        ("\\N", "", r"`\N`; in a nullable column it would be read back as NULL", "make the column not nullable"),
        ("\\N", "(rfc4180=true)", r"`\N`; in a nullable column", "`s: symbol`"),
        ("long " * 1000 + "\t", "", "long long", "rfc4180=true"),
    ],
)
def test_text_that_could_not_be_read_back_is_refused_before_anything_is_written(
    db: upshot.Database, tmp_path: Path, text: str, options: str, words: str, cure: str
) -> None:
    db.define(f".decl fine(x: number)  fine(1).  .output fine  .decl e(s: symbol?, x: number)  .output e{options}")
    with db.transaction() as tx:
        tx.insert("e", [("fine", 1), (None, 2), (text, 3)])
    with pytest.raises(upshot.DataError) as error:
        write_outputs(db, tmp_path / "out", io.StringIO())
    assert error.value.code == "unwritable-text"
    assert "column `s` of `e`" in error.value.message
    assert words in error.value.message
    assert len(error.value.message) < 250
    assert cure in error.value.help
    assert not (tmp_path / "out").exists()
    write_outputs(db, None, io.StringIO())


@pytest.mark.usefixtures("writer")
def test_text_with_anything_else_in_it_is_read_back(db: upshot.Database, tmp_path: Path) -> None:
    program = """
        .decl plain(s: symbol)  .input plain(filename="p")  .output plain(filename="p")
        .decl quoted(s: symbol?)  .input quoted(filename="q", rfc4180=true)  .output quoted(filename="q", rfc4180=true)
        .decl wide(x: number, s: symbol)  .input wide(filename="w", delimiter="||")
        .output wide(filename="w", delimiter="||")
    """
    db.define(program)
    with db.transaction() as tx:
        tx.insert("plain", [("\\N",), ("",), ('"',), ("a,b",), ("ü",)])
        tx.insert("quoted", [(None,), ("a\tb",), ("a\nb",), ("a\r\nb\r",), ('"',), ("a,b",)])
        tx.insert("wide", [(1, "|a|"), (2, "\t")])
    write_outputs(db, tmp_path, io.StringIO())
    with upshot.connect() as again:
        load(again, tmp_path, program)
        for name in db.schemas:
            assert again.rows(name) == db.rows(name)


def test_files_that_cannot_be_written_are_named(db: upshot.Database, tmp_path: Path) -> None:
    db.define(".decl e(x: number)  .output e")
    (tmp_path / "taken").write_text("")
    with pytest.raises(upshot.UsageError) as error:
        write_outputs(db, tmp_path / "taken", io.StringIO())
    assert error.value.code == "cannot-write"
