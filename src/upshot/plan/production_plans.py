"""From production rules to rule plans: the transition table drives, the heads are collected rather than applied."""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import Clause, Literal
from upshot.core.operations import DELETED
from upshot.plan.order_body import Resolved
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import driven_plan, load_plan
from upshot.plan.statistics import Statistics
from upshot.rewrite.strategies.production import BEFORE, Group, ProductionRule
from upshot.syntax.ast import Atom, Not

_CHANGE = {"inserted": Change.INSERTED, "deleted": Change.DELETED}


def derived(view: str) -> str:
    """The name under which the heads that a rule derives for a view are collected; no relation of a user has it."""
    return f"derived {view}"


def production_plan(rule: ProductionRule, statistics: Statistics) -> RulePlan:
    """The rule's condition as a plan whose heads are inserted into `derived(view)`; what the rule does with them is
    not part of it."""
    if rule.group is Group.START:
        plan = load_plan(rule.source, Action.INSERT, statistics, name=rule.name)
        return replace(plan, head=derived(rule.view))
    _, state = rule.trigger
    again = rule.group is Group.REINSERT
    plan = driven_plan(
        rule.name, _qualified(rule.clause), None if again else rule.source, rule.driver, _CHANGE[state],
        Action.REDERIVE if again else Action.INSERT, _resolve, statistics, head=derived(rule.view), seed=True,
    )  # fmt: skip
    # The plan is shown with the rule as it was made, and a row to be inserted again is collected like any other.
    return replace(plan, clause=rule.clause, action=Action.INSERT)


def _qualified(clause: Clause) -> Clause:
    """The clause with the state of every atom as a part of its relation's name."""
    return replace(clause, body=tuple(map(_named, clause.body)))


def _named(literal: Literal) -> Literal:
    match literal:
        case Atom(relation, state=state):
            return replace(literal, relation=f"{state} {relation}", state="")
        case Not(Atom(relation, state=state) as atom):
            return replace(literal, body=replace(atom, relation=f"{state} {relation}", state=""))
        case _:
            return literal


def _resolve(name: str) -> Resolved:
    """A deleted row is looked at as it was before; it may be gone by now."""
    state, _, relation = name.partition(" ")
    return Resolved(relation, State.OLD if state in (BEFORE, DELETED) else State.NEW)
