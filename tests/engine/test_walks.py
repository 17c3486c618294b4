"""Closures loaded by walks: the rows, and every change after them, are those of the rules."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import upshot
from tests.engine.kernels import both_forms, cases_of, dense, kernel
from upshot.check import check
from upshot.core.errors import LimitError
from upshot.engine.local.components import walks
from upshot.plan.program_plan import compile_program
from upshot.plan.walks import Edges, Walk, walk_of
from upshot.syntax import parse

Pair = tuple[Any, Any]

FORWARD = "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), e(Z, Y)."
BACKWARD = "p(X, Y) :- b(X, Y). p(X, Y) :- e(X, Z), p(Z, Y)."
REVERSED = "p(X, Y) :- b(X, Y). p(X, Y) :- e(Y, Z), p(X, Z)."
BOTH_EDGES = "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), e(Z, Y). p(X, Y) :- b(Z, Y), p(X, Z)."
CLOSURE = "p(X, Y) :- e(X, Y). p(X, Y) :- e(X, Z), p(Z, Y)."
SQUARING = "p(X, Y) :- e(X, Y). p(X, Y) :- b(Y, X). p(X, Y) :- p(X, Z), p(Z, Y)."
PROGRAMS = {
    "forward": FORWARD, "backward": BACKWARD, "reversed": REVERSED, "both": BOTH_EDGES, "closure": CLOSURE,
    "squaring": SQUARING,
}  # fmt: skip


def declared(rules: str, type: str = "number") -> str:
    return "".join(f".decl {name}(x: {type}, y: {type})\n" for name in ("b", "e", "p")) + rules


LABELED = {"last": "{0}, L", "first": "L, {0}", "between": "{1}, L, {2}"}
"""Where a label stands beside a pair of columns."""


def labeled(rules: str, place: str, unlabeled: str = "") -> str:
    """The rules with a label in every atom, but for those of some relations."""

    def atom(found: re.Match[str]) -> str:
        relation, pair, one, other = found.groups()
        return found.group() if relation in unlabeled else f"{relation}({LABELED[place].format(pair, one, other)})"

    return re.sub(r"(\w)\(((\w), (\w))\)", atom, rules)


def declared_labeled(rules: str, place: str, unlabeled: str = "", type: str = "number") -> str:
    """As `declared`, of rules with a label."""
    names = [name for name in "bep" if name not in unlabeled]
    triples = "".join(f".decl {name}(x: {type}, y: {type}, z: {type})\n" for name in names)
    pairs = "".join(f".decl {name}(x: {type}, y: {type})\n" for name in unlabeled)
    return triples + pairs + labeled(rules, place, unlabeled)


def triple(pair: Pair, label: Any, place: str) -> tuple[Any, ...]:
    return {"last": (*pair, label), "first": (label, *pair), "between": (pair[0], label, pair[1])}[place]


def completed(seeds: Iterable[Pair], edges: Iterable[Pair], pivot: int) -> set[Pair]:
    found, waiting = set[Pair](), list(seeds)
    steps: dict[Any, list[Any]] = {}
    for source, target in edges:
        steps.setdefault(source, []).append(target)
    while waiting:
        row = waiting.pop()
        if row not in found:
            found.add(row)
            for target in steps.get(row[1 - pivot], ()):
                waiting.append((row[0], target) if pivot == 0 else (target, row[1]))
    return found


def expected(name: str, b: set[Pair], e: set[Pair]) -> set[Pair]:
    back = {(y, x) for x, y in e}
    both = e | {(y, x) for x, y in b}
    made: dict[str, Callable[[], set[Pair]]] = {
        "forward": lambda: completed(b, e, 0),
        "backward": lambda: completed(b, back, 1),
        "reversed": lambda: completed(b, back, 0),
        "both": lambda: completed(b, e | b, 0),
        "closure": lambda: completed(e, back, 1),
        "squaring": lambda: completed(both, both, 0),
    }
    return made[name]()


def database(rules: str, type: str = "number", options: str = "") -> upshot.Database:
    db = upshot.connect()
    db.define(declared(rules, type) + options)
    dense(db)._state.engine._runner.most_cells = 0  # type: ignore[attr-defined]
    return db


@both_forms
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute"])
def test_loads_and_changes_agree_with_the_rules(name: str, strategy: str, form: str) -> None:
    rng = random.Random(f"{name} {strategy}")
    with kernel(form):
        for case in range(cases_of(form)):
            size = rng.choice([1, 2, 5, 12, 30])
            values = rng.choice([list(range(size)), [rng.randrange(-(2**63), 2**63) for _ in range(size)]])

            def pairs(most: int, among: list[int] = values) -> set[Pair]:
                return {(rng.choice(among), rng.choice(among)) for _ in range(rng.randrange(most))}

            db = database(PROGRAMS[name], options=f"\n.view p strategy={strategy}")
            b, e = pairs(2 * size + 1), pairs(3 * size + 1)
            with db.transaction() as tx:
                tx.insert("b", b)
                tx.insert("e", e)
            assert set(db.rows("p")) == expected(name, b, e), case
            assert set(tx.changes["p"].inserted) == set(db.rows("p"))
            for _ in range(4):
                gone, come, before = pairs(4), pairs(4), set(db.rows("p"))
                e = (e - gone) | come
                with db.transaction() as tx:
                    tx.delete("e", gone)
                    tx.insert("e", come)
                assert set(db.rows("p")) == expected(name, b, e), case
                changes = tx.changes["p"]
                assert set(changes.inserted) == set(db.rows("p")) - before
                assert set(changes.deleted) == before - set(db.rows("p"))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_write_rows_without_gaps(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_QUOTA", 10)
    rng = random.Random(workers)
    with kernel("compiled"):
        db = database(CLOSURE, "symbol")
        db._state.engine._runner.workers = workers  # type: ignore[attr-defined]
        e = {(f"n{rng.randrange(300)}", f"n{rng.randrange(300)}") for _ in range(500)}
        with db.transaction() as tx:
            tx.insert("e", e)
        assert set(db.rows("p")) == expected("closure", set(), e)
        assert len(db.rows("p")) == tx.stats.inserted
        assert "computed by a walk over `e` for each value of column 2" in str(db.explain("p"))
        with db.transaction() as tx:
            tx.delete("e", e)
        assert len(db.rows("p")) == 0
        with db.transaction() as tx:
            tx.insert("e", e)
        assert set(db.rows("p")) == expected("closure", set(), e)


def test_a_load_that_is_rolled_back_leaves_nothing() -> None:
    with kernel("compiled"):
        db = database(CLOSURE, options="\n.deny loop(X) :- p(X, X).")
        with pytest.raises(upshot.Error, match="loop"), db.transaction() as tx:
            tx.insert("e", [(1, 2), (2, 3), (3, 1)])
        assert len(db.rows("p")) == 0
        with db.transaction() as tx:
            tx.insert("e", [(1, 2), (2, 3)])
        assert set(db.rows("p")) == {(1, 2), (2, 3), (1, 3)}


def rounds_of_a_chain(most: int, worth_walking: int) -> int:
    """The rounds that the closure of a chain takes; 0 if they are too many."""
    db = upshot.connect(max_rounds=most)
    db.define(declared(CLOSURE))
    db._state.engine._runner.worth_walking = worth_walking  # type: ignore[attr-defined]
    try:
        with db.transaction() as tx:
            tx.insert("e", [(i, i + 1) for i in range(7)])
    except LimitError:
        assert len(db.rows("p")) == 0
        return 0
    assert len(db.rows("p")) == 28
    return int(tx.stats.rounds)


@pytest.mark.parametrize("most", [6, 7, 8, 9])
def test_a_walk_ends_at_the_limit_of_rounds_as_the_kernel_does(most: int) -> None:
    assert rounds_of_a_chain(most, 0) == rounds_of_a_chain(most, 1 << 60)


def test_the_first_change_after_a_load_builds_no_index() -> None:
    db = database(CLOSURE)
    e = [(i, i + 1) for i in range(30)]
    with db.transaction() as tx:
        tx.insert("e", e)
    table = db._state.engine._now.tables["p"]  # type: ignore[attr-defined]
    built = set(table.indexes)
    assert built
    with db.transaction() as tx:
        tx.delete("e", [e[3]])
    with db.transaction() as tx:
        tx.insert("e", [e[3]])
    assert set(table.indexes) == built


def test_a_view_joined_with_itself_on_one_side_has_rows_that_need_derived_rows() -> None:
    """The rows that rules without recursion give do not stand for the view here."""
    db = database("p(X, Y) :- e(X, Y). p(X, Y) :- p(X, Z), p(Y, Z).")
    with db.transaction() as tx:
        tx.insert("e", [(1, 2), (3, 2), (5, 3), (2, 7)])
    found = set(db.rows("p"))
    expected = {(1, 2), (3, 2), (5, 3), (2, 7)}
    while (more := {(x, y) for x, z in expected for y, w in expected if z == w} - expected) != set():
        expected |= more
    assert found == expected


def test_verify_recomputes_by_rounds_and_not_by_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    db = database(CLOSURE)
    with db.transaction() as tx:
        tx.insert("e", [(i, i + 1) for i in range(0, 10_000, 2)])
    assert len(db.rows("p")) == 5000

    def unused(*_: object) -> None:
        raise AssertionError("a walk")

    monkeypatch.setattr(walks, "load_by_walks", unused)
    assert db.verify().rows == 5000


def test_the_room_of_a_small_closure_is_small() -> None:
    db = database(CLOSURE)
    with db.transaction() as tx:
        tx.insert("e", [(i, i + 1) for i in range(0, 2000, 2)])
    table = db._state.engine._now.tables["p"]  # type: ignore[attr-defined]
    assert len(db.rows("p")) == 1000
    assert table.capacity < 20_000


def walk_in(program: str) -> Walk | None:
    plan = compile_program(check(parse(program)))
    (component,) = [each for each in plan.components if "p" in each.views]
    return walk_of(component, plan.normal.schemas)


def test_which_recursion_is_a_walk() -> None:
    def found(rules: str, type: str = "number") -> Walk | None:
        return walk_in(declared(rules, type))

    assert found(FORWARD) == Walk("p", 1, (0,), (Edges("e", 0, 1),))
    assert found(BACKWARD) == Walk("p", 0, (1,), (Edges("e", 1, 0),))
    assert found(REVERSED) == Walk("p", 1, (0,), (Edges("e", 1, 0),))
    assert found(SQUARING) == Walk("p", 1, (0,), (Edges("p", 0, 1),))
    for other in (
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), e(Z, Y). p(X, Y) :- e(X, Z), p(Z, Y).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), e(Z, Y), X != Y.",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), e(Z, Y), !b(X, Y).",
        "p(X, Y) :- b(X, Y). p(X, X) :- p(X, Z), e(Z, X).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(Z, X), e(Z, Y).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), p(Z, Y). p(X, Y) :- p(X, Z), e(Z, Y).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, _), e(X, Y).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(X, Z), p(Y, Z).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(Z, X), p(Z, Y).",
        "p(X, Y) :- b(X, Y). p(X, Y) :- p(Z, Y), p(Z, X).",
    ):
        assert found(other) is None, other
    assert found(FORWARD, "number?") is None
    assert found(FORWARD, "float") is None


def test_which_recursion_is_a_walk_that_carries_a_label() -> None:
    def found(rules: str, place: str = "last", unlabeled: str = "") -> Walk | None:
        return walk_in(declared_labeled(rules, place, unlabeled))

    assert found(FORWARD) == Walk("p", 1, (0, 2), (Edges("e", 0, 1, (2,)),), (2,))
    assert found(BACKWARD, "between") == Walk("p", 0, (1, 2), (Edges("e", 2, 0, (1,)),), (1,))
    assert found(SQUARING, "first") == Walk("p", 2, (0, 1), (Edges("p", 1, 2, (0,)),), (0,))
    assert found(FORWARD, unlabeled="e") == Walk("p", 1, (0, 2), (Edges("e", 0, 1),))
    assert str(found(FORWARD)) == "computed by a walk over `e` for each value of columns 1 and 3"
    two_rules = f"{FORWARD} p(X, Y) :- p(X, Z), b(Z, Y)."
    assert found(two_rules) is not None
    assert found(two_rules, unlabeled="e") is None
    triples = declared_labeled("p(X, Y) :- b(X, Y).", "last")
    of_source = walk_in(f"{triples} p(X, Y, L) :- p(X, Z, L), e(Z, Y, X).")
    assert of_source == Walk("p", 1, (0, 2), (Edges("e", 0, 1, (2,)),), (0,))
    for rule in (
        "p(X, Y, M) :- p(X, Z, L), e(Z, Y, M).",
        "p(X, Y, L) :- p(X, Z, L), e(Z, Y, M).",
        "p(X, Y, L) :- p(X, Z, L), e(Z, Y, 1).",
        "p(X, Y, X) :- p(X, Z, X), e(Z, Y, X).",
        "p(X, Y, L) :- p(X, Z, L), p(Z, Y, M).",
        "p(X, Y, L) :- p(X, Z, L), p(Z, L, Y).",
        "p(X, Y, L) :- p(X, Z, L), p(L, Y, Z).",
    ):
        assert walk_in(f"{triples} {rule}") is None, rule
