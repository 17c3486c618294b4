"""For which values of their parameters rules are active."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from upshot.check.findings import Findings
from upshot.check.program import EVERY, CheckedRule
from upshot.check.types.constants import convert
from upshot.check.types.kinds import kinds_of_constant
from upshot.core.schema import Column
from upshot.syntax.ast import Activation, Constant
from upshot.values.signatures import NUMERIC, only, spell

Binding = Mapping[str, object]


def activated(
    rules: Sequence[CheckedRule], items: Iterable[Activation], known: Collection[str], findings: Findings
) -> list[CheckedRule]:
    """The rules with their activations applied in order. `known` are all rules, also those that are wrong."""
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
        elif item.rule in found:
            rule = found[item.rule]
            found[item.rule] = replace(rule, activations=_after(rule, item, findings))
    return list(found.values())


def _after(rule: CheckedRule, item: Activation, findings: Findings) -> tuple[Binding, ...]:
    if not item.bindings:
        return EVERY if item.active else ()
    binding = _values(rule, item, findings)
    earlier = () if rule.activations == EVERY else rule.activations
    if binding is None:
        return rule.activations
    if item.active:
        return earlier if binding in earlier else (*earlier, binding)
    if binding not in earlier:
        everything = rule.activations == EVERY
        findings.error(
            "not-activated",
            f"rule `{rule.name}` is active for all values; no single value can be deactivated"
            if everything
            else f"rule `{rule.name}` was not activated for these values",
            item.span,
            label="nothing to deactivate",
            help=f"activate it for specific values, or deactivate it with `.deactivate {rule.name}`",
        )
    return tuple(each for each in earlier if each != binding) if earlier else rule.activations


def _values(rule: CheckedRule, item: Activation, findings: Findings) -> Binding | None:
    """The values as their columns hold them; None when something is wrong with them."""
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
