"""Workers that load a view side by side find what one alone finds."""

from __future__ import annotations

import random

import pytest

from tests.engine.kernels import kernel
from upshot.check import check
from upshot.core.errors import OverflowError_
from upshot.engine.local import LocalEngine
from upshot.engine.naive import evaluate
from upshot.plan import compile_program
from upshot.syntax import parse

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
.decl label(x: number, t: symbol, y: number)
.decl named(t: symbol, u: symbol, x: number)
.decl twice(x: number)
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
named(T, U, X) :- label(X, T, Y), label(Y, U, _).
named(T, U, X) :- named(T, V, X), label(X, V, Y), label(Y, U, X), closure(X, Y).
twice(X) :- closure(X, Y), edge(Y, X).
"""


def shared_engine(text: str, workers: int) -> LocalEngine:
    engine = LocalEngine()
    engine._runner.workers, engine._runner.worth_sharing = workers, 1
    engine.install(compile_program(check(parse(text))))
    engine.propagate()
    engine.accept()
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_shared_loads_equal_the_oracle_and_can_be_maintained(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.choice((8, 16, 28))
    spread = rng.choice((1, 2**40))
    edges = {(rng.randrange(nodes) * spread, rng.randrange(nodes) * spread) for _ in range(nodes * 2)}
    labels = {(rng.randrange(nodes) * spread, rng.choice("abc"), rng.randrange(nodes) * spread) for _ in range(nodes)}
    with kernel("compiled"):
        engine = shared_engine(PROGRAM, workers=rng.choice((2, 4)))
        base = {"edge": edges, "label": labels}
        for name, rows in base.items():
            engine.insert(name, list(rows))
        engine.propagate()
        engine.accept()
        wanted = evaluate(check(parse(PROGRAM)), base)
        assert all(engine.rows(view) == rows for view, rows in wanted.items())
        gone = rng.sample(sorted(edges), len(edges) // 3)
        engine.delete("edge", gone)
        deltas = engine.propagate()
        engine.accept()
        after = evaluate(check(parse(PROGRAM)), {"edge": edges - set(gone), "label": labels})
        for view, rows in after.items():
            assert engine.rows(view) == rows
            inserted, deleted = deltas.get(view, ((), ()))
            assert set(inserted) == rows - wanted[view]
            assert set(deleted) == wanted[view] - rows


def test_a_large_shared_load_has_no_row_twice_and_none_lost() -> None:
    with kernel("compiled"):
        engine = shared_engine(PROGRAM, workers=4)
        side = 25
        right = [(x * side + y, x * side + y + 1) for x in range(side) for y in range(side - 1)]
        down = [(x * side + y, (x + 1) * side + y) for x in range(side - 1) for y in range(side)]
        engine.insert("edge", right + down)
        engine.propagate()
        engine.accept()
        triangle = side * (side + 1) // 2
        assert engine.size("closure") == triangle**2 - side**2
        assert len(set(engine.rows("closure"))) == engine.size("closure")


def test_an_error_of_one_worker_undoes_the_whole_load() -> None:
    text = ".decl e(x: number) .decl p(x: number, y: number) p(X, Y) :- e(X), Y = X * 4611686018427387904."
    with kernel("compiled"):
        engine = shared_engine(text, workers=4)
        engine.insert("e", [(i,) for i in range(-1, 1)])
        engine.propagate()
        engine.accept()
        engine.delete("e", [(-1,), (0,)])
        engine.propagate()
        engine.accept()
        engine.insert("e", [(i,) for i in range(1000)])
        with pytest.raises(OverflowError_):
            engine.propagate()
        engine.rollback()
        assert engine.size("p") == 0
        engine.insert("e", [(1,)])
        engine.propagate()
        engine.accept()
        assert engine.rows("p") == {(1, 4611686018427387904)}
