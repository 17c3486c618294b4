"""The plain kernel, the compiled one, and one that takes over from the other half-way: same answers, same counters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import FORMS, kernel, patience
from upshot.engine.local.components import runner

PROGRAM = """
.decl edge(x: number, y: number)
.decl name(x: number, t: symbol)
.decl closure(x: number, y: number)
.decl both(x: number, y: number)
.decl label(x: number, t: symbol)
.decl far(x: number, n: number)
.decl apart(x: number, y: number)
.view both strategy=maintenance
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
both(X, Y) :- closure(X, Y), closure(Y, X), X < Y.
label(X, L) :- name(X, T), closure(X, Y), Y < 9, T < "n5", L = cat(T, "!").
far(X, N) :- name(X, _), N = count : { closure(X, _) }.
apart(X, Y) :- name(X, _), name(Y, _), !closure(X, Y), Z = X * 100 + Y, Z % 3 != 0.
"""
EDGES = [(i, i + 1) for i in range(24)] + [(i, i - 3) for i in range(6, 24, 6)] + [(i, i + 7) for i in range(0, 17, 4)]


def history() -> list[Any]:
    """Deltas and counters of a few transactions, load first."""
    it = Driver(PROGRAM)
    seen: list[Any] = []

    def record(deltas: object) -> None:
        counters = {name: asdict(work) for name, work in it.work.views.items()}
        for each in counters.values():
            each.pop("seconds")
        seen.append((deltas, counters))

    record(it.change(insert={"edge": EDGES, "name": [(i, f"n{i % 7}") for i in range(12)]}))
    record(it.delete("edge", (3, 4)))
    record(it.change(insert={"edge": [(3, 4), (23, 0)]}, delete={"edge": [(10, 11)], "name": [(2, "n2")]}))
    record(it.delete("edge", *EDGES[::2]))
    it.assert_exact()
    return seen


def test_both_forms_give_the_same_deltas_and_counters() -> None:
    outcomes = []
    for form in FORMS:
        with kernel(form) as machine:
            outcomes.append(history())
            assert machine.is_compiled == (form == "compiled")
    assert outcomes[0] == outcomes[1]


@pytest.fixture(scope="module")
def compiled() -> list[Any]:
    with kernel("compiled"):
        return history()


@pytest.mark.parametrize("steps", [0, 1, 50, 700, 3_000, 8_000, 20_000, 30_000])
def test_handing_over_half_way_changes_nothing(steps: int, compiled: list[Any]) -> None:
    with patience(steps) as machine:
        assert not machine.is_compiled
        assert history() == compiled
        assert machine.is_compiled


def test_a_kernel_interrupted_often_changes_no_answer(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the rounds may differ: heads that wait in a block are looked at when the kernel goes on, not at its end."""
    monkeypatch.setattr(runner, "_SLICE", 7)
    with kernel("compiled"):
        assert [deltas for deltas, _ in history()] == [deltas for deltas, _ in compiled]


def test_progress_is_told_now_and_then_while_a_view_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_SLICE", 100)
    told: list[tuple[str, int]] = []
    with kernel("compiled"):
        it = Driver(PROGRAM)
        it.engine.set_progress(lambda view, rows: told.append((view, rows)))
        it.insert("edge", *EDGES)
    closure = [rows for view, rows in told if view == "closure"]
    assert len(closure) > 3
    assert closure == sorted(closure)
    assert closure[-1] <= len(it.rows("closure"))


def test_an_exception_while_the_kernel_pauses_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_SLICE", 40)
    with kernel("compiled"):
        it = Driver(PROGRAM)
        it.insert("edge", *EDGES[:10])
        before = it.state()

        def interrupt(view: str, rows: int) -> None:
            raise KeyboardInterrupt

        it.engine.set_progress(interrupt)
        it.engine.insert("edge", EDGES)
        with pytest.raises(KeyboardInterrupt):
            it.engine.propagate()
        it.engine.rollback()
        it.engine.set_progress(None)
        assert it.state() == before
        it.insert("edge", *EDGES)
        it.assert_exact()
