"""Modules and the operating systems they depend on, figure 5 of [Staudt & Jarke 1996] reconstructed."""

from __future__ import annotations

import pytest

import upshot
from tests.goldens.follower import NOTHING, Follower
from tests.properties.engines import connect

MODULES = """
.decl import(m: symbol, p: symbol)
.decl defined_in(p: symbol, m: symbol)
.decl depend_on(p: symbol, os: symbol)
.decl mod_dep(x: symbol, y: symbol)
.decl ill_os(x: symbol, y: symbol, z: symbol)
mod_dep(x, y) :- import(x, p), defined_in(p, y).
mod_dep(x, y) :- mod_dep(x, z), mod_dep(z, y).
ill_os(x, y, z) :- mod_dep(x, y), mod_dep(x, z), defined_in(p1, y), defined_in(p2, z),
                   depend_on(p1, o1), depend_on(p2, o2), o1 != o2.
"""
START = {
    "import": [("A", "directory")],
    "defined_in": [("directory", "C"), ("time", "E"), ("diff", "A")],
    "depend_on": [("directory", "unix"), ("time", "vms")],
}
TIME = {"import": [("A", "time")]}
DIFF = {"import": [("D", "diff")]}

strategies = pytest.mark.parametrize("strategy", ["maintenance", "recompute", "counting", "production"])


@strategies
def test_the_two_imports_of_figure_5(strategy: str) -> None:
    it = Follower(MODULES, strategy, START)
    assert it.rows("mod_dep") == {("A", "C")}
    assert it.rows("ill_os") == set()
    assert it.change(insert=TIME) == {
        "mod_dep": ({("A", "E")}, set()),
        "ill_os": ({("A", "C", "E"), ("A", "E", "C")}, set()),
    }
    assert it.change(insert=DIFF) == {
        "mod_dep": ({("D", "A"), ("D", "C"), ("D", "E")}, set()),
        "ill_os": ({("D", "C", "E"), ("D", "E", "C")}, set()),
    }


@strategies
def test_the_two_imports_taken_back_in_either_order_or_at_once(strategy: str) -> None:
    both = {"import": [*TIME["import"], *DIFF["import"]]}
    for steps in ([TIME, DIFF], [DIFF, TIME], [both]):
        it = Follower(MODULES, strategy, START)
        it.change(insert=both)
        for step in steps:
            it.change(delete=step)
        assert it.rows("mod_dep") == {("A", "C")}
        assert it.rows("ill_os") == set()
        it.db.close()


@strategies
def test_a_conflict_with_another_witness_stays(strategy: str) -> None:
    it = Follower(MODULES, strategy, START)
    it.change(insert={**TIME, "defined_in": [("date", "E")], "depend_on": [("date", "vms")]})
    assert it.change(delete={"depend_on": [("time", "vms")]})["ill_os"] == NOTHING
    assert it.change(delete={"depend_on": [("date", "vms")]})["ill_os"][1] == {("A", "C", "E"), ("A", "E", "C")}


def test_a_constraint_over_them_warns_or_rejects_as_it_says() -> None:
    for policy in ("warn", "reject"):
        with connect() as db:
            db.define(MODULES + f".deny mixed(x) :- ill_os(x, _, _).\n.deny mixed on_violation={policy}")
            with db.transaction() as tx:
                for name, rows in START.items():
                    tx.insert(name, rows)
            if policy == "warn":
                with db.transaction() as tx:
                    tx.insert("import", TIME["import"])
                assert [each.slug for each in tx.warnings] == ["constraint-violated"]
                assert db.rows("mixed") == {("A",)}
                continue
            with pytest.raises(upshot.ConstraintError) as caught, db.transaction() as tx:
                tx.insert("import", TIME["import"])
            assert caught.value.violations == {"mixed": [("A",)]}
            assert db.rows("mod_dep") == {("A", "C")}
