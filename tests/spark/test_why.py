"""Explanations on the Spark engine: the same trees as in process."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.properties.exactness import checked
from tests.reasons.proof_checker import all_steps, check_tree, smallest, state_of

PROGRAM = """
.decl edge(x: number, y: number?)
.decl closed(x: number)
.decl reach(x: number, y: number?)
.decl open(x: number, y: number?)
.decl fan(x: number, n: number)
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
open(X, Y) :- reach(X, Y), !closed(X).
fan(X, N) :- edge(X, _), N = count : { edge(X, _) }.
.decl free(n: number)
free(N) :- N = count : { edge(X, _), !closed(X) }.
"""
BASE: dict[str, list[tuple[Any, ...]]] = {
    "edge": [(1, 2), (2, 3), (3, 1), (3, 4), (4, None)],
    "closed": [(2,)],
}


@pytest.fixture
def db(spark: Any) -> Any:
    with upshot.connect(spark=spark, engine="spark") as made:
        made.define(PROGRAM, name="routes.dl")
        with made.transaction() as tx:
            for name, rows in BASE.items():
                tx.insert(name, rows)
        yield made


@pytest.mark.slow
def test_trees_are_proofs_and_smallest_on_spark_too(db: Any) -> None:
    program = checked(PROGRAM)
    state = state_of(program, BASE)
    best = smallest(all_steps(program, state))
    for view, row in [("reach", (1, 4)), ("open", (3, None)), ("fan", (3, 2)), ("reach", (2, 2))]:
        tree = db.why(view, row)
        check_tree(tree, program, state)
        assert (tree.height, tree.size) == best[view, row]


@pytest.mark.slow
def test_why_not_and_why_changed_on_spark(db: Any) -> None:
    found = db.why_not("open", (2, 3))
    assert [part.kind for part in found.parts[0].parts] == ["holds", "in the way"]
    with db.transaction() as tx:
        tx.delete("closed", [(2,)])
    changed = db.why_changed("open", (2, 3))
    assert (changed.change, changed.moment.version) == ("came", tx.version)
    assert [node.statement for node in changed.derivation.nodes if node.change == "went"] == ["closed(2)"]
    for row in ((4,), (5,)):
        (folded,) = db.why_changed("free", row).derivation.premises
        assert [node.statement for node in folded.nodes if node.kind == "base"] == ["closed(2)"]
    assert len(db.rows("closed")) == 0


@pytest.mark.slow
def test_rows_with_null_of_views_that_are_not_stored_are_found_on_spark(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as made:
        made.define(".decl r(x: number?, y: number?)")
        made.define(".decl v(x: number?, y: number?) v(X, Y) :- r(X, Y). .view v materialized=false")
        rows = [(1, None), (None, 2), (None, None), (3, 4)]
        with made.transaction() as tx:
            tx.insert("r", rows)
        engine = made._state.engine
        assert engine.contains_all("v", rows)
        assert engine.contains_many([("v", row) for row in [*rows, (1, 2), (3, None)]]) == [True] * 4 + [False] * 2
        assert engine.contains_many([("r", (1, None)), ("v", (None, 4)), ("r", (1, 1))]) == [True, False, False]
