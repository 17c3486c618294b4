"""The text dictionary stays as large as what is there, and forgets nothing that somebody still holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from tests.engine.driver import Driver
from upshot.core.errors import EngineError
from upshot.engine.local.kernel.layout import T_LIVE
from upshot.engine.local.storage.codec import Dictionary
from upshot.engine.local.storage.storage import Table

NAMES = ".decl name(x: symbol, n: number) .decl seen(x: symbol) seen(X) :- name(X, _)."
ROUND = 3_000
"""Texts of one transaction; every second one makes a sweep due."""


@pytest.fixture
def fresh() -> Iterator[Iterator[str]]:
    """Texts that never come twice."""
    return (f"text {i}" for i in count())


def batch(fresh: Iterator[str], size: int = ROUND) -> list[tuple[str, int]]:
    return [(next(fresh), i) for i in range(size)]


def texts(it: Driver) -> int:
    return it.engine.memory()["texts"]


def test_ever_new_text_does_not_fill_the_dictionary(fresh: Iterator[str]) -> None:
    it = Driver(NAMES)
    rows = batch(fresh)
    it.insert("name", *rows)
    largest = 0
    for _ in range(12):
        following = batch(fresh)
        it.change(delete={"name": rows}, insert={"name": following})
        rows = following
        largest = max(largest, texts(it))
    assert largest <= 4 * ROUND
    assert it.rows("seen") == {(text,) for text, _ in rows}


def test_text_of_failed_statements_and_undone_changes_is_reclaimed_too(fresh: Iterator[str]) -> None:
    it = Driver(NAMES)
    for _ in range(12):
        it.engine.insert("name", batch(fresh))
        it.engine.rollback()
        it.insert("name", ("kept", 1))
        it.delete("name", ("kept", 1))
    assert texts(it) <= 4 * ROUND


def failing(*_: object) -> None:
    raise MemoryError


def test_a_sweep_passes_over_rows_that_found_no_memory_for_a_copy(
    fresh: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Driver(NAMES)
    it.engine.insert("name", batch(fresh, 10))
    inserted, _ = it.engine.propagate()["seen"]
    it.engine.accept()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "listed", failing)
        it.engine._factory.fetch_all(must_go_on=True)
    for _ in range(6):
        rows = batch(fresh)
        it.insert("name", *rows)
        it.delete("name", *rows)
    assert texts(it) <= 4 * ROUND
    with pytest.raises(EngineError, match="rolled back"):
        set(inserted)


@pytest.mark.parametrize("end", ["accept", "rollback"])
def test_a_sweep_that_finds_no_memory_leaves_the_change_as_it_ended(
    end: str, fresh: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Driver(NAMES)
    rows = batch(fresh, 3 * ROUND)
    it.engine.insert("name", rows)
    it.engine.propagate()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "codes_in", failing)
        patch.setattr(Dictionary, "sweep", failing)
        getattr(it.engine, end)()
    assert it.rows("seen") == ({(text,) for text, _ in rows} if end == "accept" else set())
    it.insert("name", ("later", 1))
    assert ("later",) in it.rows("seen")


def test_rows_handed_out_earlier_read_the_same_after_sweeps(fresh: Iterator[str]) -> None:
    it = Driver(NAMES)
    first = batch(fresh, 100)
    it.engine.insert("name", first)
    inserted, _ = it.engine.propagate()["name"]
    it.engine.accept()
    whole, derived = it.engine.rows("name"), it.engine.rows("seen")
    answer = it.query("name(X, N), N < 10")
    it.engine.delete("name", first)
    _, deleted = it.engine.propagate()["seen"]
    it.engine.accept()
    for _ in range(6):
        rows = batch(fresh)
        it.insert("name", *rows)
        it.delete("name", *rows)
    assert set(inserted) == set(whole) == set(first)
    assert set(deleted) == set(derived) == {(text,) for text, _ in first}
    assert set(answer) == set(first[:10])
    assert whole.to_arrow().num_rows == 100
    assert set(whole.to_arrow().column(0).to_pylist()) == {text for text, _ in first}


def test_rows_nobody_holds_any_more_do_not_keep_their_text(fresh: Iterator[str]) -> None:
    it = Driver(NAMES)
    for _ in range(8):
        rows = batch(fresh)
        it.insert("name", *rows)
        handed = it.engine.rows("name")
        assert len(handed) == ROUND
        del handed
        it.delete("name", *rows)
    assert texts(it) <= 4 * ROUND


CONSTANTS = """
.decl name(x: symbol, n: number)
.decl body(n: number)
.decl head(what: symbol, n: number)
.decl absent(n: number)
.decl joined(x: symbol)
.decl before(n: number)
.decl least(x: symbol)
.decl rec(x: symbol)
body(N) :- name("wanted", N).
head("label", N) :- name(_, N), N < 0.
absent(N) :- name(_, N), N < 0, !name("other", N).
joined(Z) :- name(X, N), N < 0, Z = cat("<", X, ">").
before(N) :- name(X, N), N < 0, X < "middle".
least(X) :- X = min Y : { name(Y, _) }.
rec("start") :- name(_, N), N < 0.
rec(Z) :- rec("start"), Z = "end".
"""


def test_constants_of_rules_survive_sweeps(fresh: Iterator[str]) -> None:
    it = Driver(CONSTANTS)
    for _ in range(5):
        rows = batch(fresh)
        it.insert("name", *rows)
        it.delete("name", *rows)
    assert texts(it) < 5 * ROUND
    it.insert("name", ("wanted", -1), ("other", -2), ("abc", -3))
    assert it.rows("body") == {(-1,)}
    assert it.rows("head") == {("label", -1), ("label", -2), ("label", -3)}
    assert it.rows("absent") == {(-1,), (-3,)}
    assert it.rows("rec") == {("start",), ("end",)}
    it.assert_exact()
    for _ in range(5):
        rows = batch(fresh)
        it.insert("name", *rows)
        it.delete("name", *rows)
    it.assert_exact()
    it.delete("name", ("abc", -3), ("wanted", -1))
    it.assert_exact()


def test_the_smallest_text_of_a_group_is_right_after_sweeps(fresh: Iterator[str]) -> None:
    it = Driver(
        ".decl r(g: symbol, x: symbol) .decl m(g: symbol, x: symbol) m(G, X) :- r(G, _), X = min Y : { r(G, Y) }."
    )
    it.insert("r", ("g", "aa"), ("g", "ab"), ("g", "zz"))
    for _ in range(5):
        rows = [(text, text) for text, _ in batch(fresh)]
        it.insert("r", *rows)
        it.delete("r", *rows)
    assert it.delete("r", ("g", "aa"))["m"] == ({("g", "ab")}, {("g", "aa")})
    assert it.insert("r", ("g", "a"))["m"] == ({("g", "a")}, {("g", "ab")})


def test_a_sweep_forgets_exactly_what_is_not_marked() -> None:
    dictionary = Dictionary()
    codes = [dictionary.code(text) for text in "abcde"]
    assert codes == [dictionary.code(text) for text in "abcde"]
    used = np.zeros(5, np.bool_)
    used[[codes[1], codes[3]]] = True
    assert dictionary.sweep(used) == 3
    assert len(dictionary) == 2
    assert dictionary.sweep(used) == 0
    assert [dictionary.code(text) for text in "bd"] == [codes[1], codes[3]]
    again = {dictionary.code(text) for text in "xyz"}
    assert again == {codes[0], codes[2], codes[4]}
    assert len(dictionary.values) == 5
    assert dictionary.code("") == 5
    assert dictionary.values[5] == ""


def test_whether_a_sweep_is_due_is_found_without_a_look_at_every_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(table: Table) -> int:
        sizes.append(table.number)
        return table.word(T_LIVE)

    def looks(relations: int) -> int:
        columns = ", ".join(f"c{i}: symbol" for i in range(20))
        others = "".join(f".decl other{i}(x: symbol)\n" for i in range(relations))
        it = Driver(f".decl wide({columns})\n.decl name(x: symbol)\n{others}")
        it.insert("wide", *((f"text {i}",) * 20 for i in range(4_500)))
        assert texts(it) == 4_500
        monkeypatch.setattr(Table, "size", property(counted))
        sizes.clear()
        it.insert("name", ("text 0",))
        monkeypatch.undo()
        return len(sizes)

    assert looks(60) == looks(0)
