"""Every functor, comparison and test gives on Spark what the local engine computes, and fails where it fails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as F

import upshot
from tests.spark.frames import Asked, Row, comparable, frame_of, rows_of
from tests.spark.test_rule_frames import Sizes
from upshot.check import check
from upshot.check.program import CheckedProgram
from upshot.core.errors import Error
from upshot.core.types import Type
from upshot.engine.local.functors import TESTS, function
from upshot.engine.naive_values import canonical
from upshot.engine.naive_values import compare as holds
from upshot.engine.spark.frames import expressions
from upshot.engine.spark.frames.rule_frames import heads
from upshot.plan.program_plan import compile_program
from upshot.plan.rule_plan import Action
from upshot.plan.rule_plans import load_plan
from upshot.spark.failures import translated
from upshot.spark.session import private_session
from upshot.spark.types import spark_type
from upshot.syntax import parse

pytestmark = pytest.mark.slow

NUMBERS = (
    -(2**63), -(2**63) + 1, -(2**62), -(2**32), -7, -2, -1, 0, 1, 2, 3, 7, 62, 63, 64, 65, 2**31, 3037000500, 2**62,
    2**63 - 1,
)  # fmt: skip
UNSIGNED = (0, 1, 2, 3, 63, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan, 1e16, 1 / 3)
DECIMALS = tuple(map(Decimal, ("0.00", "0.01", "-1.50", "99.99", "9999999999999999.99", "-9999999999999999.99")))
TEXTS = ("", "a", "ab", "é", "e\u0301", "\U0001f600x", "\uffff", "a\0b", "\0", " ", "Z", "10", "'\"\\\n")
DIGITS = ("0", "-0", "+007", "9223372036854775807", "-9223372036854775808", "0" * 30 + "5")
PATTERNS = ("a.*", "", ".", "[0-9]+", "(a|b)*", "\\s*", "é|e\u0301")


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return private_session(spark)


@dataclass(frozen=True, slots=True)
class Question:
    """A rule for a relation `h` over `r`, the rows of r, and the rows of h to expect."""

    text: str
    rows: tuple[Row, ...]
    expected: set[Row]


def answer(session: Any, questions: Iterable[Question], *, dropped: bool = False) -> None:
    """All questions in a few jobs; `dropped`: rows without a value are not looked at."""
    asked: dict[str, Asked] = {}
    known = {}
    for question in questions:
        name = question.text
        program = planned(question.text)
        asked[name] = frame(session, program, {"r": question.rows})
        known[name] = set(map(comparable, question.expected))
    found = {name: {row for row in rows if None not in row or not dropped} for name, rows in rows_of(asked).items()}
    wrong = {name: (found[name] - known[name], known[name] - found[name]) for name in known}
    assert {name: each for name, each in wrong.items() if any(each)} == {}


def planned(text: str) -> CheckedProgram:
    return compile_program(check(parse(text))).normal


def frame(session: Any, program: CheckedProgram, rows: dict[str, Iterable[Row]], *, small: bool = False) -> Asked:
    """The heads of `h`, which has one rule."""
    (clause,) = (c for c in program.clauses if c.head.relation == "h")
    frames = {name: frame_of(session, each, program.schemas[name].types) for name, each in rows.items()}
    plan = load_plan(clause, Action.INSERT, Sizes({name: set(each) for name, each in rows.items()}))
    made = heads(
        plan, lambda name, _: frames[name], lambda *_: None, session=session, schemas=program.schemas, small=small
    )
    return made, program.schemas["h"].types


def value_of(name: str, result: Type, row: Row) -> Any:
    """The local engine's value, the error itself where there is none."""
    try:
        return canonical(function(name, result)(*row))
    except Error as error:
        return error


def binary(kind: str, operators: Iterable[str], values: Iterable[Any], *, calls: bool = False) -> Iterable[Question]:
    rows = tuple(itertools.product(values, repeat=2))
    for op in operators:
        program = planned(f".decl r(x: {kind}, y: {kind})\n.decl h(x: {kind}, y: {kind}, z: {kind})")
        result = program.schemas["h"].types[-1]
        computed = {row: value_of(op, result, tuple(map(canonical, row))) for row in rows}
        term = f"{op}(X, Y)" if calls else f"X {op} Y"
        text = (
            f".decl r(x: {kind}, y: {kind})\n.decl h(x: {kind}, y: {kind}, z: {kind})\n"
            f"h(X, Y, Z) :- r(X, Y), Z = {term}."
        )
        native = not (op == "^" or (kind == "unsigned" and op not in "+-*"))
        kept = rows if native else tuple(row for row in rows if not isinstance(computed[row], Error))
        expected = {(*map(canonical, row), computed[row]) for row in kept if not isinstance(computed[row], Error)}
        yield Question(text, kept, expected)


def unary(kind: str, result: str, name: str, values: Iterable[Any]) -> Question:
    type = planned(f".decl r(x: {result})").schemas["r"].types[0]
    computed = {v: value_of(name, type, (canonical(v),)) for v in values}
    term = "-X" if name == "neg" else f"{name}(X)"
    text = f".decl r(x: {kind})\n.decl h(x: {kind}, z: {result})\nh(X, Z) :- r(X), Z = {term}."
    return Question(
        text, tuple((v,) for v in values), {(canonical(v), z) for v, z in computed.items() if not isinstance(z, Error)}
    )


@pytest.fixture
def failures_are_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is NULL where the job would end with an error, so that one job shows where that is."""

    def null(*args: Any) -> Any:
        return F.lit(None).cast(spark_type(args[-1]))

    monkeypatch.setattr(expressions, "_failure", null)
    monkeypatch.setattr(expressions, "_telling", null)


@pytest.mark.usefixtures("failures_are_null")
def test_arithmetic_on_edge_values_has_the_local_engines_values_and_misses_the_same(session: Any) -> None:
    bits = ("band", "bor", "bxor", "bshl", "bshr")
    answer(
        session,
        [
            *binary("number", ("+", "-", "*", "/", "%", "^", *bits), NUMBERS),
            *binary("number", ("max", "min"), NUMBERS, calls=True),
            unary("number", "number", "neg", NUMBERS),
            unary("number", "number", "bnot", NUMBERS),
            unary("number", "symbol", "to_string", NUMBERS),
            *binary("unsigned", ("+", "-", "*", "/", "%", "^", *bits), UNSIGNED),
            *binary("unsigned", ("max",), UNSIGNED, calls=True),
            unary("unsigned", "unsigned", "bnot", UNSIGNED),
            unary("unsigned", "symbol", "to_string", UNSIGNED),
            *binary("float", ("+", "-", "*", "/", "^"), FLOATS),
            *binary("float", ("max", "min"), FLOATS, calls=True),
            unary("float", "float", "neg", FLOATS),
            unary("float", "symbol", "to_string", FLOATS),
            *binary("decimal(18,2)", ("+", "-"), DECIMALS),
            *binary("decimal(18,2)", ("max", "min"), DECIMALS, calls=True),
            unary("decimal(18,2)", "decimal(18,2)", "neg", DECIMALS),
        ],
        dropped=True,
    )


@pytest.mark.usefixtures("failures_are_null")
def test_decimals_of_two_scales_multiply_compare_and_widen(session: Any) -> None:
    small = tuple(map(Decimal, ("0.0000", "1.5000", "-0.0001", "99.9900", "12345678901234.5678")))
    rows = tuple(itertools.product(DECIMALS, small))
    declared = ".decl r(x: decimal(18,2), y: decimal(18,4))\n"

    def question(result: str, op: str, body: str) -> Question:
        type = planned(f".decl r(x: {result})").schemas["r"].types[0]
        computed = {row: value_of(op, type, row) for row in rows}
        text = f"{declared}.decl h(x: decimal(18,2), y: decimal(18,4), z: {result})\nh(X, Y, Z) :- r(X, Y), {body}."
        return Question(text, rows, {(*r, z) for r, z in computed.items() if not isinstance(z, Error)})

    answer(
        session,
        [
            question("decimal(18,6)", "*", "Z = X * Y"),
            question("decimal(18,4)", "+", "Z = X + Y"),
            question("decimal(18,4)", "max", "Z = max(X, Y)"),
            Question(
                f"{declared}.decl h(x: decimal(18,2), y: decimal(18,4))\n"
                'h(X, Y) :- r(X, Y), X + decimal("0.0000") < Y.',
                rows,
                {row for row in rows if row[0] < row[1] and abs(row[0]) < 10**14},
            ),
        ],
        dropped=True,
    )


def test_text_functors_and_tests_count_characters_as_python_does(session: Any) -> None:
    pairs = tuple(itertools.product(TEXTS, repeat=2))
    cuts = tuple(itertools.product(TEXTS, (-1, 0, 1, 2, 2**40, 2**63 - 1), (-1, 0, 1, 5, 2**62)))
    two = ".decl r(x: symbol, y: symbol)\n.decl h(x: symbol, y: symbol)\n"
    matched = tuple(itertools.product(PATTERNS, TEXTS))
    answer(
        session,
        [
            *(unary("symbol", "number", name, TEXTS) for name in ("strlen", "ord")),
            unary("symbol", "number", "to_number", DIGITS),
            *binary("symbol", ("cat", "max", "min"), TEXTS, calls=True),
            Question(
                ".decl r(x: symbol, a: number, b: number)\n.decl h(x: symbol, a: number, b: number, z: symbol)\n"
                "h(X, A, B, Z) :- r(X, A, B), Z = substr(X, A, B).",
                cuts,
                {(*cut, value_of("substr", Type, cut)) for cut in cuts},  # type: ignore[arg-type]
            ),
            Question(two + "h(X, Y) :- r(X, Y), contains(X, Y).", pairs, {p for p in pairs if TESTS["contains"](*p)}),
            Question(
                two + "h(X, Y) :- r(X, Y), !contains(X, Y).", pairs, {p for p in pairs if not TESTS["contains"](*p)}
            ),
            Question(two + "h(X, Y) :- r(X, Y), match(X, Y).", matched, {p for p in matched if TESTS["match"](*p)}),
            Question(
                two + "h(X, Y) :- r(X, Y), !match(X, Y).", matched, {p for p in matched if not TESTS["match"](*p)}
            ),
        ],
    )


def test_comparisons_order_values_as_the_oracle_does_and_are_false_for_null(session: Any) -> None:
    domains = {"number": NUMBERS, "unsigned": UNSIGNED, "float": FLOATS, "symbol": TEXTS, "decimal(18,2)": DECIMALS}
    questions = []
    for kind, values in domains.items():
        # The least number and the greatest unsigned one cannot stand in a nullable column.
        some = [v for v in map(canonical, values[-7:]) if v not in (-(2**63), 2**64 - 1)]
        rows = tuple(itertools.product((None, *some), repeat=2))
        for op in ("=", "<", ">=", "!=") if kind in ("float", "symbol") else ("=", "<="):
            text = f".decl r(x: {kind}?, y: {kind}?)\n.decl h(x: {kind}, y: {kind})\nh(X, Y) :- r(X, Y), X {op} Y."
            questions.append(Question(text, rows, {row for row in rows if holds(op, *row)}))
    answer(session, questions)


def test_a_functor_of_null_has_no_value_and_a_negated_test_of_null_is_true(session: Any) -> None:
    rows: tuple[Row, ...] = (("a", None), (None, "a"), (None, None), ("a", "ab"), ("x", "ab"))
    two = ".decl r(x: symbol?, y: symbol?)\n"
    head = ".decl h(x: symbol?, y: symbol?)\n"
    numbers: tuple[Row, ...] = ((None, 0), (5, None), (6, 2), (None, None))
    answer(
        session,
        [
            Question(two + ".decl h(z: symbol)\nh(Z) :- r(X, Y), Z = cat(X, Y).", rows, {("aab",), ("xab",)}),
            Question(two + ".decl h(z: symbol)\nh(Z) :- r(X, Y), Z = max(X, Y).", rows, {("ab",), ("x",)}),
            Question(two + head + "h(X, Y) :- r(X, Y), !contains(X, Y).", rows, {r for r in rows if r != ("a", "ab")}),
            Question(two + head + "h(X, Y) :- r(X, Y), !match(X, Y).", rows, set(rows)),
            Question(two + head + "h(X, Y) :- r(X, Y), is_null(X).", rows, {r for r in rows if r[0] is None}),
            Question(
                ".decl r(x: number?, y: number?)\n.decl h(z: number)\nh(Z) :- r(X, Y), Z = X / Y.", numbers, {(3,)}
            ),
            Question(
                ".decl r(x: number?, y: number?)\n.decl h(z: number)\nh(Z) :- r(X, Y), Z = X ^ Y.", numbers, {(36,)}
            ),
        ],
    )


# ---- errors ---------------------------------------------------------------------------------------


FAILING = [
    ("number", "X + Y", (2**63 - 1, 1)),
    ("number", "X * Y", (2**62, 4)),
    ("number", "X / Y", (1, 0)),
    ("number", "X / Y", (-(2**63), -1)),
    ("number", "X % Y", (7, 0)),
    ("number", "X ^ Y", (2, -1)),
    ("number", "X ^ Y", (10, 30)),
    ("number", "X bshl Y", (3, 63)),
    ("unsigned", "X - Y", (1, 2)),
    ("unsigned", "X * Y", (2**63, 2**63)),
    ("unsigned", "X / Y", (2**64 - 1, 0)),
    ("decimal(18,2)", "X + Y", (Decimal("9999999999999999.99"), Decimal("0.01"))),
    ("symbol", "cat(X, to_string(to_number(Y)))", ("a", "1.5")),
    ("symbol", "cat(X, to_string(to_number(Y)))", ("a", "99999999999999999999")),
]


def local_error(text: str, rows: dict[str, list[Row]]) -> Error:
    with pytest.raises(Error) as caught:
        local_answer(text, rows)
    return caught.value


def local_answer(text: str, rows: dict[str, list[Row]]) -> Any:
    """A local database with the program and the rows."""
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        for name, each in rows.items():
            tx.insert(name, each)
    return db


@pytest.mark.parametrize(("kind", "term", "row"), FAILING, ids=lambda v: v if isinstance(v, str) else "")
def test_what_fails_locally_fails_with_the_same_error(session: Any, kind: str, term: str, row: Row) -> None:
    text = f".decl r(x: {kind}, y: {kind})\n.decl h(x: {kind}, z: {kind})\nh(X, Z) :- r(X, Y), Z = {term}."
    expected = local_error(text, {"r": [row]})
    with pytest.raises(Exception, match="upshot-error") as caught:
        frame(session, planned(text), {"r": [row]})[0].toArrow()
    found = translated(caught.value)
    assert type(found) is type(expected)
    assert (found.code, found.message, found.help) == (expected.code, expected.message, expected.help)
    assert str(found) == str(expected)


def test_a_pattern_that_is_none_and_a_reserved_value_fail_as_they_do_locally(session: Any) -> None:
    bad = ".decl r(x: symbol, y: symbol)\n.decl h(x: symbol)\nh(X) :- r(X, Y), match(Y, X)."
    reserved = ".decl r(x: number)\n.decl h(x: number?)\nh(X) :- r(X)."
    cases: list[tuple[str, list[Row]]] = [(bad, [("a", "(")]), (reserved, [(-(2**63),)])]
    for text, rows in cases:
        expected = local_error(text, {"r": rows})
        with pytest.raises(Exception, match="upshot-error") as caught:
            frame(session, planned(text), {"r": rows})[0].toArrow()
        assert str(translated(caught.value)) == str(expected)


@pytest.mark.parametrize("small", [False, True])
def test_only_bindings_that_satisfy_the_rest_of_the_body_can_fail(session: Any, small: bool) -> None:
    head = ".decl r(x: number, y: number)\n.decl s(y: number)\n.decl t(x: number)\n.decl h(x: number, z: number)\n"
    rows: dict[str, list[Row]] = {"r": [(1, 0), (8, 2), (9, 0), (5, 5)], "s": [(2,), (5,)], "t": [(5,)]}
    bodies = (
        "r(X, Y), s(Y), Z = X / Y, Z > 3",
        "r(X, Y), s(Y), !t(X), Z = X / Y, Z > 0",
        "r(X, Y), !t(X), s(Y), Z = X / Y + X * Y, Z != 1",
        "r(X, Y), Y > 0, t(X), Z = X / Y",
        "r(X, Y), s(Y), V = X / Y, Z = V + 1, s(V)",
    )
    asked = {}
    expected = {}
    for body in bodies:
        text = f"{head}h(X, Z) :- {body}."
        program = planned(text)
        if sum(c.head.relation == "h" for c in program.clauses) != 1:
            continue
        asked[body] = frame(session, program, rows, small=small)  # type: ignore[arg-type]
        expected[body] = set(local_answer(text, rows).query("h(X, Z)"))
    found = rows_of(asked)
    assert {body: set(each) for body, each in found.items()} == expected


def test_a_value_that_nobody_asks_for_fails_all_the_same(session: Any) -> None:
    text = ".decl r(x: number, y: number)\n.decl h(x: number)\nh(X) :- r(X, Y), Z = X / Y."
    with pytest.raises(Exception, match="upshot-error") as caught:
        frame(session, planned(text), {"r": [(1, 0)]})[0].toArrow()
    assert translated(caught.value).code == "division-by-zero"
