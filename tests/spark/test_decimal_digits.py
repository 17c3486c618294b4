"""On Spark too, a derived decimal with more digits than its column declares is an error of the transaction."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.database.test_decimal_digits import LARGE, PROGRAMS, A, changed
from tests.properties.settings import is_slice, seed_of
from tests.sql.test_decimals import QUERIES, TABLE, rows
from upshot.plan.rule_plan import RulePlan

CASES = ("arithmetic in the head", "a negative value", "a product", "a copy", "a sum", "a maximum")


def test_values_beyond_their_columns_roll_the_transaction_back(spark: Any) -> None:
    for what in CASES:
        program, value = PROGRAMS[what]
        with upshot.connect(spark=spark, engine="spark") as db:
            db.define(A + program)
            changed(db, a=[(1, Decimal(1)), (5, None)], wide=[(Decimal(2),)])
            before, version = db.rows("s").sorted(), db.version
            with pytest.raises(upshot.OverflowError_) as raised:
                changed(db, a=[(2, LARGE), (3, Decimal("98.98"))], wide=[(Decimal("1234.5"),)])
            assert raised.value.code == "overflow", what
            assert f"`{value}` for column `x` of `s`" in raised.value.message, what
            assert raised.value.span is not None, what
            assert (db.version, db.rows("s").sorted()) == (version, before), what


@pytest.mark.parametrize("strategy", ["maintenance", "recompute", "production", "rod"])
def test_every_strategy_stops_a_recursion_at_the_digits_of_its_column(spark: Any, strategy: str) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(
            f".decl a(x: decimal(4,2))\n.decl s(x: decimal(4,2))\n.view s strategy={strategy}\n"
            "s(X) :- a(X).\ns(X + X) :- s(X), X < 60.00."
        )
        changed(db, a=[(Decimal("32.00"),)])
        with pytest.raises(upshot.OverflowError_, match=r"`118\.00` for column (`x`|1) of `s`"):
            changed(db, a=[(Decimal("59.00"),)])
        assert db.rows("s") == [(Decimal("32.00"),), (Decimal("64.00"),)]


@pytest.mark.parametrize("strategy", ["counting", "maintenance"])
def test_a_store_that_holds_too_many_digits_opens_on_spark(spark: Any, tmp_path: Path, strategy: str) -> None:
    root = tmp_path / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RulePlan, "too_long", lambda *_: False)
        with upshot.connect(root) as db:
            db.define(
                f".decl a(x: decimal(4,2))\n.decl s(x: decimal(4,2)?)\n.view s strategy={strategy}\ns(X + X) :- a(X)."
            )
            changed(db, a=[(Decimal(1),), (LARGE,)])
            db.snapshot()
    with upshot.connect(root, spark=spark, engine="spark") as db:
        assert [warning.slug for warning in db.warnings] == ["too-many-digits"]
        assert db.rows("s") == [(Decimal("2.00"),), (Decimal("199.98"),)]
        assert db.rows("s").to_arrow().column("x").to_pylist()
        db.snapshot()
        with db.transaction() as tx:
            tx.delete("a", [(LARGE,)])
        assert tx.changes["s"].deleted == [(Decimal("199.98"),)]
    with upshot.connect(root) as db:
        assert db.warnings == ()
        db.verify()


@pytest.mark.slow
def test_quotients_and_averages_are_those_of_the_local_engine(spark: Any) -> None:
    choice = random.Random(seed_of("decimals on Spark", 0))
    names = choice.sample(sorted(QUERIES), 8) if is_slice() else list(QUERIES)
    program = TABLE.definition() + "".join(f";\nCREATE VIEW {name} AS {QUERIES[name]}" for name in names)
    program += ";\nCREATE VIEW of_keys AS SELECT id % 2 AS h, a / b AS y FROM t"
    program += ";\nCREATE VIEW wide_sums AS SELECT h, sum(y) AS s, avg(y) AS m FROM of_keys GROUP BY h"
    old = set[Any]()
    with upshot.connect() as local, upshot.connect(spark=spark, engine="spark") as db:
        local.define(program)
        db.define(program)
        for count in (9, 4):
            new, changes = rows(choice, count), []
            for each in (local, db):
                with each.transaction() as tx:
                    tx.delete("t", sorted(old - new, key=str))
                    tx.insert("t", sorted(new - old, key=str))
                changes.append({name: (set(c.inserted), set(c.deleted)) for name, c in tx.changes.items()})
            old = new
            assert changes[0] == changes[1]
            for name in (*names, "wide_sums"):
                assert set(db.rows(name)) == set(local.rows(name)), name
