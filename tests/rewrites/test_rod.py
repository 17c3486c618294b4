"""Rederivation on demand: Algorithms 2 and 3, figure 3 and the example. [Staudt & Jarke 1996]"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rewrites.demand_interpreter import Row, changes, stored_rows
from upshot.check import CheckedProgram, Clause, check
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.strategies.strategy import on_demand
from upshot.syntax import parse
from upshot.syntax.printing import print_atom, print_formula

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(x, y) :- edge(x, y).
closure(x, y) :- edge(x, z), closure(z, y).
"""
OUTSIDE: set[Row] = {("f", "e"), ("e", "d"), ("e", "a"), ("a", "b"), ("d", "c"), ("b", "c"), ("c", "g")}
INSIDE: set[Row] = {("u", "v"), ("v", "w"), ("w", "u"), ("w", "g")}
"""A subgraph that only leads into g."""


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def written(clause: Clause) -> str:
    """The clause with its literals in alphabetical order: the rules put the delta first, the paper where it was."""
    body = sorted(map(print_formula, clause.body))
    return f"{print_atom(clause.head)} :- {', '.join(body)}."


def figure(text: str) -> set[str]:
    """Rules as the figure prints them, literals in alphabetical order."""
    found = set()
    for line in filter(None, map(str.strip, text.splitlines())):
        (clause,) = check(parse(f"{_declared(line)} {line}")).clauses
        found.add(written(clause))
    return found


def _declared(line: str) -> str:
    arities = {"sup": 2, "m_closure_bf": 1, "sup1": 3, "sup2": 3}
    names = ["closure", "edge", "sup", "sup1", "sup2", "m_closure_bf", "m_closure_bb"]
    names += [f"{r}_{s}" for r in ("closure", "edge") for s in ("del", "red", "ins", "new", "plus", "minus")]
    found = {name: ", ".join(f"c{i}: symbol" for i in range(arities.get(name, 2))) for name in names}
    return " ".join(f".decl {name}({columns})" for name, columns in found.items() if f"{name}(" in line)


def test_the_rules_of_closure_are_those_of_figure_3() -> None:
    """The figure drops `edge_new` from the first rederivation rule."""
    made = changes_on_demand(normal(CLOSURE), {"closure": "rod"})
    named = {"closure_sup": "sup1", "closure_sup_1": "sup", "closure_sup_2": "sup2"}
    found = set()
    for rule in made.rules:
        text = written(rule.clause).replace("(X, Y)", "(x, y)")
        for ours, theirs in sorted(named.items(), reverse=True):
            text = text.replace(f"{ours}(", f"{theirs}(")
        found.add(text)
    states = """
        closure_new(x, y) :- closure(x, y), !closure_del(x, y).
        closure_new(x, y) :- closure_red(x, y).
        closure_new(x, y) :- closure_ins(x, y).
        closure_minus(x, y) :- closure_del(x, y), !closure_ins(x, y), !closure_red(x, y).
    """
    assert found == figure(states) | figure("""
        closure_del(x, y) :- edge_del(x, y).
        closure_red(x, y) :- closure_del(x, y), edge_new(x, y).
        closure_ins(x, y) :- edge_ins(x, y).
        closure_plus(x, y) :- closure_ins(x, y), !closure(x, y).
        m_closure_bb(x, y) :- closure_ins(x, y).
        closure_del(x, y) :- edge_del(x, z), closure(z, y).
        m_closure_bf(z) :- edge_del(x, z).
        closure_del(x, y) :- edge(x, z), closure_del(z, y).
        closure_red(x, y) :- sup1(x, y, z), closure_new(z, y).
        sup1(x, y, z) :- closure_del(x, y), edge_new(x, z).
        m_closure_bb(z, y) :- sup1(x, y, z).
        closure_ins(x, y) :- edge_ins(x, z), closure_new(z, y).
        m_closure_bf(z) :- edge_ins(x, z).
        closure_ins(x, y) :- edge_new(x, z), closure_ins(z, y).
        closure(x, y) :- m_closure_bf(x), edge(x, y).
        closure(x, y) :- m_closure_bb(x, y), edge(x, y).
        sup(x, z) :- m_closure_bf(x), edge(x, z).
        m_closure_bf(z) :- sup(x, z).
        closure(x, y) :- sup(x, z), closure(z, y).
        sup2(x, y, z) :- m_closure_bb(x, y), edge(x, z).
        m_closure_bb(z, y) :- sup2(x, y, z).
        closure(x, y) :- sup2(x, y, z), closure(z, y).
    """)  # fmt: skip


def test_nine_old_tuples_are_rederived_and_none_of_the_subgraph() -> None:
    program = normal(CLOSURE)
    made = changes_on_demand(program, {"closure": "rod"})
    old = stored_rows(program, {"edge": OUTSIDE | INSIDE})
    new = stored_rows(program, {"edge": (OUTSIDE | INSIDE) - {("b", "c")} | {("h", "d")}})
    found = changes(program, made, old, new, dropping=False)
    assert found.plus["closure"] == {("h", "d"), ("h", "c"), ("h", "g")}
    assert found.minus["closure"] == {("a", "c"), ("a", "g"), ("b", "c"), ("b", "g")}
    assert found.relations["closure_del"] == {(x, y) for x in "abef" for y in "cg"}
    assert found.relations["closure_red"] == {(x, y) for x in "ef" for y in "cg"}
    assert found.relations["closure"] == {*((x, y) for x in "abde" for y in "cg"), ("c", "g")}
    assert len([row for row in old["closure"] if row[0] not in "uvw"]) == 19
    for name, meaning in made.relations.items():
        if meaning.origin is not RowOrigin.STORED:
            assert not any(set(row) & set("uvw") for row in found.relations[name]), name


# ---- errata -----------------------------------------------------------------------------------


def test_in_one_cumulative_loop_as_printed_the_example_comes_out_wrong() -> None:
    program = normal(CLOSURE)
    staged = changes_on_demand(program, {"closure": "rod"})
    loop = DemandProgram(
        tuple(replace(rule, gate=None) for rule in staged.rules), staged.relations, staged.schemas, staged.views
    )
    old, new = (stored_rows(program, {"edge": e}) for e in (OUTSIDE, OUTSIDE - {("b", "c")} | {("h", "d")}))
    assert {("e", "c"), ("f", "c")} <= changes(program, loop, old, new).minus["closure"]
    assert changes(program, staged, old, new).minus["closure"] == old["closure"] - new["closure"]


def test_the_two_streams_of_a_delta_in_the_middle_stay_linked() -> None:
    """With the argument sets of the paper the delta at b gives a cross product."""
    text = """
    .decl a0(x: number, y: number) .decl b(x: number, y: number) .decl c0(x: number, y: number)
    .decl a(x: number, y: number) .decl c(x: number, y: number) .decl p(x: number, y: number)
    a(X, Y) :- a0(X, Y). c(X, Y) :- c0(X, Y). p(X, Y) :- a(X, V), b(V, W), c(W, Y).
    """
    program = normal(text)
    base = {"a0": {(1, 2), (3, 4)}, "c0": {(5, 6), (7, 8)}}
    old, new = (stored_rows(program, {**base, "b": b}) for b in ({(2, 5), (4, 7)}, set[Row]()))
    made = changes_on_demand(program, dict.fromkeys("acp", "rod"))
    found = changes(program, made, old, new, dropping=False)
    assert found.relations["p_del"] == found.minus["p"] == {(1, 6), (3, 8)}


@pytest.mark.parametrize("strategy", on_demand())
def test_strata_pass_on_net_changes_only(strategy: str) -> None:
    program = normal(".decl a() .decl b() .decl c() .decl p() .decl u()\np() :- a(). p() :- b(). u() :- c(), !p().")
    made = changes_on_demand(program, {"p": strategy, "u": strategy})
    old, new = (stored_rows(program, {"a": a, "b": {()}, "c": {()}}) for a in ({()}, set[Row]()))
    found = changes(program, made, old, new)
    assert not any((*found.plus.values(), *found.minus.values()))


@pytest.mark.parametrize("strategy", on_demand())
def test_a_row_that_is_deleted_and_inserted_again_by_other_rules_stays(strategy: str) -> None:
    program = normal(".decl a(x: number) .decl b(x: number) .decl p(x: number)\np(X) :- a(X). p(X) :- b(X).")
    made = changes_on_demand(program, {"p": strategy})
    old, new = stored_rows(program, {"a": {(1,)}}), stored_rows(program, {"b": {(1,), (2,)}})
    found = changes(program, made, old, new)
    assert (found.plus["p"], found.minus["p"]) == ({(2,)}, set())
