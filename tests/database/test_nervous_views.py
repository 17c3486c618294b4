"""Views of `differencing` that may report more than their net changes. [Sköld & Risch 1996]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.active.test_inventory import PROGRAM as INVENTORY
from tests.engine.driver import plain
from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from upshot.check import check
from upshot.check.names.variables import atoms
from upshot.cli import main
from upshot.engine.naive import evaluate
from upshot.plan import compile_program
from upshot.syntax import parse

LOW = ".view low strategy=differencing semantics={}"
STOCK = {
    "max_stock": [("item1", 5000)],
    "min_stock": [("item1", 100)],
    "consume_freq": [("item1", 20)],
    "supplies": [("s1", "item1"), ("s2", "item1")],
    "delivery_time": [("item1", "s1", 2)],
    "quantity": [("item1", 110)],
}


def inserted(db: Any, view: str, **rows: Any) -> tuple[set[Any], Any]:
    with db.transaction() as tx:
        for name, each in rows.items():
            tx.insert(name, each)
    return plain(tx.changes[view].inserted), tx.stats


@pytest.mark.parametrize(("semantics", "told"), [("strict", set()), ("nervous", {("item1",)})])
def test_another_reason_to_be_low_is_told_to_the_nervous_only(semantics: str, told: set[Any]) -> None:
    with upshot.connect() as db:
        db.define(INVENTORY + LOW.format(semantics))
        assert inserted(db, "low", **STOCK)[0] == {("item1",)}
        # A second way to get it, slower than the first: low by 140 already, now by 160 too.
        assert inserted(db, "low", delivery_time=[("item1", "s2", 3)])[0] == told
        assert inserted(db, "low", quantity=[("item2", 3)])[0] == set(), "what does not hold is told to nobody"
        with db.transaction() as tx:
            tx.upsert("quantity", [("item1", 4000)])
            tx.upsert("quantity", [("item1", 110)])
        assert "low" not in tx.changes, "what is undone in its transaction is told to nobody"
        assert db.query("low(I)") == {("item1",)}


def test_nothing_is_proven_in_the_other_state() -> None:
    work = {}
    for semantics in ("strict", "nervous"):
        with upshot.connect() as db:
            db.define(INVENTORY + LOW.format(semantics))
            inserted(db, "low", **STOCK)
            work[semantics] = inserted(db, "low", delivery_time=[("item1", "s2", 3)])[1]
    assert (work["nervous"].asked, work["nervous"].answered) == (0, 0)
    assert work["strict"].asked > 0
    assert work["nervous"].probed < work["strict"].probed
    assert work["nervous"].derived < work["strict"].derived


@pytest.mark.slow
def test_nervous_changes_of_random_programs_hold_the_strict_ones_and_rows_of_their_states_only() -> None:
    found = 0
    for number in range(case_count(200, least=20)):
        case = random_case(seed_of("nervous views", number), Features(recursion=0.1))
        program = check(parse(case.text()))
        read = {atom.relation for clause in program.clauses for each in clause.body for atom in atoms(each)}
        tops = [view for layer in program.strata for view in layer if view not in read]
        options = [f".view {view} strategy=differencing semantics=nervous policy=incremental" for view in tops]
        with upshot.connect() as db:
            db.define("\n".join([case.text(), *options]))
            with db.transaction() as tx:
                for name, rows in case.base.items():
                    tx.insert(name, list(rows))
            state = case.base
            for transaction in case.transactions:
                following = after(state, transaction)
                before, now = evaluate(program, state), evaluate(program, following)
                with db.transaction() as tx:
                    for change in transaction:
                        (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
                for view in now.keys() - tops & now.keys():
                    assert plain(tx.changes[view].inserted) == now[view] - before[view], case.text()
                for view in tops:
                    came, went = plain(tx.changes[view].inserted), plain(tx.changes[view].deleted)
                    assert now[view] - before[view] <= came <= now[view], case.text()
                    assert before[view] - now[view] <= went <= before[view], case.text()
                    found += len(came - (now[view] - before[view]))
                    assert plain(db.rows(view)) == now[view], case.text()
                state = following
    assert found, "no program gave a nervous view the chance to be one"


def test_explain_and_rewrite_tell_that_a_view_is_nervous(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = INVENTORY + LOW.format("nervous")
    with upshot.connect() as db:
        db.define(text)
        assert "because nervous: it may also report rows that were already true, or still are" in str(db.explain("low"))
    file = tmp_path / "inventory.dl"
    file.write_text(text)
    assert main(["rewrite", str(file), "--strategy", "differencing", "--view", "low"]) == 0
    shown = capsys.readouterr().out
    assert "low_plus(Item) :- low_plus_candidate(Item), !low_minus_candidate(Item)." in shown
    assert "!low(Item)" not in shown


READ = ".decl q(x: number, y: number) .decl p(x: number) p(X) :- q(X, _). "
ASKED = ".view p strategy=differencing semantics=nervous "


@pytest.mark.parametrize(("text", "told"), [
    (READ + ".view p semantics=nervous", "by `auto` it has net changes only"),
    (READ + ".view p strategy=epf semantics=nervous", "by `epf` it has net changes only"),
    (READ + ASKED + "materialized=true", "must follow net changes"),
    (READ + ASKED + ".decl u(x: number) u(X) :- q(X, X), !p(X).", "`u` reads it"),
    (READ + ASKED + ".decl n(c: number) n(C) :- C = count : { p(_) }.", "`n` reads it"),
    (READ + ASKED + ".deny none(X) :- p(X), q(X, 0).", "`none` reads it"),
    (READ + ASKED + "p(X) :- p(Y), q(Y, X).", "it is recursive"),
    (READ + ASKED + ".rule r(X) when p(X), q(X, 1) do call tell(X).", "reads it"),
    (READ + ASKED + ".rule r(X) when p(X) do call tell(X).", "rule `r` is about it"),
    (READ + ASKED + ".rule r(X) semantics=nervous when p(X), q(X, 1) do call tell(X).", "rule `r` is about it"),
    (READ + ASKED + ".rule r(X) on delete p(X) do call tell(X).", "rule `r` is about it"),
    (READ + ".deny d(X) :- q(X, 0). .view d strategy=differencing semantics=nervous", "a constraint"),
])  # fmt: skip
def test_only_a_condition_that_nothing_rests_on_can_be_nervous(text: str, told: str) -> None:
    with pytest.raises(upshot.Error) as caught:
        compile_program(check(parse(text)))
    assert (caught.value.code, told in str(caught.value)) == ("nervous-not-applicable", True)
