"""A change that is taken up again: every propagation tells what changed since the transaction began."""

from __future__ import annotations

import random

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import both_forms, kernel
from tests.engine.reopening import check_reopened, expected_answer, open_answer, sets
from tests.properties.cases import Case
from tests.properties.exactness import checked
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.shrinking import as_script, shrink
from tests.properties.strategies import STRATEGIES, view_options
from upshot.core.errors import ProgramError

FOCUSES = {
    "everything": Features(),
    "recursion": Features(recursion=1, nonlinear=0.5, mutual=0.5, aggregates=0.05, arithmetic=0.1),
    "negation": Features(negation=0.9, views=5, wildcards=0.3, aggregates=0.05, arithmetic=0.1),
    "aggregates": Features(aggregates=0.8, mean=0.3, recursion=0.2, negation=0.2),
    "nulls": Features(nullable=0.6, symbols=0.2, negation=0.5),
}
WAYS = (
    *STRATEGIES, "maintenance policy=full", "production materialized=false", "rod materialized=true",
    "differencing materialized=true",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS)
def test_changes_since_the_beginning_equal_the_oracles(strategy: str) -> None:
    def violation(case: Case) -> str | None:
        try:
            check_reopened(Driver(case.text(view_options(checked(case.text()), strategy))), case)
        except ProgramError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the engine raises is a finding, to be shrunk like any other
            return f"{type(error).__name__}: {error}"
        return None

    for number in range(case_count(2000)):
        focus = list(FOCUSES)[(number + WAYS.index(strategy)) % len(FOCUSES)]
        case = random_case(seed_of(f"reopen {focus} {strategy}", number), FOCUSES[focus])
        if violation(case) is not None:
            small = shrink(case, lambda each: violation(each) is not None, seconds=10)
            words = f"seed {case.seed}, strategy {strategy}\n{violation(small)}"
            pytest.fail(f"{words}\n\nas a script:\n\n{as_script(small)}", pytrace=False)


STOCK = """
.decl item(name: symbol, quantity: number, least: number) key(name)
.decl gone(name: symbol)
.decl low(name: symbol)
.decl lows(n: number)
low(N) :- item(N, Q, L), Q < L, !gone(N).
lows(C) :- C = count : { low(_) }.
"""


@both_forms
def test_keys_are_followed_from_part_to_part(form: str) -> None:
    with kernel(form):
        it = Driver(STOCK)
        it.insert("item", ("bolt", 5, 3), ("nut", 9, 3))
        engine = it.engine
        engine.upsert("item", [("bolt", 1, 3)])
        assert sets(engine.propagate())["low"] == ({("bolt",)}, set())
        engine.reopen()
        engine.upsert("item", [("bolt", 2, 3), ("cog", 1, 1)])
        assert sets(engine.propagate())["item"] == ({("bolt", 2, 3), ("cog", 1, 1)}, {("bolt", 5, 3)})
        engine.reopen()
        engine.upsert("item", [("bolt", 5, 3)])
        engine.delete("item", [("cog", 1, 1)])
        assert sets(engine.propagate()) == {}
        engine.reopen()
        engine.insert("item", [("nut", 1, 3)])
        assert sets(engine.propagate())["item"] == ({("nut", 1, 3)}, set())
        assert {frozenset(pair) for pair in engine.key_conflicts("item")} == {frozenset({("nut", 1, 3), ("nut", 9, 3)})}
        engine.reopen()
        engine.replace("item", [("nut", 1, 3), ("cam", 0, 1)])
        found = sets(engine.propagate())
        assert found["item"] == ({("nut", 1, 3), ("cam", 0, 1)}, {("bolt", 5, 3), ("nut", 9, 3)})
        assert (found["low"], found["lows"]) == (({("nut",), ("cam",)}, set()), ({(2,)}, {(0,)}))
        assert engine.key_conflicts("item") == []
        engine.accept()
        it.assert_exact()
        it.upsert("item", ("cam", 7, 1))
        it.assert_exact()
        assert it.rows("low") == {("nut",)}


def test_undone_after_several_parts_nothing_is_left() -> None:
    it = Driver(STOCK)
    it.insert("item", ("bolt", 1, 3), ("nut", 9, 3))
    state, tables = it.state(), {n: t.size for n, t in it.engine._now.tables.items()}
    for _ in range(3):
        for k in range(4):
            it.engine.upsert("item", [("bolt", k, 3), (f"new{k}", 0, 1)])
            it.engine.insert("gone", [("bolt",)] if k % 2 else [])
            it.engine.propagate()
            it.engine.reopen()
        it.engine.delete("gone", [("bolt",)])
        it.engine.rollback()
        assert it.state() == state
        assert {n: t.size for n, t in it.engine._now.tables.items()} == tables
    assert it.upsert("item", ("nut", 0, 3))["low"] == ({("nut",)}, set())
    it.assert_exact()


def test_a_part_that_fails_can_be_undone() -> None:
    it = Driver(".decl r(x: number)\n.decl v(x: number)\nv(Y) :- r(X), Y = 10 / X.")
    it.insert("r", (1,))
    it.engine.insert("r", [(2,)])
    it.engine.propagate()
    it.engine.reopen()
    it.engine.insert("r", [(0,)])
    with pytest.raises(Exception, match="division"):
        it.engine.propagate()
    it.engine.rollback()
    assert it.rows("v") == {(10,)}
    assert it.insert("r", (5,))["v"] == ({(2,)}, set())


def test_readers_see_the_state_before_all_along() -> None:
    it = Driver(STOCK)
    it.insert("item", ("bolt", 1, 3))
    it.engine.insert("gone", [("bolt",)])
    for _ in range(2):
        it.engine.propagate()
        assert it.rows("low") == {("bolt",)}
        assert it.query("lows(N)") == {(1,)}
        it.engine.reopen()
        assert it.rows("low") == {("bolt",)}
        assert it.query("lows(N)") == {(1,)}
    it.engine.rollback()


# ---- queries in the state reached ---------------------------------------------------------------

GRAPH = """
.decl edge(x: number, y: number)
.decl name(x: number, t: symbol?)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Y) :- edge(X, Z), path(Z, Y).
.decl fan(x: number, n: number)
fan(X, N) :- edge(X, _), N = count : { path(X, _) }.
.decl lonely(x: number)
lonely(X) :- name(X, _), !edge(X, _), !edge(_, X).
"""
PICKED = ".decl g(x: number, t: symbol?)\n"
QUESTIONS = (
    ".decl q(x: number, y: number) q(X, Y) :- path(X, Y), !edge(X, Y).",
    ".decl q(x: number, n: number) q(X, N) :- fan(X, N), N > 1.",
    ".decl q(n: number) q(N) :- N = count : { path(_, _) }.",
    ".decl q(x: number) q(X) :- name(X, T), is_null(T).",
    ".decl q() q() :- !lonely(_).",
)
ABOUT_PICKED = (
    ".decl q(x: number, y: number) q(X, Y) :- path(X, Y), g(X, _).",
    ".decl q(x: number, y: number, t: symbol?) q(X, Y, T) :- edge(Y, _), path(X, Y), g(X, T), !lonely(X).",
    ".decl q(x: number) q(X) :- g(X, _), !edge(X, _).",
    ".decl q(x: number, n: number) q(X, N) :- g(X, _), N = count : { path(X, _) }.",
    ".decl q(x: number, n: number) q(X, N) :- g(X, _), N = max Y : { edge(X, Y), path(Y, _) }.",
    ".decl q(x: number, t: symbol?) q(X, T) :- g(X, T), !name(X, T).",
    ".decl q(x: number, y: number) q(X, Y) :- g(X, T), name(Y, T), X != Y.",
    ".decl q(x: number) q(X) :- g(X, _). q(Y) :- g(X, _), path(X, Y), g(Y, _).",
    ".decl q(n: number) q(N) :- N = count : { g(_, _) }.",
    # The helper is what `name` was before `g` came to it, and is as large as that.
    ".decl was(x: number, t: symbol?) was(X, T) :- name(X, T), !g(X, T).\n"
    ".decl q(x: number, n: number) q(X, N) :- g(X, _), N = count : { was(X, _) }, !was(_, \"no\").",
    ".decl was(x: number, y: number) was(X, Y) :- edge(X, Y), !g(X, _). was(X, X) :- g(X, _).\n"
    ".decl far(x: number) far(X) :- was(X, Y), path(Y, X).\n"
    ".decl q(x: number, y: number) q(X, Y) :- g(X, _), path(X, Y), !was(X, Y), !far(Y).",
)  # fmt: skip
KEPT = {
    "stored": "",
    "paths on demand": ".view path materialized=false\n.view fan materialized=false\n",
    "all on demand": "".join(f".view {v} materialized=false\n" for v in ("path", "fan", "lonely")),
    "rod": "".join(f".view {v} strategy=rod\n" for v in ("path", "fan", "lonely")),
    "started": "".join(f".view {v} strategy=production materialized=false\n" for v in ("path", "fan", "lonely")),
}


@pytest.mark.slow
@pytest.mark.parametrize("kept", KEPT)
def test_an_open_query_is_answered_as_by_the_oracle(kept: str) -> None:
    text = GRAPH + KEPT[kept]
    it = Driver(text)
    rng = random.Random(kept)
    edges, names = {(1, 2), (2, 3), (3, 1), (5, 5)}, {(1, "one"), (2, None), (4, "four"), (7, "x")}
    it.change(insert={"edge": list(edges), "name": list(names)})

    def agree(base: dict[str, set[tuple[object, ...]]]) -> None:
        for question in QUESTIONS:
            assert open_answer(it, text, question) == expected_answer(text, question, base), question
        picked = [(rng.randrange(1, 9), rng.choice(["one", "x", None, "no"])) for _ in range(rng.randrange(4))]
        for question in ABOUT_PICKED:
            given = {"g": picked}
            wanted = expected_answer(text, PICKED + question, base, given)
            assert open_answer(it, text, PICKED + question, given) == wanted, (question, picked)

    for _ in range(case_count(2000)):
        before = {"edge": set(edges), "name": set(names)}
        agree(before)
        for part in range(3):
            if part:
                it.engine.reopen()
            for relation, row in [("edge", (rng.randrange(1, 6), rng.randrange(1, 9))) for _ in range(3)]:
                edges ^= {row}
                (it.engine.insert if row in edges else it.engine.delete)(relation, [row])
            names ^= {(part, "x")}
            it.engine.replace("name", list(names))
            it.engine.propagate()
            agree({"edge": edges, "name": names})
        if rng.random() < 0.5:
            it.engine.rollback()
            edges, names = before["edge"], before["name"]
        else:
            it.engine.accept()
        agree({"edge": edges, "name": names})


LARGE = 20_000


@pytest.mark.parametrize("options", ["", ".view near materialized=false\n.view total materialized=false\n"])
def test_an_open_query_begins_at_the_small_relations_it_is_given(options: str) -> None:
    text = f"""
    .decl big(x: number, y: number)
    .decl tag(y: number)
    .decl near(x: number, z: number)
    near(X, Z) :- big(X, Y), big(Y, Z).
    .decl total(x: number, n: number)
    total(X, N) :- big(X, _), N = sum Y : {{ big(X, Y) }}.
    {options}"""
    it = Driver(text)
    it.insert("big", *[(i, (i * 7) % LARGE) for i in range(LARGE)])
    it.insert("tag", *[(i,) for i in range(LARGE)])
    it.engine.insert("big", [(1, LARGE + 1)])
    it.engine.propagate()
    given = ".decl g(a: number, b: number, c: number)\n"
    questions = (
        ".decl q(x: number, y: number) q(X, Y) :- tag(X), tag(Y), big(X, Y), g(X, _, _).",
        ".decl q(x: number, z: number) q(X, Z) :- tag(Z), near(X, Z), g(X, _, _), !big(Z, X).",
        ".decl q(x: number) q(X) :- g(X, _, _), !big(X, _).",
        ".decl q(x: number, n: number) q(X, N) :- g(X, _, _), tag(X), total(X, N).",
        ".decl q(x: number, n: number) q(X, N) :- tag(X), g(X, _, _), N = count : { big(X, Y), tag(Y) }.",
        ".decl was(x: number, y: number) was(X, Y) :- big(X, Y), !g(X, Y, _). was(X, Y) :- g(_, X, Y).\n"
        ".decl q(x: number, y: number) q(X, Y) :- was(X, Y), tag(Y), g(X, _, _).",
        ".decl was(x: number, y: number) was(X, Y) :- big(X, Y), !g(X, Y, _). was(X, Y) :- g(_, X, Y).\n"
        ".decl q(x: number) q(X) :- g(X, _, _), !was(X, _).",
    )
    for question in questions:
        open_answer(it, text, given + question, {"g": [(1, 2, 3), (5, 6, 7)]})
        work = it.engine.query_work
        assert work.probed + work.derived < 200, (question, work)
        assert open_answer(it, text, given + question, {"g": []}) == set()
        assert it.engine.query_work.probed < 20, question
    it.engine.rollback()
