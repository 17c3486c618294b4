"""Records and algebraic data types: what is refused, and values given from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot
from upshot.check import check
from upshot.core.errors import DataError, ProgramError
from upshot.core.structures import Misshapen, canonical, parts, plain_text, read
from upshot.core.types import Kind, Type
from upshot.syntax import parse

TYPES = """
.type P = [x: number, y: symbol]
.type L = [head: number, tail: L]
.type T = A {x: float} | B {} | C {p: P, t: T}
.type Q = P
.decl p(v: P) .decl l(v: L) .decl t(v: T) .decl n(x: number) .decl f(x: float) .decl q(v: Q)
"""


@pytest.mark.parametrize(
    ("rules", "slugs"),
    [
        ("p([1]).", ["type-mismatch"]),
        ("p([1, 2]).", ["type-mismatch"]),
        ('p(["a", "b"]).', ["type-mismatch"]),
        ("p(1).", ["type-mismatch"]),
        ("n([1, 2]).", ["type-mismatch"]),
        ("t(nil).", ["type-mismatch"]),
        ("t($A).", ["type-mismatch"]),
        ("t($B(1)).", ["type-mismatch"]),
        ("t($D(1)).", ["unknown-branch"]),
        ("p($B).", ["type-mismatch"]),
        ("n(X) :- p([X, Y]), l([Y, _]).", ["type-mismatch"]),
        ("p(V) :- l(V).", ["type-mismatch"]),
        ("n(1) :- p(V), l(W), V = W.", ["type-mismatch"]),
        ("n(1) :- X = [1, 2].", ["unknown-record-type"]),
        ("n(1) :- p(V), p(W), V < W.", ["type-mismatch"]),
        ("q(V) :- V = min W : { p(W) }.", ["type-mismatch"]),
        ("n(strlen(V)) :- p(V).", ["type-mismatch"]),
        ("p([X, Y]) :- n(X).", ["unsafe-variable"]),
        ("p([X, _]) :- n(X).", ["misplaced-wildcard"]),
        ("n(X) :- n(X), !p([X, _]).", ["misplaced-wildcard"]),
        ("l([1, [2, [99999999999999999999, nil]]]).", ["number-out-of-range"]),
        (".type A1 = X1 {} | B {}", ["duplicate-branch"]),
        (".type R = [x: decimal(4,2)]", ["bad-type"]),
        (".type R = [x: number?]", ["bad-type"]),
        (".type R = [x: number, x: number]", ["duplicate-column"]),
        (".type R = [x: nowhere]", ["unknown-type"]),
        (".type R <: P", ["bad-type"]),
        (".type R = P | L", ["bad-type"]),
        (".decl r(x: record)", ["unknown-type"]),
    ],
)
def test_a_wrong_record_is_refused(rules: str, slugs: list[str]) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(TYPES + rules))
    assert [each.slug for each in caught.value.diagnostics] == slugs


@pytest.mark.parametrize(
    ("rules", "rows"),
    [
        ("f(X) :- t($A(X)). t($A(1)).", [(1.0,)]),
        ("f(X) :- X = 1, t($A(X)). t($A(1)). t($A(2)).", [(1.0,)]),
        ("f(X) :- q(V), V = [_, _], t($C(V, $A(X))). q([1, \"a\"]). t($C([1, \"a\"], $A(0.5))).", [(0.5,)]),
        ("f(X) :- t(V), V = $C(_, W), $A(X) = W. t($C(nil, $A(2))).", [(2.0,)]),
        ("f(X) :- l([_, [A, _]]), l([A, _]), A = 2, X = 1.5. l([1, [2, nil]]). l([2, nil]).", [(1.5,)]),
    ],
)  # fmt: skip
def test_a_record_takes_the_types_of_its_fields(rules: str, rows: list[Any]) -> None:
    with upshot.connect() as db:
        db.define(TYPES + rules)
        assert db.rows("f") == rows


L = Type(Kind.RECORD, "L", definition="L = [head: number, tail: L]")
T = Type(Kind.RECORD, "T", definition="T = A {x: float, s: symbol} | B {} | C {d: date, t: T}")


@pytest.mark.parametrize(
    ("given", "type", "text"),
    [
        ((1, (2, None)), L, "[1, [2, nil]]"),
        ([1, [2, None]], L, "[1, [2, nil]]"),
        ("[ 1,[2 ,nil] ]", L, "[1, [2, nil]]"),
        ((1, "nil"), L, "[1, nil]"),
        ({"A": [1, "x]"]}, T, '$A(1.0, "x]")'),
        ('$A(-0.0, "a\\n\\"")', T, '$A(0.0, "a\\n\\"")'),
        ("$B()", T, "$B"),
        ({"C": ["2026-01-31", {"B": []}]}, T, '$C(date("2026-01-31"), $B)'),
    ],
)
def test_equal_values_have_one_text(given: Any, type: Type, text: str) -> None:
    assert canonical(given, type) == text
    assert read(text, type) == text


@pytest.mark.parametrize(
    "given", ["[1]", "[1, nil", "[x, nil]", "[1, nil] x", (1,), (True, None), (2**63, None), 7, {"A": 1}]
)
def test_other_values_are_refused(given: Any) -> None:
    with pytest.raises(Misshapen):
        canonical(given, L)


def test_long_lists_need_no_stack() -> None:
    value: Any = None
    for number in range(20_000):
        value = (number, value)
    text = canonical(value, L)
    assert read(text, L) == text
    found = parts(text)
    assert found is not None
    assert found[1][0] == "19999"


def test_files_have_records_as_souffle_prints_them(tmp_path: Path) -> None:
    (tmp_path / "p.facts").write_text("[1, a b]\nnil\n")
    (tmp_path / "x.dl").write_text(TYPES + ".input p\n.output o\n.decl o(v: P)\no([X + 1, Y]) :- p([X, Y]).\n")
    from typer.testing import CliRunner  # noqa: PLC0415

    from upshot.cli.app import app  # noqa: PLC0415

    result = CliRunner().invoke(app, ["run", str(tmp_path / "x.dl"), "-F", str(tmp_path), "-D", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "o.csv").read_text() == "[2, a b]\n"
    assert plain_text('[1, "a"]') == "[1, a]"


def test_a_record_that_a_file_could_not_give_back_is_refused(tmp_path: Path) -> None:
    from upshot.database.files.souffle_options import file_options  # noqa: PLC0415
    from upshot.database.files.souffle_writer import write_rows  # noqa: PLC0415

    with upshot.connect() as db:
        db.define(TYPES + '.output p\np([1, "a, b"]).')
        (directive,) = db.directives
        with pytest.raises(DataError) as caught:
            write_rows(db.rows("p"), file_options(directive, tmp_path))
        assert caught.value.code == "unwritable-text"


def test_a_store_keeps_records(tmp_path: Path) -> None:
    with upshot.connect(tmp_path) as db:
        db.define(TYPES + "l([1, [2, nil]]).")
        db.snapshot()
        with db.transaction() as tx:
            tx.insert("t", [({"C": [(1, "x"), "$B"]},)])
    with upshot.connect(tmp_path) as db:
        assert db.rows("l") == [("[1, [2, nil]]",)]
        assert db.query("t($C([X, _], _))") == [(1,)]
        assert db.query("t($v)", v={"C": [(1, "x"), "$B"]}) == [()]


@pytest.mark.parametrize("pair", [[1, "a"], (1, "a"), '[1,"a"]'])
def test_why_takes_records_as_inserts_do(pair: Any) -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl u(n: number, v: P) u(N, V) :- n(N), p(V).")
        with db.transaction() as tx:
            tx.insert("n", [(1,)])
            tx.insert("p", [([1, "a"],)])
        assert db.why("u", (1, pair)).row == (1, '[1, "a"]')
        assert db.why_changed("u", (1, pair)).derivation is not None
        with pytest.raises(DataError):
            db.why("u", (1, [1]))
        assert "no such base fact" in str(db.why_not("u", (1, [1, "b"])))


@pytest.mark.parametrize("value", [(1, "\ud800"), '[1, "\\ud800"]', '[1, "\ud800"]'])
def test_a_lone_surrogate_in_a_field_is_refused(value: Any) -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl u(s: symbol) u(S) :- p([_, S]).")
        with pytest.raises(DataError) as caught, db.transaction() as tx:
            tx.insert("p", [(value,)])
        assert caught.value.code == "wrong-type"


def test_a_record_type_that_changes_under_stored_rows_is_shown() -> None:
    with upshot.connect() as db:
        db.define(".type P = [a: number, b: number] .decl at(n: symbol, p: P)")
        with db.transaction() as tx:
            tx.insert("at", [("x", (1, 2))])
        with pytest.raises(DataError) as caught:
            db.define(".type P = [x: number, y: symbol] .decl at(n: symbol, p: P)")
        assert "`P = [a: number, b: number]` becomes `P = [x: number, y: symbol]`" in caught.value.message


@pytest.mark.parametrize(
    ("query", "values", "expected"),
    [
        ("select n from at where p = :p", {"p": (1, "a")}, [("x",)]),
        ("select n from at where p = :p", {"p": [1, "a"]}, [("x",)]),
        ("select n from at where p = :p", {"p": '[1,"a"]'}, [("x",)]),
        ("select n from at where p = '[1, \"a\"]'", {}, [("x",)]),
        ("select n from at where p <> :p", {"p": (1, "a")}, [("y",)]),
        ("select n from at where p in (:p, 'nil')", {"p": (1, "a")}, [("x",), ("y",)]),
        ("select n from at where p = :p", {"p": None}, []),
        ("select n from at where p < :p", {"p": (1, "a")}, "type-mismatch"),
        ("select n from at where p = :p", {"p": (1, 2)}, "type-mismatch"),
        ("select n from at where p = :p", {"p": 3}, "type-mismatch"),
        ("select n from at where n = :p", {"p": (1, "a")}, "type-mismatch"),
        ("select n from at where :p = :p", {"p": (1, "a")}, "type-mismatch"),
    ],
)
def test_sql_compares_records(query: str, values: dict[str, Any], expected: Any) -> None:
    with upshot.connect() as db:
        db.define(TYPES + ".decl at(n: symbol, p: P)")
        with db.transaction() as tx:
            tx.insert("at", [("x", (1, "a")), ("y", "nil")])
        if isinstance(expected, str):
            with pytest.raises(ProgramError) as caught:
                db.sql(query, **values)
            assert [each.slug for each in caught.value.diagnostics] == [expected]
        else:
            assert sorted(db.sql(query, **values)) == expected
