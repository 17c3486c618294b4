"""Activations: the parameter values for which rules are active."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from upshot.check.findings import Findings
from upshot.check.program import EVERY, CheckedRule
from upshot.check.types.constants import convert
from upshot.check.types.kinds import kinds_of_constant
from upshot.core.diagnostic import Diagnostic
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.syntax.ast import Activation, ActiveRule, Constant, Variable, Wildcard
from upshot.values.signatures import NUMERIC, only, spell

Binding = Mapping[str, object]


def bound_parameters(
    rule: ActiveRule, items: Iterable[Activation], *, awake: bool
) -> tuple[tuple[str, ...], ...] | None:
    """The combinations of parameters that the activations of a rule bind; None if it is active for all values, empty if
    it is inactive."""
    order = [term.name for term in rule.parameters if isinstance(term, Variable)]
    found: dict[tuple[str, ...], None] | None = None if awake else {}
    for item in items:
        if item.rule != rule.name:
            continue
        if not item.bindings:
            found = None if item.active else {}
        elif item.active:
            names = {name for name, _ in item.bindings}
            found = {**(found or {}), tuple(name for name in order if name in names): None}
    return None if found is None else tuple(found)


def binding_tables(rule: str, instance: Schema, bound: Iterable[tuple[str, ...]]) -> tuple[Schema, ...]:
    """Hidden base relations, one for each combination of parameters. Their names are stable, since the database stores
    their rows, and cannot be written in a program."""
    columns = {column.name: column for column in instance.columns}
    return tuple(
        Schema("$".join(("$active", rule, *names)), tuple(columns[name] for name in names), Role.BASE)
        for names in bound
    )


def activated(
    rules: Sequence[CheckedRule], items: Sequence[Activation], known: Collection[str], findings: Findings
) -> list[CheckedRule]:
    """The rules with their activations applied in order. `known` are the names of all rules, also of those with
    errors."""
    found = {rule.name: rule for rule in rules}
    for item in items:
        if item.rule not in known:
            word = "activate" if item.active else "deactivate"
            findings.error(
                "unknown-rule",
                f"unknown rule `{item.rule}` to {word}",
                item.span,
                label="unknown",
                help=findings.suggest(item.rule, known, f"define it: `.rule {item.rule}(…) …`"),
            )
        elif item.rule in found and item.bindings:
            found[item.rule] = _after(found[item.rule], item, items, findings)
        elif item.rule in found:
            found[item.rule] = replace(found[item.rule], activations=EVERY if item.active else (), deactivations=())
    return list(found.values())


def _after(rule: CheckedRule, item: Activation, items: Sequence[Activation], findings: Findings) -> CheckedRule:
    binding = binding_of(rule, item, findings)
    earlier = () if rule.activations == EVERY else rule.activations
    if binding is None:
        return rule
    if is_open(item):
        return replace(rule, activations=earlier)
    if item.active:
        return rule if binding in earlier else replace(rule, activations=(*earlier, binding))
    if binding in earlier:
        return replace(rule, activations=tuple(each for each in earlier if each != binding))
    names = binding.keys()
    if any(is_open(each) and each.rule == rule.name and dict(each.bindings).keys() == names for each in items):
        return replace(rule, deactivations=(*rule.deactivations, binding))
    findings.include(not_activated(rule, item.span))
    return rule


def is_open(item: Activation) -> bool:
    """Test whether the values are rows of the database: `.activate r(X = _)`."""
    return any(isinstance(value, Wildcard) for _, value in item.bindings)


def not_activated(rule: CheckedRule, span: Span | None) -> Diagnostic:
    """The error for deactivating values for which the rule is not active."""
    return Diagnostic(
        "not-activated",
        f"rule `{rule.name}` is active for all values; no single value can be deactivated"
        if rule.activations == EVERY
        else f"rule `{rule.name}` was not activated for these values",
        span,
        label="nothing to deactivate",
        help=f"activate it for specific values, or deactivate it with `.deactivate {rule.name}`",
    )


def binding_of(rule: CheckedRule, item: Activation, findings: Findings) -> Binding | None:
    """The values in the types of their columns; None if there is an error, which is reported."""
    columns = {column.name: column for column in rule.instance.columns[: len(rule.parameters)]}
    values: dict[str, object] = {}
    before = findings.reported
    for name, constant in item.bindings:
        column = columns.get(name)
        if column is None:
            findings.error(
                "unknown-rule-parameter",
                f"rule `{rule.name}` has no parameter `{name}`",
                constant.span or item.span,
                label=f"`{name}` is not a parameter of `{rule.name}`",
                help=findings.suggest(name, columns, f"parameters are {', '.join(columns)}" if columns else _NONE),
            )
        elif name in values:
            findings.error(
                "bad-rule-parameter",
                f"two values for `{name}`",
                constant.span or item.span,
                label="repeated here",
                help="write two activations",
            )
        elif isinstance(constant, Wildcard):
            values[name] = None
        elif _fits(name, constant, column, findings):
            value = convert(constant, column.type, findings).value
            values[name] = value if value == value else math.nan
    return values if findings.reported == before else None


_NONE = "list the parameters after its name, as in `.rule r(X) when …`"


def _spelled(constant: Constant) -> str:
    kinds = kinds_of_constant(constant)
    return "an integer" if kinds == NUMERIC else spell(kinds)


def _fits(name: str, constant: Constant, column: Column, findings: Findings) -> bool:
    if constant.value is None and not column.type.nullable:
        findings.error(
            "nullable-value",
            f"parameter `{name}` is never NULL",
            constant.span,
            label="matches nothing",
            help=f"give a value of type `{column.type}`",
        )
        return False
    if constant.value is not None and not kinds_of_constant(constant) & only(column.type.kind):
        findings.error(
            "type-mismatch",
            f"parameter `{name}` is `{column.type}`, but the value is {_spelled(constant)}",
            constant.span,
            label="a value of another type",
            help=f"give a value of type `{column.type}`",
        )
        return False
    return True
