"""The closure of [Staudt & Jarke 1996, section 3]: printed rules, deltas, rounds, and what is never touched."""

from __future__ import annotations

from dataclasses import asdict

import pytest

import upshot
from tests.goldens.follower import Follower, Row
from tests.properties.strategies import STRATEGIES
from upshot.check import check, print_clause
from upshot.engine.local import LocalEngine
from upshot.engine.local.kernel.layout import T_DEL, T_INS, T_RED
from upshot.rewrite import normal_form
from upshot.strategies.maintenance import maintenance
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.syntax import parse

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(x, y) :- edge(x, y).
closure(x, y) :- edge(x, z), closure(z, y).
"""
OUTSIDE: list[Row] = [("f", "e"), ("e", "d"), ("e", "a"), ("a", "b"), ("d", "c"), ("b", "c"), ("c", "g")]
RECURSIVE = ("maintenance", "recompute")


def subgraph(nodes: int) -> list[Row]:
    """G0: every node has an edge to every other, and one into g."""
    names = [f"g{i}" for i in range(nodes)]
    return [(x, y) for x in names for y in names if x != y] + [(x, "g") for x in names]


def pairs(sources: str, targets: str) -> set[Row]:
    return {(x, y) for x in sources for y in targets}


# ---- printed rules ----------------------------------------------------------------------------


def test_the_rules_of_closure_are_those_of_algorithm_1() -> None:
    made = maintenance(normal_form(check(parse(CLOSURE))))
    rules = [f"{rule.name:<4} {print_clause(rule.clause)}" for rule in made.rules]
    assert rules == [
        "D1   closure_del(x, y) :- edge_del(x, y).",
        "D1   closure_del(x, y) :- edge_del(x, z), closure(z, y).",
        "D2   closure_del(x, y) :- edge(x, z), closure_del(z, y).",
        "N1   closure_new(X, Y) :- closure(X, Y), !closure_del(X, Y).",
        "N'1  edge_new(X, Y) :- edge(X, Y), !edge_del(X, Y).",
        "R    closure_red(x, y) :- closure_del(x, y), edge_new(x, y).",
        "R    closure_red(x, y) :- closure_del(x, y), edge_new(x, z), closure_new(z, y).",
        "N2   closure_new(X, Y) :- closure_red(X, Y).",
        "I1   closure_ins(x, y) :- edge_ins(x, y).",
        "I1   closure_ins(x, y) :- edge_ins(x, z), closure_new(z, y).",
        "I2   closure_ins(x, y) :- edge_new(x, z), closure_ins(z, y).",
        "N3   closure_new(X, Y) :- closure_ins(X, Y).",
        "N''1 edge_new(X, Y) :- edge_ins(X, Y).",
        "E1   closure_plus(X, Y) :- closure_ins(X, Y), !closure(X, Y).",
        "E2   closure_minus(X, Y) :- closure_del(X, Y), !closure_ins(X, Y), !closure_red(X, Y).",
    ]
    printed = list_maintenance(made).text
    assert all(print_clause(rule.clause) in printed.splitlines() for rule in made.rules)


def test_a_negated_literal_is_driven_by_the_opposite_change_and_keeps_its_negation_elsewhere() -> None:
    text = ".decl q(x: number) .decl r(x: number) .decl p(x: number) p(X) :- q(X), !r(X)."
    made = maintenance(normal_form(check(parse(text))))
    rules = {f"{rule.name} {print_clause(rule.clause)}" for rule in made.rules if rule.name[0] in "DRI"}
    assert rules == {
        "D1 p_del(X) :- q_del(X), !r(X).",
        "D2 p_del(X) :- q(X), r_ins(X).",
        "R p_red(X) :- p_del(X), q_new(X), !r_new(X).",
        "I1 p_ins(X) :- q_ins(X), !r_new(X).",
        "I2 p_ins(X) :- q_new(X), r_del(X).",
    }


# ---- deltas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", RECURSIVE)
@pytest.mark.parametrize("nodes", [0, 3])
def test_the_example_reports_its_exact_change(strategy: str, nodes: int) -> None:
    it = Follower(CLOSURE, strategy, {"edge": OUTSIDE + subgraph(nodes)})
    changes = it.change(delete={"edge": [("b", "c")]}, insert={"edge": [("h", "d")]})
    assert changes["closure"] == ({("h", "d"), ("h", "c"), ("h", "g")}, pairs("ab", "cg"))
    assert {row for row in it.rows("closure") if not row[0].startswith("g")} == {
        *pairs("f", "edabcg"),
        *pairs("e", "dabcg"),
        *pairs("ad", "g") - {("a", "g")},
        *pairs("h", "dcg"),
        ("a", "b"),
        ("d", "c"),
        ("c", "g"),
    }
    back = it.change(delete={"edge": [("h", "d")]}, insert={"edge": [("b", "c")]})
    assert back["closure"] == (pairs("ab", "cg"), {("h", "d"), ("h", "c"), ("h", "g")})


@pytest.mark.parametrize("strategy", RECURSIVE)
def test_the_changes_of_the_example_one_by_one_come_to_the_same(strategy: str) -> None:
    it = Follower(CLOSURE, strategy, {"edge": OUTSIDE})
    assert it.change(delete={"edge": [("b", "c")]})["closure"] == (set(), pairs("ab", "cg"))
    assert it.change(insert={"edge": [("h", "d")]})["closure"] == ({("h", "d"), ("h", "c"), ("h", "g")}, set())


# ---- rounds and counters ----------------------------------------------------------------------


class Rounds:
    """The rows that each round of a stage adds to the stage's list, as text."""

    def __init__(self, db: upshot.Database, view: str) -> None:
        engine = db._state.engine
        assert isinstance(engine, LocalEngine)
        self.found: dict[str, list[set[Row]]] = {"delete": [], "rederive": [], "insert": []}
        self._engine, self._view = engine, view
        engine._runner.trace = self._round_ended

    def _round_ended(self, stage: str) -> None:
        engine = self._engine
        table, schema = engine._now.tables[self._view], engine._now.schemas[self._view]
        codes = table.listed({"delete": T_DEL, "rederive": T_RED, "insert": T_INS}[stage])
        rows = set(engine._factory.rows(schema, codes))
        self.found[stage].append(rows - set().union(*self.found[stage]))


def test_over_deletion_and_rederivation_go_round_by_round_as_in_the_paper() -> None:
    it = Follower(CLOSURE, "maintenance", {"edge": OUTSIDE + subgraph(3)})
    rounds = Rounds(it.db, "closure")
    it.change(delete={"edge": [("b", "c")]}, insert={"edge": [("h", "d")]})
    assert rounds.found["delete"] == [pairs("b", "cg"), pairs("a", "cg"), pairs("e", "cg"), pairs("f", "cg")]
    assert rounds.found["rederive"] == [pairs("e", "cg"), pairs("f", "cg")]
    assert set().union(*rounds.found["insert"]) == {("h", "d"), ("h", "c"), ("h", "g")}


def test_the_counters_say_what_was_over_deleted_and_what_came_back() -> None:
    it = Follower(CLOSURE, "maintenance", {"edge": OUTSIDE})
    it.change(delete={"edge": [("b", "c")]}, insert={"edge": [("h", "d")]})
    work = it.work.views["closure"]
    assert (work.deleted, work.rederived, work.inserted) == (8, 4, 3)
    assert work.derived >= 15
    assert work.derived - work.filtered == 15
    assert it.work.as_dict()["deleted"] == 8
    assert it.work.stored == len(it.rows("closure"))


COUNTERS = ("probed", "matched", "derived", "filtered", "deleted", "rederived", "inserted", "rounds")


def counters(nodes: int, *, backwards: bool, is_walk: bool = False) -> dict[str, int]:
    db = upshot.connect()
    db._state.engine._runner.worth_walking = 0 if is_walk else 1 << 62  # type: ignore[attr-defined]
    db.define(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", OUTSIDE + subgraph(nodes))
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
        tx.insert("edge", [("h", "d")])
    if backwards:
        with db.transaction() as tx:
            tx.delete("edge", [("h", "d")])
            tx.insert("edge", [("b", "c")])
    work = asdict(tx.stats)
    db.close()
    return {name: work[name] for name in COUNTERS}


@pytest.mark.parametrize("is_walk", [False, True], ids=["rounds", "walk"])
@pytest.mark.parametrize("backwards", [False, True], ids=["there", "back"])
def test_nothing_inside_g0_is_touched_however_large_it_is(backwards: bool, is_walk: bool) -> None:
    small, large = subgraph(10), subgraph(100)
    assert len(large) == 100 * len(small)
    least = counters(10, backwards=backwards)
    assert counters(10, backwards=backwards, is_walk=is_walk) == least
    assert counters(100, backwards=backwards, is_walk=is_walk) == least


# ---- what a change cannot reach ---------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_change_below_no_view_is_screened_out(strategy: str) -> None:
    it = Follower(
        ".decl a(x: number) .decl b(x: number) .decl p(x: number) p(X) :- a(X).", strategy, {"a": [(1,)], "b": [(1,)]}
    )
    assert it.change(insert={"b": [(2,), (3,)]}, delete={"b": [(1,)]})["p"] == (set(), set())
    assert (it.work.screened, it.work.components, it.work.skipped) == (3, 0, 1)
    assert it.work.probed == it.work.derived == it.work.rounds == 0
