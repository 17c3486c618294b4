"""Views that keep the best row of each group change exactly: against the oracle, by each strategy, cut in any way.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable

import pytest

import upshot
from tests.properties.lattice_programs import Change, LatticeCase, Row, lattice_case
from tests.properties.settings import base_seed, case_count, seed_of
from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.syntax import parse

STRATEGIES = ("policy=incremental", "policy=auto", "strategy=recompute")


def _commit(db: upshot.Database, change: Change) -> upshot.Transaction:
    with db.transaction() as tx:
        for name, (inserted, deleted) in change.items():
            tx.delete(name, sorted(deleted))
            tx.insert(name, sorted(inserted))
    return tx


def _expected(case: LatticeCase, held: dict[str, set[Row]]) -> dict[str, set[Row]]:
    found = evaluate(check(parse(case.text)), held)
    return {view: found[view] for view in case.views}


def _exact(case: LatticeCase, option: str) -> None:
    views = "\n".join(f".view {view} {option}" for view in case.views) if "recompute" not in option else ""
    if "recompute" in option:
        views = "\n".join(f".view {v} {option}" for v in case.views if v not in ("far", "unreached", "sizes"))
    with upshot.connect() as db:
        db.define(case.text + views)
        held: dict[str, set[Row]] = {"edge": set(), "node": set(), "closed": set()}
        before = _expected(case, held)
        assert {view: set(db.rows(view)) for view in case.views} == before
        for change in case.changes:
            for name, (inserted, deleted) in change.items():
                held[name] = (held[name] - deleted) | inserted
            tx = _commit(db, change)
            after = _expected(case, held)
            for view in case.views:
                assert set(db.rows(view)) == after[view], view
                assert set(tx.changes[view].inserted) == after[view] - before[view], view
                assert set(tx.changes[view].deleted) == before[view] - after[view], view
            before = after
        db.verify()


@pytest.mark.parametrize("option", STRATEGIES)
def test_every_change_of_a_lattice_is_exact(option: str) -> None:
    for number in range(case_count(10)):
        seed = seed_of("lattices", number)
        try:
            _exact(lattice_case(seed), option)
        except BaseException as error:
            error.add_note(f"case {seed}\n{lattice_case(seed).text}")
            raise


def test_a_batch_ends_as_its_changes_do_one_by_one() -> None:
    for number in range(case_count(25)):
        case = lattice_case(seed_of("batches", number))
        with upshot.connect() as whole, upshot.connect() as cut:
            for db in (whole, cut):
                db.define(case.text + "\n".join(f".view {view} policy=incremental" for view in case.views))
            for change in case.changes:
                before = {view: set(cut.rows(view)) for view in case.views}
                tx = _commit(whole, change)
                for name, (inserted, deleted) in change.items():
                    for row in inserted:
                        _commit(cut, {name: ({row}, set())})
                    for row in deleted:
                        _commit(cut, {name: (set(), {row})})
                for view in case.views:
                    after = set(cut.rows(view))
                    assert after == set(whole.rows(view))
                    assert set(tx.changes[view].inserted) == after - before[view]
                    assert set(tx.changes[view].deleted) == before[view] - after


def _dijkstra(edges: Iterable[Row], source: int) -> set[Row]:
    best: dict[int, int] = {}
    queue = [(0, source)]
    while queue:
        cost, node = heapq.heappop(queue)
        if node not in best:
            best[node] = cost
            for x, y, weight in edges:
                if x == node:
                    heapq.heappush(queue, (cost + weight, y))
    return set(best.items())


def _labels(edges: Iterable[Row], nodes: int) -> set[Row]:
    label = list(range(nodes))
    for _ in range(nodes):
        for x, y, _ in edges:
            label[x] = label[y] = min(label[x], label[y])
    return set(enumerate(label))


def test_distances_and_components_are_those_of_textbook_algorithms() -> None:
    chance = random.Random(base_seed())
    text = """
    .decl edge(x: number, y: number, w: number)
    .decl node(x: number)
    .decl dist(x: number, d: min number)
    dist(0, 0).
    dist(Y, D + W) :- dist(X, D), edge(X, Y, W).
    .decl comp(x: number, l: min number)
    comp(X, X) :- node(X).
    comp(Y, L) :- comp(X, L), edge(X, Y, _).
    comp(X, L) :- comp(Y, L), edge(X, Y, _).
    .view dist policy=incremental
    .view comp policy=incremental
    """
    with upshot.connect() as db:
        db.define(text)
        edges: set[Row] = set()
        _commit(db, {"node": ({(n,) for n in range(12)}, set())})
        for _ in range(60):
            row = (chance.randrange(12), chance.randrange(12), chance.randrange(6))
            deleted = {each for each in edges if chance.random() < 0.1} - {row}
            _commit(db, {"edge": ({row} - edges, deleted)})
            edges = (edges - deleted) | {row}
            assert set(db.rows("dist")) == _dijkstra(edges, 0)
            assert set(db.rows("comp")) == _labels(edges, 12)
