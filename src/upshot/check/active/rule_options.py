"""The options of active rules, and the order that they ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.check.findings import Findings
from upshot.check.names.variables import atoms
from upshot.check.options import STRATEGIES
from upshot.core.precedence import circle
from upshot.syntax.ast import ActiveRule, Formula

RULE_VALUES: Mapping[str, tuple[str, ...]] = {
    "semantics": ("strict", "nervous"),
    "coupling": ("immediate", "deferred", "after"),
    "per": ("set", "instance"),
    "strategy": STRATEGIES,
    "active": ("true", "false"),
}
_LISTS = ("precedes", "follows", "group")
"""Options whose value is a list of names; they may be repeated."""
_KNOWN = ("priority", *RULE_VALUES, *_LISTS)
_MOST = 2**31 - 1


@dataclass(slots=True)
class RuleOptions:
    """The options of a rule; `values` holds those that are words."""

    priority: int = 0
    coupling: str = "deferred"
    values: dict[str, str] = field(default_factory=dict)
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    bound: tuple[tuple[str, ...], ...] | None = None
    """The parameters that activations give values for, one tuple for each combination; None if it is active for all."""


def rule_options(rule: ActiveRule, findings: Findings) -> RuleOptions:
    """The options of a rule; those that are wrong are reported and left out."""
    found = RuleOptions()
    given: set[str] = set()
    for option, value in rule.options:
        if option not in _KNOWN:
            known = ", ".join(f"`{each}`" for each in _KNOWN)
            findings.error(
                "unknown-option",
                f"rule `{rule.name}`: unknown option `{option}`",
                rule.span,
                label="unknown option",
                help=findings.suggest(option, _KNOWN, f"options are {known}"),
            )
        elif option in _LISTS:
            names = tuple(dict.fromkeys(name for name in (part.strip() for part in value.split(",")) if name))
            setattr(found, option, tuple(dict.fromkeys((*getattr(found, option), *names))))
        elif option in given:
            findings.error(
                "duplicate-option",
                f"rule `{rule.name}`: option `{option}` is repeated",
                rule.span,
                label="repeated here",
                help="keep one of the two; only `precedes`, `follows` and `group` may be repeated",
            )
        elif _possible(rule, option, value, findings):
            if option == "priority":
                found.priority = int(value)
            else:
                found.values[option] = value
        given.add(option)
    return found


def _possible(rule: ActiveRule, option: str, value: str, findings: Findings) -> bool:
    if option != "priority":
        fine, help = value in RULE_VALUES[option], f"use one of {', '.join(RULE_VALUES[option])}"
    else:
        digits = value.removeprefix("-")
        fine = digits.isdecimal() and digits.isascii() and len(digits) <= 10 and abs(int(value)) <= _MOST
        help = "a priority is an integer; the rule of higher priority comes first"
    if not fine:
        findings.error(
            "bad-option-value",
            f"rule `{rule.name}`: `{value}` is not a value of option `{option}`",
            rule.span,
            label=f"`{option}` cannot be `{value}`",
            help=help,
        )
    return fine


def coupling_of(rule: ActiveRule, options: RuleOptions, findings: Findings) -> str:
    """The coupling of the rule: when it runs; a call that is drawn before the commit by the changes beside it is warned
    of."""
    found = _coupling(rule, options)
    if found == "deferred" and "coupling" not in options.values and "call" in {a.kind for a in rule.actions}:
        findings.warn(
            "call-before-commit",
            f"rule `{rule.name}` changes relations and calls a function, so it runs before the commit",
            rule.span,
            label="its function may only read, or raise to reject the transaction",
            help="write `coupling=deferred` or `coupling=after`, or split it into two rules",
        )
    return found


def warn_of_idle_options(rule: ActiveRule, options: RuleOptions, findings: Findings) -> None:
    """Options that say nothing about a rule of this kind."""
    idle: list[tuple[str, str]] = []
    if "semantics" in options.values and rule.condition is None:
        idle.append(("semantics", "it has no condition, so it fires for every event"))
    elif "semantics" in options.values and has_states(rule.condition):
        idle.append(("semantics", "its condition reads other states, so it fires for every match"))
    if "per" in options.values and all(action.kind != "call" for action in rule.actions):
        idle.append(("per", "it calls nothing"))
    if "strategy" in options.values and (rule.event is not None or has_states(rule.condition)):
        idle.append(("strategy", "its condition is not materialized"))
    for option, why in idle:
        findings.warn(
            "idle-rule-option",
            f"rule `{rule.name}`: option `{option}` has no effect: {why}",
            rule.span,
            label="no effect",
            help=f"omit `{option}`",
        )


def has_states(formula: Formula | None) -> bool:
    """Test whether a condition names `old`, `inserted` or `deleted` rows."""
    return formula is not None and any(atom.state for atom in atoms(formula))


def check_order(rules: Sequence[ActiveRule], options: Mapping[str, RuleOptions], findings: Findings) -> None:
    """Reports `precedes` and `follows` that name no rule, and orders that go round in a circle."""
    after: dict[str, set[str]] = {rule.name: set() for rule in rules}
    spans = {rule.name: rule.span for rule in rules}
    for rule in rules:
        order = options[rule.name]
        for option, names in (("precedes", order.precedes), ("follows", order.follows)):
            for name in names:
                if name not in after:
                    findings.error(
                        "unknown-rule",
                        f"rule `{rule.name}` {option} `{name}`, which is not a rule",
                        rule.span,
                        label=f"unknown rule `{name}`",
                        help=findings.suggest(name, after, f"define it: `.rule {name}(…) …`, or remove the option"),
                    )
                elif option == "precedes":
                    after[rule.name].add(name)
                else:
                    after[name].add(rule.name)
    _against_couplings(rules, options, after, findings)
    found = circle(after)
    if found:
        shown = " before ".join(f"`{name}`" for name in (*found, found[0]))
        findings.error(
            "rule-order-cycle",
            f"cyclic order of rules: {shown}",
            spans[found[0]],
            label="this rule would precede itself",
            help="remove one `precedes` or `follows`",
            notes=tuple((spans[name], f"`{name}` is part of the cycle") for name in found[1:]),
        )


def check_groups(
    rules: Sequence[ActiveRule], options: Mapping[str, RuleOptions], relations: Collection[str], findings: Findings
) -> None:
    """Reports groups with the name of a rule or relation: `activate` takes either, and must know which is meant."""
    for rule in rules:
        for name in options[rule.name].group:
            what = "rule" if name in options else "relation" if name in relations else ""
            if what:
                findings.error(
                    "name-clash",
                    f"group `{name}` of rule `{rule.name}` has the name of a {what}",
                    rule.span,
                    label=f"already a {what}",
                    help="give the group another name",
                )


def _against_couplings(
    rules: Sequence[ActiveRule],
    options: Mapping[str, RuleOptions],
    after: Mapping[str, Collection[str]],
    findings: Findings,
) -> None:
    """Reports rules that are to precede one that always runs earlier."""
    words = RULE_VALUES["coupling"]
    couplings = {rule.name: words.index(_coupling(rule, options[rule.name])) for rule in rules}
    for rule in rules:
        for later in sorted(after[rule.name]):
            if couplings[rule.name] > couplings[later]:
                findings.warn(
                    "order-against-coupling",
                    f"rule `{rule.name}` ({words[couplings[rule.name]]}) cannot come before `{later}` "
                    f"({words[couplings[later]]}): the order has no effect",
                    rule.span,
                    label="always later",
                    help="immediate rules run first, then deferred rules, then rules after the commit",
                )


def _coupling(rule: ActiveRule, options: RuleOptions) -> str:
    """The coupling that was asked for; else after the commit if the rule only calls, and before it if it changes
    something."""
    usual = "after" if {action.kind for action in rule.actions} == {"call"} else "deferred"
    return options.values.get("coupling", usual)
