"""The order of a body: outward from what drives it, cheapest first, filters as soon as they are bound."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from tests.plan.plans import Given, changes, compiled, declared, load, steps
from upshot.plan import Action
from upshot.plan.rule_plan import Absent, Check, Compare, Compute, Probe, RulePlan
from upshot.plan.rule_plans import load_plan
from upshot.syntax.ast import Call, Constant, Term, Variable


def shown(plans: list[RulePlan]) -> str:
    return "\n".join(map(str, plans))


CLOSURE = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
"""


def test_the_plans_of_a_closure_go_outward_from_the_change() -> None:
    statistics = Given({"edge": 1_000, "closure": 100_000})
    assert (
        shown(changes(CLOSURE, "closure", statistics))
        == """\
D1: closure_del(X, Y) :- edge_del(X, Y).
    for each deleted row of edge(X, Y)
    delete closure(X, Y)
D1: closure_del(X, Y) :- edge_del(X, Z), closure(Z, Y).
    for each deleted row of edge(X, Z)
    probe closure(Z, Y) before on column 0
    delete closure(X, Y)
D2: closure_del(X, Y) :- edge(X, Z), closure_del(Z, Y).
    for each deleted row of closure(Z, Y)
    probe edge(X, Z) before on column 1
    delete closure(X, Y)
R: closure_red(X, Y) :- closure_del(X, Y), edge_new(X, Y).
    for each deleted row of closure(X, Y)
    test edge(X, Y)
    rederive closure(X, Y)
R: closure_red(X, Y) :- closure_del(X, Y), edge_new(X, Z), closure_new(Z, Y).
    for each deleted row of closure(X, Y)
    probe edge(X, Z) on column 0
    test closure(Z, Y)
    rederive closure(X, Y)
R: closure_red(X, Y) :- edge_new(X, Z), closure_new(Z, Y).
    for each rederived row of closure(Z, Y)
    probe edge(X, Z) on column 1
    rederive closure(X, Y)
I1: closure_ins(X, Y) :- edge_ins(X, Y).
    for each inserted row of edge(X, Y)
    insert closure(X, Y)
I1: closure_ins(X, Y) :- edge_ins(X, Z), closure_new(Z, Y).
    for each inserted row of edge(X, Z)
    probe closure(Z, Y) on column 0
    insert closure(X, Y)
I2: closure_ins(X, Y) :- edge_new(X, Z), closure_ins(Z, Y).
    for each inserted row of closure(Z, Y)
    probe edge(X, Z) on column 1
    insert closure(X, Y)"""
    )


def test_counting_reads_the_old_state_on_the_left_and_the_new_one_on_the_right() -> None:
    text = declared("p(X) :- q(X, Y), r(Y, Z), !s(Z).", q=2, r=2, s=1)
    assert (
        shown(changes(text, "p"))
        == """\
C1+: p_gain(X) :- q_ins(X, Y), r_new(Y, Z), !s_new(Z).
    for each inserted row of q(X, Y)
    probe r(Y, Z) on column 0
    test !s(Z)
    gain p(X)
C1-: p_loss(X) :- q_del(X, Y), r_new(Y, Z), !s_new(Z).
    for each deleted row of q(X, Y)
    probe r(Y, Z) on column 0
    test !s(Z)
    lose p(X)
C2+: p_gain(X) :- q(X, Y), r_ins(Y, Z), !s_new(Z).
    for each inserted row of r(Y, Z)
    test !s(Z)
    probe q(X, Y) before on column 1
    gain p(X)
C2-: p_loss(X) :- q(X, Y), r_del(Y, Z), !s_new(Z).
    for each deleted row of r(Y, Z)
    test !s(Z)
    probe q(X, Y) before on column 1
    lose p(X)
C3+: p_gain(X) :- q(X, Y), r(Y, Z), s_del(Z).
    for each deleted row of s(Z)
    probe r(Y, Z) before on column 1
    probe q(X, Y) before on column 1
    gain p(X)
C3-: p_loss(X) :- q(X, Y), r(Y, Z), s_ins(Z).
    for each inserted row of s(Z)
    probe r(Y, Z) before on column 1
    probe q(X, Y) before on column 1
    lose p(X)"""
    )


def test_the_scan_starts_at_the_relation_that_makes_the_body_cheapest() -> None:
    text = declared("p(X) :- big(X, Y), mid(Y, Z), small(Z).", big=2, mid=2, small=1)
    (plan,) = load(text, Given({"big": 1_000_000, "mid": 10_000, "small": 10}))
    assert steps(plan) == [
        "for each all row of small(Z)",
        "probe mid(Y, Z) on column 1",
        "probe big(X, Y) on column 1",
        "insert p(X)",
    ]
    (plan,) = load(text, Given({"big": 10, "mid": 10_000, "small": 1_000_000}))
    assert steps(plan) == [
        "for each all row of big(X, Y)",
        "probe mid(Y, Z) on column 0",
        "test small(Z)",
        "insert p(X)",
    ]


def test_measured_keys_decide_between_two_probes() -> None:
    text = declared("p(X) :- a(X), b(X, Y), c(X, Z), Y < Z.", a=1, b=2, c=2)
    selective = {("b", (0,)): 2, ("c", (0,)): 90}
    (plan,) = load(text, Given({"a": 5}, selective))
    assert steps(plan)[1:3] == ["probe c(X, Z) on column 0", "probe b(X, Y) on column 0"]
    (plan,) = load(text, Given({"a": 5}, {("b", (0,)): 90, ("c", (0,)): 2}))
    assert steps(plan)[1:3] == ["probe b(X, Y) on column 0", "probe c(X, Z) on column 0"]


def test_a_membership_test_comes_before_a_probe_and_a_probe_before_a_scan() -> None:
    text = declared("p(X) :- a(X, Y), far(Z, W), near(Y, V), both(X, Y), V < W, Z > 0.", a=2, far=2, near=2, both=2)
    (plan,) = load(text, Given({"a": 3, "far": 50, "near": 1_000, "both": 100_000}))
    assert steps(plan) == [
        "for each all row of a(X, Y)",
        "test both(X, Y)",
        "probe near(Y, V) on column 0",
        "scan far(Z, W)",
        "test V < W",
        "test Z > 0",
        "insert p(X)",
    ]


def test_constants_and_repeated_variables_are_keys_and_checks() -> None:
    text = declared("p(X) :- a(X, 7), b(X, Y, Y), c(3, _, X).", a=2, b=3, c=3)
    (plan,) = load(text, Given({"a": 10_000, "b": 5, "c": 10_000}))
    assert steps(plan) == [
        "for each all row of b(X, Y, Y)",
        "test a(X, 7)",
        "probe c(3, _, X) on columns 0, 2",
        "insert p(X)",
    ]


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ("p(X) :- X = 3.", ["let X = 3", "insert p(X)"]),
        ("p(X) :- X = 3, X > 2.", ["let X = 3", "test X > 2", "insert p(X)"]),
        ("p(7) :- a(X), X < 0.", ["for each all row of a(X)", "test X < 0", "insert p(7)"]),
        ("p(Y) :- a(X), Y = X, Y > 1.", ["for each all row of a(X)", "let Y = X", "test Y > 1", "insert p(Y)"]),
        ("p(X) :- a(X), 1 = 2.", ["for each all row of a(X)", "test 1 = 2", "insert p(X)"]),
    ],
)
def test_bodies_without_much_to_join(rule: str, lines: list[str]) -> None:
    (plan,) = load(declared(rule, a=1))
    assert steps(plan) == lines


def test_what_can_fail_is_computed_when_all_else_holds() -> None:
    text = declared("p(Z) :- a(X, Y), Z = X / Y, b(Y), !c(Y), Y > 1.", a=2, b=1, c=1)
    (plan,) = load(text, Given({"a": 5}))
    assert steps(plan) == [
        "for each all row of a(X, Y)",
        "test Y > 1",
        "test !c(Y)",
        "test b(Y)",
        "let Z = X / Y",
        "insert p(Z)",
    ]


def test_what_can_fail_is_computed_before_what_needs_its_result() -> None:
    text = declared("p(W) :- a(X, Y), Z = X * Y, b(Z, W), c(Y).", a=2, b=2, c=1)
    (plan,) = load(text, Given({"a": 5, "b": 7}))
    assert steps(plan) == [
        "for each all row of a(X, Y)",
        "test c(Y)",
        "let Z = X * Y",
        "probe b(Z, W) on column 0",
        "insert p(W)",
    ]


def test_a_test_of_a_computed_value_comes_before_what_it_guards() -> None:
    text = declared("p(Z) :- a(X, Y), U = 7 / X, W = Y - 1, Z = U / W, W != 0.", a=2)
    (plan,) = load(text, Given({"a": 5}))
    assert steps(plan) == [
        "for each all row of a(X, Y)",
        "let W = Y - 1",
        "test W != 0",
        "let U = 7 / X",
        "let Z = U / W",
        "insert p(Z)",
    ]


def test_a_test_of_a_computed_value_comes_before_a_division_that_a_join_needs() -> None:
    text = declared("p(W) :- a(X, Y), Z = 7 / X, U = X * Y, b(Z, W), U != 0.", a=2, b=2)
    (plan,) = load(text, Given({"a": 5, "b": 700}))
    assert steps(plan) == [
        "for each all row of a(X, Y)",
        "let U = X * Y",
        "test U != 0",
        "let Z = 7 / X",
        "probe b(Z, W) on column 0",
        "insert p(W)",
    ]


def test_an_equation_whose_sides_are_known_is_a_test() -> None:
    text = declared("p(Z) :- a(X, Y), X * Y = 6, Z = 10 / X, Z > 0.", a=2)
    (plan,) = load(text, Given({"a": 5}))
    lines = steps(plan)
    product, quotient = (next(i for i, line in enumerate(lines) if part in line) for part in ("X * Y", "10 / X"))
    assert product < quotient


def test_the_literal_that_drives_a_rule_does_not_change_what_is_computed_first() -> None:
    text = declared("p(Z) :- a(X, Y), Z = 10 / W, b(W), W = X / Y.", a=2, b=1)
    for plan in changes(text, "p"):
        lines = steps(plan)
        assert next(i for i, line in enumerate(lines) if "X / Y" in line) < lines.index("let Z = 10 / W")


# ---- laws over random bodies --------------------------------------------------------------------


def random_rule(rng: random.Random) -> str:
    """A body of atoms over few variables, with comparisons, negations and text functions on them."""
    atoms = [
        f"{rng.choice('abc')}({', '.join(f'X{rng.randint(0, 4)}' for _ in range(2))})" for _ in range(rng.randint(1, 6))
    ]
    bound = sorted({name for atom in atoms for name in atom[2:-1].split(", ")})
    extra = [
        f"{rng.choice(bound)} {rng.choice(('<', '!=', '>='))} {rng.choice(bound)}" for _ in range(rng.randint(0, 3))
    ]
    extra += [f"!{rng.choice('abc')}({rng.choice(bound)}, {rng.choice(bound)})" for _ in range(rng.randint(0, 2))]
    extra += [f"Y{i} = max({rng.choice(bound)}, {rng.choice(bound)})" for i in range(rng.randint(0, 2))]
    extra += ["Y9 = X0 + 1", "Y9 > 3"] if "X0" in bound and rng.random() < 0.3 else []
    body = atoms + extra
    rng.shuffle(body)
    return f"p({rng.choice(bound)}) :- {', '.join(body)}."


def needed(step: object) -> set[str]:
    match step:
        case Absent(_, _, operands):
            terms: tuple[Term, ...] = operands
        case Compare(_, left, right):
            terms = (left, right)
        case Check(test):
            terms = test.args
        case Compute(_, Call(_, args)):
            terms = args
        case Compute(_, (Variable() | Constant()) as value):
            terms = (value,)
        case _:
            return set()
    return {term.name for term in terms if isinstance(term, Variable)}


@pytest.mark.parametrize("seed", range(60))
def test_every_filter_stands_directly_behind_the_step_that_binds_its_last_variable(seed: int) -> None:
    rng = random.Random(seed)
    text = declared(random_rule(rng), a=2, b=2, c=2)
    (plan,) = load(text, Given({name: rng.choice((3, 100, 10_000)) for name in "abc"}))
    assert plan.driver is not None
    bound = {name for _, name in plan.driver.match.binds}
    awaited: set[str] = {step.target for step in plan.steps if isinstance(step, Compute) and "+" in str(step.value)}
    for step in plan.steps:
        if isinstance(step, Probe):
            assert {o.name for _, o in step.match.key if isinstance(o, Variable)} <= bound
            assert not bound & {name for _, name in step.match.binds}
            bound |= {name for _, name in step.match.binds}
            continue
        assert needed(step) <= bound, (text, str(plan))
        if isinstance(step, Compute):
            bound.add(step.target)
    _assert_early(plan, awaited, text)
    assert {o.name for o in plan.arguments if isinstance(o, Variable)} <= bound


def _assert_early(plan: RulePlan, can_fail: set[str], text: str) -> None:
    """No filter could have stood before the probe that precedes it, unless it waits for what can fail."""
    assert plan.driver is not None
    before = {name for _, name in plan.driver.match.binds}
    computed: set[str] = set()
    for number, step in enumerate(plan.steps):
        if isinstance(step, Probe):
            late = [
                other
                for other in plan.steps[number + 1 :]
                if not isinstance(other, Probe)
                and needed(other) <= before | computed
                and not needed(other) & can_fail
                and not (isinstance(other, Compute) and other.target in can_fail)
            ]
            assert not late, (text, str(plan))
            before |= {name for _, name in step.match.binds}
        elif isinstance(step, Compute):
            computed.add(step.target)


@pytest.mark.parametrize("seed", range(20))
def test_no_literal_is_lost(seed: int) -> None:
    rng = random.Random(1_000 + seed)
    rule = random_rule(rng)
    (plan,) = load(declared(rule, a=2, b=2, c=2))
    literals = len(plan.clause.body)
    assert len(plan.steps) + 1 == literals, (rule, str(plan))


# ---- long bodies --------------------------------------------------------------------------------


def long_body(count: int, shape: str) -> str:
    match shape:
        case "chain":
            atoms = [f"a(X{i}, X{i + 1})" for i in range(count)]
        case "star":
            atoms = [f"a(X0, X{i + 1})" for i in range(count)]
        case _:
            atoms = [f"a(X{i}, Y{i})" for i in range(count // 2)] + [f"X{i} < Y{i + 1}" for i in range(count // 2 - 1)]
    return declared(f"p(X0) :- {', '.join(atoms)}.", a=2)


@pytest.mark.parametrize("shape", ["chain", "star", "filters"])
def test_a_body_of_two_hundred_literals_is_planned_in_well_under_a_second(shape: str) -> None:
    (clause,) = compiled(long_body(200, shape)).normal.clauses
    started = time.process_time()
    plan = load_plan(clause, Action.INSERT, Given())
    assert time.process_time() - started < 0.5
    assert len(plan.steps) >= 198


def test_the_changes_of_a_long_body_are_planned_in_seconds_at_most() -> None:
    started = time.process_time()
    plans = changes(long_body(80, "chain"), "p")
    assert time.process_time() - started < 1.5
    assert len(plans) == 160


def test_a_chain_is_followed_from_its_cheapest_end() -> None:
    (plan,) = load(long_body(50, "chain"))
    bound = [name for step in plan.steps if isinstance(step, Probe) for _, name in step.match.binds]
    assert len(bound) == 49
    assert all(isinstance(step, Probe) and len(step.match.key) == 1 for step in plan.steps)


def test_every_state_of_every_occurrence_is_planned_once() -> None:
    text = declared("p(X) :- a(X, Y), a(Y, Z), a(Z, X).", a=2)
    plans = changes(text, "p")
    assert [plan.name for plan in plans] == [f"C{i}{sign}" for i, sign in itertools.product((1, 2, 3), "+-")]
