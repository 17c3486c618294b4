"""A built-in has one value: in facts, in rules on either form of the kernel, in SQL, and by the oracle."""

from __future__ import annotations

import math
from typing import Any

import pytest

import upshot
from tests.engine.kernels import both_forms, kernel
from tests.values.edges import EDGES, Row, Use, comparable, folds, packed, sampled, uses
from upshot.check import check
from upshot.core.errors import DataError, ProgramError
from upshot.core.types import NUMBER
from upshot.engine import naive_functions, naive_values
from upshot.engine.naive_values import canonical, compare
from upshot.syntax import parse
from upshot.syntax.ast import Atom, Call, Constant, Program, Rule
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import COMPARISONS, TESTS
from upshot.values.functions import FUNCTIONS

USES = uses()


def fact(use: Use, number: int, row: Row) -> Rule:
    args = tuple(Constant(canonical(value), type) for value, type in zip(row, use.types, strict=True))
    return Rule((Atom(f"h{use.number}", (Constant(number, NUMBER), Call(use.name, args))),))


def declared(use: Use) -> tuple[Any, ...]:
    return parse(f".decl h{use.number}(i: number, v: {use.result})").items


def test_the_oracle_knows_every_built_in_and_no_other() -> None:
    assert set(naive_functions.FUNCTIONS) == set(FUNCTIONS)
    assert set(naive_functions.TESTS) == set(TESTS)
    assert set(naive_functions.AGGREGATES) == set(AGGREGATES)
    assert set(naive_values.COMPARISONS) == set(COMPARISONS)


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.name} of {', '.join(map(str, use.types))}")
def test_a_fact_has_the_value_that_the_oracle_gives(use: Use) -> None:
    expected = use.expected()
    good = [(n, row, value) for n, (row, value) in enumerate(expected) if not isinstance(value, DataError)]
    found = check(Program((*declared(use), *(fact(use, n, row) for n, row, _ in good)))).facts[f"h{use.number}"]
    assert {n: comparable(value) for n, value in found} == {n: comparable(value) for n, _, value in good}
    for row, value in expected:
        if isinstance(value, DataError):
            with pytest.raises(ProgramError) as caught:
                check(Program((*declared(use), fact(use, 0, row))))
            assert [each.slug for each in caught.value.diagnostics] == [value.code], (use.term, row)
            call = FUNCTIONS[use.name].call(use.types[0].kind, use.result)
            with pytest.raises(DataError) as raised:
                call(*map(canonical, row))
            assert raised.value.code == value.code


@both_forms
def test_a_rule_and_a_view_of_sql_have_the_values_of_the_oracle(form: str) -> None:
    known = {use: use.expected() for use in USES}
    with kernel(form), upshot.connect() as db:
        db.define("".join(use.program() for use in USES))
        db.define("".join(use.sql() for use in USES))
        good = {
            use: [(n, row, value) for n, (row, value) in enumerate(cases) if not isinstance(value, DataError)]
            for use, cases in known.items()
        }
        with db.transaction() as tx:
            for use, cases in good.items():
                tx.insert(f"r{use.number}", [(n, *row) for n, row, _ in cases])
        for use, cases in good.items():
            expected = {n: comparable(value) for n, _, value in cases}
            views = (f"h{use.number}", *([f"s{use.number}"] if use.sql() else []))
            for view in views:
                assert {n: comparable(value) for n, value in db.rows(view)} == expected, (view, use.term, use.types)


@pytest.mark.slow
def test_all_built_ins_in_one_program_have_the_values_of_the_oracle() -> None:
    case = packed()
    with upshot.connect() as db:
        db.define(case.text)
        with db.transaction() as tx:
            for name, rows in case.rows.items():
                tx.insert(name, rows)
        for view, expected in case.expected.items():
            assert {(*row[:-1], comparable(row[-1])) for row in db.rows(view)} == expected


@both_forms
def test_a_rule_fails_where_the_oracle_does_and_nothing_changes(form: str) -> None:
    with kernel(form), upshot.connect() as db:
        db.define("".join(use.program() for use in USES))
        for use in USES:
            failing = [(row, value) for row, value in use.expected() if isinstance(value, DataError)]
            for row, error in sampled(failing, use):
                with pytest.raises(DataError) as caught, db.transaction() as tx:
                    tx.insert(f"r{use.number}", [(0, *row)])
                assert caught.value.code == error.code, (use.term, row)
        assert db.version == 1


def test_null_among_the_arguments_makes_the_value_null() -> None:
    with upshot.connect() as db:
        db.define("".join(use.program(nullable=True) for use in USES))
        with db.transaction() as tx:
            for use in USES:
                some = [EDGES[type][1] for type in use.types]
                rows = [[None if at == place else each for at, each in enumerate(some)] for place in range(len(some))]
                tx.insert(f"r{use.number}", [(n, *row) for n, row in enumerate(rows)])
        for use in USES:
            assert set(db.rows(f"h{use.number}")) == {(n, None) for n in range(len(use.types))}, use.term


def test_comparisons_agree_with_the_oracle() -> None:
    pairs = {type: [(a, b) for a in values for b in values] for type, values in EDGES.items()}
    names = {(type, op): f"c{at}_{n}" for at, type in enumerate(EDGES) for n, op in enumerate(COMPARISONS)}
    text = "".join(f".decl p{at}(i: number, a: {type}, b: {type})\n" for at, type in enumerate(EDGES))
    for at, type in enumerate(EDGES):
        for op in COMPARISONS:
            name = names[type, op]
            text += f".decl {name}(i: number)\n{name}(I) :- p{at}(I, A, B), A {op} B.\n"
    with upshot.connect() as db:
        db.define(text)
        with db.transaction() as tx:
            for at, rows in enumerate(pairs.values()):
                tx.insert(f"p{at}", [(n, *row) for n, row in enumerate(rows)])
        for (type, op), name in names.items():
            expected = {(n,) for n, (a, b) in enumerate(pairs[type]) if compare(op, canonical(a), canonical(b))}
            assert set(db.rows(name)) == expected, (type, op)


def test_aggregates_in_rules_and_in_sql_agree_with_the_oracle() -> None:
    with upshot.connect() as db:
        db.define("".join(fold.program() for fold in folds()))
        db.define("".join(fold.sql() for fold in folds()))
        known = {fold: fold.expected() for fold in folds()}
        with db.transaction() as tx:
            for fold, groups in known.items():
                rows = [(g, i, value) for g, (group, v) in enumerate(groups) for i, value in enumerate(group)
                        if not isinstance(v, DataError)]  # fmt: skip
                tx.insert(f"g{fold.number}", rows)
        for fold, groups in known.items():
            expected = {g: comparable(v) for g, (_, v) in enumerate(groups) if not isinstance(v, DataError)}
            for view in (f"f{fold.number}", *([f"q{fold.number}"] if fold.sql() else [])):
                assert {g: comparable(v) for g, v in db.rows(view)} == expected, (fold.name, fold.type, view)
        for fold, groups in known.items():
            failing = [(group, v) for group, v in groups if isinstance(v, DataError)]
            for group, error in failing[:5]:
                with pytest.raises(DataError) as caught, db.transaction() as tx:
                    tx.insert(f"g{fold.number}", [(10**6, i, value) for i, value in enumerate(group)])
                assert caught.value.code == error.code


@pytest.mark.parametrize(
    ("term", "x", "value"),
    [("X ^ -1.0", 0.0, math.inf), ("X bshl 64", 1, 1), ("to_number(X)", " 10 ", 10), ("to_number(X)", " 1_0 ", None)],
)
def test_what_facts_and_rules_disagreed_about_is_the_same_in_both(term: str, x: Any, value: Any) -> None:
    kind, result = {float: ("float", "float"), int: ("number", "number"), str: ("symbol", "number")}[type(x)]
    written = f'"{x}"' if isinstance(x, str) else str(x)
    text = f".decl a(x: {kind})\n.decl v(y: {result})\n"
    for program in (f"{text}v({term.replace('X', written)}).", f"{text}a({written}).\nv({term}) :- a(X)."):
        with upshot.connect() as db:
            if value is None:
                with pytest.raises((DataError, ProgramError)) as caught:
                    db.define(program)
                assert "not-a-number" in str(caught.value)
            else:
                db.define(program)
                assert set(db.rows("v")) == {(value,)}


def test_a_request_is_realized_through_a_shift_by_the_width_of_a_number() -> None:
    """View updating computed with the copy of facts, in which `bshl 64` was an error, and found nothing."""
    with upshot.connect() as db:
        db.define(".decl a(x: number)\n.decl v(y: number)\nv(X bshl 64) :- a(X).\na(1).")
        assert set(db.rows("v")) == {(1,)}
        (found,) = db.realize(insert={"v": [(5,)]})
        assert {name: list(rows) for name, rows in found.insert.items()} == {"a": [(5,)]}
