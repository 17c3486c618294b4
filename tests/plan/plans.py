"""Rule plans of a text under given statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upshot.check import check
from upshot.plan import Action, ProgramPlan, RulePlan, compile_program
from upshot.plan.rule_plans import load_plan, maintenance_plans
from upshot.syntax import parse


@dataclass(frozen=True)
class Given:
    """Sizes of relations, 100 where none is given; numbers of distinct keys by relation and columns."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    def size(self, relation: str) -> int:
        return self.sizes.get(relation, 100)

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return self.distinct.get((relation, columns))


def compiled(text: str) -> ProgramPlan:
    return compile_program(check(parse(text)))


def declared(rule: str, *, views: str = "p(x: number)", **arities: int) -> str:
    """The rule with declarations of number columns for the relations it reads."""
    lines = [f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))})" for name, arity in arities.items()]
    return "\n".join([*lines, f".decl {views}", rule])


def load(text: str, statistics: Given | None = None) -> list[RulePlan]:
    """The plans that compute the views from nothing, in the order of the clauses."""
    normal = compiled(text).normal
    return [load_plan(clause, Action.INSERT, statistics or Given()) for clause in normal.clauses]


def changes(text: str, view: str, statistics: Given | None = None) -> list[RulePlan]:
    """The plans that keep the view, in the order of its generated rules."""
    (component,) = [each for each in compiled(text).components if view in each.views]
    rules = [rule for rule in component.rules if rule.driver is not None]
    return [
        plan
        for rule in rules
        for plan in maintenance_plans(rule, component.states, component.views, statistics or Given())
    ]


def steps(plan: RulePlan) -> list[str]:
    """The lines of the printed plan after the rule itself."""
    return [line.strip() for line in str(plan).split("\n")[1:]]
