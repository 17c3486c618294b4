"""`auto` follows small changes, computes anew when most of the data changed, and says which and why."""

from __future__ import annotations

import pytest

import upshot

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""
CHAINS = [(100 * block + n, 100 * block + n + 1) for block in range(60) for n in range(9)]
OTHERS = [(100 * block + n, 100 * block + n + 2) for block in range(60) for n in range(9)]


def loaded(options: str) -> upshot.Database:
    db = upshot.connect()
    db.define(PROGRAM + f".view path {options}")
    with db.transaction() as tx:
        tx.insert("edge", CHAINS)
    return db


def decision(tx: upshot.Transaction) -> str:
    (told,) = [work.decision for views, work in tx.stats.views.items() if "path" in views]
    return told


@pytest.mark.parametrize("strategy", ["maintenance", "rod", "epf"])
def test_most_of_the_data_changes(strategy: str) -> None:
    with loaded(f"strategy={strategy}") as db:
        with db.transaction() as tx:
            tx.delete("edge", CHAINS[:2])
        assert "followed" in decision(tx)
        with db.transaction() as tx:
            tx.delete("edge", CHAINS)
            tx.insert("edge", OTHERS)
        assert "recomputed" in decision(tx)
        assert "following" in decision(tx)
        assert decision(tx) in str(db.explain("path"))
        db.verify()


@pytest.mark.parametrize("policy", ["incremental", "strict"])
@pytest.mark.parametrize("strategy", ["maintenance", "epf"])
def test_a_policy_that_always_follows(policy: str, strategy: str) -> None:
    with loaded(f"strategy={strategy} policy={policy}") as db:
        with db.transaction() as tx:
            tx.delete("edge", CHAINS)
            tx.insert("edge", OTHERS)
        assert "followed" in decision(tx)
        db.verify()


def test_views_that_are_not_stored_are_computed_whole_where_their_policy_is_full() -> None:
    with loaded("strategy=epf policy=full") as db:
        with db.transaction() as tx:
            tx.delete("edge", CHAINS[:2])
        assert "recomputed: policy full" in decision(tx)
        assert len(tx.changes["path"].deleted) == 9 + 8
        db.verify()


def test_less_than_half_is_followed_where_nothing_is_known_yet() -> None:
    with loaded("materialized=false") as db:
        with db.transaction() as tx:
            tx.delete("edge", CHAINS[::3])
        assert "followed: less than half changed" in decision(tx)


def test_explain_tells_the_estimates_before_anything_changes() -> None:
    for policy, told in (("auto", "recomputed from"), ("strict", "followed whatever changes: policy strict")):
        with loaded(f"policy={policy}") as db:
            (line,) = [line for line in str(db.explain("path")).splitlines() if "expected steps: " in line]
            assert told in line
    with loaded("") as db:
        before = db.explain("path").as_dict()["relations"]["path"]["plan"]
        size = int(before.rsplit(" deleted rows", 1)[0].rsplit(" ", 1)[1].replace(",", ""))
        with db.transaction() as tx:
            tx.delete("edge", CHAINS[: size + 1])
        assert "recomputed" in decision(tx)


def test_what_earlier_changes_took_counts() -> None:
    with loaded("strategy=maintenance") as db:
        with db.transaction() as tx:
            tx.insert("edge", [(9, 200), (109, 300)])
        estimate = decision(tx)
        with db.transaction() as tx:
            tx.insert("edge", [(209, 400), (309, 500)])
        assert decision(tx) != estimate
