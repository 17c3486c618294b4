"""Termination: whether a request can need unboundedly many fresh values, told before anything is searched."""

from __future__ import annotations

from collections.abc import Iterable

from upshot.check.variables import variables
from upshot.revise.rules import RuleParts, Rules


def leaves_columns_out(rules: Rules, relations: Iterable[str]) -> bool:
    """Whether a rule that these relations depend on has variables that its head lacks: only such rules ask for fresh
    values, and without them a search ends by itself."""
    return any(invents(rule) for name in rules.below(relations) for rule in rules.by_view.get(name, ())) or any(
        name in rules.folds for name in rules.below(relations)
    )


def invents(rule: RuleParts) -> bool:
    """Whether a rule needs values that its head does not name."""
    head = {*variables(rule.head), *rule.constants}
    return any(name not in head for name in rule.names)


def inventing_recursion(rules: Rules, relations: Iterable[str]) -> tuple[str, ...]:
    """The views that these relations depend on which demand rows of themselves with fresh values: a realization may
    need any number of those. Empty if the number of fresh values is bounded."""
    found = []
    for name in sorted(rules.below(relations)):
        for rule in rules.by_view.get(name, ()):
            head = {*variables(rule.head), *rule.constants}
            for atom in rule.positive:
                fresh = any(each not in head for each in variables(atom))
                if fresh and name in rules.below([atom.relation]):
                    found.append(name)
    return tuple(dict.fromkeys(found))
