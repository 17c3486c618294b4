from __future__ import annotations

import math
import sys
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upshot


@pytest.fixture
def loaded(paths: upshot.Database) -> upshot.Database:
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 3), (3, 4)])
    return paths


# ---- query ------------------------------------------------------------------------------------


def test_a_query_has_one_column_for_each_variable_in_order_of_appearance(loaded: upshot.Database) -> None:
    answer = loaded.query("path(A, B), B > 3")
    assert answer.columns == ("A", "B")
    assert answer == {(1, 4), (2, 4), (3, 4)}


def test_parameters_are_bound_as_values(loaded: upshot.Database) -> None:
    assert loaded.query("path($x, Y), !edge($x, Y)", x=1) == {(3,), (4,)}
    loaded.define('.decl name(x: symbol)  name("a\\"), edge(X, Y), (\\"").')
    odd = 'a"), edge(X, Y), ("'
    assert loaded.query("name($n), N = $n", n=odd) == {(odd,)}


def test_a_query_without_variables_is_true_or_false(loaded: upshot.Database) -> None:
    assert loaded.query("path(1, 4)") == {()}
    assert loaded.query("path(4, 1)") == set()


def test_disjunctions_aggregates_and_arithmetic_in_queries(loaded: upshot.Database) -> None:
    assert loaded.query("(edge(X, _) ; edge(_, X))") == {(1,), (2,), (3,), (4,)}
    assert loaded.query("N = count : { path(_, _) }") == {(6,)}
    assert loaded.query("edge(X, Y), Z = X * 10 + Y") == {(1, 2, 12), (2, 3, 23), (3, 4, 34)}


def test_missing_and_unused_parameters_are_named(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        loaded.query("path($start, Y)")
    assert error.value.code == "missing-parameter"
    assert "start=" in error.value.help
    with pytest.raises(upshot.UsageError) as error:
        loaded.query("path($start, Y)", strat=1)
    assert error.value.code == "unused-parameter"
    assert error.value.help == "did you mean `start`?"
    with pytest.raises(upshot.UsageError) as error:
        loaded.query("N = count : { path($a, _) }", a=1, b=2)
    assert error.value.code == "unused-parameter"


@pytest.mark.parametrize("value", ["one", 1.5, object(), 2**70])
def test_parameters_of_the_wrong_type_are_refused(loaded: upshot.Database, value: Any) -> None:
    with pytest.raises(upshot.Error):
        loaded.query("path($x, Y)", x=value)


@pytest.mark.parametrize(
    "text", ["pth(X, Y)", "path(X)", "path(X, Y", "", "path(X, Y), Z > 1", "path(X, Y) :- edge(X, Y)."]
)
def test_wrong_queries_are_diagnosed(loaded: upshot.Database, text: str) -> None:
    with pytest.raises(upshot.ProgramError):
        loaded.query(text)


def test_a_query_is_text(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        loaded.query(7)  # type: ignore[arg-type]
    assert error.value.code == "wrong-argument"


def test_hidden_relations_cannot_be_queried(db: upshot.Database) -> None:
    db.define(".decl e(x: number)  .decl v(x: number)  .input v  v(X) :- e(X).")
    with pytest.raises(upshot.ProgramError):
        db.query("v_input(X)")
    with pytest.raises(upshot.UsageError):
        db.rows("v_input")


# ---- what if ------------------------------------------------------------------------------------


def test_what_if_tells_the_changes_and_commits_nothing(loaded: upshot.Database) -> None:
    version = loaded.version
    answer = loaded.what_if(insert={"edge": [(4, 5)]}, delete={"edge": [{"x": 1, "y": 2}]})
    assert answer["path"].inserted == {(4, 5), (3, 5), (2, 5)}
    assert answer["path"].deleted == {(1, 2), (1, 3), (1, 4)}
    assert answer["edge"].inserted == {(4, 5)}
    assert answer.violations == {}
    assert answer.stats.derived > 0
    assert loaded.version == version
    assert len(loaded.rows("path")) == 6
    loaded.verify()


def test_what_if_reports_violations_instead_of_raising(stock: upshot.Database) -> None:
    with stock.transaction() as tx:
        tx.insert("quantity", [("a", 1)])
    answer = stock.what_if(insert={"quantity": [("a", 2), ("b", -1)]})
    assert sorted(answer.violations["quantity"]) == [("a", 1), ("a", 2)]
    assert answer.violations["oversold"] == [("b", -1)]
    assert repr(answer).endswith("; would violate: quantity 2, oversold 1>")
    assert stock.rows("quantity") == {("a", 1)}


def test_a_row_both_inserted_and_deleted_counts_in_neither(loaded: upshot.Database) -> None:
    both = {"edge": [(1, 2), (8, 9)]}
    assert len(loaded.what_if(insert=both, delete=both)) == 0


def test_what_if_takes_rows_by_relation(loaded: upshot.Database) -> None:
    for wrong in ([("edge", 1, 2)], "edge", 7):
        with pytest.raises(upshot.UsageError) as caught:
            loaded.what_if(insert=wrong)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.help) == ("wrong-argument", 'as in {"edge": [(1, 2)]}')


def test_what_if_that_fails_leaves_no_trace(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.DataError):
        loaded.what_if(insert={"edge": [(4, 5)], "path": [(1, 2)]})
    with pytest.raises(upshot.DataError):
        loaded.what_if(insert={"edge": [(4, "five")]})
    with loaded.transaction() as tx:
        tx.insert("edge", [(7, 8)])
    assert tx.changes["edge"].inserted == {(7, 8)}


# ---- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("package", "call"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_missing_package_is_named_with_how_to_install_it(
    loaded: upshot.Database, monkeypatch: pytest.MonkeyPatch, package: str, call: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(upshot.UsageError) as error:
        getattr(loaded.rows("path"), call)()
    assert error.value.code == "missing-package"
    assert f"`{package}`" in error.value.message
    assert error.value.help == "run `pip install '.[frames]'` in a clone of Upshot"


def test_to_spark_takes_a_session(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        loaded.rows("path").to_spark("local")
    assert error.value.code == "wrong-argument"


# ---- verify -------------------------------------------------------------------------------------


def test_verify_names_what_it_compared(loaded: upshot.Database) -> None:
    checked = loaded.verify()
    assert "path" in checked.views
    assert checked.rows >= 6


def test_verify_names_only_what_was_declared(db: upshot.Database) -> None:
    db.define("""
        .decl e(x: number, y: number)  .decl few(x: number)  .decl n(x: number, c: number)  .deny none() :- e(0, 0).
        e(1, 2).  e(1, 3).  few(X) :- e(X, Y), !e(Y, _).  n(X, C) :- few(X), C = count : { e(X, _) }.
    """)
    checked = db.verify()
    assert sorted(checked.views) == ["few", "n", "none"]
    assert checked.rows == 2


def test_verify_finds_a_view_that_drifted(loaded: upshot.Database) -> None:
    engine = loaded._state.engine
    table = engine._now.tables["path"]  # type: ignore[attr-defined]
    table.stage(np.array([[1, 2]]), insert=False)
    table.stage(np.array([[99, 99]]), insert=True)
    table.settle()
    table.accept()
    with pytest.raises(upshot.VerifyError) as error:
        loaded.verify()
    assert error.value.code == "view-differs"
    assert "path(99, 99) is stored but not derived" in error.value.message
    assert "path(1, 2) is derived but not stored" in error.value.message


# ---- connect ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [{"spark": object()}, {"spark": "local[2]"}, {"engine": "spark", "memory": "1GiB"}, {"memory": -1}]
)
def test_arguments_that_mean_nothing_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(upshot.UsageError) as error:
        upshot.connect(**arguments)
    assert error.value.code == "wrong-argument"
    assert error.value.help


@pytest.mark.parametrize(("missing", "slug"), [("pyspark", "missing-spark"), ("java", "missing-java")])
def test_without_spark_or_java_the_way_to_get_them_is_told(
    missing: str, slug: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if missing == "java":
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(upshot.UsageError) as error:
        upshot.connect(engine="spark")
    assert error.value.code == slug
    assert "install" in error.value.help


def test_an_unknown_engine_gets_a_suggestion() -> None:
    with pytest.raises(upshot.UsageError) as error:
        upshot.connect(engine="locl")
    assert error.value.help == "did you mean `local`?"
    for engine in ("auto", "local"):
        upshot.connect(engine=engine).close()


def test_endless_recursion_ends_in_an_error_and_changes_nothing() -> None:
    with upshot.connect(max_rounds=50) as db:
        db.define(".decl start(x: number)  .decl n(x: number)  n(X) :- start(X).  n(Y) :- n(X), Y = X + 1, X < 1000.")
        with pytest.raises(upshot.LimitError) as error, db.transaction() as tx:
            tx.insert("start", [(1,)])
        assert error.value.code == "recursion-limit"
        assert "`n`" in error.value.message
        assert db.rows("start") == set()
        with db.transaction() as tx:
            tx.insert("start", [(990,)])
        assert len(tx.changes["n"].inserted) == 11
    with pytest.raises(upshot.UsageError):
        upshot.connect(max_rounds=0)


def test_a_bound_on_rounds_may_be_beyond_all_that_can_be_counted() -> None:
    with upshot.connect(max_rounds=10**20) as db:
        db.define(".decl start(x: number)  .decl n(x: number)  n(X) :- start(X).  n(Y) :- n(X), Y = X + 1, X < 1000.")
        with db.transaction() as tx:
            tx.insert("start", [(1,)])
        assert len(db.rows("n")) == 1_000


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert upshot.__all__ == sorted(upshot.__all__)
    assert all(getattr(upshot, name) is not None for name in upshot.__all__)
    assert set(upshot.__all__) <= set(dir(upshot))
    with pytest.raises(AttributeError):
        _ = upshot.conect  # type: ignore[attr-defined]


def test_pandas_keeps_every_value_of_columns_that_can_be_null() -> None:
    pytest.importorskip("pandas")
    columns = "a: number?, b: unsigned?, c: float?, d: boolean?, e: date?, f: timestamp?, g: decimal(18,2)?, h: symbol?"
    program = f".decl r(i: number, {columns}, u: unsigned, v: float, w: boolean)"
    first = (
        1, 2**53 + 1, 2**64 - 2, math.nan, True, date(9999, 12, 31), datetime(1, 1, 1, tzinfo=UTC),
        Decimal("9999999999999999.99"), "x", 2**64 - 1, 1.5, False,
    )  # fmt: skip
    rows = [first, (2, *[None] * 8, 0, math.nan, True)]
    with upshot.connect() as db, upshot.connect() as other:
        for each in (db, other):
            each.define(program)
        with db.transaction() as tx:
            tx.insert("r", rows)
        frame = db.rows("r").to_pandas()
        types = ["int64", "Int64", "UInt64", "Float64", "boolean", "object"]
        assert [str(type) for type in frame.dtypes][:6] == types
        assert [str(type) for type in frame.dtypes][-3:] == ["uint64", "float64", "bool"]
        assert int(frame["a"][0]) == 2**53 + 1
        assert frame["c"].isna().tolist() == [False, True], "NULL is not NaN"
        with other.transaction() as tx:
            tx.insert("r", frame)
        assert other.rows("r") == db.rows("r")
        assert db.query("r(I, A, _, _, _, _, _, _, _, _, _, _), I < 0").to_pandas().dtypes["A"] == "Int64"


@pytest.mark.parametrize(
    ("query", "warned"),
    [
        ("access(ann, R)", ["ann"]),
        ("access(ann, read)", ["ann", "read"]),
        ("access(_, bob), !access(bob, _)", []),
        ("access(person, R), access(x, R)", []),
        ("age(ann)", []),
    ],
)
def test_a_query_warns_of_variables_that_are_probably_text_without_quotes(
    db: upshot.Database, query: str, warned: list[str]
) -> None:
    db.define(".decl access(person: symbol, right: symbol)\n.decl age(x: number)")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        db.query(query)
    found = [each.message.diagnostic for each in caught if isinstance(each.message, upshot.QueryWarning)]
    assert [each.span.text for each in found if each.span is not None] == warned
    assert {each.code for each in found} <= {"unquoted-constant"}
    assert all(each.filename == __file__ for each in caught)
