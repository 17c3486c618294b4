"""Rule plans, join order, strategy choice."""

from upshot.plan.choice import Choice
from upshot.plan.program_plan import ComponentPlan, ProgramPlan, compile_program
from upshot.plan.rule_plan import Action, Change, RulePlan, State

__all__ = ["Action", "Change", "Choice", "ComponentPlan", "ProgramPlan", "RulePlan", "State", "compile_program"]
