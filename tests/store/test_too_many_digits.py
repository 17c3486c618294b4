"""A store of an earlier version may hold decimals with more digits than their column declares: it opens and says so."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.store.stores import small_is_large
from upshot.plan.rule_plan import RulePlan

PROGRAM = """
.decl a(x: decimal(4,2))
.decl s(x: decimal(4,2)?, n: number)
.view s strategy={strategy}
s(X + X, 1) :- a(X).
s(null, 0).
.decl t(n: number)
t(N) :- N = count : {{ s(_, _) }}.
"""
LONG = [(Decimal("88.88"),), (Decimal("99.99"),)]
STRATEGIES = ("auto", "counting", "maintenance", "recompute", "production", "bf")


def earlier_store(root: Path, strategy: str, *, snapshot: bool) -> None:
    """Write a store as a version did that tested no digits of derived values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RulePlan, "too_long", lambda *_: False)
        with upshot.connect(root) as db:
            db.define(PROGRAM.format(strategy=strategy))
            insert(db, [(Decimal(1),)])
            insert(db, LONG)
            insert(db, [(Decimal(3),)])
            if snapshot:
                db.snapshot()


def insert(db: upshot.Database, rows: list[tuple[Any, ...]]) -> None:
    with db.transaction() as tx:
        tx.insert("a", rows)


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_opens_and_names_relation_row_and_version(
    root: Path, strategy: str, snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    earlier_store(root, strategy, snapshot=snapshot)
    with caplog.at_level(logging.WARNING), upshot.connect(root) as db:
        (warning,) = db.warnings
        assert warning.slug == "too-many-digits"
        for words in ('s(decimal("177.76"), 1)', 's(decimal("199.98"), 1)', "of version 3", "s(x: decimal(4,2)?"):
            assert words in warning.message
        assert warning.slug in caplog.text
        assert len(db.rows("s")) == 5
        assert db.rows("s").to_arrow().column("x").type.precision == 18
        db.snapshot()
        with pytest.raises(upshot.OverflowError_, match=r"column `x` of `s`"):
            db.verify()
        with pytest.raises(upshot.OverflowError_, match=r"column `x` of `s`"):
            insert(db, [(Decimal(77),)])
    with upshot.connect(root) as db:
        assert len(db.warnings) == 1
        assert len(db.rows("s")) == 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_deleting_what_the_rows_are_derived_from_repairs_it(root: Path, strategy: str) -> None:
    earlier_store(root, strategy, snapshot=True)
    with upshot.connect(root) as db:
        with db.transaction() as tx:
            tx.delete("a", LONG)
        assert tx.changes["s"].deleted == [(Decimal("177.76"), 1), (Decimal("199.98"), 1)]
        db.verify()
    with upshot.connect(root) as db:
        assert db.warnings == ()
        assert db.rows("s").to_arrow().column("x").type.precision == 4


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_defining_the_view_with_more_digits_repairs_it(root: Path, strategy: str) -> None:
    earlier_store(root, strategy, snapshot=False)
    with upshot.connect(root) as db:
        db.define(".decl s(x: decimal(5,2)?, n: number)\ns(X + X, 1) :- a(X).\ns(null, 0).")
        assert len(db.rows("s")) == 5
        db.verify()
    with upshot.connect(root) as db:
        assert db.warnings == ()
        assert len(db.rows("s").to_arrow()) == 5


def test_rows_in_folders_are_found_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_is_large(monkeypatch, rows=1):
        earlier_store(root, "maintenance", snapshot=False)
        with upshot.connect(root) as db:
            (warning,) = db.warnings
            assert "of version 3" in warning.message
            assert [len(commit.changes["s"].inserted.to_arrow()) for commit in db.history() if "s" in commit.changes]


def test_a_store_without_such_rows_says_nothing(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PROGRAM.format(strategy="auto"))
        insert(db, [(Decimal(1),)])
    with upshot.connect(root) as db:
        assert db.warnings == ()
