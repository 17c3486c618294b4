"""Instances of rules whose aggregates have yet to come to a value: which variables wait, what is decided meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from upshot.check.names.variables import variables
from upshot.revise.branch import Branch, OpenInstance
from upshot.revise.built_ins import Binding
from upshot.revise.folds import Fold
from upshot.revise.nulls import denied, joins_null
from upshot.revise.request import Key, Row
from upshot.revise.rules import RuleParts, Rules, ground
from upshot.syntax.ast import Atom, Comparison, Variable


def waiting(rule: RuleParts, folds: Mapping[str, Fold], binding: Binding) -> frozenset[str]:
    """The variables whose values are those of aggregates, or are computed from them."""
    found: set[str] = set()
    for atom in rule.positive:
        if atom.relation in folds:
            found.update(name for name in variables(atom.args[-1]) if name not in binding)
    size = -1
    while found and len(found) != size:
        size = len(found)
        for each in rule.built_ins:
            if isinstance(each, Comparison) and each.op == "=":
                for side, other in ((each.left, each.right), (each.right, each.left)):
                    if isinstance(side, Variable) and side.name not in binding and found & {*variables(other)}:
                        found.add(side.name)
    return frozenset(found)


def folded_atoms(rule: RuleParts, folds: Mapping[str, Fold], binding: Binding) -> Iterator[Atom]:
    """The literals of a rule over aggregates whose values are not known."""
    for atom in rule.positive:
        value = atom.args[-1] if atom.relation in folds else None
        if isinstance(value, Variable) and value.name not in binding:
            yield atom


def group_of(atom: Atom, binding: Binding) -> Row | None:
    """The group that a literal over an aggregate asks for; None if it waits for the value of another."""
    group = replace(atom, args=atom.args[:-1])
    if any(name not in binding for name in variables(group)):
        return None
    return ground(group, binding)[1]


def opened(
    branch: Branch, rules: Rules, rule: RuleParts, binding: Binding, head: Key | None, unlike: frozenset[Row]
) -> tuple[Branch, list[Key], list[Key]] | None:
    """The branch with the instance open, and the rows that have to be, and not to be, there whatever its aggregates
    come to; None if it would rest on its own head, or on NULL being equal to NULL."""
    if joins_null(rule, binding):
        return None
    positive = [ground(each, binding) for each in rule.positive if binding.keys() >= {*variables(each)}]
    negative = [*denied(rule, binding)]
    made: Branch | None = branch
    if head is not None:
        made = branch.supported(head, (each for each in positive if not rules.is_base(each[0])))
    if made is None:
        return None
    new = OpenInstance(rule.number, tuple(sorted(binding.items())), head, unlike, branch.depth + 1)
    return replace(made, open=made.open | {new}), positive, negative
