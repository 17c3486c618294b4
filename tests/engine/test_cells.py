"""Closures in cells: dense tables hold and report what other tables do, and turn into them and back."""

from __future__ import annotations

import random
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upshot
from tests.engine.kernels import both_forms, cases_of, cells_without_room, dense, kernel
from tests.engine.test_walks import (
    CLOSURE,
    LABELED,
    PROGRAMS,
    SQUARING,
    Pair,
    completed,
    declared,
    declared_labeled,
    expected,
    triple,
)
from upshot.core.errors import LimitError
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.storage import cells
from upshot.engine.local.storage.cells import Cells
from upshot.engine.local.storage.storage import Table
from upshot.engine.time_limit import time_limit


def database(rules: str, type: str = "number", options: str = "") -> upshot.Database:
    db = dense(upshot.connect())
    db.define(declared(rules, type) + options)
    return db


def table_of(db: upshot.Database) -> Table:
    table: Table = db._state.engine._now.tables["p"]  # type: ignore[attr-defined]
    return table


def is_dense(db: upshot.Database) -> bool:
    return table_of(db).cells is not None


def insert(db: upshot.Database, rows: set[Pair]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.insert("e", rows)
    return tx


def ring(first: int, length: int) -> set[Pair]:
    return {(first + i, first + (i + 1) % length) for i in range(length)}


@both_forms
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute"])
def test_changes_of_a_dense_closure_agree_with_the_rules(name: str, strategy: str, form: str) -> None:
    rng = random.Random(f"cells {name} {strategy}")
    with kernel(form), cells_without_room():
        for case in range(cases_of(form)):
            size = rng.choice([1, 2, 5, 12, 30])
            values = rng.choice([list(range(size)), [rng.randrange(-(2**63), 2**63) for _ in range(size)]])

            def pairs(most: int, among: list[int] = values) -> set[Pair]:
                return {(rng.choice(among), rng.choice(among)) for _ in range(rng.randrange(most))}

            db = database(PROGRAMS[name], options=f"\n.view p strategy={strategy}")
            b, e = pairs(2 * size + 1, values[: size // 2 + 1]), pairs(3 * size + 1, values[: size // 2 + 1])
            with db.transaction() as tx:
                tx.insert("b", b)
                tx.insert("e", e)
            assert set(db.rows("p")) == set(tx.changes["p"].inserted) == expected(name, b, e), case
            assert is_dense(db) == bool(expected(name, b, e))
            for _ in range(5):
                gone, come, before = pairs(4), pairs(4), set(db.rows("p"))
                e = (e - gone) | come
                with db.transaction() as tx:
                    tx.delete("e", gone)
                    tx.insert("e", come)
                assert set(db.rows("p")) == expected(name, b, e), case
                changes = tx.changes["p"]
                assert set(changes.inserted) == set(db.rows("p")) - before
                assert set(changes.deleted) == before - set(db.rows("p"))
            assert db.verify().rows is not None


Row = tuple[Pair, int]
"""A pair and its label."""


@both_forms
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("strategy", ["maintenance policy=incremental", "bf", "recompute"])
def test_changes_of_a_dense_closure_with_a_label_agree_with_the_rules(name: str, strategy: str, form: str) -> None:
    rng = random.Random(f"labels {name} {strategy}")
    with kernel(form):
        for number in range(cases_of(form)):
            has_room = number % 4 == 3
            with nullcontext() if has_room else cells_without_room():
                was_dense = check_labeled(rng, name, strategy)
            assert was_dense or has_room


def check_labeled(rng: random.Random, name: str, strategy: str) -> bool:
    """Load and change a random closure with a label in a random column; whether it was dense, or never had rows."""
    place, size = rng.choice([*LABELED]), rng.choice([1, 2, 5, 9])
    unlabeled = rng.choice(["", "e"]) if name in ("forward", "backward", "reversed") else ""
    values = rng.choice([list(range(size)), [rng.randrange(-(2**63), 2**63) for _ in range(size)]])
    labels = [*values[: rng.choice([1, 2, 3])], 77]

    def rows(most: int) -> set[Row]:
        return {((rng.choice(values), rng.choice(values)), rng.choice(labels)) for _ in range(rng.randrange(most))}

    def shown(relation: str, rows: set[Row]) -> set[Any]:
        return {pair if relation in unlabeled else triple(pair, label, place) for pair, label in rows}

    db, e, b, was_dense = dense(upshot.connect()), set[Row](), set[Row](), False
    db.define(f"{declared_labeled(PROGRAMS[name], place, unlabeled)}\n.view p strategy={strategy}")
    for step in range(6):
        before = set(db.rows("p"))
        gone, come = rows(4), rows(3 * size + 1 if step == 0 else 4)
        if unlabeled:
            gone, come = {(pair, 0) for pair, _ in gone}, {(pair, 0) for pair, _ in come}
        e, b = (e - gone) | come, b | (rows(2 * size + 1) if step in (0, 3) else set())
        with db.transaction() as tx:
            tx.delete("e", shown("e", gone))
            tx.insert("e", shown("e", come))
            tx.insert("b", shown("b", b))
        now = set(db.rows("p"))
        assert now == closed(name, b, e, place, unlabeled), (place, unlabeled, step)
        assert set(tx.changes["p"].inserted) == now - before
        assert set(tx.changes["p"].deleted) == before - now
        was_dense = was_dense or is_dense(db) or not now
        check_lookups(db, now)
    db.verify()
    return was_dense


def closed(name: str, b: set[Row], e: set[Row], place: str, unlabeled: str) -> set[Any]:
    """The closure of each label by itself."""
    found = set[Any]()
    for label in {label for _, label in b | e}:
        edges = {pair for pair, of in e if unlabeled or of == label}
        pairs = expected(name, {pair for pair, of in b if of == label}, edges)
        found |= {triple(pair, label, place) for pair in pairs}
    return found


def check_lookups(db: upshot.Database, rows: set[Any]) -> None:
    """Look for rows by the values of any of their columns."""
    for row in sorted(rows)[:2]:
        for bound in range(8):
            places = [place for place in range(3) if bound >> place & 1]
            terms = [str(value) if place in places else f"V{place}" for place, value in enumerate(row)]
            found = set(db.query(f"p({', '.join(terms)})"))
            agreeing = {each for each in rows if all(each[place] == row[place] for place in places)}
            free = [place for place in range(3) if place not in places]
            assert found in (agreeing, {tuple(each[place] for place in free) for each in agreeing}), terms


def test_blocks_of_labels_are_dense_and_take_few_bytes_a_row() -> None:
    db = dense(upshot.connect())
    db._state.engine._runner.most_cells = 8  # type: ignore[attr-defined]
    db.define(declared_labeled(CLOSURE, "last"))
    tenants = [{(x * 40 + t, y * 40 + t, t) for x, y in ring(0, 40)} for t in range(40)]  # values of all mixed
    with db.transaction() as tx:
        tx.insert("e", set().union(*tenants))
    table = table_of(db)
    assert is_dense(db)
    assert table.size == 40 * 1600
    assert table.memory() < 4 * table.size
    before = table.cells
    with db.transaction() as tx:
        tx.insert("e", [(0, 1_000_000, 0), (5, 6, 1000)])
    assert table.cells is before  # there is room for a label, and for a value of one
    assert set(tx.changes["p"].inserted) == {(x * 40, 1_000_000, 0) for x in range(40)} | {(5, 6, 1000)}
    with db.transaction() as tx:
        tx.delete("e", set().union(*tenants[2:]))
    assert len(tx.changes["p"].deleted) == 38 * 1600
    with db.transaction() as tx:
        tx.insert("e", [(7, 8, 7)])
    assert not is_dense(db)
    assert len(db.rows("p")) == 2 * 1600 + 40 + 2


@both_forms
def test_values_that_are_reached_under_a_label_alone_are_dense(form: str) -> None:
    """The label is all that rows keep: each has one line."""
    rng = random.Random(form)
    with kernel(form), cells_without_room():
        db = dense(upshot.connect())
        db.define(
            ".decl b(l: number, x: number) .decl e(x: number, y: number, l: number) .decl p(l: number, x: number)"
            " p(L, X) :- b(L, X). p(L, Y) :- p(L, Z), e(Z, Y, L). .view p policy=incremental"
        )
        e, b = set[tuple[int, ...]](), set[tuple[int, ...]]()
        for _ in range(20):
            new = {(rng.randrange(8), rng.randrange(8), rng.randrange(4)) for _ in range(rng.choice([2, 12]))}
            gone, b = {row for row in e if rng.random() < 0.1}, b | {(rng.randrange(4), rng.randrange(8))}
            e = (e - gone) | new
            with db.transaction() as tx:
                tx.delete("e", gone)
                tx.insert("e", new)
                tx.insert("b", b)
            reached = {each for label in range(4) for each in reached_under(label, b, e)}
            assert set(db.rows("p")) == reached
            assert is_dense(db)
            assert set(db.query("p(2, X)")) in (
                {(x,) for of, x in reached if of == 2},
                {r for r in reached if r[0] == 2},
            )


def reached_under(label: int, b: set[tuple[int, ...]], e: set[tuple[int, ...]]) -> set[tuple[int, int]]:
    seeds = {(of, x) for of, x in b if of == label}
    return completed(seeds, {(x, y) for x, y, of in e if of == label}, 0)


def labeled_rings(labels: range, length: int) -> set[Row]:
    return {triple(edge, label, "last") for label in labels for edge in ring(10_000 * label, length)}


def labeled_closure(edges: set[Row]) -> upshot.Database:
    db = dense(upshot.connect())
    db.define(declared_labeled(CLOSURE, "last"))
    with db.transaction() as tx:
        tx.insert("e", edges)
    return db


def test_many_small_blocks_are_rows() -> None:
    assert not is_dense(labeled_closure(labeled_rings(range(20), 5)))
    assert not is_dense(labeled_closure(labeled_rings(range(300), 40)))


def test_new_labels_seldom_lay_the_cells_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room of a new label is that of a usual one, and doubles when it ends."""
    laid_out, widened = list[int](), Cells.widened

    def count(self: Cells, *given: Any) -> Any:
        laid_out.append(1)
        return widened(self, *given)

    db = labeled_closure(labeled_rings(range(60), 40))
    monkeypatch.setattr(Cells, "widened", count)
    for label in range(60, 70):
        with db.transaction() as tx:
            tx.insert("e", labeled_rings(range(label, label + 1), 40))
    assert is_dense(db)
    assert len(laid_out) <= 3
    with db.transaction() as tx:
        tx.insert("e", labeled_rings(range(70, 71), 320))
    assert is_dense(db)
    assert len(laid_out) <= 8
    db.verify()


def test_lines_are_as_long_as_the_span_of_their_rows() -> None:
    db = database(CLOSURE)
    e = {(i, i + 1) for i in range(900)}
    insert(db, e)
    table = table_of(db)
    assert is_dense(db)
    assert table.memory() < 1.5 * table.size
    insert(db, {(900, 0)})  # a row outside of the spans
    assert is_dense(db)
    assert set(db.rows("p")) == {(x, y) for x in range(901) for y in range(901)}


def test_a_code_without_a_number_makes_the_cells_wider_in_the_middle_of_a_phase() -> None:
    with kernel("compiled"), cells_without_room():
        db = database(CLOSURE)
        e = ring(0, 20)
        insert(db, e)
        before, size = set(db.rows("p")), table_of(db).cells.size  # type: ignore[union-attr]
        tx = insert(db, {(i, 1000 + i) for i in range(20)})
        e |= {(i, 1000 + i) for i in range(20)}
        assert is_dense(db)
        assert table_of(db).cells.size > size  # type: ignore[union-attr]
        assert set(db.rows("p")) == expected("closure", set(), e)
        assert set(tx.changes["p"].inserted) == set(db.rows("p")) - before
        assert tx.stats.inserted == len(tx.changes["p"].inserted) == tx.stats.derived - tx.stats.filtered


def test_a_transaction_that_made_the_cells_wider_is_rolled_back() -> None:
    with kernel("compiled"), cells_without_room():
        db = database(CLOSURE, options="\n.deny far(X, Y) :- p(X, Y), X = 3, Y = 1005.")
        insert(db, ring(0, 20))
        before = set(db.rows("p"))
        with pytest.raises(upshot.Error, match="far"):
            insert(db, {(i, 1000 + i) for i in range(20)})
        assert set(db.rows("p")) == before
        insert(db, {(5, 77)})
        assert set(db.rows("p")) == before | {(i, 77) for i in range(20)}


@pytest.mark.parametrize("most", [1 << 60, 0], ids=["wider", "rows"])
def test_memory_that_ends_while_the_form_changes_leaves_the_state_before(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow, new = Buffer._grow, {(i, 1000 + i) for i in range(20)}
    left = [0]

    def failing(self: Buffer, size: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("no memory")
        grow(self, size)

    monkeypatch.setattr(Buffer, "_grow", failing)
    for number in range(1, 50, 4):
        with cells_without_room(), pytest.MonkeyPatch.context() as patch:
            db = database(CLOSURE)
            insert(db, ring(0, 20))
            patch.setattr(cells, "_SPARSE", most)
            before, left[0] = set(db.rows("p")), number
            with suppress(upshot.Error):
                insert(db, new)
                before = expected("closure", set(), ring(0, 20) | new)
            left[0] = 0
            assert set(db.rows("p")) == before, number
            insert(db, new)
            with db.transaction() as tx:
                tx.delete("e", [(3, 4)])
            assert set(db.rows("p")) == expected("closure", set(), (ring(0, 20) | new) - {(3, 4)}), number


@pytest.mark.parametrize("number", [1, 2])
def test_memory_that_ends_while_lists_are_numbered_anew_leaves_the_state_before(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, searchsorted = [number], np.searchsorted

    class Scarce(np.ndarray):  # type: ignore[type-arg]
        def astype(self, *arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise MemoryError
            return super().astype(*arguments, **options).view(np.ndarray)

    with cells_without_room():
        db = database(CLOSURE, options="\n.view p strategy=maintenance policy=incremental")
        e = {(i, i + 1) for i in range(20)} | {(3, 5)}
        insert(db, e)
        before = set(db.rows("p"))
        with monkeypatch.context() as patch, suppress(upshot.EngineError):
            patch.setattr(cells, "_SPARSE", 0)
            patch.setattr(Table, "spread_if_sparse", lambda _: None)
            patch.setattr(np, "searchsorted", lambda *each: searchsorted(*each).view(Scarce))
            with db.transaction() as tx:
                tx.delete("e", [(4, 5), (9, 10)])
                tx.insert("e", [(6, 1000)])
        assert left[0] <= 0
        assert set(db.rows("p")) == before
        with db.transaction() as tx:
            tx.delete("e", [(4, 5)])
        assert set(db.rows("p")) == expected("closure", set(), e - {(4, 5)})
        db.verify()


@both_forms
def test_a_dense_load_that_is_rolled_back_leaves_nothing(form: str) -> None:
    with kernel(form):
        db = database(CLOSURE, options="\n.deny loop(X) :- p(X, X).")
        with pytest.raises(upshot.Error, match="loop"):
            insert(db, ring(0, 20))
        assert len(db.rows("p")) == table_of(db).size == 0
        insert(db, {(x, x + 1) for x in range(20)})
        assert is_dense(db)
        assert set(db.rows("p")) == {(x, y) for x in range(21) for y in range(x + 1, 21)}


@pytest.mark.parametrize("most_cells", [0, 8], ids=["rows", "cells"])
def test_a_closure_with_more_rows_than_are_allowed_is_not_loaded(most_cells: int) -> None:
    db = database(CLOSURE)
    db._state.engine._runner.most_cells = most_cells  # type: ignore[attr-defined]
    with pytest.raises(LimitError, match="more than 3,599"), time_limit(None, rows=3599):
        insert(db, ring(0, 60))
    assert len(db.rows("p")) == len(db.rows("e")) == 0
    with time_limit(None, rows=3600):
        insert(db, ring(0, 60))
    assert len(db.rows("p")) == 3600
    assert is_dense(db) == bool(most_cells)


def test_a_table_whose_cells_are_mostly_unused_gets_rows_again() -> None:
    db = database(CLOSURE)
    e = ring(0, 60) | {(i, i + 1) for i in range(100, 120)}
    insert(db, e)
    assert is_dense(db)
    with db.transaction() as tx:
        tx.delete("e", ring(0, 60))
    deleted = tx.changes["p"].deleted
    assert len(deleted) == 3600
    with db.transaction() as tx:
        tx.insert("e", [(500, 100)])
    assert not is_dense(db)
    assert set(deleted) == {(x, y) for x in range(60) for y in range(60)}
    assert set(db.rows("p")) == expected("closure", set(), (e - ring(0, 60)) | {(500, 100)})
    with db.transaction() as tx:
        tx.delete("e", [(110, 111)])
    assert set(db.rows("p")) == expected("closure", set(), (e - ring(0, 60) - {(110, 111)}) | {(500, 100)})


def test_a_closure_that_turns_out_sparse_is_loaded_into_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_SPARSE", 1)
    db = database(CLOSURE)
    tx = insert(db, {(i, i + 1) for i in range(0, 60, 2)})
    assert not is_dense(db)
    assert set(tx.changes["p"].inserted) == set(db.rows("p")) == {(i, i + 1) for i in range(0, 60, 2)}
    with db.transaction() as tx:
        tx.delete("e", [(0, 1)])
    assert set(tx.changes["p"].deleted) == {(0, 1)}


def test_density_decides_the_form_of_a_closure() -> None:
    for edges, is_chosen in ((ring(0, 60), True), ({(i, i + 1) for i in range(0, 600, 2)}, False)):
        db = database(CLOSURE)
        db._state.engine._runner.most_cells = 8  # type: ignore[attr-defined]
        insert(db, edges)
        assert is_dense(db) == is_chosen


def test_a_dense_closure_takes_few_bytes_a_row() -> None:
    db = database(CLOSURE)
    insert(db, ring(0, 400))
    table = table_of(db)
    assert table.size == 160_000
    assert table.memory() < 1.5 * table.size
    tx = insert(db, {(0, 1000)})
    assert tx.stats.inserted == 400
    assert table.memory() < 1.6 * table.size


def test_joins_negation_aggregates_and_queries_read_dense_tables() -> None:
    rules = SQUARING + (
        " .decl q(x: number, y: number) q(X, Y) :- p(X, Y), !p(Y, X)."
        " .decl c(x: number, n: number) c(X, N) :- b(X, _), N = count : { p(X, _) }."
        " .decl t(x: number) t(X) :- p(X, X)."
        " .decl s(n: number, m: number) s(N, M) :- N = count : { p(_, _) }, M = max X : { p(X, _) }."
        " .decl w(x: number, y: number) w(X, Y) :- p(X, Z), p(Z, W), p(W, Y), b(X, Y)."
    )
    rng = random.Random(5)
    with cells_without_room():
        one, other = database(rules), upshot.connect()
        other.define(declared(rules))
        for step in range(12):
            rows = [(rng.randrange(4 + step), rng.randrange(4 + step)) for _ in range(4)]
            for db in (one, other):
                with db.transaction() as tx:
                    tx.insert("e", rows[:2])
                    tx.insert("b", [rows[3]])
                    if step > 3:
                        tx.delete("e", rows[2:])
            assert is_dense(one)
            for view in "pqctsw":
                assert set(one.rows(view)) == set(other.rows(view)), (step, view)
            for x, y in rows:
                for query in (f"p({x}, Y)", f"p(X, {y})", f"p({x}, {y})", "p(X, X)"):
                    assert set(one.query(query)) == set(other.query(query)), (step, query)
            assert one.rows("p").to_arrow().num_rows == len(other.rows("p"))


def test_text_in_cells_outlives_sweeps_of_the_dictionary() -> None:
    db = database(CLOSURE, "symbol")
    insert(db, {(f"n{x}", f"n{y}") for x, y in ring(0, 30)})
    assert is_dense(db)
    for turn in range(6):
        rows = [(f"t{turn} {i}", f"u{turn} {i}") for i in range(1500)]
        with db.transaction() as tx:
            tx.insert("b", rows)
        with db.transaction() as tx:
            tx.delete("b", rows)
    assert set(db.rows("p")) == {(f"n{x}", f"n{y}") for x in range(30) for y in range(30)}
    tx = insert(db, {("n3", "new")})
    assert set(tx.changes["p"].inserted) == {(f"n{x}", "new") for x in range(30)}


def test_changes_of_dense_tables_are_handed_out_when_somebody_looks() -> None:
    with cells_without_room():
        db = database(CLOSURE)
        loaded = insert(db, ring(0, 10))
        wider = insert(db, {(0, 50)})
        with db.transaction() as narrower:
            narrower.delete("e", [(0, 50), (4, 5)])
        last = insert(db, {(4, 5), (60, 0)})
        assert loaded.changes["p"].inserted.to_arrow().num_rows == 100
        assert set(wider.changes["p"].inserted) == {(x, 50) for x in range(10)}
        assert {(x, 50) for x in range(10)} <= set(narrower.changes["p"].deleted)
        assert set(db.rows("p")) == expected("closure", set(), ring(0, 10) | {(60, 0)})
        assert (60, 3) in set(last.changes["p"].inserted)


def test_a_dense_closure_follows_its_rules() -> None:
    with cells_without_room():
        db = database(CLOSURE)
        insert(db, ring(0, 12))
        with db.transaction() as tx:
            tx.insert("b", [(2, 100), (100, 7)])
        db.define(f"{CLOSURE} p(X, Y) :- b(X, Y).")
        assert is_dense(db)
        assert set(db.rows("p")) == expected("closure", set(), ring(0, 12)) | {
            *((2, 100), (100, 7)),
            *((x, 100) for x in range(12)),
        }
        insert(db, {(100, 0)})
        assert {(100, x) for x in range(12)} <= set(db.rows("p"))


def test_counts_of_views_beside_a_table_that_was_a_dense_closure_stay_exact() -> None:
    counted = "".join(
        f".decl c{i}(x: number, y: number) .view c{i} strategy=counting\n"
        f"c{i}(X, Y) :- e(X, Y), X >= {i}. c{i}(X, Y) :- e(X, Z), b(Z, Y).\n"
        for i in range(5)
    )
    options = "\n.view p strategy=maintenance policy=incremental\n"
    new = {(i, 1000 + i) for i in range(20)}
    with cells_without_room():
        db = database(CLOSURE, options=options + counted)
        insert(db, ring(0, 20))
        db.define(declared("p(X, Y) :- e(X, Y). p(X, Y) :- e(X, Z), e(Z, Y).") + options + counted)
        insert(db, new)
        with db.transaction() as tx:
            tx.delete("e", new)
        assert set(tx.changes["c0"].deleted) == new
        db.verify()


def test_a_dense_closure_is_saved_and_read_back(tmp_path: Path) -> None:
    with cells_without_room():
        path = tmp_path / "store"
        db = dense(upshot.connect(path))
        db.define(declared(CLOSURE))
        insert(db, ring(0, 15))
        db.snapshot()
        insert(db, {(3, 99)})
        rows = set(db.rows("p"))
        db.close()
        with dense(upshot.connect(path)) as again:
            assert set(again.rows("p")) == rows
            with again.transaction() as tx:
                tx.delete("e", [(3, 99)])
            assert set(tx.changes["p"].deleted) == {(x, 99) for x in range(15)}
