"""Whether what was asked for contradicts itself or a constraint, whatever values are tried.

A search that has not tried all values finds out all the same, from derivations that hold in every state, that certain
rows cannot be together. If rows that the request needs for certain are among those, there is no realisation, and none
of the values that were left out would be one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined
from upshot.revise.disjunctions import Disjunctions
from upshot.revise.nulls import denied, joins_null
from upshot.revise.request import Key, Row
from upshot.revise.rules import RuleParts, free_variables, ground
from upshot.revise.term_values import are_same
from upshot.revise.ways import Ways
from upshot.syntax.ast import Atom, Constant, Variable

MOST = 1_000
"""Rows of a request that are looked at together."""


def contradiction(ways: Ways, start: Branch, disjunctions: Disjunctions, constraints: Collection[str]) -> Key | None:
    """A row that cannot be as the request needs it for certain; None if none is known."""
    if len(start.true) + len(start.false) > MOST:
        return None
    branch = start
    while True:
        for forced in disjunctions.forced(branch, of_aggregates=True):
            leaf = forced.leaf
            made = None if leaf is None else ways.decided(branch, *_otherwise(leaf.key, there=leaf.there))
            if made is None:
                return forced.about
            branch = made
        before = branch
        for key in sorted(branch.true, key=repr):
            if key in branch.support or ways.rules.is_base(key[0]) or key[0] in ways.rules.folds:
                continue
            made = _derived(ways, branch, key)
            if made is None:
                return key
            branch = made
        if branch is before:
            return next(_violated(ways, branch, constraints), None)


def _otherwise(key: Key, *, there: bool) -> tuple[list[Key], list[Key]]:
    return ([], [key]) if there else ([key], [])


def _derived(ways: Ways, branch: Branch, key: Key) -> Branch | None:
    """The branch with what a row needs if only one instance of a rule can derive it; None if none can."""
    heads = ((rule, rule.binding(key[1])) for rule in ways.rules.by_view.get(key[0], ()))
    found = [
        (rule, known)
        for rule, head in heads
        if head is not None and (known := determined(rule.built_ins, head, rule.types)) is not None
    ]
    if not found:
        return None
    rule, known = found[0]
    return branch if len(found) > 1 or free_variables(rule, known) else ways.instance(branch, key, rule, known)


def _violated(ways: Ways, branch: Branch, constraints: Collection[str]) -> Iterator[Key]:
    """New witnesses of constraints that rest on nothing but what is decided."""
    rows: dict[str, list[Row]] = {}
    for relation, row in sorted(branch.true, key=repr):
        rows.setdefault(relation, []).append(row)
    for constraint in sorted(constraints):
        for rule in ways.rules.by_view.get(constraint, ()):
            for known in _instances(rule, rule.positive, rows, {}):
                away = [*denied(rule, known)]
                if len(away) == len(rule.negative) and branch.false.issuperset(away) and not joins_null(rule, known):
                    key = ground(rule.clause.head, known)
                    if not ways.world.stored(key):
                        yield key


def _instances(
    rule: RuleParts, left: tuple[Atom, ...], rows: Mapping[str, list[Row]], binding: Binding
) -> Iterator[Binding]:
    """The values of the variables of a rule for which its positive literals are among the rows, and its built-ins
    hold."""
    if not left:
        known = determined(rule.built_ins, binding, rule.types)
        if known is not None and rule.positive and not free_variables(rule, known):
            yield known
        return
    for row in rows.get(left[0].relation, ()):
        longer = dict(binding)
        for term, value in zip(left[0].args, row, strict=True):
            if isinstance(term, Variable) and not are_same(longer.setdefault(term.name, value), value):
                break
            if isinstance(term, Constant) and not are_same(term.value, value):
                break
        else:
            yield from _instances(rule, left[1:], rows, longer)
