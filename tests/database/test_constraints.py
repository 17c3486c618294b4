from __future__ import annotations

import pytest

import upshot

ACYCLIC = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.deny acyclic(X) :- path(X, X).
"""


def insert(db: upshot.Database, name: str, rows: list[tuple[object, ...]]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.insert(name, rows)
    return tx


def test_a_violation_rejects_the_whole_transaction_and_names_the_witnesses(db: upshot.Database) -> None:
    db.define(ACYCLIC)
    insert(db, "edge", [(1, 2)])
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "edge", [(3, 4), (2, 1)])
    assert error.value.code == "constraint-violated"
    assert sorted(error.value.violations["acyclic"]) == [(1,), (2,)]
    assert "acyclic(1)" in str(error.value)
    assert db.rows("edge") == {(1, 2)}
    insert(db, "edge", [(3, 4)])
    db.verify()


def test_at_most_ten_witnesses_are_listed_and_all_are_carried(db: upshot.Database) -> None:
    db.define(".decl n(x: number)  .deny negative(X) :- n(X), X < 0.")
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "n", [(-x,) for x in range(1, 31)])
    assert error.value.message.count("negative(") == 10
    assert "20 more" in error.value.message
    assert len(error.value.violations["negative"]) == 30


def test_warn_commits_and_reports(db: upshot.Database) -> None:
    db.define(ACYCLIC + ".deny acyclic on_violation=warn")
    tx = insert(db, "edge", [(1, 1)])
    assert db.rows("edge") == {(1, 1)}
    assert [warning.slug for warning in tx.warnings] == ["constraint-violated"]
    assert "acyclic(1)" in str(tx.warnings[0])
    assert insert(db, "edge", [(1, 2)]).warnings == ()


def test_violations_that_were_there_before_do_not_reject(db: upshot.Database) -> None:
    db.define(ACYCLIC + ".deny acyclic on_violation=warn")
    insert(db, "edge", [(1, 1)])
    db.define(".decl n(x: number)  .deny negative(X) :- n(X), X < 0.")
    insert(db, "edge", [(5, 6)])
    insert(db, "n", [(1,)])
    assert db.rows("acyclic") == {(1,)}


def test_a_definition_that_the_data_contradict_is_refused_and_changes_nothing(paths: upshot.Database) -> None:
    insert(paths, "edge", [(1, 2), (2, 1)])
    version = paths.version
    with pytest.raises(upshot.ConstraintError) as error:
        paths.define(".deny acyclic(X) :- path(X, X).  .decl extra(x: number)")
    assert "on_violation=warn" in error.value.help
    assert set(paths.schemas) == {"edge", "path"}
    assert paths.version == version
    made = paths.define(".deny acyclic(X) :- path(X, X).  .deny acyclic on_violation=warn")
    assert [warning.slug for warning in made.warnings] == ["constraint-violated"]


def test_making_a_violated_constraint_reject_is_refused(db: upshot.Database) -> None:
    db.define(ACYCLIC + ".deny acyclic on_violation=warn")
    insert(db, "edge", [(1, 1)])
    with pytest.raises(upshot.ConstraintError):
        db.define(".deny acyclic on_violation=reject")
    insert(db, "edge", [(2, 2)])
    with db.transaction() as tx:
        tx.delete("edge", [(1, 1), (2, 2)])
    db.define(".deny acyclic on_violation=reject")
    with pytest.raises(upshot.ConstraintError):
        insert(db, "edge", [(2, 2)])


def test_a_constraint_without_arguments_has_one_witness(db: upshot.Database) -> None:
    db.define(".decl n(x: number)  .deny none() :- n(_).")
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "n", [(1,)])
    assert error.value.violations == {"none": [()]}
    assert "constraint `none`" in error.value.message


def test_two_rows_with_one_key_are_refused(stock: upshot.Database) -> None:
    insert(stock, "quantity", [("a", 1)])
    with pytest.raises(upshot.ConstraintError) as error:
        insert(stock, "quantity", [("a", 2), ("b", 3)])
    assert error.value.code == "key-violation"
    assert sorted(error.value.violations["quantity"]) == [("a", 1), ("a", 2)]
    assert 'quantity("a", 2)' in str(error.value)
    assert stock.rows("quantity") == {("a", 1)}


def test_only_the_state_after_the_transaction_counts_for_keys(stock: upshot.Database) -> None:
    insert(stock, "quantity", [("a", 1)])
    with stock.transaction() as tx:
        tx.insert("quantity", [("a", 2)])
        tx.delete("quantity", [("a", 1)])
    assert stock.rows("quantity") == {("a", 2)}
    with pytest.raises(upshot.ConstraintError), stock.transaction() as tx:
        tx.replace("quantity", [("c", 1), ("c", 2)])


def test_a_new_key_must_hold_for_the_rows_that_are_there(paths: upshot.Database) -> None:
    insert(paths, "edge", [(1, 2), (1, 3)])
    with pytest.raises(upshot.ConstraintError) as error:
        paths.define(".decl edge(x: number, y: number) key(x)")
    assert error.value.code == "key-violation"
    assert sorted(error.value.violations["edge"]) == [(1, 2), (1, 3)]
    assert paths.schemas["edge"].keys == ()
    paths.define(".decl edge(x: number, y: number) key(y)")
    with pytest.raises(upshot.ConstraintError):
        insert(paths, "edge", [(9, 2)])
    assert paths.rows("path") == {(1, 2), (1, 3)}


def test_every_declared_key_is_enforced(db: upshot.Database) -> None:
    db.define(".decl r(a: number, b: number, c: number) key(a) key(b, c)")
    insert(db, "r", [(1, 1, 1), (2, 1, 2)])
    for row in ((1, 5, 5), (3, 1, 1)):
        with pytest.raises(upshot.ConstraintError):
            insert(db, "r", [row])
    insert(db, "r", [(3, 2, 1)])


@pytest.mark.parametrize("strategy", ["epf", "rod", "differencing", "propagation"])
@pytest.mark.parametrize("events", ["insert", "delete", "none"])
def test_a_constraint_is_never_without_the_witnesses_that_come(strategy: str, events: str) -> None:
    """`events` may leave out what went: then only additions are followed, and repairs are not reported."""
    text = f".decl p(x: number) .deny low(X) :- p(X), X < 0. .view low strategy={strategy} events={events}"
    with upshot.connect() as db:
        db.define(text)
        with pytest.raises(upshot.ConstraintError) as caught, db.transaction() as tx:
            tx.insert("p", [(-1,), (1,)])
        assert caught.value.violations == {"low": [(-1,)]}
        db.define(".deny low on_violation=warn")
        with db.transaction() as tx:
            tx.insert("p", [(-1,)])
        assert tx.violations == {"low": [(-1,)]}
        with db.transaction() as tx:
            tx.delete("p", [(-1,)])
        assert tx.repaired == ({"low": [(-1,)]} if events == "delete" else {})
