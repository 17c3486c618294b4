"""Production rules: the rules that are generated, and that views kept by nothing else are exact."""

from __future__ import annotations

import pytest

from tests.properties.random_programs import Features, after, random_case
from tests.rewrites.pairs import HERE, Pair, checked, normal_or_refused, pairs, random_seeds, random_states
from tests.rewrites.production_host import Host
from upshot.check import CheckedProgram
from upshot.core.errors import DataError
from upshot.rewrite import normal_form
from upshot.rewrite.normalize.unique_derivations import unique_derivations
from upshot.strategies.production import list_production, print_production_rule
from upshot.strategies.production_rules import RulePurpose, production, strata

TRAINS = (HERE / "production/trains.dl").read_text()
NAMES = {"route": "RT", "reach_cal": "RC", "unconnected": "UC"}
"""The paper's names of the deductive rules: RT1, RT2, RC1, RC2 and UC."""

PAPER = """
RT1-del: del route(X, Y) :- del train(X, Y).
RT2-del-1: del route(X, Y) :- del route(X, Z), old route(Z, Y).
RT2-del-2: del route(X, Y) :- old route(X, Z), del route(Z, Y).
RC1-del: del reach_cal(X) :- del station(X, "California").
RC2-del-1: del reach_cal(X) :- del route(X, Y), old reach_cal(Y).
RC2-del-2: del reach_cal(X) :- old route(X, Y), del reach_cal(Y).
RT1-ri: ins route(X, Y) :- del route(X, Y), train(X, Y).
RT2-ri: ins route(X, Y) :- del route(X, Y), route(X, Z), route(Z, Y).
RC1-ri: ins reach_cal(X) :- del reach_cal(X), station(X, "California").
RC2-ri: ins reach_cal(X) :- del reach_cal(X), route(X, Y), reach_cal(Y).
RT1-ins: ins route(X, Y) :- ins train(X, Y).
RT2-ins-1: ins route(X, Y) :- ins route(X, Z), route(Z, Y).
RT2-ins-2: ins route(X, Y) :- route(X, Z), ins route(Z, Y).
RC1-ins: ins reach_cal(X) :- ins station(X, "California").
RC2-ins-1: ins reach_cal(X) :- ins route(X, Y), reach_cal(Y).
RC2-ins-2: ins reach_cal(X) :- route(X, Y), ins reach_cal(Y).
UC-NI: del unconnected(X, Y) :- old station(X, _), old station(Y, _), ins route(X, Y).
UC-PD-1: del unconnected(X, Y) :- del station(X, _), old station(Y, _), !old route(X, Y).
UC-PD-2: del unconnected(X, Y) :- old station(X, _), del station(Y, _), !old route(X, Y).
UC-RI: ins unconnected(X, Y) :- del unconnected(X, Y), station(X, _), station(Y, _), !route(X, Y).
UC-ND: ins unconnected(X, Y) :- station(X, _), station(Y, _), del route(X, Y), !route(X, Y).
UC-PI-1: ins unconnected(X, Y) :- ins station(X, _), station(Y, _), !route(X, Y).
UC-PI-2: ins unconnected(X, Y) :- station(X, _), ins station(Y, _), !route(X, Y).
"""
"""Sections 4.2 and 5.3 and the appendix; in its last deletion rule of RC `old route` is meant."""


def normal(text: str) -> CheckedProgram:
    return normal_form(checked(text))


# ---- the rules --------------------------------------------------------------------------------


@pairs("production")
def test_the_rules_are_as_written_down(pair: Pair) -> None:
    assert list_production(production(normal(pair.before))).text == pair.after


def test_stations_and_trains_have_the_23_rules_of_the_paper_in_their_order() -> None:
    made = production(normal(TRAINS), names=NAMES).rules
    kept = [rule for rule in made if rule.group is not RulePurpose.START]
    assert [print_production_rule(rule) for rule in kept] == PAPER.strip().split("\n")
    assert [rule.rank for rule in kept] == sorted(rule.rank for rule in kept)
    assert len(kept) == 23


def test_every_deductive_rule_has_a_start_rule() -> None:
    made = production(normal(TRAINS), names=NAMES).rules
    starts = [rule for rule in made if rule.group is RulePurpose.START]
    assert [rule.name for rule in starts] == ["RT1-start", "RT2-start", "RC1-start", "RC2-start", "UC-start"]
    assert {rule.trigger for rule in starts} == {("materialize", "inserted")}
    assert [rule.stratum for rule in starts] == [1, 1, 1, 1, 2]


def test_rules_of_one_view_are_those_of_the_whole_program() -> None:
    program = normal(TRAINS)
    alone = production(program, ["reach_cal"]).rules
    assert alone == tuple(rule for rule in production(program).rules if rule.view == "reach_cal")
    assert "route(X, Z)" not in list_production(production(program), "unconnected").text
    assert list_production(production(program), "train").text == "// no rules for train\n"


def test_strata_grow_at_negations_and_aggregates_only() -> None:
    text = """
    .decl e(x: number, y: number) .decl a(x: number, y: number) .decl b(x: number, y: number) .decl c(x: number)
    .decl d(x: number)
    a(X, Y) :- e(X, Y). a(X, Y) :- b(Y, X). b(X, Y) :- a(X, Y). c(X) :- e(X, Y), !a(X, Y). d(N) :- N = count : { c(_) }.
    """
    found = strata(normal(text))
    assert found["a"] == found["b"] == 1
    assert found["c"] == 2
    assert found["d"] > found["c"]


def test_a_fact_of_a_view_is_inserted_again_if_another_derivation_took_it_away() -> None:
    host = Host(normal(".decl a(x: number) .decl p(x: number) p(1). p(X) :- a(X)."))
    assert host.relations["p"] == {(1,)}
    host.change(insert={"a": [(1,), (2,)]})
    assert host.change(delete={"a": [(1,), (2,)]})["p"] == (set(), {(2,)})


def test_the_page_shows_the_program_and_its_rules() -> None:
    page = (HERE.parents[1] / "docs/explanation/production.md").read_text()
    assert TRAINS in page
    shown = [rule for rule in production(normal(TRAINS)).rules if rule.view != "reach_cal"]
    for rule in shown:
        if rule.group is not RulePurpose.START or rule.name == "route/1-start":
            assert print_production_rule(rule) + "\n" in page


# ---- unique derivations -----------------------------------------------------------------------

KEYED = ".decl a(x: number, y: number) key(x) .decl b(x: number, y: number) key(x) .decl c(x: number, y: number) "


@pytest.mark.parametrize(
    ("rule", "unique"),
    [
        (".decl p(x: number, y: number) p(X, Y) :- a(X, Y).", True),
        (".decl p(x: number) p(X) :- a(X, _).", True),
        (".decl p(y: number) p(Y) :- a(_, Y).", False),
        (".decl p(x: number, z: number) p(X, Z) :- a(X, Y), b(Y, Z).", True),
        (".decl p(z: number) p(Z) :- a(1, Y), b(Y, Z).", True),
        (".decl p(z: number) p(Z) :- a(X, Y), X = 1, b(W, Z), W = Y.", True),
        (".decl p(x: number, z: number) p(X, Z) :- a(X, Y), c(Y, Z).", True),
        (".decl p(x: number) p(X) :- a(X, Y), c(Y, _).", False),
        (".decl p(x: number) p(X + 1) :- a(X, _).", False),
        (".decl p(x: number, y: number) p(X, X + 1) :- a(X, _).", True),
        (".decl p(x: number) p(X) :- a(X, Y), !b(X, Y).", False),
        (".decl p(x: number) p(X) :- a(X, _). p(X) :- b(X, _).", False),
        (".decl p(x: number, y: number) p(X, Y) :- a(X, Y). p(X, Y) :- p(Y, X).", False),
        (".decl q(x: number, y: number) key(x) q(X, Y) :- c(X, Y). .decl p(x: number) p(X) :- q(X, _).", False),
        (".decl q(x: number, y: number) q(X, Y) :- c(X, Y). .decl p(x: number, y: number) p(X, Y) :- q(X, Y).", True),
    ],
)
def test_one_derivation_a_row_is_proven_from_keys(rule: str, unique: bool) -> None:
    program = normal(KEYED + rule)
    assert ("p" in unique_derivations(program)) is unique
    made = [each for each in production(program).rules if each.view == "p"]
    assert any(each.group is RulePurpose.REINSERT for each in made) is not unique
    insertions = [each for each in made if each.group is RulePurpose.INSERT]
    assert {each.distinct for each in insertions} == {not unique}


@pytest.mark.parametrize("seed", range(10))
def test_views_without_reinsert_rules_are_exact(seed: int) -> None:
    text = KEYED + (
        ".decl p(x: number, z: number) p(X, Z) :- a(X, Y), b(Y, Z)."
        ".decl q(x: number, y: number, z: number) q(X, Y, Z) :- a(X, Y), c(X, Z), p(X, Z)."
    )
    program = normal(text)
    assert unique_derivations(program) == {"p", "q"}
    host = Host(program)
    for state in random_states(program, seed, 20):
        keyed = {name: {row[0]: row for row in sorted(rows)}.values() for name, rows in state.items() if name != "c"}
        wanted = {**state, **{name: set(rows) for name, rows in keyed.items()}}
        host.change(
            delete={name: host.relations[name] - rows for name, rows in wanted.items()},
            insert={name: rows - host.relations[name] for name, rows in wanted.items()},
        )
        assert host.is_right()


# ---- what they compute ------------------------------------------------------------------------

FEATURES = (
    Features(nullable=0, rows=5),
    Features(nullable=0, aggregates=0, recursion=0.9, nonlinear=0.6, mutual=0.5, rows=5, views=3),
    Features(nullable=0, aggregates=0.2, negation=0.9, wildcards=0.3, rows=5, views=3),
)


@pytest.mark.parametrize("seed", random_seeds("production"))
def test_random_programs_kept_by_production_rules_are_exact(seed: int) -> None:
    case = random_case(seed, FEATURES[seed % len(FEATURES)])
    program = normal_or_refused(checked(case.text()))
    if program is None:
        return
    try:
        host = Host(program)
        state = {name: frozenset() for name in case.base}
        for wanted in (case.base, *_states(case)):
            host.change(
                delete={name: state[name] - rows for name, rows in wanted.items()},
                insert={name: rows - state[name] for name, rows in wanted.items()},
            )
            assert host.is_right()
            state = wanted
    except DataError:
        # A rule may compute what no state of the program has: deletions are looked for among rows of two states.
        return


def _states(case):
    state = case.base
    for transaction in case.transactions:
        state = after(state, transaction)
        yield state
