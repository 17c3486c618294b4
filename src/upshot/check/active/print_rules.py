"""Print checked active rules for reading: triggers, clauses of the instances, actions."""

from __future__ import annotations

from collections.abc import Iterator

from upshot.check.printing import print_clause
from upshot.check.program import EVERY, CheckedProgram, CheckedRule
from upshot.syntax.ast import Constant
from upshot.syntax.printing import print_term


def print_rules(program: CheckedProgram) -> str:
    """All active rules, each with the clauses of its hidden view."""
    return "\n".join(_rule(rule, program) for rule in program.rules)


def print_checked_rule(rule: CheckedRule) -> str:
    """One rule, without the view of its condition."""
    return "".join(f"{line}\n" for line in _lines(rule))


def _rule(rule: CheckedRule, program: CheckedProgram) -> str:
    view = [
        print_clause(clause)
        for clause in (*program.clauses, *rule.asleep)
        if clause.head.relation == rule.becomes and (rule.becomes in program.hidden or rule.asleep)
    ]
    return print_checked_rule(rule) + "".join(f"  view {line}\n" for line in view)


def _lines(rule: CheckedRule) -> Iterator[str]:
    options = [rule.coupling, rule.semantics, f"per {rule.per}"]
    if rule.priority:
        options.append(f"priority {rule.priority}")
    options += [f"precedes {name}" for name in rule.precedes] + [f"follows {name}" for name in rule.follows]
    yield f"rule {rule.visible}: {', '.join(options)}"
    yield f"  identity ({', '.join(rule.instance.columns[i].name for i in rule.identity)})"
    yield f"  on {' or '.join(f'{operation} {relation}' for relation, operation in rule.triggers)}"
    for clause in rule.clauses:
        yield f"  find {print_clause(clause)}"
    for clause in rule.before:
        yield f"  unless {print_clause(clause)}"
    for action in rule.actions:
        yield f"  do {action.text}"
    if not rule.activations:
        yield "  active for nothing"
    elif rule.activations != EVERY:
        for binding in rule.activations:
            values = (f"{name} = {print_term(_constant(rule, name, value))}" for name, value in binding.items())
            yield f"  active for {', '.join(values)}"


def _constant(rule: CheckedRule, name: str, value: object) -> Constant:
    column = next(column for column in rule.instance.columns if column.name == name)
    return Constant(value, column.type)
