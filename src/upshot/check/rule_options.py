"""The options of active rules, and the order that they ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.check.findings import Findings
from upshot.check.options import STRATEGIES
from upshot.syntax.ast import ActiveRule

RULE_VALUES: Mapping[str, tuple[str, ...]] = {
    "semantics": ("strict", "nervous"),
    "coupling": ("immediate", "deferred", "after"),
    "per": ("set", "instance"),
    "strategy": STRATEGIES,
    "active": ("true", "false"),
}
_ORDERS = ("precedes", "follows")
_KNOWN = ("priority", *RULE_VALUES, *_ORDERS)
_MOST = 2**31 - 1


@dataclass(slots=True)
class RuleOptions:
    """What the options say; `values` holds those that are words."""

    priority: int = 0
    coupling: str = "deferred"
    values: dict[str, str] = field(default_factory=dict)
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()


def rule_options(rule: ActiveRule, findings: Findings) -> RuleOptions:
    """The options of a rule; those that are wrong are reported and left out."""
    found = RuleOptions()
    given: set[str] = set()
    for option, value in rule.options:
        if option not in _KNOWN:
            known = ", ".join(f"`{each}`" for each in _KNOWN)
            findings.error(
                "unknown-option",
                f"rule `{rule.name}`: option `{option}` does not exist",
                rule.span,
                label="unknown option",
                help=findings.suggest(option, _KNOWN, f"options are {known}"),
            )
        elif option in _ORDERS:
            names = tuple(dict.fromkeys(name for name in (part.strip() for part in value.split(",")) if name))
            setattr(found, option, tuple(dict.fromkeys((*getattr(found, option), *names))))
        elif option in given:
            findings.error(
                "duplicate-option",
                f"rule `{rule.name}`: option `{option}` is given twice",
                rule.span,
                label="given again here",
                help="keep one of the two; only `precedes` and `follows` may be repeated",
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
    """When the rule runs: as told; else after the commit if it only calls, and before it if it changes something."""
    given = options.values.get("coupling")
    if given is not None:
        return given
    kinds = {action.kind for action in rule.actions}
    if kinds == {"call"}:
        return "after"
    if "call" in kinds:
        findings.warn(
            "call-before-commit",
            f"rule `{rule.name}` changes relations and calls, so it runs before the commit",
            rule.span,
            label="its call may only read, or raise to refuse the transaction",
            help="say so with `coupling=deferred`, use `coupling=after`, or make two rules of it",
        )
    return "deferred"


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
                        label=f"there is no rule `{name}`",
                        help=findings.suggest(name, after, f"define it: `.rule {name}(…) …`, or remove the option"),
                    )
                elif option == "precedes":
                    after[rule.name].add(name)
                else:
                    after[name].add(rule.name)
    circle = _circle(after)
    if circle:
        shown = " before ".join(f"`{name}`" for name in (*circle, circle[0]))
        findings.error(
            "rule-order-cycle",
            f"rules are to precede each other: {shown}",
            spans[circle[0]],
            label="this rule is to come before itself",
            help="leave out one `precedes` or `follows`",
            notes=tuple((spans[name], f"`{name}` is part of the circle") for name in circle[1:]),
        )


def _circle(after: Mapping[str, Collection[str]]) -> list[str]:
    """The names of one circle, or nothing. Rules that nothing waits for are taken away until none is left."""
    left = {name: set(followers) for name, followers in after.items()}
    free = [name for name, followers in left.items() if not followers]
    before: dict[str, list[str]] = {name: [] for name in after}
    for name, followers in after.items():
        for follower in followers:
            before[follower].append(name)
    while free:
        name = free.pop()
        del left[name]
        for earlier in before[name]:
            left[earlier].discard(name)
            if not left[earlier]:
                free.append(earlier)
    if not left:
        return []
    path = [next(iter(left))]
    while (following := min(left[path[-1]])) not in path:
        path.append(following)
    return path[path.index(following) :]
