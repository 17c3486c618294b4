"""Active rules: their names are checked, then they are refused until they can run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from upshot.check.findings import Findings
from upshot.check.names import NameCheck
from upshot.core.schema import Role
from upshot.syntax.ast import ActiveRule


def refuse_active_rules(rules: Iterable[ActiveRule], names: NameCheck, findings: Findings) -> None:
    """Reports unknown names in active rules, and that active rules are not available yet."""
    check = replace(names, states=True)
    seen: dict[str, ActiveRule] = {}
    for rule in rules:
        earlier = seen.setdefault(rule.name, rule)
        if earlier is not rule:
            findings.error(
                "duplicate-declaration",
                f"rule `{rule.name}` is defined twice",
                rule.span,
                label="defined again here",
                help="give it another name",
                notes=((earlier.span, "first defined here"),),
            )
        if rule.event is not None:
            check.relation(rule.event.atom)
        if rule.condition is not None:
            check.formula(rule.condition)
        _actions(rule, check, findings)
        findings.error(
            "not-yet",
            f"active rule `{rule.name}`: active rules are not available yet",
            rule.span,
            label="cannot be run by this version",
            help="remove the rule; views and `.deny` constraints are available",
        )


def _actions(rule: ActiveRule, check: NameCheck, findings: Findings) -> None:
    for action in rule.actions:
        if action.kind == "call":
            continue
        check.relation(action.atom)
        schema = check.schemas.get(action.atom.relation)
        if schema is not None and schema.role is not Role.BASE:
            findings.error(
                "action-on-view",
                f"rule `{rule.name}` cannot change view `{schema.name}`",
                action.span or action.atom.span,
                label="defined by rules",
                help="change the base relations that the view is defined from",
            )
