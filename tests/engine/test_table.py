"""Tables of codes against a model of Python sets: both states, indexes, undo, growth, in both forms of the kernel."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.engine.kernels import FORMS, both_forms, kernel
from upshot.engine.local.kernel.layout import NEW, OLD, T_CAPINS, T_DEL, T_INS, T_NINS, T_ROOM
from upshot.engine.local.queries.demand_run import insert_rows
from upshot.engine.local.storage.key_conflicts import key_conflicts
from upshot.engine.local.storage.storage import Storage, Table

Codes = NDArray[np.int64]
Row = tuple[int, ...]
STATES = (OLD, NEW)


def codes(rows: list[Row], arity: int) -> Codes:
    return np.array(rows, np.int64).reshape(len(rows), arity)


def as_set(found: Codes) -> set[Row]:
    rows = [tuple(row) for row in found.tolist()]
    assert len(set(rows)) == len(rows), "a row twice"
    return set(rows)


@dataclass
class Model:
    """What a table with these columns must hold before and after the open change."""

    arity: int
    old: set[Row] = field(default_factory=set)
    new: set[Row] = field(default_factory=set)

    def upsert(self, rows: list[Row], key: tuple[int, ...]) -> None:
        for row in rows:
            self.new = {other for other in self.new if any(other[i] != row[i] for i in key)} | {row}

    def state(self, mask: int) -> set[Row]:
        return self.old if mask == OLD else self.new


class Pair:
    """A table and its model, changed alike and compared after every step."""

    def __init__(self, arity: int, indexes: list[tuple[int, ...]]) -> None:
        self.table = Storage().create(arity)
        self.model = Model(arity)
        self.indexes = [columns for columns in indexes if columns]

    def stage(self, rows: list[Row], *, insert: bool) -> None:
        self.table.stage(codes(rows, self.model.arity), insert=insert)
        self.model.new = self.model.new | set(rows) if insert else self.model.new - set(rows)

    def upsert(self, rows: list[Row], key: tuple[int, ...]) -> None:
        self.table.stage_upsert(codes(rows, self.model.arity), key)
        self.model.upsert(rows, key)

    def replace(self, rows: list[Row]) -> None:
        self.table.retract_all(as_view=False)
        self.table.stage(codes(rows, self.model.arity), insert=True)
        self.model.new = set(rows)

    def end(self, *, accept: bool) -> None:
        """Settle, look at the net change, then accept or undo."""
        self.table.settle()
        old, new = self.model.old, self.model.new
        assert as_set(self.table.listed(T_INS)) == new - old
        assert as_set(self.table.listed(T_DEL)) == old - new
        assert self.table.size == len(old | new)
        if accept:
            self.table.accept()
            self.model.old = set(new)
        else:
            self.undo()
        assert self.table.size == len(self.model.old)

    def undo(self) -> None:
        self.table.rollback()
        self.model.new = set(self.model.old)

    def compare(self, rng: random.Random) -> None:
        for mask in STATES:
            wanted = self.model.state(mask)
            assert as_set(self.table.in_state(mask)) == wanted
            sample = [*self.model.old | self.model.new, *(other_row(rng, self.model.arity) for _ in range(3))]
            places = self.table.row_numbers(codes(sample, self.model.arity), mask)
            assert [place >= 0 for place in places.tolist()] == [row in wanted for row in sample]
            for columns in self.indexes:
                for row in sample[:4]:
                    self.compare_index(columns, row, mask)

    def compare_index(self, columns: tuple[int, ...], row: Row, mask: int) -> None:
        key = tuple(row[i] for i in columns)
        found = self.table.matching(columns, np.array(key, np.int64), mask)
        wanted = {other for other in self.model.state(mask) if tuple(other[i] for i in columns) == key}
        assert as_set(found) == wanted
        keys = {tuple(other[i] for i in columns) for other in as_set(self.table.all_rows()[self.table.bits() != 0])}
        assert self.table.index_on(columns).keys == len(keys)


def other_row(rng: random.Random, arity: int) -> Row:
    return tuple(rng.choice((rng.randint(0, 3), -1, 2**63 - 1, -(2**63))) for _ in range(arity))


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[int, ...]], list[tuple[str, list[Row]]]]:
    """Columns, indexes, and steps: statements of transactions, each ended by `accept`, `rollback` or `undo`."""
    arity = draw(st.integers(0, 4))
    value = st.sampled_from([0, 1, 2, 3, -1, 2**63 - 1, -(2**63)])
    rows = st.lists(st.tuples(*[value] * arity), max_size=12)
    columns = st.lists(st.integers(0, arity - 1), unique=True, min_size=1) if arity else st.just([])
    indexes = draw(st.lists(columns.map(tuple), max_size=3))
    kinds = ["insert", "insert", "delete", "replace", "accept", "accept", "rollback", "undo"] + ["upsert"] * bool(arity)
    steps = draw(st.lists(st.tuples(st.sampled_from(kinds), rows), min_size=1, max_size=25))
    return arity, indexes, steps


@given(histories(), st.integers(0, 2**32))
def test_a_table_holds_what_two_sets_would(history: tuple[int, list, list], seed: int) -> None:
    arity, indexes, steps = history
    for form in FORMS:
        with kernel(form):
            run(Pair(arity, indexes), steps, random.Random(seed))


def run(pair: Pair, steps: list[tuple[str, list[Row]]], rng: random.Random) -> None:
    for kind, rows in steps:
        match kind:
            case "insert" | "delete":
                pair.stage(rows, insert=kind == "insert")
            case "upsert":
                pair.upsert(rows, (0,))
            case "replace":
                pair.replace(rows)
            case "undo":
                pair.undo()
            case _:
                pair.end(accept=kind == "accept")
        pair.compare(rng)


@both_forms
@pytest.mark.parametrize("arity", range(21))
def test_rows_of_any_width_come_and_go(arity: int, form: str) -> None:
    rng = random.Random(arity)
    with kernel(form):
        pair = Pair(arity, [tuple(range(min(arity, 17))), tuple(range(arity))[-2:]])
        for _ in range(4):
            rows = [tuple(rng.randint(0, 1) for _ in range(arity)) for _ in range(20)]
            pair.stage(rows, insert=True)
            pair.stage(rows[::3], insert=False)
            pair.end(accept=True)
            pair.compare(rng)
        pair.replace([])
        pair.end(accept=True)
        assert pair.table.size == 0


@both_forms
@pytest.mark.parametrize("width", [17, 18, 20])
def test_an_index_on_many_columns_tells_all_of_them_apart(width: int, form: str) -> None:
    with kernel(form):
        pair = Pair(width + 1, [tuple(range(width))])
        rows = [(0,) * (width - 1) + (last, value) for last in range(3) for value in range(2)]
        pair.stage(rows, insert=True)
        pair.end(accept=True)
        pair.compare(random.Random(width))
        pair.upsert([(0,) * (width - 1) + (1, 9)], tuple(range(width)))
        pair.end(accept=True)


@pytest.mark.parametrize(("form", "most"), [("plain", 2_000), ("compiled", 100_000)])
def test_a_table_grows_from_nothing_and_shrinks_again(form: str, most: int) -> None:
    with kernel(form):
        table = Storage().create(2)
        table.index_on((1,))
        rows = np.stack([np.arange(most), np.arange(most) % 97], axis=1).astype(np.int64)
        step, done = 1, 0
        while done < most:
            table.stage(rows[done : done + step], insert=True)
            table.settle()
            table.accept()
            done, step = min(done + step, most), step * 3
        assert table.size == most
        assert bool((table.row_numbers(rows, OLD) >= 0).all())
        assert len(table.matching((1,), np.array([5], np.int64), OLD)) == len(range(5, most, 97))
        gone = np.random.default_rng(1).permutation(most)
        for part in np.array_split(gone, 7):
            table.stage(rows[part], insert=False)
            table.settle()
            table.accept()
        assert table.size == 0
        assert table.index_on((1,)).keys == 0
        assert not bool((table.row_numbers(rows, OLD) >= 0).any())


@pytest.mark.parametrize(("form", "rounds"), [("plain", 40), ("compiled", 400)])
def test_freed_places_are_used_again_and_no_row_is_lost_among_colliding_ones(form: str, rounds: int) -> None:
    rng = random.Random(7)
    with kernel(form):
        pair = Pair(1, [(0,)])
        most = 0
        for _ in range(rounds):
            gone = [row for row in sorted(pair.model.old) if rng.random() < 0.5]
            pair.stage(gone, insert=False)
            pair.end(accept=True)
            pair.stage([(rng.randrange(200),) for _ in range(rng.randint(0, 60))], insert=True)
            pair.end(accept=True)
            most = max(most, len(pair.model.old))
            assert as_set(pair.table.in_state(OLD)) == pair.model.old
            assert len(pair.table.all_rows()) <= most
        pair.compare(rng)
    assert pair.table.capacity <= 2 * most + 16


@both_forms
def test_rows_inserted_and_deleted_in_one_change_leave_no_trace(form: str) -> None:
    with kernel(form):
        pair = Pair(2, [(0,)])
        sizes = set()
        for turn in range(50):
            rows = [(i, turn) for i in range(30)]
            pair.stage(rows, insert=True)
            pair.stage(rows, insert=False)
            pair.end(accept=True)
            if turn >= 5:
                sizes.add((pair.table.capacity, pair.table.memory()))
        assert len(sizes) == 1


@both_forms
def test_key_conflicts_are_found_among_changed_rows_only(form: str) -> None:
    with kernel(form):
        table = Storage().create(2)
        stage(table, [(1, 1), (1, 2), (2, 1)], accept=True)
        stage(table, [(2, 2), (3, 1), (3, 2), (4, 1)], accept=False)
        pairs = {frozenset(map(tuple, map(np.ndarray.tolist, pair))) for pair in key_conflicts(table, (0,), 10)}
        assert pairs == {frozenset({(2, 1), (2, 2)}), frozenset({(3, 1), (3, 2)})}
        assert len(key_conflicts(table, (0,), 1)) == 1
        assert key_conflicts(table, (0, 1), 10) == []
        table.rollback()
        stage(table, [(5, 5)], accept=False)
        assert key_conflicts(table, (0,), 10) == []


def stage(table: Table, rows: list[Row], *, accept: bool) -> None:
    table.stage(codes(rows, table.arity), insert=True)
    table.settle()
    if accept:
        table.accept()


@both_forms
def test_a_dropped_table_gives_its_numbers_and_memory_back(form: str) -> None:
    with kernel(form):
        storage = Storage()
        kept = storage.create(1)
        stage(kept, [(7,)], accept=True)
        for _ in range(30):
            table = storage.create(2)
            table.index_on((0,))
            stage(table, [(i, -i) for i in range(100)], accept=True)
            assert len(table.matching((0,), np.array([5], np.int64), OLD)) == 1
            number = table.number
            storage.drop(table)
            assert table.memory() == 0 or table.indexes
            assert storage.create(0).number == number
            storage.drop(storage.create(3))
        assert as_set(kept.in_state(OLD)) == {(7,)}


@pytest.mark.parametrize("count", range(1, 40))
def test_rows_listed_as_inserted_leave_no_more_room_than_their_list_has(count: int) -> None:
    """The kernel writes as many rows as a table has room for, and lists each of them."""
    storage = Storage()
    table = storage.create(2)
    table.index_on((0,))
    insert_rows(table, codes([(each, each) for each in range(count)], 2))
    assert table.word(T_ROOM) <= table.word(T_CAPINS) - table.word(T_NINS)
