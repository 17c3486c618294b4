"""Print maintenance rules."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from upshot.check.names.variables import atoms
from upshot.check.printing import print_checked, print_clause
from upshot.rewrite.listing import ListedRule, RuleListing, literals, nothing_listed, relations_of
from upshot.strategies.maintenance_rules import MaintenanceProgram, MaintenanceRule, RuleStage
from upshot.syntax.ast import Not

_BY_HEAD = (RuleStage.REDERIVE, RuleStage.CHECK, RuleStage.PROVE)
_OTHER_STATES = {
    "kept": "in both states",
    "open": "not examined yet",
    "gone": "not proven at the end: deleted",
}


def list_maintenance(maintenance: MaintenanceProgram, view: str | None = None) -> RuleListing:
    """The rules with declarations, each under a comment with its purpose; of one view or of all. The text is a program,
    whose inputs are the relations without rules."""
    rules = maintenance.rules if view is None else _about(maintenance, view)
    if not rules:
        return nothing_listed(view)
    names = dict.fromkeys(name for rule in rules for name in relations_of(rule.clause))
    schemas = {name: maintenance.program.schemas[name] for name in maintenance.program.schemas if name in names}
    declarations = print_checked(
        replace(maintenance.program, schemas=schemas, clauses=(), strata=(), hidden=frozenset())
    )
    lines = [declarations.rstrip("\n")]
    listed: list[ListedRule] = []
    shown = None
    for rule in rules:
        about = _group(rule, maintenance, shown)
        if about != shown:
            lines += ["", f"// ---- {about}"]
            shown = about
        finds, origin = _words(rule, maintenance), rule.source.origin if rule.source is not None else None
        listed.append(ListedRule(rule.name, about, rule.stage.value, finds, *literals(rule.clause), origin))
        lines += [f"// {rule.name}: {finds}", print_clause(rule.clause)]
    return RuleListing(tuple(listed), tuple(schemas.values()), "\n".join(lines) + "\n")


def _about(maintenance: MaintenanceProgram, view: str) -> tuple[MaintenanceRule, ...]:
    """The rules of the view, and those that define the new states of its inputs."""
    own = [rule for rule in maintenance.rules if maintenance.states[rule.clause.head.relation].relation == view]
    read = {name for rule in own for name in relations_of(rule.clause)}
    return tuple(
        rule
        for rule in maintenance.rules
        if maintenance.states[rule.clause.head.relation].relation == view
        or (rule.name.startswith("N'") and rule.clause.head.relation in read)
    )


def _group(rule: MaintenanceRule, maintenance: MaintenanceProgram, current: str | None) -> str:
    """The view under which a rule is printed; rules for new states of inputs belong to the current group."""
    if rule.name.startswith("N'"):
        return current or "inputs"
    return maintenance.states[rule.clause.head.relation].relation


def _words(rule: MaintenanceRule, maintenance: MaintenanceProgram) -> str:
    head = maintenance.states[rule.clause.head.relation]
    through = ""
    if rule.driver is not None and rule.source is not None and rule.stage not in _BY_HEAD and rule.name != "R":
        literal = rule.source.body[rule.driver]
        through = f"{'!' if isinstance(literal, Not) else ''}{next(atoms(literal)).relation}"
    match rule.stage:
        case RuleStage.DELETE:
            return f"deletions through {through}"
        case RuleStage.REDERIVE:
            return "deleted, but derivable otherwise"
        case RuleStage.CHECK:
            return "the premises of its other derivations, one row at a time until it is proven"
        case RuleStage.PROVE:
            return "derivable from rows that stay"
        case RuleStage.INSERT if rule.name == "R":
            return "groups of deleted rows, derived again"
        case RuleStage.INSERT:
            return (
                f"insertions through {through}" if through else "the values of all groups; of changed groups is enough"
            )
        case RuleStage.STATE if head.state in _OTHER_STATES:
            return _OTHER_STATES[head.state]
        case RuleStage.STATE:
            return f"the new state of {head.relation}, {_share(rule, maintenance)}"
        case RuleStage.NET:
            return "in the view now and not before" if head.state == "plus" else "in the view before and not now"
        case RuleStage.COUNT:
            kind = "gained" if head.state == "gain" else "lost"
            return f"derivations {kind} through {through}"
        case _:
            assert_never(rule.stage)


def _share(rule: MaintenanceRule, maintenance: MaintenanceProgram) -> str:
    """The part of a new state that a rule derives."""
    first = next(atoms(rule.clause.body[0]))
    match maintenance.states[first.relation].state:
        case "old":
            return "what stays"
        case "red":
            return "what is derived again"
        case _:
            return "what is inserted"
