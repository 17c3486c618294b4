"""Termination: whether a request can need unboundedly many fresh values, told before anything is searched."""

from __future__ import annotations

from collections.abc import Iterable

from upshot.check.names.variables import variables
from upshot.revise.built_ins import LINEAR
from upshot.revise.rules import RuleParts, Rules
from upshot.syntax.ast import Call, Comparison, Term


def leaves_columns_out(rules: Rules, relations: Iterable[str]) -> bool:
    """Whether a rule that these relations depend on has variables that its head lacks: only such rules ask for fresh
    values, and without them a search ends by itself."""
    return any(invents(rule) for name in rules.below(relations) for rule in rules.by_view.get(name, ())) or any(
        name in rules.folds for name in rules.below(relations)
    )


def invents(rule: RuleParts) -> bool:
    """Whether a rule needs values that its head neither names nor determines by sums and differences."""
    known = {*variables(rule.head), *rule.constants}
    size = -1
    while len(known) != size:
        size = len(known)
        for each in rule.built_ins:
            if isinstance(each, Comparison) and each.op == "=" and _is_sum(each.left) and _is_sum(each.right):
                open_ = [name for name in variables(each) if name not in known]
                known.update(open_ if len(open_) == 1 else ())
    return any(name not in known for name in rule.names)


def _is_sum(term: Term) -> bool:
    return not isinstance(term, Call) or (term.function in LINEAR and all(map(_is_sum, term.args)))


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
