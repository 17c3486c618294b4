"""Directives: what is read and written, how views are kept, what constraints do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from upshot.check.findings import Findings
from upshot.check.program import Constraint, ViewOptions
from upshot.core.schema import Role, Schema
from upshot.core.span import Span
from upshot.strategies.names import NAMES
from upshot.syntax.ast import DenyPolicy, Directive, ViewDirective

STRATEGIES = ("auto", *NAMES)
POLICIES = ("auto", "incremental", "strict", "full")
VIEW_VALUES: Mapping[str, tuple[str, ...]] = {
    "strategy": STRATEGIES,
    "materialized": ("true", "false"),
    "policy": POLICIES,
    "events": ("all", "insert", "delete", "none"),
    "semantics": ("strict", "nervous"),
}
DENY_VALUES: Mapping[str, tuple[str, ...]] = {"on_violation": ("reject", "warn"), "existing": ("reject", "keep")}


def check_directives(directives: Iterable[Directive], schemas: Mapping[str, Schema], findings: Findings) -> None:
    """Reports directives about relations that do not exist or cannot be read."""
    for directive in directives:
        schema = schemas.get(directive.relation)
        if schema is None:
            findings.unknown_relation(directive.relation, directive.span, schemas)
        elif schema.role is Role.CONSTRAINT and directive.kind == "input":
            findings.error(
                "input-of-constraint",
                f"constraint `{directive.relation}` cannot be read from a file",
                directive.span,
                label="contains only derived rows",
                help="remove the directive",
            )


def view_options(
    directives: Iterable[ViewDirective], schemas: Mapping[str, Schema], findings: Findings
) -> dict[str, ViewOptions]:
    """The options of every view that has a `.view` directive."""
    result: dict[str, ViewOptions] = {}
    given: set[tuple[str, str]] = set()
    for directive in directives:
        name = directive.relation
        schema = schemas.get(name)
        if schema is None:
            findings.unknown_relation(name, directive.span, schemas)
        elif schema.role is Role.BASE:
            findings.error(
                "view-of-base-relation",
                f"`{name}` has no rules, so it is not a view",
                directive.span,
                label="a base relation",
                help=f"write a rule for `{name}`, or remove the directive",
            )
        options = result.get(name, ViewOptions())
        for option, value in directive.options:
            if not _valid(name, option, value, VIEW_VALUES, given, directive.span, findings):
                continue
            match option:
                case "strategy":
                    options = replace(options, strategy=value)
                case "materialized":
                    options = replace(options, materialized=value == "true")
                case "policy":
                    options = replace(options, policy=value)
                case "events":
                    options = replace(options, events=value)
                case "semantics":
                    options = replace(options, semantics=value)
        result[name] = options
    return result


def constraint_policies(
    names: Iterable[str], policies: Iterable[DenyPolicy], findings: Findings
) -> dict[str, Constraint]:
    """Every constraint with what a violation does."""
    result = {name: Constraint(name) for name in names}
    given: set[tuple[str, str]] = set()
    for policy in policies:
        if policy.name not in result:
            findings.error(
                "unknown-constraint",
                f"unknown constraint `{policy.name}`",
                policy.span,
                label="unknown",
                help=findings.suggest(policy.name, result, "define a constraint with `.deny name(…) :- …`"),
            )
        for option, value in policy.options:
            valid = _valid(policy.name, option, value, DENY_VALUES, given, policy.span, findings)
            if valid and policy.name in result:
                known = result[policy.name]
                on_violation = value if option == "on_violation" else known.on_violation
                existing = value if option == "existing" else known.existing
                result[policy.name] = Constraint(policy.name, on_violation, existing)
    return result


def _valid(
    name: str,
    option: str,
    value: str,
    possible: Mapping[str, tuple[str, ...]],
    given: set[tuple[str, str]],
    span: Span | None,
    findings: Findings,
) -> bool:
    values = possible.get(option)
    if values is None:
        known = ", ".join(f"`{o}`" for o in possible)
        findings.error(
            "unknown-option",
            f"`{name}`: unknown option `{option}`",
            span,
            label="unknown option",
            help=findings.suggest(option, possible, f"options are {known}"),
        )
        return False
    if value not in values:
        findings.error(
            "bad-option-value",
            f"`{name}`: `{value}` is not a value of option `{option}`",
            span,
            label=f"`{option}` cannot be `{value}`",
            help=f"use one of {', '.join(values)}",
        )
        return False
    if (name, option) in given:
        findings.error(
            "duplicate-option",
            f"`{name}`: option `{option}` is repeated",
            span,
            label="repeated here",
            help="keep one of the two",
        )
        return False
    given.add((name, option))
    return True
