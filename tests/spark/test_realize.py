"""View updating on the Spark engine: the same realisations as in process."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.revise.test_goldens import CLOSURE, COMPENSATED, shown
from upshot import Bounds


def database(spark: Any, text: str, **facts: list[tuple[int, ...]]) -> upshot.Database:
    db = upshot.connect(spark=spark, engine="spark")
    db.define(text)
    with db.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    return db


@pytest.mark.slow
def test_deletions_through_a_recursion_and_a_negation_are_found_and_applied_on_spark(spark: Any) -> None:
    with database(spark, CLOSURE + ".deny ic(X) :- p(X, X).", e=[(1, 2), (1, 4), (2, 3)]) as db:
        found = db.realize(delete={"h": [(1, 3)]}, bounds=Bounds(seconds=300))
        ways = list(found)
        assert sorted(way.text().splitlines()[0] for way in ways) == ["+e(1, 3)", "-e(1, 2)", "-e(2, 3)"]
        assert found.status == "all"
        chosen = next(way for way in ways if way.insert)
        assert chosen.effects["h"].deleted == [(1, 3)]
        db.apply(chosen)
        assert len(db.rows("h")) == 0


@pytest.mark.slow
def test_a_side_effect_is_compensated_with_a_new_value_on_spark(spark: Any) -> None:
    with database(spark, COMPENSATED, p=[(1,)]) as db:
        assert shown(db.realize({"h": [(1,)]}, bounds=Bounds(new_constants=1, seconds=300))) == [{"+q(1)", "+p(?1)"}]
