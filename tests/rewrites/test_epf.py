"""Propagation and filtration: the example, what is never looked at, and the errata. [Harrison & Dietrich 1994]"""

from __future__ import annotations

import pytest

from tests.rewrites.demand_interpreter import Found, Row, changes, derived, stored_rows
from upshot.check import CheckedProgram, check, print_clause
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.syntax import parse
from upshot.syntax.ast import Atom

TC = """
.decl edge(x: symbol, y: symbol)
.decl tc(x: symbol, y: symbol)
tc(X, Y) :- edge(X, Y).
tc(X, Y) :- tc(X, W), edge(W, Y).
"""
LEAVES = 4
EDGES: set[Row] = {("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), *(("d", f"e{i}") for i in range(LEAVES))}
ELSEWHERE: set[Row] = {("x", "y"), ("y", "z"), ("z", "x")}


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def removed() -> tuple[DemandProgram, Found]:
    program = normal(TC)
    made = changes_on_demand(program, {"tc": "epf"})
    edges = EDGES | ELSEWHERE
    old, new = (stored_rows(program, {"edge": rows}) for rows in (edges, edges - {("b", "d")}))
    return made, changes(program, made, old, new, dropping=False)


def test_the_rules_of_the_example() -> None:
    made = changes_on_demand(normal(TC), {"tc": "epf"})
    removals = [rule for rule in made.rules if rule.clause.head.relation.startswith("tc_minus")]
    assert [f"{rule.name} {print_clause(rule.clause)}" for rule in removals] == [
        "P1 tc_minus_potential(X, Y) :- edge_del(X, Y).",
        "P1 tc_minus_potential(X, Y) :- tc_minus(X, W), edge(W, Y).",
        "P2 tc_minus_potential(X, Y) :- edge_del(W, Y), tc(X, W).",
        "F tc_minus(X, Y) :- tc_minus_potential(X, Y), !tc_new(X, Y).",
    ]


def test_the_trace_of_the_example() -> None:
    """Potential removals rule by rule, the one that is disqualified, and those that go on."""
    made, found = removed()
    potential = [r for r in made.rules if r.clause.head.relation == "tc_minus_potential"]
    leaves = {("b", f"e{i}") for i in range(LEAVES)}
    assert [set(derived(rule, found.relations)) for rule in potential] == [{("b", "d")}, leaves, {("a", "d")}]
    assert found.relations["tc_minus_potential"] - found.minus["tc"] == {("a", "d")}
    assert found.minus["tc"] == {("b", "d"), *leaves}
    assert found.plus["tc"] == set()


def test_the_calls_of_figure_3_in_their_order() -> None:
    """Three of `select`, four of `propagate_filter`; the paper counts two and three, leaving out the empty one. Each
    call is a propagation rule over one set of changes, proven in the new state; depth first, as in the paper."""
    program = normal(TC)
    made = changes_on_demand(program, {"tc": "epf"})
    old, new = (stored_rows(program, {"edge": rows}) for rows in (EDGES, EDGES - {("b", "d")}))
    rules = [rule for rule in made.rules if rule.clause.head.relation == "tc_minus_potential"]
    known: set[Row] = set()
    calls: list[tuple[str, set[Row], set[Row], set[Row], set[Row]]] = []
    selected: list[set[Row]] = []

    def select(driver: str, updates: set[Row]) -> None:
        selected.append(updates)
        for rule in rules:
            first = rule.clause.body[0]
            if isinstance(first, Atom) and first.relation == driver:
                potential = set(derived(rule, {"edge": old["edge"], "tc": old["tc"], driver: updates}))
                disqualified = (potential - known) & new["tc"]
                found = potential - known - disqualified
                assert rule.source is not None
                calls.append((print_clause(rule.source), updates, potential, disqualified, found))
                if found:
                    known.update(found)
                    select("tc_minus", found)

    select("edge_del", {("b", "d")})
    base, step = "tc(X, Y) :- edge(X, Y).", "tc(X, Y) :- tc(X, W), edge(W, Y)."
    bd, ad, leaves = {("b", "d")}, {("a", "d")}, {("b", f"e{i}") for i in range(LEAVES)}
    assert calls == [
        (base, bd, bd, set(), bd),
        (step, bd, leaves, set(), leaves),
        (step, leaves, set(), set(), set()),
        (step, bd, ad, ad, set()),
    ]
    assert len(selected) == 3
    assert known == old["tc"] - new["tc"]


def test_what_is_disqualified_goes_nowhere_and_other_components_are_never_read() -> None:
    made, found = removed()
    for name, meaning in made.relations.items():
        if meaning.origin is RowOrigin.STORED:
            continue
        rows = found.relations[name]
        assert not any(row[0] == "a" and str(row[-1]).startswith("e") for row in rows if len(row) > 1), name
        assert not any(set(row) & set("xyz") for row in rows), name


def test_the_sign_turns_for_the_negated_literal_only() -> None:
    """The paper's figure overwrites the type inside its loop: literals after a negated one would turn too."""
    text = ".decl q(x: number) .decl r(x: number) .decl s(x: number) .decl p(x: number) p(X) :- q(X), !r(X), s(X)."
    made = changes_on_demand(normal(text), {"p": "epf"})
    rules = [print_clause(rule.clause) for rule in made.rules if rule.name[0] == "P"]
    drivers = {
        sign: [rule.split(":- ")[1].split("(")[0] for rule in rules if rule.startswith(f"p_{sign}_potential")]
        for sign in ("plus", "minus")
    }
    assert drivers == {"plus": ["q_ins", "r_del", "s_ins"], "minus": ["q_del", "r_ins", "s_del"]}


def test_the_filter_proves_from_the_base_facts_so_a_cycle_does_not_support_itself() -> None:
    program = normal(TC)
    made = changes_on_demand(program, {"tc": "epf"})
    cycle: set[Row] = {("b", "c"), ("c", "b")}
    old, new = (stored_rows(program, {"edge": edges}) for edges in ({("a", "b")} | cycle, cycle))
    assert changes(program, made, old, new).minus["tc"] == {("a", "b"), ("a", "c")}


@pytest.mark.parametrize("sign", ["plus", "minus"])
def test_a_potential_change_enters_the_memo_of_the_state_it_was_derived_in(sign: str) -> None:
    made = changes_on_demand(normal(TC), {"tc": "epf"})
    memo = "tc_new" if sign == "plus" else "tc"
    kept = [print_clause(rule.clause) for rule in made.rules if rule.name == "K"]
    assert f"{memo}(X, Y) :- tc_{sign}_potential(X, Y)." in kept
