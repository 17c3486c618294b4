"""Propagation and filtration: every potential change is rederived at most once, asserted on counters.

A row is rederived when rules set out to prove it in the other state: its whole row drives the rules that answer
questions about the view. [Harrison & Dietrich 1994, proposition 3]
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import upshot
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from upshot.check import check
from upshot.core.optimizations import NAMES
from upshot.engine.local.queries.demand_run import DemandRun
from upshot.plan.demand_plans import filters
from upshot.rewrite.demand.demand import RowOrigin
from upshot.syntax import parse

FORGETTING = [name for name in NAMES if name != "memo"]

GOLDEN = """
.decl edge(x: symbol, y: symbol)
.decl tc(x: symbol, y: symbol)
tc(X, Y) :- edge(X, Y).
tc(X, Y) :- tc(X, W), edge(W, Y).
.view tc strategy=epf
"""
"""Harrison and Dietrich's example: two ways from a to d, of which one is cut."""


@pytest.mark.parametrize("optimize", [True, FORGETTING])
@pytest.mark.parametrize("ends", [1, 7, 60])
def test_the_golden_trace_asks_once_for_each_potential_removal(ends: int, optimize: object) -> None:
    with upshot.connect(optimize=optimize) as db:  # type: ignore[arg-type]
        db.define(GOLDEN)
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), *(("d", f"e{n}") for n in range(ends))])
            tx.insert("edge", [(f"far {n}", f"far {n + 1}") for n in range(20)])
        with db.transaction() as tx:
            tx.delete("edge", [("b", "d")])
        # tc(b, d), tc(b, e1) … tc(b, en), and tc(a, d), which is disqualified; no tc(a, ei) is ever considered.
        assert (tx.stats.potential, tx.stats.questions) == (ends + 2, ends + 2)
        assert len(tx.changes["tc"].deleted) == ends + 1
        assert tx.stats.views["tc"].questions == tx.stats.questions
        assert f"potential {ends + 2}, questions {ends + 2}" in str(db.explain())


FAN = """
.decl a(x: number, y: number) .decl b(y: number) .decl p(x: number)
p(X) :- a(X, Y), b(Y).
.view p strategy=epf
"""


@pytest.mark.parametrize("optimize", [True, FORGETTING])
@pytest.mark.parametrize(("rows", "fan"), [(1, 8), (20, 3), (20, 8)])
def test_a_row_that_many_changes_may_take_away_is_proven_once(rows: int, fan: int, optimize: object) -> None:
    """All reasons of each row go at once, and every one of them makes it a potential removal: the look-ups are those of
    one proof, which fails after the last reason."""
    with upshot.connect(optimize=optimize) as db:  # type: ignore[arg-type]
        db.define(FAN)
        with db.transaction() as tx:
            tx.insert("b", [(y,) for y in range(1000)])
            tx.insert("a", [(x, y) for x in range(rows) for y in range(fan)])
            tx.insert("a", [(x, fan) for x in range(rows, 500)])
        with db.transaction() as tx:
            tx.delete("b", [(y,) for y in range(fan)])
        assert len(tx.changes["p"].deleted) == rows
        assert (tx.stats.potential, tx.stats.questions) == (rows, rows)
        propagated = proven = rows * fan
        assert tx.stats.matched == propagated + proven


SHARED = """
.decl edge(x: number, y: number) .decl other(x: number, y: number)
.decl near(x: number, y: number) .decl p(x: number, y: number)
near(X, Y) :- other(X, Y).
near(X, Z) :- near(X, Y), other(Y, Z).
p(X, Y) :- edge(X, Y), near(X, Y).
p(X, Y) :- edge(X, Y), near(Y, X).
.view near strategy=epf events=none
.view p strategy=epf
"""


def test_what_was_found_of_an_unaffected_view_serves_both_states() -> None:
    asked = {}
    for optimize in (True, FORGETTING):
        with upshot.connect(optimize=optimize) as db:  # type: ignore[arg-type]
            db.define(SHARED)
            with db.transaction() as tx:
                tx.insert("other", [(n, n + 1) for n in range(12)])
                tx.insert("edge", [(0, 9), (1, 9), (2, 9)])
            with db.transaction() as tx:
                tx.insert("edge", [(3, 9)])
                tx.delete("edge", [(2, 9)])
            assert (len(tx.changes["p"].inserted), len(tx.changes["p"].deleted)) == (1, 1)
            asked[optimize is True] = tx.stats.asked
            db.verify()
    assert asked[True] < asked[False]


def _followed(optimize: object, case: Any, program: Any) -> None:
    with upshot.connect(optimize=optimize) as db:  # type: ignore[arg-type]
        db.define(case.text() + "\n" + "\n".join(view_options(program, "epf")))
        with db.transaction() as tx:
            for name, rows in case.base.items():
                tx.insert(name, list(rows))
        for transaction in case.transactions:
            with db.transaction() as tx:
                for change in transaction:
                    (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])


@pytest.mark.slow
@pytest.mark.parametrize("optimize", [True, FORGETTING])
def test_no_row_drives_its_proof_twice_in_one_state(optimize: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question that drives rules, as a list, whoever asked it: the filter or another proof."""
    runs = []
    clear, pass_by = DemandRun.clear, DemandRun._pass_by

    def look(run: DemandRun) -> None:
        for name, meaning in run.program.relations.items():
            if meaning.origin is RowOrigin.BINDINGS:
                driving = Counter(map(tuple, run.rows(name).tolist()))
                assert max(driving.values(), default=1) == 1, (name, driving)
        for potential, asked in filters(run.program).items():
            rows = set(map(tuple, run.rows(potential).tolist()))
            proven = [row for row in map(tuple, run.rows(asked).tolist()) if row in rows]
            runs.append((len(rows), len(proven)))
            assert len(proven) <= len(rows)

    def looking(run: DemandRun, *args: Any) -> None:
        look(run)
        pass_by(run, *args)

    monkeypatch.setattr(DemandRun, "_pass_by", looking)
    monkeypatch.setattr(DemandRun, "clear", lambda run: (look(run), clear(run))[1])
    for number in range(case_count(60, least=6)):
        case = random_case(seed_of("rederived once", number), Features(recursion=0.7))
        _followed(optimize, case, check(parse(case.text())))
    assert sum(proven for _, proven in runs)


@pytest.mark.slow
def test_what_is_known_already_is_not_put_to_the_filter() -> None:
    """With the memo a potential change whose row another proof has found, or is looking for, is no question of its own.
    Without it each is one; more than one it cannot be, since questions are rows of a set."""
    counted = {}
    for optimize in (True, FORGETTING):
        counted[optimize is True] = _counted(optimize)
    (potential, questions), (all_potential, all_questions) = counted[True], counted[False]
    assert potential == all_potential
    assert questions < all_questions == all_potential


def _counted(optimize: object) -> tuple[int, int]:
    """Potential changes and questions of random programs, in all; of each transaction there are no more of these."""
    potential = questions = 0
    for number in range(case_count(100, least=8)):
        case = random_case(seed_of("filter questions", number), Features(recursion=0.7))
        program = check(parse(case.text()))
        with upshot.connect(optimize=optimize) as db:  # type: ignore[arg-type]
            db.define(case.text() + "\n" + "\n".join(view_options(program, "epf")))
            with db.transaction() as tx:
                for name, rows in case.base.items():
                    tx.insert(name, list(rows))
            for transaction in case.transactions:
                with db.transaction() as tx:
                    for change in transaction:
                        (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
                assert tx.stats.questions <= tx.stats.potential, case.text()
                if optimize is not True:
                    assert tx.stats.questions == tx.stats.potential, case.text()
                potential += tx.stats.potential
                questions += tx.stats.questions
    return potential, questions
