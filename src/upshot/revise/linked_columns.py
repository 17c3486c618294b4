"""Columns whose values meet: in a variable of a rule, or in a comparison of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upshot.engine.time_limit import check_time
from upshot.revise.rules import Column, RuleParts, Rules, columns_of
from upshot.syntax.ast import Comparison, Constant, Variable


def linked_columns(rules: Rules) -> Mapping[Column, frozenset[Column]]:
    """For each column, the base columns whose values may be compared with its own: a value that is in none of them is
    new to all rules."""
    above: dict[Column, Column] = {}

    def top(column: Column) -> Column:
        """The column that stands for all that are known to be linked to this one."""
        while above.setdefault(column, column) != column:
            above[column] = column = above[above[column]]
        return column

    for rule in (each for listed in rules.by_view.values() for each in listed):
        check_time()
        for first, *others in filter(None, _meetings(rule)):
            leader = top(first)
            for each in others:
                above[top(each)] = leader
    groups: dict[Column, set[Column]] = {}
    for column in above:
        groups.setdefault(top(column), set()).update({column} if rules.is_base(column[0]) else ())
    base = {each: frozenset(group) for each, group in groups.items()}
    return {column: base[top(column)] for column in above}


def named_constants(rules: Rules) -> Mapping[Column, frozenset[Any]]:
    """For each base column, the constants that rules ask its values to be, or not to be, or look for in columns that it
    is linked to."""
    groups, found = linked_columns(rules), dict[Column, set[Any]]()
    for rule in (each for listed in rules.by_view.values() for each in listed):
        for column, value in _constants(rule):
            for each in groups.get(column, frozenset()) | ({column} if rules.is_base(column[0]) else set()):
                found.setdefault(each, set()).add(value)
    return {column: frozenset(values) for column, values in found.items()}


def _constants(rule: RuleParts) -> Iterator[tuple[Column, Any]]:
    for atom in (rule.clause.head, *rule.positive, *rule.negative):
        for place, term in enumerate(atom.args):
            if isinstance(term, Constant) and term.value is not None:
                yield (atom.relation, place), term.value
    for each in rule.built_ins:
        match each:
            case Comparison("=" | "!=", Variable(name), Constant(value)) | Comparison(
                "=" | "!=", Constant(value), Variable(name)
            ):
                yield from ((column, value) for column in columns_of(name, rule) if value is not None)


def _meetings(rule: RuleParts) -> Iterable[set[Column]]:
    """Sets of columns of which one value is in all, or two are compared."""
    head = rule.clause.head
    found = {name: {*columns_of(name, rule)} for name in rule.types}
    for place, term in enumerate(head.args):
        if isinstance(term, Variable):
            found.setdefault(term.name, set()).add((head.relation, place))
    yield from found.values()
    for each in rule.built_ins:
        match each:
            case Comparison("=" | "!=", Variable(left), Variable(right)):
                yield found.get(left, set()) | found.get(right, set())
