"""Inside a transaction: its own writes, what they mean, processing points, savepoints."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import base_seed, case_count
from upshot.database.transaction import Savepoint

GRAPH = """
    .decl edge(x: number, y: number)
    .decl reach(x: number, y: number)
    reach(X, Y) :- edge(X, Y).
    reach(X, Z) :- reach(X, Y), edge(Y, Z).
    .decl far(x: number, y: number)
    far(X, Y) :- reach(X, Y), !edge(X, Y).
    .view far materialized=false
    .decl noted(x: number, y: number)
"""
RULE = ".rule note(X, Y) coupling={} when reach(X, Y), X = 1 do insert noted(X, Y)."


def graph(*more: str) -> upshot.Database:
    db = upshot.connect()
    db.define(GRAPH + "\n".join(more))
    return db


def test_a_transaction_reads_its_own_writes_views_included() -> None:
    db = graph()
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 3)])
        assert set(tx.rows("edge")) == {(1, 2), (2, 3)}
        assert set(tx.query("reach($x, Y)", x=1)) == {(2,), (3,)}
        assert list(tx.query("select y from far where x = :x order by y", x=1)) == [(3,)]
        assert set(tx.rows("far")) == {(1, 3)}
        assert not db.rows("reach")
        so_far = tx.changes_so_far()
        assert set(so_far["reach"].inserted) == {(1, 2), (2, 3), (1, 3)}
        tx.delete("edge", [(2, 3)])
        assert set(tx.rows("reach")) == {(1, 2)}
        assert set(so_far["reach"].inserted) == {(1, 2), (2, 3), (1, 3)}, "what was handed out stays"
    assert set(tx.changes["reach"].inserted) == {(1, 2)}
    db.verify()


@pytest.mark.parametrize("coupling", ["deferred", "immediate", "after", None])
def test_random_savepoints_and_reads_leave_what_the_kept_statements_alone_would(coupling: str | None) -> None:
    rule = RULE.format(coupling) if coupling else ""
    for case in range(case_count(50, least=3)):
        chance = random.Random(f"{base_seed()}-savepoints-{coupling}-{case}")
        db, plain = graph(rule), graph(rule)
        for _ in range(6):
            with db.transaction() as tx, plain.transaction() as other:
                _statements(chance, tx, other, 3)
            assert set(db.rows("edge")) == set(plain.rows("edge"))
            for view in ("reach", "far"):
                assert set(tx.changes[view].inserted) == set(other.changes[view].inserted)
                assert set(tx.changes[view].deleted) == set(other.changes[view].deleted)
            assert set(db.rows("noted")) == set(plain.rows("noted"))
            db.verify()


def _statements(chance: random.Random, tx: upshot.Transaction, kept: upshot.Transaction | None, depth: int) -> None:
    for _ in range(chance.randint(0, 4)):
        rows = [(chance.randint(1, 4), chance.randint(1, 4))]
        if chance.random() < 0.4:
            tx.delete("edge", rows)
            if kept is not None:
                kept.delete("edge", rows)
        else:
            tx.insert("edge", rows)
            if kept is not None:
                kept.insert("edge", rows)
        if chance.random() < 0.4:
            base = set(tx.rows("edge"))
            assert set(tx.rows("reach")) == _closure(base)
        if depth and chance.random() < 0.4:
            if chance.random() < 0.5:
                with tx.savepoint():
                    _statements(chance, tx, kept, depth - 1)
            else:
                with tx.savepoint() as point:
                    before = set(tx.rows("edge"))
                    _statements(chance, tx, None, depth - 1)
                    point.rollback()
                assert set(tx.rows("edge")) == before


def _closure(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(edges)
    while more := {(x, z) for x, y in found for w, z in edges if y == w} - found:
        found |= more
    return found


def test_an_error_undoes_the_savepoint_and_nothing_else() -> None:
    db = graph(RULE.format("deferred"))
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        assert [firing.rule for firing in tx.process()] == ["note"]
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            _insert_and_fail(tx)
        assert set(tx.rows("noted")) == {(1, 2)}
    assert set(db.rows("edge")) == {(1, 2)}
    assert [firing.rule for firing in tx.firings] == ["note"]


def _insert_and_fail(tx: upshot.Transaction) -> None:
    tx.insert("edge", [(2, 3)])
    assert len(tx.process(rules=("note",))) == 1
    raise ZeroDivisionError


def test_a_processing_point_is_for_the_rules_named() -> None:
    db = graph(RULE.format("deferred"), ".rule late(X) coupling=after when reach(X, X) do call tell(X).")
    db.action("tell", lambda rows: None)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        assert tx.process(rules=()) == ()
        assert len(tx.process(rules="note")) == 1
        assert tx.process() == ()
        for name, code in (("nobody", "unknown-rule"), ("late", "wrong-argument")):
            with pytest.raises(upshot.Error) as caught:
                tx.process(rules=name)
            assert caught.value.code == code
        for wrong in (3, [3], [["note"]]):
            with pytest.raises(upshot.UsageError) as misused:
                tx.process(rules=wrong)  # type: ignore[arg-type]
            assert misused.value.code == "wrong-argument"
    assert len(tx.firings) == 1


def test_a_rule_that_fails_at_a_processing_point_ends_the_transaction() -> None:
    db = graph(".rule veto(X) coupling=deferred when reach(X, X) do call no(X).")

    def no(rows: list[tuple[int]]) -> None:
        raise upshot.Error("no")

    db.action("no", no)

    def attempt() -> None:
        with db.transaction() as tx:
            tx.insert("edge", [(1, 1)])
            tx.process()

    with pytest.raises(upshot.Error):
        attempt()
    assert not db.rows("edge")


def test_reading_outside_of_the_block_is_refused() -> None:
    db = graph()
    with db.transaction() as tx:
        pass
    for read in (lambda: tx.query("edge(X, Y)"), lambda: tx.rows("edge"), tx.changes_so_far, tx.process, tx.savepoint):
        with pytest.raises(upshot.Error) as caught:
            read()
        assert caught.value.code == "transaction-ended"


def test_a_savepoint_does_not_outlive_its_transaction(tmp_path: Path) -> None:
    db = upshot.connect(tmp_path / "db")
    db.define(".decl p(x: number)")
    with db.transaction() as tx:
        point = tx.savepoint()
        tx.insert("p", [(1,)])
    _refused(point.rollback, "transaction-ended")
    _refused(point.__enter__, "transaction-ended")
    with db.transaction() as tx:
        tx.insert("p", [(2,)])
        _refused(point.rollback, "transaction-ended")
    db.close()
    assert set(upshot.connect(tmp_path / "db").rows("p")) == {(1,), (2,)}


def test_a_savepoint_does_not_outlive_an_outer_one() -> None:
    db = graph()
    with db.transaction() as tx:
        outer = tx.savepoint()
        tx.insert("edge", [(1, 2)])
        inner = tx.savepoint()
        tx.insert("edge", [(2, 3)])
        outer.rollback()
        _refused(inner.rollback, "savepoint-ended")
        with outer:
            last = tx.savepoint()
            tx.insert("edge", [(3, 4)])
        _refused(last.rollback, "savepoint-ended")
        _refused(outer.rollback, "savepoint-ended")
        _refused(outer.__enter__, "savepoint-ended")
    assert set(db.rows("edge")) == {(3, 4)}
    db.verify()


def _refused(use: Callable[[], object], code: str) -> None:
    with pytest.raises(upshot.UsageError) as caught:
        use()
    assert caught.value.code == code
    assert caught.value.help


def _keep_one(db: upshot.Database, fail: Callable[[upshot.Transaction, Savepoint], None]) -> None:
    with db.transaction() as tx:
        tx.insert("p", [(1,)])
        with tx.savepoint() as point:
            tx.insert("p", [(2**63 - 1,)])
            fail(tx, point)
        assert set(tx.rows("v")) == {(2,)}


def test_a_savepoint_undoes_a_statement_that_cannot_be_propagated() -> None:
    for strategy in ("auto", "counting", "recompute", "rod"):
        db = upshot.connect()
        db.define(f".decl p(x: number) .decl v(x: number) v(X + 1) :- p(X). .view v strategy={strategy}")
        _keep_one(db, lambda _, point: point.rollback())

        def read(tx: upshot.Transaction, point: Savepoint) -> None:
            with pytest.raises(upshot.Error) as caught:
                tx.rows("v")
            assert caught.value.code == "overflow"
            point.rollback()

        _keep_one(db, read)
        assert set(db.rows("v")) == {(2,)}
        db.verify()


def test_the_error_of_a_block_is_not_replaced_by_that_of_its_statements() -> None:
    db = upshot.connect()
    db.define(".decl p(x: number) .decl v(x: number) v(X + 1) :- p(X).")

    def fail(tx: upshot.Transaction, point: Savepoint) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _keep_one(db, fail)
    with db.transaction() as tx:
        tx.insert("p", [(1,)])
        with suppress(ZeroDivisionError), tx.savepoint() as point:
            tx.insert("p", [(2**63 - 1,)])
            fail(tx, point)
    assert set(db.rows("v")) == {(2,)}
    db.verify()


def test_a_transaction_goes_on_after_a_read_that_cannot_be_propagated() -> None:
    db = upshot.connect()
    db.define(".decl p(x: number) .decl u(x: number) u(X) :- p(X). .decl v(x: number) v(X + 1) :- u(X).")
    with db.transaction() as tx:
        tx.insert("p", [(1,), (2**63 - 1,)])
        with pytest.raises(upshot.Error):
            tx.rows("v")
        tx.delete("p", [(2**63 - 1,)])
        assert set(tx.rows("u")) == {(1,)}
    assert set(tx.changes["v"].inserted) == {(2,)}
    db.verify()


def test_inserting_into_a_view_names_realize() -> None:
    db = graph()
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("reach", [(1, 2)])
    assert "db.realize" in str(caught.value.help)


def test_causes_name_the_base_changes_and_literals_of_each_row() -> None:
    db = graph()
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])
    with db.transaction() as tx:
        tx.insert("edge", [(2, 3)])
    causes = tx.changes["reach"].causes()
    assert set(causes) == {(1, 3), (2, 3)}
    assert causes[1, 3].inserted == (("edge", (2, 3)),)
    assert causes[1, 3].literals == ("edge(2, 3)",)
    with db.transaction() as tx:
        tx.delete("edge", [(2, 3)])
        with pytest.raises(upshot.Error) as caught:
            tx.changes_so_far()["reach"].causes()
        assert caught.value.code == "no-causes"
    assert tx.changes["reach"].causes()[1, 3].deleted == (("edge", (2, 3)),)
    assert tx.changes["edge"].causes()[2, 3].deleted == (("edge", (2, 3)),)
