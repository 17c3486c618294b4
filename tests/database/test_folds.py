"""Folds of users: aggregates in Python, with and without `unmerge`, in views, queries and live queries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import upshot

TEXT = """
.functor longest(x: symbol): symbol fold
.functor product(x: number): number fold
.decl word(g: number, t: symbol)
.decl entry(g: number, i: number, v: number)
.decl long(g: number, t: symbol)
.decl volume(g: number, v: number)
.decl all(v: number)
long(G, M) :- word(G, _), M = @longest T : { word(G, T) }.
volume(G, M) :- entry(G, _, _), M = @product V : { entry(G, _, V) }.
all(M) :- M = @product(V + 1) : { entry(_, _, V) ; word(V, _) }.
"""
LONGEST = upshot.Fold("", lambda state, text: max(state, text, key=lambda each: (len(each), each)))


def _product(calls: list[int] | None = None) -> upshot.Fold:
    """The product, with zeros counted apart: a factor can be taken out again."""

    def step(sign: int) -> Any:
        def changed(state: tuple[int, int], value: int) -> tuple[int, int]:
            if calls is not None:
                calls.append(sign * value)
            product, zeros = state
            return (product * (value or 1) if sign > 0 else product // (value or 1)), zeros + sign * (value == 0)

        return changed

    return upshot.Fold((1, 0), step(1), step(-1), lambda state: 0 if state[1] else state[0])


def _database(product: upshot.Fold | None = None) -> upshot.Database:
    db = upshot.connect()
    db.function("longest", LONGEST)
    db.function("product", product or _product())
    db.define(TEXT)
    with db.transaction() as tx:
        tx.insert("word", [(1, "a"), (1, "abc"), (2, "zz")])
        tx.insert("entry", [(1, 1, 3), (1, 2, 3), (1, 3, 4), (2, 1, 0), (2, 2, 5)])
    return db


def test_a_fold_is_an_aggregate() -> None:
    db = _database()
    assert set(db.rows("long")) == {(1, "abc"), (2, "zz")}
    assert set(db.rows("volume")) == {(1, 36), (2, 0)}
    with db.transaction() as tx:
        tx.delete("word", [(1, "abc")])
        tx.delete("entry", [(1, 2, 3), (2, 1, 0)])
    assert set(tx.changes["long"].inserted) == {(1, "a")}
    assert set(tx.changes["volume"].inserted) == {(1, 12), (2, 5)}
    assert set(db.query("M = @product V : { entry(1, _, V) }")) == {(12,)}
    assert "12 = @product V : { entry(1, _, V) }" in str(db.why("volume", (1, 12)))
    db.verify()


def test_with_unmerge_a_change_folds_only_what_changed() -> None:
    calls: list[int] = []
    db = _database(_product(calls))
    calls.clear()
    with db.transaction() as tx:
        tx.delete("entry", [(1, 2, 3)])
    assert calls == [-3]
    with pytest.raises(upshot.Error), db.transaction() as tx:
        tx.insert("entry", [(1, 9, 2**40), (1, 10, 2**40)])
    with db.transaction() as tx:
        tx.insert("entry", [(1, 9, 2)])
    assert set(tx.changes["volume"].inserted) == {(1, 24)}
    db.verify()


def test_a_fold_of_a_constant_counts_solutions() -> None:
    db = _database()
    assert set(db.query("M = @product 2 : { entry(_, _, _) }")) == {(32,)}


def test_a_fold_that_fails_ends_the_transaction_at_its_place() -> None:
    def merge(state: int, value: int) -> int:
        return state + 10 // (value - 7)

    db = upshot.connect()
    db.function("odd", upshot.Fold(0, merge))
    db.define(
        ".functor odd(x: number): number fold .decl n(x: number) .decl s(x: number) s(M) :- M = @odd X : { n(X) }."
    )
    with pytest.raises(upshot.DataError) as caught, db.transaction() as tx:
        tx.insert("n", [(7,)])
    assert caught.value.code == "function-failed"
    assert caught.value.span is not None
    assert "@odd(7)" in caught.value.message
    assert not list(db.rows("n"))


@pytest.mark.parametrize(
    "rule",
    [
        "m(N) :- N = sum @g(X) : { n(X), @g(X) > 1 }.",
        "m(N) :- N = @f @g(X) : { n(X) }.",
        "m(N) :- N = @f(X + 1) : { n(X) }.",
        "m(N) :- N = @f((X + 1) * 2) : { n(X), X < sum @g(Y) : { n(Y) } }.",
        "m(N) :- N = @f -X : { n(X) }, @f X : { n(X) } > 0.",
    ],
)
def test_a_fold_reads_back_as_it_is_printed(rule: str) -> None:
    from upshot.syntax import parse, print_program  # noqa: PLC0415

    program = parse(rule)
    assert parse(print_program(program)) == program
    text = (
        ".functor f(x: number): number fold .functor g(x: number): number .decl n(x: number) .decl m(x: number) n(2).\n"
    )
    with upshot.connect() as db:
        db.function("f", upshot.Fold(0, lambda state, value: state + value))
        db.function("g", lambda x: x + 1)
        db.define(text + rule)
        assert len(db.rows("m")) == 1
        db.verify()


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".functor f(x: number): number fold .decl n(x: number) n(@f(1)) :- n(_).", "misused-functor"),
        (".functor f(x: number): number .decl n(x: number) n(M) :- M = @f 1 : { n(_) }.", "misused-functor"),
        (".functor f(x: number, y: number): number fold", "functor-type"),
        (".decl n(x: number) .decl m(x: number) m(M) :- M = @f X : { n(X) }.", "unknown-functor"),
    ],
)
def test_a_wrong_use_of_a_fold_is_refused(text: str, slug: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert caught.value.code == slug


def test_the_code_of_a_fold_must_be_one() -> None:
    db = upshot.connect()
    db.function("f", lambda x: x)
    db.define(".functor f(x: number): number fold .decl n(x: number) .decl m(x: number) m(M) :- M = @f X : { n(X) }.")
    with pytest.raises(upshot.DataError) as caught, db.transaction() as tx:
        tx.insert("n", [(1,)])
    assert "upshot.Fold" in caught.value.help


def test_other_code_folds_again_and_reopening_needs_it(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db", functions={"longest": LONGEST, "product": _product()}) as db:
        db.define(TEXT)
        with db.transaction() as tx:
            tx.insert("entry", [(1, 1, 3), (1, 2, 4)])
        done = db.function("product", upshot.Fold(0, lambda state, value: state + value))
        assert done is not None
        assert set(done.changes["volume"].inserted) == {(1, 7)}
    total = upshot.Fold(0, lambda state, value: state + value)
    with upshot.connect(tmp_path / "db", functions={"longest": LONGEST, "product": total}) as db:
        with db.transaction() as tx:
            tx.delete("entry", [(1, 1, 3)])
        assert set(tx.changes["volume"].inserted) == {(1, 4)}
        db.verify()


def test_a_request_that_reaches_a_fold_is_refused_by_name() -> None:
    with pytest.raises(upshot.UsageError) as caught:
        list(_database().realize(insert={"volume": [(1, 5)]}))
    assert caught.value.code == "functions-in-request"


@pytest.mark.parametrize("strategy", ["maintenance", "counting", "recompute", "rod", "epf"])
def test_random_changes_of_folds_are_exact(strategy: str) -> None:
    rng = random.Random(f"folds {strategy}")
    db = upshot.connect()
    db.function("longest", LONGEST)
    db.function("product", _product())
    db.define(TEXT + "".join(f".view {view} strategy={strategy}\n" for view in ("long", "volume")))
    entries: set[tuple[int, int, int]] = set()
    held: set[tuple[int, int]] = set()
    for _ in range(40):
        rows = {(rng.randrange(3), rng.randrange(3), rng.randrange(4)) for _ in range(3)}
        gone = {row for row in entries if rng.random() < 0.3} - rows
        entries = (entries - gone) | rows
        with db.transaction() as tx:
            tx.delete("entry", sorted(gone))
            tx.insert("entry", sorted(rows))
        values: dict[int, int] = {}
        for group, _, value in entries:
            values[group] = values.get(group, 1) * value
        now = set(values.items())
        assert set(tx.changes["volume"].inserted) == now - held
        assert set(tx.changes["volume"].deleted) == held - now
        held = now
    db.verify()


# ---- live queries ----------------------------------------------------------------------------------------


def test_a_live_query_calls_functions_and_follows_their_other_values() -> None:
    db, more = upshot.connect(), [1]
    db.function("f", lambda x: x * 10)
    db.function("g", lambda x: x + more[0])
    db.function("total", upshot.Fold(0, lambda state, value: state + value, lambda state, value: state - value))
    db.define("""
    .functor f(x: number): number
    .functor g(x: number): number stateful
    .functor total(x: number): number fold
    .decl r(x: number)
    r(1). r(2).
    """)
    heard: list[tuple[list[Any], list[Any]]] = []
    folded: list[tuple[list[Any], list[Any]]] = []
    take = lambda to: lambda event: to.append((sorted(event.inserted), sorted(event.deleted)))  # noqa: E731
    db.watch("r(X), Y = @f(X) + $k, Z = @g(X)", take(heard), k=5)
    db.watch("S = @total X : { r(X) }", take(folded))
    with db.transaction() as tx:
        tx.insert("r", [(3,)])
        tx.delete("r", [(1,)])
    more[0] = 7
    db.refresh("g")
    db.function("f", lambda x: x * 100)
    with db.transaction() as tx:
        tx.insert("r", [(4,)])
    assert heard == [
        ([(1, 15, 2), (2, 25, 3)], []),
        ([(3, 35, 4)], [(1, 15, 2)]),
        ([(2, 25, 9), (3, 35, 10)], [(2, 25, 3), (3, 35, 4)]),
        ([(2, 205, 9), (3, 305, 10)], [(2, 25, 9), (3, 35, 10)]),
        ([(4, 405, 11)], []),
    ]
    assert folded == [([(3,)], []), ([(5,)], [(3,)]), ([(9,)], [(5,)])]


def test_a_live_query_ends_where_its_function_goes() -> None:
    db = upshot.connect()
    db.function("f", lambda x: x)
    db.define(".functor f(x: number): number .decl r(x: number)")
    subscription = db.watch("r(X), Y = @f(X)", lambda event: None)
    db.define(".functor f(x: symbol): number")
    assert [error.code for error in subscription.errors] == ["query-ended"]  # type: ignore[attr-defined]


def test_a_start_that_is_changed_in_place_is_not_shared_between_groups() -> None:
    def merge(state: list[int], value: int) -> list[int]:
        state.append(value)
        return state

    db = upshot.connect()
    db.define("""
        .functor total(x: number): number fold
        .decl entry(g: number, v: number)
        .decl sums(g: number, t: number)
        sums(G, T) :- entry(G, _), T = @total V : { entry(G, V) }.
    """)
    db.function("total", upshot.Fold([], merge, None, sum))
    with db.transaction() as tx:
        tx.insert("entry", [(1, 5), (1, 6), (2, 7)])
    assert set(db.rows("sums")) == {(1, 11), (2, 7)}
    for _ in range(2):
        assert db.query("T = @total V : { entry(_, V) }").sorted() == [(18,)]
    db.verify()


IN_SQL = """
CREATE TABLE a (g BIGINT, i BIGINT NOT NULL, x BIGINT);
.functor xr(x: number): number fold
.functor total(x: float): float fold
"""


def _exclusive_or() -> upshot.Fold:
    return upshot.Fold(0, lambda state, value: state ^ value, lambda state, value: state ^ value)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT g, xr(x) AS y FROM a GROUP BY g", {(1, 6), (2, 7), (None, None)}),
        ("SELECT g, XR(x + 1) AS y, count(*) AS n FROM a GROUP BY g", {(1, 7, 3), (2, 8, 1), (None, None, 1)}),
        ("SELECT xr(x) AS y FROM a", {(1,)}),
        ("SELECT xr(DISTINCT x) AS y FROM a", {(1,)}),
        ("SELECT g, xr(x) FILTER (WHERE x > 5) AS y FROM a GROUP BY g", {(1, None), (2, 7), (None, None)}),
        ("SELECT g FROM a GROUP BY g HAVING xr(x) = 6", {(1,)}),
        ("SELECT xr(x) AS y FROM a WHERE i > 100", {(None,)}),
        ("SELECT total(x) AS y FROM a", {(15.0,)}),
        ("SELECT g, (SELECT xr(b.x) FROM a b WHERE b.g = a.g AND b.i > 1) AS y FROM a", {(1, 7), (2, 7), (None, None)}),
    ],
)
def test_sql_folds_the_values_of_a_group_and_skips_null(query: str, rows: set[tuple[Any, ...]]) -> None:
    given = [(1, 1, 1), (1, 2, 2), (1, 3, 5), (2, 4, 7), (None, 5, None)]
    functions = {"xr": _exclusive_or(), "total": upshot.Fold(0.0, lambda state, value: state + value)}
    with upshot.connect(functions=functions) as db:
        db.define(IN_SQL)
        db.define(f"CREATE VIEW v AS {query}")
        empty = set(db.rows("v"))
        with db.transaction() as tx:
            tx.insert("a", given)
        assert set(db.rows("v")) == set(db.sql(query)) == rows
        assert set(tx.changes["v"].inserted) == rows - empty
        db.verify()
        with db.transaction() as tx:
            tx.delete("a", given)
        assert set(db.rows("v")) == empty


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("SELECT xr(x, g) AS y FROM a", "wrong-arity"),
        ("SELECT xr('a') AS y FROM a", "type-mismatch"),
        ("SELECT x FROM a WHERE xr(x) > 1", "sql-misplaced-aggregate"),
        ("SELECT xr(sum(x)) AS y FROM a", "sql-misplaced-aggregate"),
        ("SELECT xr(x) OVER (ORDER BY i) AS y FROM a", "sql-unsupported"),
        ("SELECT g, xr(x), x FROM a GROUP BY g", "sql-not-grouped"),
    ],
)
def test_sql_refuses_a_fold_where_no_aggregate_can_be(query: str, slug: str) -> None:
    with upshot.connect(functions={"xr": _exclusive_or()}) as db:
        db.define(IN_SQL)
        with pytest.raises(upshot.ProgramError) as error:
            db.define(f"CREATE VIEW v AS {query}")
        assert [each.slug for each in error.value.diagnostics] == [slug]
