"""The normal form of a program means what the program means: the oracle gives the same views for both."""

from __future__ import annotations

import pytest

from tests.properties.cases import Case
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.shrinking import shrink
from upshot.check import check, print_checked
from upshot.engine.naive import evaluate
from upshot.rewrite import normal_form
from upshot.syntax import parse

FOCUSES: dict[str, Features] = {
    "everything": Features(),
    "negation": Features(negation=0.9, wildcards=0.3, nullable=0.3),
    "aggregates": Features(aggregates=0.9, nullable=0.3, negation=0.3),
    "arithmetic": Features(arithmetic=0.9, division=0.5, strings=0.3, exotic=0.3),
}


def disagreement(case: Case) -> str | None:
    program = check(parse(case.text()))
    normal = normal_form(program)
    ours, theirs = evaluate(program, case.base), evaluate(normal, case.base)
    for view in ours:
        if ours[view] != theirs[view]:
            return f"`{view}` is {ours[view]}, in normal form {theirs[view]}\n\n{print_checked(normal)}"
    return None


@pytest.mark.parametrize("focus", FOCUSES)
def test_a_program_and_its_normal_form_give_the_same_views(focus: str) -> None:
    for number in range(-(-case_count() // len(FOCUSES))):
        case = random_case(seed_of(f"normal form {focus}", number), FOCUSES[focus])
        if disagreement(case):
            small = shrink(case, lambda each: disagreement(each) is not None, seconds=10)
            pytest.fail(f"seed {case.seed}: {disagreement(small)}\n\n{small.text()}\nbase: {small.base}", pytrace=False)
