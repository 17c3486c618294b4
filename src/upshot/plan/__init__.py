"""Rule plans, join order, strategy choice.

In: a `CheckedProgram` in normal form and live statistics. Out: a `ProgramPlan` with a strategy and rule plans for every
component. Read `rule_plan` (the data structure), `order_body` (join order), `rule_plans` (clauses to plans), `choice`
(the strategy of a view), `program_plan` (all components), `component_plans` (stages), then `on_demand` and
`demand_plans` (views without stored rows), `rule_changes` and `following` (changes of rules), `walks` (closures),
`pivot` (decomposable recursion), `cost` (follow a change or recompute), `goals` (programs that run once).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.plan.choice import Choice
    from upshot.plan.program_plan import ComponentPlan, ProgramPlan, compile_program
    from upshot.plan.rule_plan import Action, Change, RulePlan, State
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Action": "upshot.plan.rule_plan",
            "Change": "upshot.plan.rule_plan",
            "Choice": "upshot.plan.choice",
            "ComponentPlan": "upshot.plan.program_plan",
            "ProgramPlan": "upshot.plan.program_plan",
            "RulePlan": "upshot.plan.rule_plan",
            "State": "upshot.plan.rule_plan",
            "compile_program": "upshot.plan.program_plan",
        },
    )

__all__ = ["Action", "Change", "Choice", "ComponentPlan", "ProgramPlan", "RulePlan", "State", "compile_program"]
