"""Partial differencing: differentials, the network, strict and nervous semantics, the wave. [Sköld & Risch 1996]"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tests.goldens.test_stock import ITEMS, STOCK
from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import Found, changes, stored_rows
from upshot.check import CheckedProgram, check, print_clause
from upshot.core.errors import Error
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin, levels
from upshot.rewrite.normalize.unfold import unfold
from upshot.rewrite.shapes import atoms_of
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.syntax import parse

Base = Mapping[str, Collection[tuple[Any, ...]]]


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def differenced(program: CheckedProgram, **options: Any) -> DemandProgram:
    return changes_on_demand(program, {v: "differencing" for layer in program.strata for v in layer}, **options)


def differentials(text: str) -> list[str]:
    return [f"{r.name} {print_clause(r.clause)}" for r in differenced(normal(text)).rules if r.name[0] in "+-F"]


def moved(text: str, old: Base, new: Base, **options: Any) -> Found:
    program = normal(text)
    before, after = (stored_rows(program, {name: set(rows) for name, rows in base.items()}) for base in (old, new))
    return changes(program, differenced(program, **options), before, after)


# ---- the table of differentials ---------------------------------------------------------------

RELATIONS = ".decl q(x: number, y: number) .decl r(x: number, y: number) .decl p(x: number, y: number)\n"


def test_a_selection_hands_both_changes_on() -> None:
    assert differentials(f"{RELATIONS} p(X, Y) :- q(X, Y), X > 1.") == [
        "+1 p_plus(X, Y) :- q_ins(X, Y), X > 1.",
        "-1 p_minus(X, Y) :- q_del(X, Y), X > 1.",
    ]


def test_a_projection_is_filtered_by_the_other_state() -> None:
    assert differentials(".decl q(x: number, y: number) .decl p(x: number) p(X) :- q(X, _).") == [
        "+1 p_plus_candidate(X) :- q_ins(X, _).",
        "F p_plus(X) :- p_plus_candidate(X), !p(X).",
        "-1 p_minus_candidate(X) :- q_del(X, _).",
        "F p_minus(X) :- p_minus_candidate(X), !p_new(X).",
    ]


def test_a_union_is_filtered_by_the_other_state() -> None:
    assert differentials(f"{RELATIONS} p(X, Y) :- q(X, Y). p(X, Y) :- r(X, Y).") == [
        "+1 p_plus_candidate(X, Y) :- q_ins(X, Y).",
        "+1 p_plus_candidate(X, Y) :- r_ins(X, Y).",
        "F p_plus(X, Y) :- p_plus_candidate(X, Y), !p(X, Y).",
        "-1 p_minus_candidate(X, Y) :- q_del(X, Y).",
        "-1 p_minus_candidate(X, Y) :- r_del(X, Y).",
        "F p_minus(X, Y) :- p_minus_candidate(X, Y), !p_new(X, Y).",
    ]


def test_a_difference_is_driven_by_the_opposite_change_of_what_it_takes_away() -> None:
    """The paper's columns name the sign of the result; what drives the second and the fourth entry is the other one."""
    assert differentials(f"{RELATIONS} p(X, Y) :- q(X, Y), !r(X, Y).") == [
        "+1 p_plus(X, Y) :- q_ins(X, Y), !r_new(X, Y).",
        "+2 p_plus(X, Y) :- r_del(X, Y), q_new(X, Y).",
        "-1 p_minus(X, Y) :- q_del(X, Y), !r(X, Y).",
        "-2 p_minus(X, Y) :- r_ins(X, Y), q(X, Y).",
    ]


def test_a_join_has_two_differentials_a_sign() -> None:
    text = RELATIONS.replace("p(x: number, y", "p(x: number, z: number, y") + "p(X, Y, Z) :- q(X, Y), r(Y, Z)."
    assert differentials(text) == [
        "+1 p_plus(X, Y, Z) :- q_ins(X, Y), r_new(Y, Z).",
        "+2 p_plus(X, Y, Z) :- r_ins(Y, Z), q_new(X, Y).",
        "-1 p_minus(X, Y, Z) :- q_del(X, Y), r(Y, Z).",
        "-2 p_minus(X, Y, Z) :- r_del(Y, Z), q(X, Y).",
    ]


def test_a_self_join_has_one_for_each_occurrence() -> None:
    found = differentials(f"{RELATIONS} p(X, Z) :- q(X, Y), q(Y, Z).")
    assert [each for each in found if each[0] == "+"] == [
        "+1 p_plus_candidate(X, Z) :- q_ins(X, Y), q_new(Y, Z).",
        "+2 p_plus_candidate(X, Z) :- q_ins(Y, Z), q_new(X, Y).",
    ]


def test_a_join_changed_on_both_sides() -> None:
    text = f"{RELATIONS} p(X, Z) :- q(X, Y), r(Y, Z)."
    found = moved(text, {"q": [(1, 1)], "r": [(1, 2), (2, 3)]}, {"q": [(1, 1), (1, 2)], "r": [(1, 2), (2, 3), (1, 4)]})
    assert (found.plus["p"], found.minus["p"]) == ({(1, 3), (1, 4)}, set())


# ---- the network ------------------------------------------------------------------------------

LAYERS = """
.decl b(x: number, y: number) .decl v(x: number) .decl w(x: number) .decl t(x: number, y: number) .decl u(x: number)
v(X) :- b(X, _). w(X) :- v(X), b(_, X). t(X, Y) :- b(X, Y). t(X, Y) :- t(X, Z), t(Z, Y). u(X) :- t(X, X), !w(X).
"""


def test_a_level_is_the_longest_path_from_the_base_relations() -> None:
    assert levels(normal(LAYERS)) == {"b": 0, "v": 1, "t": 1, "w": 2, "u": 3}


def test_a_recursive_view_is_maintained_by_another_algorithm() -> None:
    names = {rule.name for rule in differenced(normal(LAYERS)).rules if rule.clause.head.relation == "t_plus_potential"}
    assert names == {"P1", "P2"}


def test_the_gates_follow_the_levels_and_views_of_a_level_share_one() -> None:
    program = normal(
        ".decl b(x: number, y: number) .decl v(x: number) .decl w(x: number) .decl u(x: number)\n"
        "v(X) :- b(X, _). w(X) :- b(_, X). u(X) :- v(X). u(X) :- w(X)."
    )
    gates = {r.clause.head.relation: r.gate or 0 for r in differenced(program).rules if r.name == "F"}
    assert gates["v_plus"] == gates["v_minus"] == gates["w_plus"] == gates["w_minus"]
    assert gates["u_plus"] == gates["u_minus"] > gates["w_plus"]


# ---- unfolding and sharing --------------------------------------------------------------------


def test_a_view_with_one_use_is_unfolded_into_it() -> None:
    program = normal(STOCK)
    assert [print_clause(c) for c in unfold(program, ["threshold"]).clauses if c.head.relation == "low"] == [
        "low(I) :- quantity(I, Q), consume_freq(I, F), delivery_time(I, S, D), supplies(S, I), min_stock(I, M),"
        " V = F * D, T = V + M, Q < T."
    ]
    flat = changes_on_demand(program, {"threshold": "differencing", "low": "differencing"}, reported={"low": ["plus"]})
    assert not any(meaning.relation == "threshold" for meaning in flat.relations.values())
    drivers = {r.clause.body[0].relation for r in flat.rules if r.name[0] == "+"}  # type: ignore[union-attr]
    assert drivers == {"quantity_ins", "consume_freq_ins", "delivery_time_ins", "supplies_ins", "min_stock_ins"}


def test_a_view_of_two_conditions_stays_one_node() -> None:
    program = normal(f"{STOCK} .decl high(item: symbol)\nhigh(I) :- quantity(I, Q), threshold(I, T), Q > 2 * T.")
    wanted = {"low": ["plus"], "high": ["plus"]}
    made = differenced(program, reported=wanted)
    drivers = [rule for rule in made.rules if rule.clause.head.relation == "threshold_plus_candidate"]
    assert len(drivers) == 4
    assert not any(rule.clause.head.relation == "order_plus" for rule in made.rules)


@pytest.mark.parametrize("rules", [
    "v(X, X) :- b(X, _). u(X) :- v(X, Y), c(Y).",
    "v(X) :- b(X, _). u(X) :- c(X), !v(X).",
    "v(X) :- b(X, _). v(X) :- b(_, X). u(X) :- v(X), c(X).",
    "v(X) :- b(X, _). u(X) :- v(X), c(Y), v(Y).",
    "v(X, T) :- b(X, Y), T = X + Y. u(X) :- v(X, 3).",
    "v(X) :- b(X, _). u(N) :- N = count : { v(X) }.",
])  # fmt: skip
def test_other_views_stay(rules: str) -> None:
    arity = 2 if "v(X, " in rules else 1
    columns = ", ".join(f"c{i}: number" for i in range(arity))
    program = normal(f".decl b(x: number, y: number) .decl c(x: number) .decl u(x: number) .decl v({columns})\n{rules}")
    assert unfold(program, ["v"]) is program


# ---- strict and nervous -----------------------------------------------------------------------

PROJECTION = ".decl q(x: number, y: number) .decl p(x: number) p(X) :- q(X, _).\n"


def test_nervous_semantics_also_reports_what_was_there_already_or_still_is() -> None:
    old, more = {"q": [(1, 1)]}, {"q": [(1, 1), (1, 2), (2, 2)]}
    assert moved(PROJECTION, old, more).plus["p"] == {(2,)}
    assert moved(PROJECTION, old, more, nervous=["p"]).plus["p"] == {(1,), (2,)}
    assert moved(PROJECTION, more, old).minus["p"] == {(2,)}
    assert moved(PROJECTION, more, old, nervous=["p"]).minus["p"] == {(1,), (2,)}


def test_what_comes_and_goes_at_once_is_no_change_even_to_a_nervous_view() -> None:
    found = moved(PROJECTION, {"q": [(1, 1)]}, {"q": [(1, 2)]}, nervous=["p"])
    assert (found.plus["p"], found.minus["p"]) == (set(), set())


def test_a_view_that_another_reads_is_filtered_whatever_is_asked_for() -> None:
    """A phantom deletion below a negation would be a phantom insertion that no filter above can see."""
    text = f"{PROJECTION} .decl s(x: number) .decl u(x: number) u(X) :- s(X), !p(X)."
    old, new = {"q": [(1, 1), (1, 2)], "s": [(1,)]}, {"q": [(1, 1)], "s": [(1,)]}
    found = moved(text, old, new, nervous=["p", "u"])
    assert found.minus["p"] == set()
    assert (found.plus["u"], found.minus["u"]) == (set(), set())


# ---- the wave ---------------------------------------------------------------------------------


def chain(length: int) -> str:
    declared = "".join(f".decl v{i}(x: number, y: number)\n" for i in range(length + 1))
    return declared + "".join(f"v{i + 1}(X, Y) :- v{i}(X, Z), v0(Z, Y).\n" for i in range(length))


def peaks(length: int, *, dropping: bool) -> int:
    program = normal(chain(length))
    made = differenced(program, reported={f"v{length}": ["plus", "minus"]}, unfolding=False)
    old, new = stored_rows(program, {"v0": {(0, 0)}}), stored_rows(program, {"v0": {(i, i) for i in range(5)}})
    found = changes(program, made, old, new, dropping=dropping)
    view = f"v{length}"
    assert (found.plus[view], found.minus[view]) == (new[view] - old[view], old[view] - new[view])
    return found.peak


def test_the_peak_is_the_wave_and_not_the_network() -> None:
    assert peaks(4, dropping=True) == peaks(12, dropping=True)
    assert peaks(12, dropping=False) > 2 * peaks(4, dropping=False)


def test_every_step_is_dropped_after_its_last_reader_and_states_never() -> None:
    made = differenced(normal(chain(3)))
    gates = {rule.clause.head.relation: rule.gate or 0 for rule in made.rules if rule.name[0] in "+F"}
    assert made.last_read["v1_plus_candidate"] == gates["v1_plus"]
    assert made.last_read["v1_plus"] == gates["v2_plus_candidate"] > gates["v1_plus"]
    assert made.last_read["v2_plus_candidate"] == gates["v2_plus"] > gates["v2_plus_candidate"]
    assert "v3_plus" not in made.last_read
    for name in made.last_read:
        assert made.relations[name].origin in (RowOrigin.NET, RowOrigin.PART)


# ---- the condition of the paper ---------------------------------------------------------------


def stock(**quantities: int) -> Base:
    return {**ITEMS, "quantity": [("item1", 1000), ("item2", 1000)] if not quantities else [*quantities.items()]}


def test_an_item_is_low_when_its_quantity_crosses_below_and_only_then() -> None:
    rows = stock(item1=140, item2=1000), stock(item1=139, item2=1000), stock(item1=60, item2=1000)
    crossing, again = moved(STOCK, rows[0], rows[1]), moved(STOCK, rows[1], rows[2])
    assert (crossing.plus["low"], crossing.minus["low"]) == ({("item1",)}, set())
    assert (again.plus["low"], again.minus["low"]) == (set(), set())
    assert moved(STOCK, rows[2], rows[0]).minus["low"] == {("item1",)}


def test_nervous_changes_hold_the_strict_ones_and_rows_of_their_states_only() -> None:
    for number in range(case_count(200, least=5)):
        case = random_case(seed_of("nervous", number), Features())
        program = normal(case.text())
        views = [view for layer in program.strata for view in layer]
        try:
            old, new = (stored_rows(program, base) for base in (case.base, after(case.base, case.transactions[0])))
        except Error:
            continue
        found = changes(program, differenced(program, nervous=views), old, new)
        layers = {view: layer for layer in program.strata for view in layer}
        uses = [(atom.relation, clause.head.relation) for clause in program.clauses for _, atom, _ in atoms_of(clause)]
        read = {name for name, head in uses if name not in layers[head]}
        for view in views:
            plus, minus = new[view] - old[view], old[view] - new[view]
            assert plus <= found.plus[view] <= new[view], case.text()
            assert minus <= found.minus[view] <= old[view], case.text()
            assert found.plus[view].isdisjoint(found.minus[view])
            if view in read:
                assert (found.plus[view], found.minus[view]) == (plus, minus), case.text()
