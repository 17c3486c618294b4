"""Recursion without a pivot, run as workers run it, is what the oracle derives: by one worker, and in parts."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.engine.driver import plain
from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.spark.parts import everything
from upshot.check import check
from upshot.core.errors import DataError, ProgramError
from upshot.engine.limits import Limits
from upshot.plan import compile_program
from upshot.plan.pivot import decomposition
from upshot.syntax import parse

pytest.importorskip("pyspark")

from tests.spark.exchanges import WholeRun
from upshot.engine.spark.exchange_plan import exchange_plans
from upshot.engine.spark.meeting import APART, LOST, Ended, Meeting
from upshot.engine.spark.whole_shard import whole_plan
from upshot.spark.failures import CarriedError

FOCUSES = [
    Features(recursion=1, nonlinear=0.5, mutual=0.5, aggregates=0.05, arithmetic=0.1, constants=0.03, views=3),
    Features(recursion=1, nonlinear=0.5, mutual=0.5, nullable=0.5, aggregates=0, wildcards=0.1, zero_arity=0.1),
    Features(recursion=1, nonlinear=0.4, exotic=0.5, strings=0.3, nullable=0.2, aggregates=0, columns=(2, 2, 3)),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_random_recursions_without_a_pivot_are_what_the_oracle_derives(part: int, tmp_path: Path) -> None:
    tried = 0
    for number in range(case_count(32, least=30)):
        case = random_case(seed_of("exchange", number * 2 + part), FOCUSES[number % len(FOCUSES)])
        try:
            tried += _check(case, tmp_path / str(number))
        except (ProgramError, DataError):
            continue
    assert tried >= 5


def _check(case: Case, folder: Path) -> int:
    """How many components were checked."""
    program = check(parse(case.text()))
    plan = compile_program(program)
    states = [case.base]
    for transaction in case.transactions:
        states.append(after(states[-1], transaction))
    contents = [{name: plain(rows) for name, rows in everything(program, state).items()} for state in states]
    checked = 0
    for component in plan.components:
        if not component.recursive or decomposition(component, plan.normal).program is not None:
            continue
        checked += 1
        rng = random.Random(case.seed)
        run = WholeRun(component, plan.normal, folder / component.views[0], rng, count=rng.choice((1, 2, 3)))
        expected = {view: contents[0][view] for view in component.views}
        assert run.load(contents[0]) == (expected, expected), case.text()
        for old, new in itertools.pairwise(contents):
            change = {view: (new[view] - old[view], old[view] - new[view]) for view in component.views}
            assert run.change(old, new) == (change, change), case.text()
    return checked


# ---- where rows are needed ----------------------------------------------------------------------------------------

DECLARATIONS = """
.decl e(x: number, y: number) .decl p(x: number, y: number) .decl q(x: number, y: number) .decl t()
"""

PLACES = {
    "rows of a chain are needed where they lie": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- e(A, X), p(A, B), e(B, Y).",
        {"p": ((0, 1),)},
    ),
    "a column that a rule hands on keeps rows in their part": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), e(Y, Z). p(Y, X) :- p(X, Y).",
        {"p": ((0,),)},
    ),
    "two literals meet in the variable that they share": (
        "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z), X != Z.",
        {"p": ((1,), (0,))},
    ),
    "literals that share no variable meet everywhere": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- p(X, Z), e(Z, W), p(W, Y).",
        {"p": ((0,), None)},
    ),
    "of three literals the third is needed where two meet": (
        "p(X, Y) :- e(X, Y). p(X, Y) :- p(X, Z), q(Z, W), p(W, Y). q(Y, X) :- p(X, Y).",
        {"p": ((1,), None), "q": ((0,),)},
    ),
    "a row without columns has one owner": ("t() :- e(_, _). t() :- t(), e(1, 2).", {"t": ((),)}),
}


@pytest.mark.parametrize("name", PLACES)
def test_rows_are_needed_where_rules_join_them(name: str) -> None:
    rules, expected = PLACES[name]
    plan = compile_program(check(parse(DECLARATIONS + rules)))
    (component,) = [each for each in plan.components if each.recursive]
    coming, going = exchange_plans(whole_plan("", component, plan.normal.schemas, {}, Limits()), 3)
    assert coming.places == going.places == expected


# ---- parts that wait for each other -------------------------------------------------------------------------------


def test_a_part_that_is_started_again_ends_the_meeting_for_all(tmp_path: Path) -> None:
    Meeting(tmp_path, 0, 1).join()
    other = Meeting(tmp_path, 1, 2)
    with pytest.raises(Ended) as again:
        Meeting(tmp_path, 0, 2).join()
    with pytest.raises(Ended) as told:
        other.join()
    assert again.value.reason == told.value.reason == LOST


def test_parts_that_cannot_run_at_the_same_time_do_not_wait_for_ever(tmp_path: Path) -> None:
    for number in range(2):
        with pytest.raises(Ended) as ended:
            Meeting(tmp_path, number, 2, patience=0.01).join()
        assert ended.value.reason == APART


def test_a_part_that_is_tried_again_fails_by_the_same_error(tmp_path: Path) -> None:
    failed = Meeting(tmp_path, 0, 1)
    failed.join()
    failed.end(LOST, "what went wrong")
    with pytest.raises(CarriedError, match="what went wrong"):
        Meeting(tmp_path, 0, 1).join()


def test_parts_go_on_until_nobody_sends_anything(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, 0, 1)
    meeting.join()
    assert meeting.exchanged([(0, 1, "rows")]) == [(0, 1, "rows")]
    assert meeting.exchanged([(1, 0, "rows of another")]) == []
    assert meeting.exchanged([]) is None
