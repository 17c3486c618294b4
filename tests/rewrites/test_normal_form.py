"""Normal form: what it looks like, and that it means the same."""

from __future__ import annotations

import random
import time

import pytest

from tests.properties.random_programs import Features, random_case
from tests.rewrites.pairs import Pair, checked, normal_or_refused, pairs, random_seeds, random_states
from upshot.check import CheckedProgram, Clause, print_checked, print_clause
from upshot.check.names.variables import variables
from upshot.core.errors import DataError, ProgramError
from upshot.core.schema import Role
from upshot.engine.naive import evaluate
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of, is_aggregate_clause
from upshot.syntax import ast
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Variable, Wildcard

FEATURES = (
    Features(rows=6),
    Features(nullable=0.5, aggregates=0.8, recursion=0.2, negation=0.7, arithmetic=0.6, rows=5, views=3),
    Features(wildcards=0.4, negation=0.8, aggregates=0.6, disjunction=0.4, nullable=0.3, rows=5, views=3),
)


@pairs("normal_form")
def test_the_normal_form_is_as_written_down(pair: Pair) -> None:
    made = normal_form(checked(pair.before))
    assert "".join(print_clause(clause) + "\n" for clause in made.clauses) == pair.after


@pairs("normal_form")
def test_the_normal_form_means_the_same(pair: Pair) -> None:
    program = checked(pair.before)
    made = normal_form(program)
    for state in random_states(program, seed=1, count=25):
        before, after = evaluate(program, state), evaluate(made, state)
        assert {view: after[view] for view in before} == before, state


@pairs("normal_form")
def test_the_normal_form_is_complete_and_changes_nothing_twice(pair: Pair) -> None:
    program = checked(pair.before)
    made = normal_form(program)
    assert_normal(made)
    assert normal_form(made) == made
    assert all(made.schemas[name].role is Role.VIEW for name in made.schemas.keys() - program.schemas.keys())
    assert {name: made.schemas[name] for name in program.schemas} == dict(program.schemas)


@pairs("normal_form")
def test_the_printed_normal_form_passes_check_again(pair: Pair) -> None:
    made = normal_form(checked(pair.before))
    again = checked(print_checked(made))
    assert as_text(again) == as_text(made)
    assert again.schemas == made.schemas
    assert set(again.strata) == set(made.strata)
    assert normal_form(again) is again


@pytest.mark.parametrize("features", FEATURES, ids=["mixed", "null-and-aggregates", "negation"])
def test_random_programs_mean_the_same_in_normal_form(features: Features) -> None:
    tried = 0
    for number in random_seeds("normal-form"):
        case = random_case(number, features)
        program = checked(case.text())
        made = normal_or_refused(program)
        if made is None:
            continue
        tried += 1
        assert_normal(made)
        assert normal_form(made) == made, f"random_case({number})"
        assert as_text(checked(print_checked(made))) == as_text(made), f"random_case({number})"
        base = {name: set(rows) for name, rows in case.base.items()}
        try:
            before = evaluate(program, base)
        except DataError:
            continue
        after = evaluate(made, base)
        assert {view: after[view] for view in before} == before, f"random_case({number})\n{case.text()}"
    assert tried >= min(10, len(random_seeds("normal-form")) // 2)


def test_an_aggregate_over_values_of_the_recursion_is_refused_with_its_place() -> None:
    program = checked(
        ".decl r(x: number)  .decl p(x: number)\np(X) :- r(X).\np(N) :- p(X), N = count : { r(Y), Y < X }."
    )
    with pytest.raises(ProgramError) as caught:
        normal_form(program)
    assert caught.value.code == "aggregate-in-recursion"
    assert caught.value.span is not None
    assert caught.value.span.line == 3
    assert "`X`" in caught.value.message


def test_every_refused_aggregate_is_reported() -> None:
    program = checked(
        ".decl r(x: number)  .decl p(x: number)  .decl q(x: number)\n"
        "p(N) :- p(X), N = count : { r(Y), Y < X }.\n"
        "q(N) :- q(X), r(N), N = sum Y : { r(Y), Y != X }."
    )
    with pytest.raises(ProgramError) as caught:
        normal_form(program)
    assert len(caught.value.diagnostics) == 2


def test_a_recursive_rule_may_aggregate_over_what_others_bind() -> None:
    program = checked(
        ".decl r(x: number)  .decl p(x: number)\np(N) :- p(X), r(X), N = count : { r(Y), Y < X }.\np(X) :- r(X), X > 1."
    )
    made = normal_form(program)
    base = {"r": {(1,), (2,), (3,), (5,)}}
    assert evaluate(made, base)["p"] == evaluate(program, base)["p"] == {(0,), (1,), (2,), (3,), (5,)}


def test_the_number_of_clauses_grows_with_the_number_of_aggregates_not_with_its_power() -> None:
    count = 12
    values = ", ".join(f"N{i}" for i in range(count))
    body = ", ".join(f"N{i} = count : {{ r(X, {i}) }}" for i in range(count))
    columns = ", ".join(f"n{i}: number" for i in range(count))
    text = f".decl r(x: number, y: number) .decl p({columns}) p({values}) :- r(X, _), {body}."
    assert len(normal_form(checked(text)).clauses) <= 7 * count


def test_an_aggregate_used_twice_is_made_once() -> None:
    made = normal_form(
        checked(
            ".decl r(x: number, y: number)  .decl p(n: number)  .decl q(n: number)\n"
            "p(N) :- r(X, _), N = count : { r(A, X), A > 1 }.\n"
            "q(M) :- r(_, Z), M = count : { r(B, Z), B > 1 }.\n"
            "q(M) :- r(_, Z), M = max C : { r(C, Z), C > 1 }."
        )
    )
    assert [clause.head.relation for clause in made.clauses if aggregate_of(clause)] == ["p_count", "q_max"]
    assert [name for name in made.schemas if name.endswith("_rows")] == ["p_count_rows"]


def test_a_deep_sum_is_flattened() -> None:
    text = ".decl r(x: number) .decl p(x: number) p(" + "X + " * 90 + "X) :- r(X)."
    made = normal_form(checked(text))
    assert evaluate(made, {"r": {(2,)}})["p"] == {(182,)}


def test_a_thousand_rules_are_rewritten_in_three_seconds() -> None:
    rng = random.Random(1)
    lines = [".decl b(x: number, y: number)"]
    for i in range(1_000):
        below = f"v{rng.randrange(i)}" if i else "b"
        lines.append(f".decl v{i}(x: number, y: number)")
        lines.append(f"v{i}(X, Y + 1) :- {below}(X, Y), !b(Y, _), N = count : {{ b(X, _) }}, N < Y.")
    program = checked("\n".join(lines))
    started = time.process_time()
    assert len(normal_form(program).strata) > 1_000
    assert time.process_time() - started < 3


def as_text(program: CheckedProgram) -> list[tuple[str, dict[str, tuple[str, int, bool]]]]:
    """The clauses with the types of their variables; how many digits a decimal may have is left open by literals."""
    return [
        (print_clause(clause), {n: (t.kind.value, t.scale, t.nullable) for n, t in clause.types.items()})
        for clause in sorted(program.clauses, key=print_clause)
    ]


def assert_normal(program: CheckedProgram) -> None:
    """Every clause has the normal form's shape, every variable a type, every relation a schema and a place."""
    placed = [view for layer in program.strata for view in layer]
    assert sorted(placed) == sorted({name for name, s in program.schemas.items() if s.role is not Role.BASE})
    heads = [clause.head.relation for clause in program.clauses]
    for clause in program.clauses:
        schema = program.schemas[clause.head.relation]
        assert len(clause.head.args) == schema.arity
        names = {name for literal in (clause.head, *clause.body) for name in variables(literal)}
        assert names == set(clause.types), print_clause(clause)
        if aggregate_of(clause) is not None:
            assert is_aggregate_clause(clause, program.schemas), print_clause(clause)
            assert heads.count(clause.head.relation) == 1
        else:
            assert_plain(clause)


def assert_plain(clause: Clause) -> None:
    assert all(isinstance(arg, Variable | Constant) for arg in clause.head.args)
    for literal in clause.body:
        match literal:
            case Atom(_, args):
                assert all(isinstance(arg, Variable | Constant | Wildcard) for arg in args)
            case ast.Test(_, args) | Not(Atom(_, args) | ast.Test(_, args)):
                assert all(map(_is_simple, args))
            case Comparison("=", Variable(), Call(_, args)):
                assert all(map(_is_simple, args))
            case Comparison(_, left, right):
                assert _is_simple(left)
                assert _is_simple(right)
            case _:
                raise AssertionError(print_clause(clause))


def _is_simple(term: Term) -> bool:
    return isinstance(term, Variable | Constant)
