"""Every derivation of random programs is checked step by step, and against the smallest that brute force finds.

UPSHOT_CASES sets how many cases run in all, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.properties.cases import Case
from tests.properties.exactness import checked
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from tests.reasons.proof_checker import all_derivations, all_steps, check_tree, smallest, state_of
from upshot.core.errors import DataError, ProgramError
from upshot.engine.naive_values import canonical

FOCUSES: dict[str, Features] = {
    "everything": Features(),
    "recursion": Features(recursion=1, nonlinear=0.5, mutual=0.5, aggregates=0.05, arithmetic=0.1, constants=0.05),
    "negation": Features(negation=0.9, views=5, wildcards=0.3, aggregates=0.05, arithmetic=0.1, symbols=0.1),
    "aggregates": Features(aggregates=0.8, mean=0.3, recursion=0.2, negation=0.2),
    "nulls": Features(nullable=0.6, symbols=0.2, negation=0.5),
    "types": Features(exotic=0.6, strings=0.3, symbols=0.5),
}
STRATEGIES = ("auto", "auto materialized=false", "counting", "rod", "production materialized=false")
MOST_ROWS = 25
SPARE = 30
"""Cases that are tried beyond what was told until one says something."""


def prepared(case: Case, strategy: str) -> tuple[upshot.Database, dict[str, Any]] | None:
    """A database with the rows of the case, and what the oracle says is in it; None if there is nothing to say."""
    try:
        program = checked(case.text())
        state = state_of(program, case.base)
    except (ProgramError, DataError):
        return None
    database = upshot.connect()
    database.define(case.text(view_options(program, strategy)))
    with database.transaction() as tx:
        for name, rows in case.base.items():
            tx.insert(name, list(rows))
    return database, state


def check_case(case: Case, strategy: str) -> int:
    found = prepared(case, strategy)
    if found is None:
        return 0
    database, state = found
    program = checked(case.text())
    best = smallest(all_steps(program, state))
    seen = 0
    with database:
        for view in (view for component in program.strata for view in component):
            for row in sorted(state[view], key=repr)[:MOST_ROWS]:
                tree = database.why(view, row)
                check_tree(tree, program, state)
                assert (tree.height, tree.size) == best[view, tuple(map(canonical, row))], str(tree)
                assert tree.relation == view
                assert tree.svg().startswith("<svg")
                assert tree.as_dict()["statement"] == tree.statement
                seen += 1
    return seen


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_derivation_is_a_proof_and_the_smallest(focus: str, strategy: str) -> None:
    seen = 0
    for number in range(case_count(3 * len(FOCUSES) * len(STRATEGIES), least=2) + SPARE):
        if seen and number >= case_count(3 * len(FOCUSES) * len(STRATEGIES), least=2):
            break
        case = random_case(seed_of(f"reasons-{focus}-{strategy}", number), FOCUSES[focus])
        try:
            seen += check_case(case, strategy)
        except Exception as error:
            error.add_note(f"seed {case.seed}, strategy {strategy}:\n{case.text()}\n{case.base}")
            raise
    assert seen


@pytest.mark.parametrize("focus", ["everything", "recursion", "nulls"])
def test_all_derivations_are_those_of_brute_force_each_once_by_height(focus: str) -> None:
    seen = 0
    for number in range(case_count(100, least=3) + SPARE):
        if seen and number >= case_count(100, least=3):
            break
        case = random_case(seed_of(f"reasons-all-{focus}", number), FOCUSES[focus])
        found = prepared(case, "auto")
        if found is None:
            continue
        database, state = found
        program = checked(case.text())
        steps = all_steps(program, state)
        with database:
            for view in (view for component in program.strata for view in component):
                for row in sorted(state[view], key=repr)[:8]:
                    wanted = all_derivations(steps, (view, row), 300)
                    if wanted is None:
                        continue
                    trees = list(database.why(view, row, limit=None))
                    assert sorted(tree.height for tree in trees) == wanted, f"seed {case.seed}: {view}{row}"
                    assert [tree.height for tree in trees] == wanted
                    for tree in trees[:20]:
                        check_tree(tree, program, state)
                    seen += len(trees) > 1
    assert seen
