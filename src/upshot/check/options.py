"""Check directives for files, options of views and policies of constraints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check.findings import Findings
from upshot.check.program import CONSTRAINT_OPTIONS, Constraint, ViewOptions
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


def check_directives(directives: Iterable[Directive], schemas: Mapping[str, Schema], findings: Findings) -> None:
    """Report directives for relations that do not exist or cannot be read from files."""
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
    checks: dict[str, OptionCheck] = {}
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
        check = checks.setdefault(name, OptionCheck(f"`{name}`", VIEW_VALUES, findings))
        options = {key: value for key, value in directive.options if check.accepts(key, value, directive.span)}
        result[name] = replace(result.get(name, ViewOptions()), **_view_values(options))
    return result


def constraint_policies(
    names: Iterable[str], policies: Iterable[DenyPolicy], findings: Findings
) -> dict[str, Constraint]:
    """Every constraint with its policies."""
    result = {name: Constraint(name) for name in names}
    checks: dict[str, OptionCheck] = {}
    for policy in policies:
        if policy.name not in result:
            findings.error(
                "unknown-constraint",
                f"unknown constraint `{policy.name}`",
                policy.span,
                label="unknown",
                help=findings.suggest(policy.name, result, "define a constraint with `.deny name(…) :- …`"),
            )
        check = checks.setdefault(policy.name, OptionCheck(f"`{policy.name}`", CONSTRAINT_OPTIONS, findings))
        options = {key: value for key, value in policy.options if check.accepts(key, value, policy.span)}
        if policy.name in result:
            result[policy.name] = replace(result[policy.name], **options)
    return result


def _view_values(options: Mapping[str, str]) -> dict[str, Any]:
    """The options as values of the fields of `ViewOptions`."""
    return {key: value == "true" if key == "materialized" else value for key, value in options.items()}


@dataclass(slots=True)
class OptionCheck:
    """The check of the options of `owner`: their names, their possible `values` (empty for any value), and repetitions;
    `repeatable` are the options that may be repeated, in words."""

    owner: str
    values: Mapping[str, Collection[str]]
    findings: Findings
    repeatable: str = ""
    used: set[str] = field(default_factory=set)

    def accepts(self, option: str, value: str, span: Span | None) -> bool:
        """Test whether the option can be set; otherwise it is reported."""
        if option not in self.values:
            known = f"options are {', '.join(f'`{name}`' for name in self.values)}"
            help = self.findings.suggest(option, self.values, known)
            self._report("unknown-option", f"unknown option `{option}`", span, "unknown option", help)
            return False
        if option in self.used and f"`{option}`" not in self.repeatable:
            help = "keep one of the two" + (f"; only {self.repeatable} may be repeated" if self.repeatable else "")
            self._report("duplicate-option", f"option `{option}` is repeated", span, "repeated here", help)
            return False
        self.used.add(option)
        if self.values[option] and value not in self.values[option]:
            self.refuse_value(option, value, span, f"use one of {', '.join(self.values[option])}")
            return False
        return True

    def refuse_value(self, option: str, value: str, span: Span | None, help: str) -> None:
        message = f"`{value}` is not a value of option `{option}`"
        self._report("bad-option-value", message, span, f"`{option}` cannot be `{value}`", help)

    def _report(self, slug: str, message: str, span: Span | None, label: str, help: str) -> None:
        self.findings.error(slug, f"{self.owner}: {message}", span, label=label, help=help)
