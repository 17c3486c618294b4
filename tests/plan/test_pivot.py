"""How recursions are cut into parts: program in, decomposition out."""

from __future__ import annotations

import pytest

from tests.plan.plans import compiled
from upshot.plan.pivot import decomposition

DECLARATIONS = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl n(x: number)
.decl g(x: number, l: symbol, y: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.decl r(x: number, l: symbol, y: number)
.decl t()
"""

GOLDENS = {
    "left-linear closure keeps its source": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), e(Y, Z).",
        """
        decomposed: `p` on column x
          because every recursive rule passes the pivot on unchanged
          seeds   p(X, Y) :- e(X, Y).
          rounds  p(X, Z) :- p(X, Y), e(Y, Z).
          shared  `e`
        """,
    ),
    "right-linear closure keeps its target": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- e(X, Y), p(Y, Z).",
        """
        decomposed: `p` on column y
          because every recursive rule passes the pivot on unchanged
          seeds   p(X, Y) :- e(X, Y).
          rounds  p(X, Z) :- e(X, Y), p(Y, Z).
          shared  `e`
        """,
    ),
    "non-linear closure is made linear": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- f(Y, X). p(X, Z) :- p(X, Y), p(Y, Z).",
        """
        decomposed: `p` on column x
          because every recursive rule passes the pivot on unchanged
          linearized: a product of rows can be bracketed to the left, so one factor is an exit row
          seeds   p(X, Y) :- e(X, Y).
          seeds   p(X, Y) :- f(Y, X).
          rounds  p(X, Z) :- p(X, Y), e(Y, Z).
          rounds  p(X, Z) :- p(X, Y), f(Z, Y).
          shared  `e`
          shared  `f`
        """,
    ),
    "closure of a join gets a relation of its exits, which parts derive from what is shared": (
        "p(X, Y) :- e(X, Z), f(Z, Y). p(X, Z) :- p(X, Y), p(Y, Z).",
        """
        decomposed: `p` on column x
          because every recursive rule passes the pivot on unchanged
          linearized: a product of rows can be bracketed to the left, so one factor is an exit row
          seeds   p(X, Y) :- e(X, Z), f(Z, Y).
          rounds  p(X, Z) :- p(X, Y), p_exit(Y, Z).
          shared  `e`
          shared  `f`
        """,
    ),
    "all columns that pass are the pivot": (
        "r(X, L, Y) :- g(X, L, Y). r(X, L, Z) :- r(X, L, Y), r(Y, L, Z).",
        """
        decomposed: `r` on columns x, l
          because every recursive rule passes the pivot on unchanged
          linearized: a product of rows can be bracketed to the left, so one factor is an exit row
          seeds   r(X, L, Y) :- g(X, L, Y).
          rounds  r(X, L, Z) :- r(X, L, Y), g(Y, L, Z).
          shared  `g`
        """,
    ),
    "non-linear recursion that keeps a column needs no rewriting": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- p(X, A), p(X, B), g(A, _, B), f(B, Y).",
        """
        decomposed: `p` on column x
          because every recursive rule passes the pivot on unchanged
          seeds   p(X, Y) :- e(X, Y).
          rounds  p(X, Y) :- p(X, A), p(X, B), g(A, _, B), f(B, Y).
          shared  `f`
          shared  `g`
        """,
    ),
    "what is read with the pivot is split": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), g(Y, _, Z), f(Z, X), !e(Z, X).",
        """
        decomposed: `p` on column x
          because every recursive rule passes the pivot on unchanged
          seeds   p(X, Y) :- e(X, Y).
          rounds  p(X, Z) :- p(X, Y), g(Y, _, Z), f(Z, X), !e(Z, X).
          split   `e` on column y
          split   `f` on column y
          shared  `g`
        """,
    ),
    "views that use each other have the pivot in different columns": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- q(Y, Z), f(Z, X). q(Y, X) :- p(X, Y), n(X). q(X, Y) :- f(X, Y).",
        """
        decomposed: `p` on column y, `q` on column x
          because every recursive rule passes the pivot on unchanged
          seeds   p(X, Y) :- e(X, Y).
          seeds   q(X, Y) :- f(X, Y).
          rounds  p(X, Y) :- q(Y, Z), f(Z, X).
          rounds  q(Y, X) :- p(X, Y), n(X).
          shared  `f`
          shared  `n`
        """,
    ),
    "same generation hands no column on": (
        "p(X, Y) :- e(Z, X), e(Z, Y), X != Y. p(X, Y) :- e(A, X), p(A, B), e(B, Y).",
        "not decomposed: no column passes unchanged through the recursive rule",
    ),
    "a condition on the ends of a path keeps closure from being linear": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z), X != Z.",
        """
        not decomposed: no column passes unchanged through the recursive rule, and a condition on `X`, which is not what the two literals of `p` meet in
        """,  # noqa: E501
    ),
    "two views cannot be made linear": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- q(X, Y), q(Y, Z). q(X, Y) :- p(X, Y).",
        """
        not decomposed: no column passes unchanged through all recursive rules, and only a component of one view can be made linear
        """,  # noqa: E501
    ),
    "a relation without columns has nothing to be cut by": (
        "t() :- n(_). t() :- t(), e(1, 2).",
        "not decomposed: `t` has no columns",
    ),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_a_recursion_is_cut_as_written_down(name: str) -> None:
    program, expected = GOLDENS[name]
    plan = compiled(DECLARATIONS + program)
    (component,) = [each for each in plan.components if each.recursive]
    lines = expected.strip("\n").rstrip().split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    assert str(decomposition(component, plan.normal)) == "\n".join(line[margin:] for line in lines)


def test_what_is_not_recursive_is_not_cut() -> None:
    plan = compiled(DECLARATIONS + "p(X, Y) :- e(X, Y).")
    found = decomposition(plan.components[0], plan.normal)
    assert str(found) == "not decomposed: `p` is not recursive"
    assert found.program is None


def test_names_of_the_user_are_left_alone() -> None:
    plan = compiled(
        ".decl p_seed(x: number, y: number) .decl p_exit(x: number, y: number) .decl p(x: number, y: number)\n"
        "p(X, Y) :- p_seed(X, Z), p_exit(Z, Y). p(X, Z) :- p(X, Y), p(Y, Z)."
    )
    found = decomposition(plan.components[-1], plan.normal)
    assert found.program is not None
    assert found.seeds == {"p": "p_seed_1"}
    assert set(found.program.schemas) == {"p", "p_seed", "p_exit", "p_exit_1", "p_seed_1"}
