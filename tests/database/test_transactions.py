from __future__ import annotations

import pytest

import upshot


def insert(db: upshot.Database, **rows: list[tuple[object, ...]]) -> upshot.Transaction:
    with db.transaction() as tx:
        for name, given in rows.items():
            tx.insert(name, given)
    return tx


def test_a_recursive_view_follows_insertions_and_deletions_exactly(paths: upshot.Database) -> None:
    tx = insert(paths, edge=[(1, 2), (2, 3)])
    assert tx.changes["path"].inserted == {(1, 2), (2, 3), (1, 3)}
    assert tx.changes["path"].deleted == set()
    with paths.transaction() as tx:
        tx.delete("edge", [(1, 2)])
        tx.insert("edge", [(3, 4)])
    assert tx.changes["path"].deleted == {(1, 2), (1, 3)}
    assert tx.changes["path"].inserted == {(3, 4), (2, 4)}
    assert paths.rows("path") == {(2, 3), (3, 4), (2, 4)}


def test_base_relations_are_among_the_changes(paths: upshot.Database) -> None:
    tx = insert(paths, edge=[(1, 2), (1, 2)])
    assert tx.changes["edge"].inserted == {(1, 2)}
    assert list(tx.changes) == ["edge", "path"]
    assert dict(tx.changes.items()).keys() == {"edge", "path"}


def test_insert_and_delete_of_the_same_row_cancel(paths: upshot.Database) -> None:
    insert(paths, edge=[(1, 2)])
    with paths.transaction() as tx:
        tx.insert("edge", [(5, 6)])
        tx.delete("edge", [(5, 6)])
        tx.delete("edge", [(1, 2)])
        tx.insert("edge", [(1, 2)])
    assert len(tx.changes) == 0
    assert list(tx.changes) == []


def test_idle_changes_make_no_version(paths: upshot.Database) -> None:
    first = insert(paths, edge=[(1, 2)])
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        tx.delete("edge", [(9, 9)])
    assert tx.version == first.version == paths.version
    with paths.transaction() as tx:
        pass
    assert tx.version == first.version
    assert not tx.changes["path"]


def test_statements_apply_in_order(paths: upshot.Database) -> None:
    with paths.transaction() as tx:
        tx.delete("edge", [(1, 2)])
        tx.insert("edge", [(1, 2)])
    assert paths.rows("edge") == {(1, 2)}
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        tx.delete("edge", [(1, 2)])
    assert paths.rows("edge") == set()


def test_an_exception_in_the_block_undoes_everything_and_passes_on(paths: upshot.Database) -> None:
    before = insert(paths, edge=[(1, 2)]).version

    def interrupted() -> None:
        with paths.transaction() as tx:
            tx.insert("edge", [(2, 3)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert paths.rows("path") == {(1, 2)}
    assert paths.version == before
    assert insert(paths, edge=[(2, 3)]).changes["path"].inserted == {(2, 3), (1, 3)}


def test_an_error_while_propagating_undoes_everything(db: upshot.Database) -> None:
    db.define(
        ".decl a(x: number, y: number)  .decl q(x: number)  .decl b(x: number)"
        "q(Z) :- a(X, Y), Z = X / Y.  b(Z) :- a(X, Y), Z = X + Y."
    )
    insert(db, a=[(6, 3)])
    with pytest.raises(upshot.DataError) as error:
        insert(db, a=[(8, 2), (1, 0)])
    assert error.value.code == "division-by-zero"
    with pytest.raises(upshot.OverflowError_) as error:
        insert(db, a=[(2**63 - 1, 1)])
    assert error.value.code == "overflow"
    assert db.rows("a") == {(6, 3)}
    assert db.rows("q") == {(2,)}
    assert insert(db, a=[(8, 2)]).changes["q"].inserted == {(4,)}
    db.verify()


def test_a_statement_that_fails_applies_nothing_and_the_block_may_go_on(paths: upshot.Database) -> None:
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        with pytest.raises(upshot.DataError) as error:
            tx.insert("edge", [(3, 4), ("five", 6)])
        tx.insert("edge", [(2, 3)])
    assert error.value.code == "wrong-type"
    assert "edge" in str(error.value)
    assert paths.rows("edge") == {(1, 2), (2, 3)}


def test_upsert_replaces_the_row_with_the_same_key(stock: upshot.Database) -> None:
    insert(stock, quantity=[("a", 1), ("b", 2)], threshold=[("a", 3)])
    with stock.transaction() as tx:
        tx.upsert("quantity", [("a", 5), ("c", 6)])
    assert tx.changes["quantity"].inserted == {("a", 5), ("c", 6)}
    assert tx.changes["quantity"].deleted == {("a", 1)}
    assert tx.changes["low"].deleted == {("a",)}


def test_upsert_of_the_row_that_is_there_changes_nothing(stock: upshot.Database) -> None:
    insert(stock, quantity=[("a", 1)])
    with stock.transaction() as tx:
        tx.upsert("quantity", [("a", 9)])
        tx.upsert("quantity", [("a", 1)])
    assert len(tx.changes) == 0


def test_upsert_without_a_key_says_how_to_declare_one(paths: upshot.Database) -> None:
    with paths.transaction() as tx, pytest.raises(upshot.DataError) as error:
        tx.upsert("edge", [(1, 2)])
    assert error.value.code == "no-key"
    assert "key(x)" in error.value.help


def test_replace_reports_only_the_difference(paths: upshot.Database) -> None:
    insert(paths, edge=[(1, 2), (2, 3)])
    with paths.transaction() as tx:
        tx.replace("edge", [(2, 3), (3, 4)])
    assert tx.changes["edge"].inserted == {(3, 4)}
    assert tx.changes["edge"].deleted == {(1, 2)}
    with paths.transaction() as tx:
        tx.replace("edge", [])
    assert tx.changes["path"].deleted == {(2, 3), (3, 4), (2, 4)}


def test_a_view_cannot_be_changed_directly(paths: upshot.Database) -> None:
    with paths.transaction() as tx, pytest.raises(upshot.DataError) as error:
        tx.insert("path", [(1, 2)])
    assert error.value.code == "not-a-base-relation"
    assert "`edge`" in error.value.help


def test_a_misspelled_relation_gets_a_suggestion(paths: upshot.Database) -> None:
    with paths.transaction() as tx, pytest.raises(upshot.UsageError) as error:
        tx.insert("edgee", [(1, 2)])
    assert error.value.code == "unknown-relation"
    assert error.value.help == "did you mean `edge`?"
    with pytest.raises(upshot.UsageError) as error:
        _ = tx.changes["pth"]
    assert error.value.help == "did you mean `path`?"


def test_a_second_transaction_on_the_same_thread_is_refused(paths: upshot.Database) -> None:
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        for forbidden in (
            lambda: paths.transaction().__enter__(),
            lambda: paths.define(".decl other(x: number)"),
            lambda: paths.what_if(insert={"edge": [(3, 4)]}),
            lambda: paths.verify(),
            lambda: paths.close(),
        ):
            with pytest.raises(upshot.UsageError) as error:
                forbidden()
            assert error.value.code == "transaction-open"
    assert paths.rows("edge") == {(1, 2)}


def test_a_transaction_is_used_once_and_read_after_its_end(paths: upshot.Database) -> None:
    tx = paths.transaction()
    with pytest.raises(upshot.UsageError) as error:
        tx.insert("edge", [(1, 2)])
    assert error.value.code == "transaction-ended"
    with tx:
        with pytest.raises(upshot.UsageError) as error:
            _ = tx.changes
        assert error.value.code == "transaction-open"
    with pytest.raises(upshot.UsageError) as error:
        tx.insert("edge", [(1, 2)])
    assert error.value.code == "transaction-ended"
    with pytest.raises(upshot.UsageError), tx:
        pass
    failed = paths.transaction()
    with pytest.raises(KeyError), failed:
        raise KeyError
    with pytest.raises(upshot.UsageError, match="rolled back"):
        _ = failed.version


def test_queries_inside_a_transaction_see_the_state_before_it(paths: upshot.Database) -> None:
    insert(paths, edge=[(1, 2)])
    with paths.transaction() as tx:
        tx.insert("edge", [(2, 3)])
        tx.delete("edge", [(1, 2)])
        assert paths.query("path(X, Y)") == {(1, 2)}
        assert paths.rows("edge") == {(1, 2)}
    assert paths.query("path(X, Y)") == {(2, 3)}


def test_changes_stay_readable_after_later_commits(paths: upshot.Database) -> None:
    first = insert(paths, edge=[(1, 2), (2, 3)])
    before = paths.rows("path")
    with paths.transaction() as tx:
        tx.replace("edge", [(7, 8)])
    paths.close()
    assert first.changes["path"].inserted == {(1, 2), (2, 3), (1, 3)}
    assert before == {(1, 2), (2, 3), (1, 3)}


def test_generated_relations_never_appear(db: upshot.Database) -> None:
    db.define(
        ".decl r(x: number, y: number)  .decl n(x: number, c: number)  .decl lonely(x: number)"
        "n(X, C) :- r(X, _), C = count : { r(X, _) }."
        "lonely(X) :- r(X, _), !r(_, X)."
    )
    tx = insert(db, r=[(1, 2), (1, 3)])
    assert set(tx.changes) == {"r", "n", "lonely"}
    assert tx.changes["n"].inserted == {(1, 2)}
    assert set(db.schemas) == {"r", "n", "lonely"}


def test_facts_given_for_a_view_with_input_go_to_its_hidden_part(db: upshot.Database) -> None:
    db.define(".decl e(x: number)  .decl v(x: number)  .input v  v(X) :- e(X).")
    tx = insert(db, e=[(1,)], v=[(1,), (2,)])
    assert set(tx.changes) == {"e", "v"}
    assert tx.changes["v"].inserted == {(1,), (2,)}
    with db.transaction() as tx:
        tx.delete("v", [(1,), (2,)])
    assert tx.changes["v"].deleted == {(2,)}
    assert list(db.schemas) == ["e", "v"]


def test_work_counters_come_with_every_commit(paths: upshot.Database) -> None:
    tx = insert(paths, edge=[(1, 2), (2, 3)])
    assert tx.stats.seconds > 0
    assert tx.stats.as_dict()["derived"]


def test_a_closed_database_refuses_every_call(db: upshot.Database) -> None:
    db.define(".decl e(x: number)")
    db.close()
    db.close()
    for call in (
        lambda: db.define(".decl f(x: number)"),
        lambda: db.transaction(),
        lambda: db.query("e(X)"),
        lambda: db.rows("e"),
        lambda: db.watch("e", print),
        lambda: db.what_if(),
        lambda: db.verify(),
        lambda: db.explain(),
        lambda: db.register("e", "nowhere"),
        lambda: db.drop("e"),
        lambda: db.schemas,
        lambda: db.version,
    ):
        with pytest.raises(upshot.UsageError) as error:
            call()
        assert error.value.code == "closed"
