"""Keys: upsert puts a row in place of another, conflicts are found where rows changed."""

from __future__ import annotations

import random

from tests.engine.driver import Driver
from tests.engine.kernels import both_forms, kernel

STOCK = """
.decl stock(item: symbol, shop: number, n: number?) key(item, shop)
.decl low(item: symbol)
.decl empty(item: symbol)
low(I) :- stock(I, _, N), N < 5.
empty(I) :- stock(I, _, N), is_null(N).
"""


def test_an_upsert_reports_the_old_row_gone_and_the_new_one_come() -> None:
    it = Driver(STOCK)
    assert it.upsert("stock", ("a", 1, 9))["stock"] == ({("a", 1, 9)}, set())
    assert it.upsert("stock", ("a", 1, 3)) == {
        "stock": ({("a", 1, 3)}, {("a", 1, 9)}),
        "low": ({("a",)}, set()),
    }
    assert it.upsert("stock", ("a", 1, 3)) == {}
    assert it.upsert("stock", ("a", 2, 3)) == {"stock": ({("a", 2, 3)}, set())}
    assert it.upsert("stock", ("a", 1, None), ("a", 2, None)) == {
        "stock": ({("a", 1, None), ("a", 2, None)}, {("a", 1, 3), ("a", 2, 3)}),
        "low": (set(), {("a",)}),
        "empty": ({("a",)}, set()),
    }


def test_the_last_of_several_upserts_of_a_key_counts() -> None:
    it = Driver(STOCK)
    assert it.upsert("stock", ("a", 1, 1), ("a", 1, 2), ("a", 1, 3))["stock"] == ({("a", 1, 3)}, set())
    it.engine.upsert("stock", [("a", 1, 8)])
    it.engine.upsert("stock", [("a", 1, 3)])
    assert it.commit() == {}


def test_a_null_in_a_key_is_the_same_null() -> None:
    it = Driver(".decl r(k: symbol?, v: number) key(k)")
    it.upsert("r", (None, 1))
    assert it.upsert("r", (None, 2))["r"] == ({(None, 2)}, {(None, 1)})
    it.engine.insert("r", [(None, 3)])
    it.engine.propagate()
    assert {frozenset(pair) for pair in it.engine.key_conflicts("r")} == {frozenset({(None, 2), (None, 3)})}
    it.engine.rollback()


def test_conflicts_are_pairs_of_rows_that_would_share_a_key() -> None:
    it = Driver(STOCK)
    it.insert("stock", ("a", 1, 1), ("b", 1, 1))
    it.engine.insert("stock", [("a", 1, 2), ("c", 1, 1), ("c", 1, 2)])
    it.engine.delete("stock", [("b", 1, 1)])
    it.engine.insert("stock", [("b", 1, 9)])
    it.engine.propagate()
    found = {frozenset(pair) for pair in it.engine.key_conflicts("stock")}
    assert found == {frozenset({("a", 1, 1), ("a", 1, 2)}), frozenset({("c", 1, 1), ("c", 1, 2)})}
    assert len(it.engine.key_conflicts("stock", most=1)) == 1
    it.engine.rollback()
    assert it.engine.key_conflicts("stock") == []


def test_every_key_of_a_relation_is_looked_at() -> None:
    it = Driver(".decl r(a: number, b: number) key(a) key(b)")
    it.insert("r", (1, 1))
    for row, conflicts in (((1, 2), 1), ((2, 1), 1), ((2, 2), 0)):
        it.engine.insert("r", [row])
        it.engine.propagate()
        assert len(it.engine.key_conflicts("r")) == conflicts
        it.engine.rollback()


def test_few_conflicts_are_told_where_there_are_many() -> None:
    it = Driver(".decl r(a: number, b: number) key(a)")
    it.engine.insert("r", [(0, i) for i in range(500)])
    it.engine.propagate()
    assert len(it.engine.key_conflicts("r", most=10)) == 10
    it.engine.rollback()


@both_forms
def test_random_upserts_follow_a_dictionary(form: str) -> None:
    rng = random.Random(4)
    with kernel(form):
        it = Driver(".decl r(k: number, v: number, t: symbol) key(k) .decl p(v: number) p(V) :- r(_, V, _).")
        model: dict[int, tuple[int, int, str]] = {}
        for _ in range(30):
            rows = [(rng.randint(0, 40), rng.randint(0, 3), rng.choice("ab")) for _ in range(rng.randint(1, 30))]
            gone = [row for row in model.values() if rng.random() < 0.2]
            it.engine.delete("r", gone)
            for row in gone:
                del model[row[0]]
            it.engine.upsert("r", rows)
            model.update({row[0]: row for row in rows})
            it.commit()
            assert it.rows("r") == set(model.values())
            assert it.engine.key_conflicts("r") == []
            it.assert_exact()


def test_keys_of_many_columns_are_told_apart() -> None:
    for width in (17, 18, 20):
        columns = ", ".join(f"c{i}: number" for i in range(width))
        it = Driver(f".decl r({columns}, v: number) key({', '.join(f'c{i}' for i in range(width))})")
        here, there = (0,) * width, (0,) * (width - 1) + (1,)
        it.engine.insert("r", [(*here, 1), (*there, 2)])
        it.engine.propagate()
        assert it.engine.key_conflicts("r") == []
        it.engine.accept()
        assert it.upsert("r", (*here, 3))["r"] == ({(*here, 3)}, {(*here, 1)})
