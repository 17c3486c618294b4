"""Aggregates over frames give what the oracle gives, to the last bit."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from tests.properties.random_programs import Features, random_case
from tests.spark.frames import Asked, Row, comparable, frame_of, rows_of
from tests.spark.test_rule_frames import World
from upshot.check import check
from upshot.core.errors import OverflowError_
from upshot.engine.naive import evaluate
from upshot.engine.spark.frames.aggregates import group_values, groups
from upshot.plan.program_plan import ProgramPlan, compile_program
from upshot.rewrite.shapes import aggregate_of
from upshot.spark.failures import translated
from upshot.spark.session import private_session
from upshot.syntax import parse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return private_session(spark)


VALUES: dict[str, tuple[Any, ...]] = {
    "number": (2**62, -(2**62), 2**62, 1, -7, 0),
    "unsigned": (2**63, 2**62, 0, 1, 17),
    "float": (1e308, 1e308, -1e308, 0.1, 0.2, 0.3, 5e-324, -5e-324, 1e16, 1.0, -1e16, -0.0, 2.5e-308),
    "decimal(18,4)": (Decimal("12345678901234.5678"), Decimal("-0.0001"), Decimal("0.0000"), Decimal("-99.5000")),
}
ORDERED: dict[str, tuple[Any, ...]] = {
    **VALUES,
    "symbol": ("", "a", "ab", "\uffff", "\U0001f600", "a\0", "é"),
    "boolean": (True, False),
    "date": (dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp": (dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC)),
}


def planned(text: str) -> ProgramPlan:
    return compile_program(check(parse(text)))


def folded(session: Any, plan: ProgramPlan, rows: dict[str, set[Row]]) -> dict[str, Asked]:
    """The frames of all aggregate views of a program over the rows of its relations."""
    schemas = plan.normal.schemas
    made = {}
    for clause in plan.normal.clauses:
        if aggregate_of(clause) is not None:
            source = clause.body[0].relation
            frame = frame_of(session, rows[source], schemas[source].types)
            made[clause.head.relation] = group_values(clause, schemas, frame), schemas[clause.head.relation].types
    return made


def text_of(kinds: dict[str, tuple[Any, ...]], functions: tuple[str, ...]) -> str:
    lines = []
    for n, (kind, function) in enumerate((k, f) for k in kinds for f in functions):
        result = "float" if function == "mean" else kind
        lines += [
            f".decl r{n}(id: number, group: symbol, value: {kind}?)",
            f".decl grouped{n}(group: symbol, value: {result})",
            f"grouped{n}(G, V) :- r{n}(_, G, _), V = {function} X : {{ r{n}(_, G, X) }}.",
        ]
    return "\n".join(lines)


def compare(session: Any, plan: ProgramPlan, base: dict[str, set[Row]]) -> None:
    rows = {**{name: set() for name in plan.normal.schemas}, **base, **evaluate(plan.normal, base)}
    found = rows_of(folded(session, plan, rows))
    assert found
    for view, counted in found.items():
        assert set(counted) == set(map(comparable, rows[view])), view
        assert max(counted.values(), default=1) == 1, view


def test_sums_and_means_of_every_numeric_type_are_exact(session: Any) -> None:
    rng = random.Random(1)
    plan = planned(text_of(VALUES, ("sum", "mean")))
    base = {}
    for n, kind in enumerate(k for k in VALUES for _ in range(2)):
        values = [rng.choice((None, *VALUES[kind])) for _ in range(60)]
        if kind in ("number", "unsigned", "decimal(18,4)"):
            # What does not cancel out would leave the range.
            values = [v for v in values if v is None or abs(v) < 1000]
        rows = {(i, rng.choice("abcdef"), v) for i, v in enumerate(values)}
        rows |= {(100, "x", None), (101, "y", None), (102, "y", None)}
        rows |= {(200 + i, "z", v) for i, v in enumerate(_canceling(kind))}
        base[f"r{n}"] = rows
    compare(session, plan, base)


def _canceling(kind: str) -> tuple[Any, ...]:
    match kind:
        case "number":
            return (2**62, 2**62, 2**62, -(2**62), -(2**62), 5)
        case "unsigned":
            return (2**63, 2**62, 3)
        case "float":
            return (1e308, 1e308, 1.0, -1e308, -1e308, 5e-324)
        case _:
            return (Decimal("12345678901234.5678"), Decimal("80000000000000.0000"), Decimal("-1.0000"))


def test_infinities_and_nan_decide_the_sum_of_their_group(session: Any) -> None:
    plan = planned(text_of({"float": ()}, ("sum", "mean", "min", "max")))
    special = {
        "nan": (1.0, math.nan), "up": (1.0, math.inf), "down": (-math.inf, -math.inf), "both": (math.inf, -math.inf),
        "far": (1.7e308, 1.7e308), "deep": (-1.7e308, -1.7e308, 3.0), "zero": (0.0, -0.0), "minus": (-0.0,),
    }  # fmt: skip
    rows = {(i, group, value) for group, values in special.items() for i, value in enumerate(values)}
    compare(session, plan, {f"r{n}": rows for n in range(4)})


def test_least_and_greatest_of_every_type_agree_with_the_oracle(session: Any) -> None:
    rng = random.Random(2)
    plan = planned(text_of(ORDERED, ("min", "max")))
    base = {}
    for n, kind in enumerate(k for k in ORDERED for _ in range(2)):
        rows = {(i, rng.choice("abcdefgh"), rng.choice((None, *ORDERED[kind]))) for i in range(30)}
        base[f"r{n}"] = rows | {(100, "x", None)}
    compare(session, plan, base)


def test_aggregates_without_a_group_or_a_column(session: Any) -> None:
    text = """
    .decl r(id: number, value: float?)  .decl none(value: number)  .decl flag()
    .decl a(v: float)  .decl b(v: float)  .decl c(n: unsigned)  .decl d(n: number)  .decl e(n: number)
    .decl f(n: number)
    .decl g(v: symbol)
    a(V) :- V = sum X : { r(_, X) }.
    b(V) :- V = mean X : { r(_, X) }.
    c(N) :- N = count : { r(_, _) }.
    d(N) :- N = max X : { none(X) }.
    e(N) :- N = sum 3 : { r(_, _) }.
    f(N) :- N = count : { flag() }.
    g(V) :- V = min "text" : { r(_, _) }.
    """
    rows: dict[str, set[Row]] = {"r": {(1, 0.1), (2, 0.2), (3, 0.3), (4, None)}, "none": set(), "flag": {()}}
    compare(session, planned(text), rows)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("number", (2**62, 2**62)),
        ("unsigned", (2**64 - 2, 2)),
        ("decimal(18,2)", (Decimal(10) ** 15 * 5, Decimal(10) ** 15 * 5)),
    ],
)
def test_a_sum_that_leaves_its_range_is_the_local_engines_overflow(
    session: Any, kind: str, values: tuple[Any, ...]
) -> None:
    plan = planned(text_of({kind: ()}, ("sum",)))
    clause = next(c for c in plan.normal.clauses if (a := aggregate_of(c)) is not None and a.function == "sum")
    schema = plan.normal.schemas[clause.body[0].relation]
    # The rows of the sum are those of `r0`, perhaps in another order of columns.
    value = next(i for i, type in enumerate(schema.types) if type.nullable)
    rows = [
        tuple(v if i == value else "a" if "symbol" in str(t) else n for i, t in enumerate(schema.types))
        for n, v in enumerate(values)
    ]
    frame = frame_of(session, rows, schema.types)
    with pytest.raises(Exception, match="upshot-error") as caught:
        group_values(clause, plan.normal.schemas, frame).toArrow()
    error = translated(caught.value)
    assert isinstance(error, OverflowError_)
    assert (error.code, error.span) == ("overflow", clause.origin)
    assert "the sum of a group is `" in error.message


def test_aggregates_of_random_programs_agree_with_the_oracle(session: Any) -> None:
    asked: dict[str, Asked] = {}
    expected: dict[str, set[Row]] = {}
    features = Features(aggregates=0.9, mean=0.5, exotic=0.4, nullable=0.3, recursion=0.1)
    for seed in range(12):
        world = World.of(random_case(seed, features))
        for clause in world.program.clauses:
            if aggregate_of(clause) is None:
                continue
            schemas, source = world.program.schemas, clause.body[0].relation
            name = f"{seed}.{clause.head.relation}"
            frame = frame_of(session, world.new[source], schemas[source].types)
            asked[name] = group_values(clause, schemas, frame), schemas[clause.head.relation].types
            expected[name] = set(map(comparable, world.new[clause.head.relation]))
    assert len(asked) > 15
    found = rows_of(asked)
    assert {name: set(rows) for name, rows in found.items()} == expected


def test_groups_are_told_once(session: Any) -> None:
    plan = planned(".decl r(x: symbol, y: number)")
    types = plan.normal.schemas["r"].types
    frame = frame_of(session, [("a", 1), ("a", 2), ("b", 1)], types)
    nothing = frame_of(session, [], types)
    found = rows_of(
        {
            "one": (groups(frame, 1), types[:1]),
            "none": (groups(frame, 0), ()),
            "empty": (groups(nothing, 0), ()),
        }
    )
    assert found == {"one": {("a",): 1, ("b",): 1}, "none": {(): 1}, "empty": {}}
