"""The rules change, and perhaps the data with them: the changes of views nobody stores are those of recomputation."""

from __future__ import annotations

import random

from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import changes, stored_rows
from upshot.check import check
from upshot.check.printing import print_clause
from upshot.core.errors import Error
from upshot.rewrite import normal_form
from upshot.rewrite.changes.changes_of_rules import changes_of_rules
from upshot.syntax import parse
from upshot.syntax.ast import Program, Rule


def test_random_programs_lose_and_gain_rules_exactly() -> None:
    followed = 0
    for number in range(case_count(40, least=10)):
        case = random_case(seed_of("changes of rules", number), Features(recursion=0.7))
        rng = random.Random(case.seed)
        items = parse(case.text()).items
        rules = [item for item in items if isinstance(item, Rule) and item.body is not None]
        try:
            programs = []
            for _ in range(2):
                gone = rng.sample(rules, min(len(rules), rng.randint(0, 2)))
                program = check(Program(tuple(item for item in items if item not in gone)))
                programs.append((program, normal_form(program)))
            (old, before), (_, later) = programs
            states = (case.base, after(case.base, case.transactions[0]))
            rows = [stored_rows(before, states[0]), stored_rows(later, states[1])]
        except Error:
            continue
        views = {"before": _views(before), "after": _views(later)}
        demand = changes_of_rules(before, later, views)
        if demand is None:
            continue
        followed += 1
        for each in rows:
            for name in {*before.schemas, *later.schemas}:
                each.setdefault(name, set())
        found = changes(later, demand, *rows)
        for view in demand.views:
            told = f"{view}\n" + "\n".join(
                print_clause(clause) for program in (before, later) for clause in program.clauses
            )
            assert found.plus[view] == rows[1][view] - rows[0][view], told
            assert found.minus[view] == rows[0][view] - rows[1][view], told
        assert {view for view in old.schemas if view in views["before"] and view in views["after"]} <= set(demand.views)
    assert followed > 0


def _views(program: object) -> set[str]:
    return {view for layer in program.strata for view in layer}  # type: ignore[attr-defined]
