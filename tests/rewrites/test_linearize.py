"""Non-linear closure made linear: what is rewritten, what is refused and why, and that the contents stay the same."""

from __future__ import annotations

import random

import pytest

from tests.properties.settings import case_count, seed_of
from tests.rewrites.pairs import Rows, checked, random_states
from upshot.check.printing import print_clause
from upshot.engine.naive import evaluate
from upshot.engine.naive_values import canonical
from upshot.rewrite import normal_form
from upshot.rewrite.demand.linearize import linearize

DECLARATIONS = """
.decl e(x: number?, y: number?)
.decl f(x: number?, y: number?)
.decl g(x: number?, l: symbol?, y: number?)
.decl n(x: number)
.decl p(x: number?, y: number?)
.decl r(x: number?, l: symbol?, y: number?)
"""

REWRITTEN = {
    "closure": "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z).",
    "written the other way round": "p(X, Y) :- e(X, Y). p(X, Z) :- p(Y, Z), p(X, Y).",
    "of two relations": "p(X, Y) :- e(X, Y). p(X, Y) :- f(Y, X). p(X, Z) :- p(X, Y), p(Y, Z).",
    "of a join": "p(X, Y) :- e(X, Z), f(Z, Y). p(X, Z) :- p(X, Y), p(Y, Z).",
    "of what is computed": "p(X, Y) :- e(X, Z), n(Z), Y = Z % 3. p(X, 1) :- n(X). p(X, Z) :- p(X, Y), p(Y, Z).",
    "with a fact and a repeated variable": "p(1, 2). p(X, X) :- e(X, _). p(X, Z) :- p(X, Y), p(Y, Z).",
    "with a linear rule over an exit": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z). p(A, B) :- p(A, C), e(C, B). p(A, B) :- e(A, C), p(C, B)."
    ),
    "through open nodes only": "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), n(Y), p(Y, Z), !f(Y, Y), Y != 1.",
    "with a column that all rows share": "r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, L, Y), r(Y, L, Z).",
    "with a column from the first row": "r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, L, Y), r(Y, _, Z).",
    "with a column from the last row": "r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, M, Y), r(Y, L, Z).",
    "that joins nothing": "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, _), p(_, Z).",
    "that joins on two columns": "r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, M, Y), r(Y, L, Z), n(Y).",
}

REFUSED = {
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), e(Y, Z).": "no rule uses `p` twice",
    "p(X, Z) :- p(X, Y), p(Y, Z).": "no rule of `p` does without it, so that it is empty",
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, W), p(W, Z).": "a rule uses `p` more than twice",
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z). p(X, Z) :- p(X, Y), p(Y, Z), n(Y).": (
        "two different rules use `p` twice"
    ),
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z). p(X, Z) :- p(X, Y), f(Y, Z).": (
        "a rule that uses `p` once is not the closure rule over an exit rule"
    ),
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z). p(Y, X) :- p(X, Y).": (
        "a rule that uses `p` once is not the closure rule over an exit rule"
    ),
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z), X < Z.": (
        "a condition on `X`, which is not what the two literals of `p` meet in"
    ),
    "p(X, Y) :- e(X, Y). p(X, X) :- p(X, Y), p(Y, X).": (
        "the head of the rule that uses `p` twice is not made of different variables"
    ),
    "p(X, Y) :- e(X, Y). p(Z, X) :- p(X, Y), p(Y, Z).": "`Z` does not stay in its column of `p`",
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, 1), p(1, Z).": "a literal of `p` in its own rule holds a constant",
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Z, Y).": "`Z` does not stay in its column of `p`",
    "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, X), p(X, Z).": "`X` stands twice in a literal of `p`",
    'r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, L, Y), r(Y, M, Z), M != "a".': (
        "a condition on `M`, which is not what the two literals of `r` meet in"
    ),
}


def test_every_use_of_the_view_but_one_becomes_what_the_exits_give() -> None:
    program = checked(DECLARATIONS + REWRITTEN["with a linear rule over an exit"])
    made = linearize(program, "p")
    assert made.program is not None
    assert [print_clause(clause) for clause in made.program.clauses] == [
        "p(X, Y) :- e(X, Y).",
        "p(X, Z) :- p(X, Y), e(Y, Z).",
    ]
    made = linearize(checked(DECLARATIONS + REWRITTEN["of a join"]), "p")
    assert made.program is not None
    assert [print_clause(clause) for clause in made.program.clauses] == [
        "p_exit(X, Y) :- e(X, Z), f(Z, Y).",
        "p(X, Y) :- p_exit(X, Y).",
        "p(X, Z) :- p(X, Y), p_exit(Y, Z).",
    ]


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_contents_are_the_same_whatever_the_rows_and_wherever_null(name: str) -> None:
    program = normal_form(checked(DECLARATIONS + REWRITTEN[name]))
    view = "r" if "r(X" in REWRITTEN[name] else "p"
    made = linearize(program, view)
    assert made.program is not None, made.reason
    for state in random_states(program, seed=seed_of("linearize", 1), count=case_count(50, least=12)):
        before, after = evaluate(program, state), evaluate(made.program, state)
        assert _plain(after[view]) == _plain(before[view]), (state, name)


def test_closures_of_random_graphs_are_the_same() -> None:
    program = checked(DECLARATIONS + REWRITTEN["through open nodes only"])
    made = linearize(program, "p")
    assert made.program is not None
    rng = random.Random(seed_of("linearize", 2))
    for _ in range(20):
        nodes = [None, *range(rng.randint(2, 7))]
        state: Rows = {
            "e": {(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randint(1, 12))},
            "f": {(rng.choice(nodes), rng.choice(nodes)) for _ in range(2)},
            "n": {(node,) for node in nodes if node is not None and rng.random() < 0.8},
            "g": set(),
        }
        assert _plain(evaluate(made.program, state)["p"]) == _plain(evaluate(program, state)["p"]), state


@pytest.mark.parametrize("rules", REFUSED)
def test_what_is_not_closure_is_refused_with_the_reason(rules: str) -> None:
    made = linearize(checked(DECLARATIONS + rules), "r" if rules.startswith("r") else "p")
    assert (made.program, made.reason) == (None, REFUSED[rules])


def _plain(rows: object) -> set[object]:
    return {tuple(map(canonical, row)) for row in rows}  # type: ignore[attr-defined]
