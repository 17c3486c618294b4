"""Every algorithm without stored views, run from its rules alone, gives what recomputation gives."""

from __future__ import annotations

import pytest

from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import changes, stored_rows
from upshot.check import check
from upshot.check.printing import print_clause
from upshot.core.errors import Error
from upshot.rewrite import normal_form
from upshot.rewrite.changes_on_demand import ALGORITHMS, changes_on_demand
from upshot.syntax import parse

FOCUSES = {
    "recursion": Features(recursion=1),
    "negation": Features(recursion=0.5, negation=0.6),
    "null": Features(nullable=0.5),
    "everything": Features(),
}


@pytest.mark.parametrize("strategy", ALGORITHMS)
@pytest.mark.parametrize("focus", FOCUSES)
def test_the_rules_alone_give_exact_changes(strategy: str, focus: str) -> None:
    for number in range(case_count(100, least=5)):
        case = random_case(seed_of(f"demand {focus}", number), FOCUSES[focus])
        program = normal_form(check(parse(case.text())))
        views = {view: strategy for layer in program.strata for view in layer}
        demand = changes_on_demand(program, views)
        state = case.base
        for transaction in case.transactions:
            following = after(state, transaction)
            try:
                old, new = stored_rows(program, state), stored_rows(program, following)
            except Error:
                break
            found = changes(program, demand, old, new)
            for view in demand.views:
                told = f"{case.text()}\n{state}\n{transaction}\n{view}\n" + "\n".join(
                    f"{r.gate} {print_clause(r.clause)}" for r in demand.rules
                )
                assert found["plus"][view] == new[view] - old[view], told
                assert found["minus"][view] == old[view] - new[view], told
            state = following
