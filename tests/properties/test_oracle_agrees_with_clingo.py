"""The oracle against an independent evaluator: on the fragment clingo understands, both give the same views.

UPSHOT_CASES sets the number of programs, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties import clingo_oracle
from tests.properties.cases import Case, after
from tests.properties.random_programs import INTEGERS_AND_SYMBOLS, Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.shrinking import shrink
from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.syntax import parse

FOCUSES: dict[str, Features] = {
    "everything": INTEGERS_AND_SYMBOLS,
    "recursion": replace(INTEGERS_AND_SYMBOLS, recursion=1, nonlinear=0.6, mutual=0.5, aggregates=0.05),
    "negation": replace(INTEGERS_AND_SYMBOLS, negation=0.9, views=6, wildcards=0.3),
    "aggregates": replace(INTEGERS_AND_SYMBOLS, aggregates=0.9),
}


def disagreement(case: Case) -> str | None:
    """What differs, in the state before the transactions or after one of them."""
    program, state = check(parse(case.text())), case.base
    for transaction in ((), *case.transactions):
        state = after(state, transaction)
        ours, theirs = evaluate(program, state), clingo_oracle.evaluate(program, state)
        for view in ours:
            if ours[view] != theirs[view]:
                return f"`{view}`: the oracle has {ours[view]}, clingo {theirs[view]}"
    return None


@pytest.mark.parametrize("focus", FOCUSES)
def test_oracle_and_clingo_give_the_same_views(focus: str) -> None:
    for number in range(-(-case_count() // len(FOCUSES))):
        case = random_case(seed_of(f"clingo {focus}", number), FOCUSES[focus])
        if disagreement(case):
            small = shrink(case, lambda each: disagreement(each) is not None)
            text = f"{small.text()}\nbase: {small.base}\ntransactions: {small.transactions}"
            pytest.fail(f"seed {case.seed}: {disagreement(small)}\n\n{text}", pytrace=False)
