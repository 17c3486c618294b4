"""Queries: whatever a rule body can say, over the state before any open change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.driver import Driver, Row, plain
from tests.engine.kernels import both_forms, kernel
from upshot.check import check_query
from upshot.core.errors import DataError
from upshot.engine.naive import derive
from upshot.syntax import parse_query

PROGRAM = """
.decl edge(x: number, y: number)
.decl name(x: number, t: symbol?)
.decl on()
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Y) :- edge(X, Z), path(Z, Y).
"""
EDGES: list[Row] = [(1, 2), (2, 3), (3, 1), (3, 4), (5, 5)]
NAMES: list[Row] = [(1, "one"), (2, "two"), (3, None), (4, "four"), (4, "vier")]
QUERIES = [
    "path(X, Y)",
    "path(1, Y)",
    "path(X, 4)",
    "path(1, 4)",
    "path(4, 1)",
    "path(X, X)",
    "path(X, _)",
    "path(_, _)",
    "edge(X, Y), edge(Y, Z), X != Z",
    "path(X, Y), !edge(X, Y)",
    "name(X, _), !edge(X, _)",
    'name(X, T), !edge(_, X), T != "x"',
    "name(X, T), is_null(T)",
    "name(X, T), !is_null(T), L = strlen(T), L > 3",
    "name(X, T), name(X, U), T < U",
    "edge(X, Y), Z = X * 10 + Y, Z > 20",
    "(edge(X, 4) ; edge(4, X) ; X = 9)",
    "X = 3",
    "X = 1 + 2, Y = X * X",
    "on()",
    "!on()",
    "edge(X, _), !on()",
    "1 < 2",
    "N = count : { edge(_, _) }",
    "N = count : { edge(99, _) }",
    "N = sum X : { edge(99, X) }",
    "N = min X : { edge(99, X) }",
    "edge(X, _), N = count : { path(X, _) }",
    "edge(X, _), N = max Y : { path(X, Y) }",
    "M = max N : { edge(X, _), N = count : { path(X, _) } }",
    "name(X, _), N = count : { edge(X, Y), !edge(Y, X) }",
    "N = mean X : { edge(X, _) }",
    "X = range(0, 7)",
    "edge(X, Y), Z = range(X * 10, Y * 20, 3)",
    "N = sum X : { X = range(0, 5) }",
    "T = min U : { name(_, U) }",
    "edge(X, Y), X < Y, !path(Y, X)",
    "path(X, Y), path(Y, Z), path(Z, X), X < Y, Y < Z",
]


@pytest.fixture(params=["plain", "compiled"])
def loaded(request: pytest.FixtureRequest) -> Any:
    with kernel(request.param):
        it = Driver(PROGRAM)
        it.change(insert={"edge": EDGES, "name": NAMES})
        yield it


def answer(it: Driver, text: str) -> set[Row]:
    """What the oracle says, from the rows the engine shows."""
    _, clauses = check_query(parse_query(text), it.checked.schemas, {})
    relations = {name: it.rows(name) for name in it.checked.schemas}
    return plain(row for clause in clauses for row in derive(clause, relations))


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_is_answered_as_by_the_oracle(loaded: Driver, text: str) -> None:
    rows = loaded.query(text)
    assert plain(rows) == answer(loaded, text)
    assert len(set(map(repr, rows))) == len(rows)


@pytest.mark.parametrize("text", QUERIES)
def test_inside_an_open_change_a_query_sees_the_state_before(loaded: Driver, text: str) -> None:
    before = plain(loaded.query(text))
    loaded.engine.delete("edge", [(1, 2), (5, 5)])
    loaded.engine.insert("edge", [(4, 9), (99, 1)])
    loaded.engine.replace("name", [(7, "seven")])
    loaded.engine.insert("on", [()])
    assert plain(loaded.query(text)) == before
    loaded.engine.rollback()
    assert plain(loaded.query(text)) == before


@pytest.mark.parametrize("text", QUERIES)
def test_queries_in_between_do_not_disturb_a_change(loaded: Driver, text: str) -> None:
    loaded.engine.delete("edge", [(1, 2), (5, 5)])
    loaded.query(text)
    loaded.engine.insert("edge", [(4, 9), (9, 4)])
    loaded.query(text)
    assert loaded.commit()["edge"] == ({(4, 9), (9, 4)}, {(1, 2), (5, 5)})
    loaded.assert_exact()
    assert plain(loaded.query(text)) == answer(loaded, text)


def test_parameters_bind_values_of_every_kind(loaded: Driver) -> None:
    assert loaded.query("path($x, Y), !edge($x, Y)", x=1) == {(1,), (3,), (4,)}
    assert loaded.query("name(X, $t)", t="two") == {(2,)}
    assert loaded.query("name(X, $t)", t="no such text") == set()


def test_the_empty_program_answers_too() -> None:
    it = Driver("")
    assert it.query("X = 1") == {(1,)}
    it = Driver(PROGRAM)
    assert it.query("path(X, Y)") == set()
    assert it.query("N = count : { path(_, _) }") == {(0,)}


def test_a_query_that_fails_leaves_the_engine_as_it_was(loaded: Driver) -> None:
    state = loaded.state()
    for _ in range(3):
        with pytest.raises(DataError) as caught:
            loaded.query("edge(X, Y), Z = X / (Y - 2)")
        assert caught.value.code == "division-by-zero"
    assert loaded.state() == state
    loaded.insert("edge", (4, 5))
    loaded.assert_exact()


@both_forms
def test_answers_of_any_number_of_rows(form: str) -> None:
    with kernel(form):
        it = Driver(".decl n(x: number)")
        it.insert("n", *[(i,) for i in range(40)])
        assert len(it.query("n(X), n(Y), n(Z), X < 3")) == 3 * 1600
        assert len(it.query("n(X), n(Y)")) == 1600


def test_what_was_asked_leaves_no_tables_behind(loaded: Driver) -> None:
    loaded.query("edge(X, Y), edge(Y, Z)")
    storage = loaded.engine._storage
    before = storage._table_count
    for _ in range(50):
        loaded.query("edge(X, Y), edge(Y, Z), N = count : { path(X, _) }")
    assert storage._table_count <= before + 20


def test_reading_inside_an_open_change_is_reading_before_it(loaded: Driver) -> None:
    loaded.engine.delete("edge", [(1, 2)])
    loaded.engine.insert("edge", [(8, 9)])
    assert loaded.rows("edge") == set(EDGES)
    assert loaded.engine.size("edge") == len(EDGES)
    assert loaded.engine.contains("edge", (1, 2))
    assert not loaded.engine.contains("edge", (8, 9))
    loaded.engine.propagate()
    loaded.engine.accept()
    assert loaded.engine.contains("edge", (8, 9))
    assert not loaded.engine.contains("edge", (1, 2))
    assert loaded.engine.size("edge") == len(EDGES)
