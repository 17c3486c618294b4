"""Why a row is not there: the nearest attempts, and what of them holds."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.exactness import checked
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.reasons.test_random_derivations import SPARE, prepared
from tests.reasons.test_why import CLOSURE, database
from upshot.check.program import Clause
from upshot.core.errors import DataError
from upshot.engine.naive import OracleState, names
from upshot.engine.naive_values import canonical
from upshot.reasons.failure import without_notes
from upshot.syntax.ast import Call, Comparison, Constant


def statuses(attempt: Any) -> list[tuple[str, str]]:
    return [(part.kind, part.statement) for part in attempt.parts]


def test_each_rule_tells_what_it_lacks_the_nearest_first() -> None:
    with database(edge=[(1, 2), (2, 3)]) as db:
        found = db.why_not("closure", (3, 1))
        assert found.failing == 1
        assert statuses(found.parts[0]) == [("missing", "edge(3, 1)")]
        # Nothing leads from 3 and nothing leads to 1: the second rule has nothing to go by.
        assert statuses(found.parts[-1]) == [("missing", "closure(3, Y)"), ("missing", "edge(Y, 1)")]
        assert found.parts[-1].failing == 2


def test_a_row_can_be_missing_in_more_than_one_way() -> None:
    with database(edge=[(3, 4), (7, 1)]) as db:
        found = db.why_not("closure", (3, 1))
        assert sorted(statuses(each) for each in found.parts) == [
            [("holds", "closure(3, 4)"), ("missing", "edge(4, 1)")],
            [("missing", "closure(3, 7)"), ("holds", "edge(7, 1)")],
            [("missing", "edge(3, 1)")],
        ]


def test_missing_rows_of_views_are_looked_into_as_deep_as_told() -> None:
    with database(edge=[(3, 4), (7, 1)]) as db:
        assert "edge(3, 7)" not in db.why_not("closure", (3, 1)).text(fixes=0)
        assert "✗ edge(3, 7)" in db.why_not("closure", (3, 1), depth=2).text()


NEGATION = """
.decl b(x: number)
.decl c(x: number, y: number)
.decl d(x: number)
.decl p(x: number)
d(X) :- c(X, _).
p(X) :- b(X), !d(X), X > 2.
"""


def test_a_row_in_the_way_of_a_negation_is_named_and_derived() -> None:
    with database(NEGATION, b=[(3,)], c=[(3, 9)]) as db:
        (attempt,) = db.why_not("p", (3,)).parts
        assert statuses(attempt) == [("holds", "b(3)"), ("in the way", "!d(3)"), ("holds", "3 > 2")]
        assert "d(3) blocks it" in attempt.text()
        assert "c(3, 9)" in db.why_not("p", (3,), depth=2).text()


def test_what_is_in_the_way_comes_with_its_transaction(tmp_path: Path) -> None:
    text = """
    .decl edge(x: number, y: number)
    .decl closed(x: number)
    .decl barred(x: number)
    barred(X) :- closed(X).
    .decl open(x: number, y: number)
    open(X, Y) :- edge(X, Y), !closed(X), !barred(Y).
    """
    with upshot.connect(tmp_path / "store") as db:
        db.define(text)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        with db.transaction(meta={"by": "ann"}) as tx:
            tx.insert("closed", [(1,), (2,)])
        found = db.why_not("open", (1, 2), depth=2)
        moment = f"inserted in version {tx.version}, "
        lines = found.text(fixes=0).splitlines()
        (own,) = [line for line in lines if "closed(1) blocks it" in line]
        (under,) = [line for line in lines if "closed(2)" in line and "base fact" in line]
        (view,) = [line for line in lines if "barred(2) blocks it" in line]
        assert (moment in own, '{"by": "ann"}' in own, moment in under, "inserted" in view) == (True, True, True, False)
        (attempt,) = found.as_dict(fixes=0)["parts"]
        assert [part.get("inserted", {}).get("meta") for part in attempt["parts"]] == [None, {"by": "ann"}, None]
        assert found.svg(fixes=0).count(moment) >= 2
        bare = without_notes(found.with_fixes(fixes=0))
        assert "ann" not in bare.text() + bare.json() + bare.svg()
        assert moment in bare.text()


def test_a_false_condition_and_another_value_of_an_aggregate_are_told() -> None:
    text = CLOSURE + ".decl n(x: number, c: number)\nn(X, C) :- edge(X, _), C = count : { edge(X, _) }.\n" + NEGATION
    with database(text, edge=[(1, 2), (1, 3)], b=[(1,)]) as db:
        assert statuses(db.why_not("p", (1,)).parts[0])[2] == ("false", "1 > 2")
        assert "it is 2" in db.why_not("n", (1, 7)).text()


def test_a_head_that_cannot_be_the_row_is_no_attempt() -> None:
    text = '.decl b(x: number)\n.decl p(x: number, y: symbol)\np(X, "a") :- b(X).\n'
    with database(text, b=[(1,)]) as db:
        assert db.why_not("p", (1, "z")).parts == ()
        assert "no rule has a matching head" in db.why_not("p", (1, "z")).text()


def test_a_literal_that_null_keeps_from_joining_says_so_and_not_that_its_row_is_missing() -> None:
    text = ".decl b(x: symbol?, y: symbol)\n.decl p(y: symbol, z: symbol)\np(Y, Z) :- b(X, Y), b(X, Z).\n"
    with database(text, b=[(None, "a")]) as db:
        (first, second) = db.why_not("p", ("a", "a")).parts
        assert sorted(statuses(first)) == [("holds", 'b(null, "a")'), ("missing", 'b(null, "a")')]
        assert {part.note for each in (first, second) for part in each.parts} == {"", "NULL joins with nothing"}


def test_null_stays_null_where_the_equation_that_excludes_it_is_left_out() -> None:
    program = """
        .decl b(x: number?)  .decl c(x: number)  .decl p(n: number)
        p(N) :- c(_), b(X), N = count : { c(_) }, N - X = 0.
    """
    with database(program, b=[(None,)]) as db:
        shown = {part.statement for attempt in db.why_not("p", (0,)).parts for part in attempt.parts}
        assert "b(null)" in shown


def test_many_equally_near_attempts_are_counted() -> None:
    with database(edge=[(1, i) for i in range(2, 50)]) as db:
        found = db.why_not("closure", (1, 100))
        assert sum(each.count for each in found.parts) == 45
        assert len(found.parts) == 4


@pytest.mark.parametrize(("view", "row"), [("closure", (1, 2)), ("edge", (1, 2))])
def test_a_row_that_is_there_is_refused_with_a_hint(view: str, row: Any) -> None:
    with database(edge=[(1, 2)]) as db, pytest.raises(upshot.DataError) as caught:
        db.why_not(view, row)
    assert caught.value.code == "row-is-there"
    assert "why" in caught.value.help


@pytest.mark.parametrize("focus", [Features(), Features(nullable=0.6, negation=0.5), Features(aggregates=0.7)])
def test_what_random_programs_lack_is_true(focus: Features) -> None:
    """What is told to hold is in the oracle's state, what is missing is not, what is in the way is; and no attempt of a
    rule could fail by fewer literals."""
    seen = 0
    for number in range(case_count(100, least=3) + SPARE):
        if seen and number >= case_count(100, least=3):
            break
        case = random_case(seed_of(f"why-not-{focus.nullable}-{focus.aggregates}", number), focus)
        found = prepared(case, "auto")
        if found is None:
            continue
        db, state = found
        program = checked(case.text())
        with db:
            for view in (view for component in program.strata for view in component):
                for row in absent_rows(program.schemas[view], state, view):
                    failure = db.why_not(view, row, depth=2)
                    failure.json(fixes=0)
                    fewest = [
                        fewest_failing(each, row, state) for each in program.clauses if each.head.relation == view
                    ]
                    assert {each.failing for each in failure.parts if each.kind == "attempt"} == {*fewest} - {None}, (
                        f"seed {case.seed}\n{failure.text(fixes=0)}"
                    )
                    left = list(failure.parts)
                    while left:
                        part = left.pop()
                        if not isinstance(part, upshot.Failure):
                            continue
                        left += part.parts
                        if part.row is not None and part.kind in ("holds", "missing", "in the way"):
                            home = part.relation
                            there = tuple(map(canonical, part.row)) in state[home]
                            given = part.note == "not given as a fact"
                            assert given or there == (part.kind != "missing"), (
                                f"seed {case.seed}\n{failure.text(fixes=0)}"
                            )
                            seen += 1
                        if part.kind == "attempt":
                            assert part.failing == sum(each.kind not in ("holds",) for each in part.parts), (
                                f"seed {case.seed}\n{failure.text(fixes=0)}"
                            )
    assert seen


def fewest_failing(clause: Clause, row: Any, state: Any) -> int | None:
    """By brute force: how many literals have to be left out for the rest to hold with this head, of which a computed
    column is one more; None if the rule has no such head."""
    world = OracleState(state, clause.types)
    scope = names(clause.head).union(*map(names, clause.body))
    columns = list(zip(clause.head.args, row, strict=True))
    computed = [Comparison("=", Constant(value), term) for term, value in columns if isinstance(term, Call)]
    plain = [(term, value) for term, value in columns if not isinstance(term, Call)]
    body = [*clause.body, *computed]
    for binding in world.unify([term for term, _ in plain], [value for _, value in plain], {}):
        for number in range(len(body) + 1):
            for dropped in combinations(range(len(body)), number):
                kept = [literal for place, literal in enumerate(body) if place not in dropped]
                # Where something that is kept hangs on a variable that nothing binds, nothing is found.
                with suppress(StopIteration, DataError):
                    if world.solve(kept, binding, scope):
                        return number
    return None


def absent_rows(schema: Any, state: Any, view: str) -> list[Any]:
    """A few rows that the view does not hold, of values that occur."""
    pools: list[list[Any]] = []
    for column in schema.columns:
        values = {
            value
            for name, rows in state.items()
            for row in rows
            for value in row
            if type(value) is type(_example(column.type)) and not (column.type.kind.value == "unsigned" and value < 0)
        }
        pools.append(sorted(values, key=repr)[:3] or [_example(column.type)])
    rows = [()]
    for pool in pools:
        rows = [(*row, value) for row in rows for value in pool]
    return [row for row in rows[:6] if row not in state[view] and schema.columns and _plain(row)]


def _plain(row: Any) -> bool:
    return all(isinstance(value, int | str) for value in row)


def _example(type: Any) -> Any:
    return {"number": 0, "unsigned": 0, "symbol": "", "float": 0.5, "boolean": False}.get(type.kind.value)
