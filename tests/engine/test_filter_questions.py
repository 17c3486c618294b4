"""Propagation and filtration: every potential change is put to the filter at most once, asserted on counters."""

from __future__ import annotations

import pytest

import upshot
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from upshot.check import check
from upshot.engine.optimizations import NAMES
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
