"""Columns whose values meet: in a variable of a rule, or in a comparison of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.engine.time_limit import check_time
from upshot.revise.rules import Column, RuleParts, Rules, columns_of
from upshot.revise.unfolded_rules import COMPUTED, folded_columns, folded_names
from upshot.syntax.ast import Comparison, Constant, Variable


def column_groups(rules: Rules, *, compared: bool = False) -> Mapping[Column, frozenset[Column]]:
    """For each column, those whose values may be taken for its own: a variable has both, or two are equal or not. With
    `compared`, also those that a built-in has in it together with its own."""
    above: dict[Column, Column] = {}

    def top(column: Column) -> Column:
        """The column that stands for all that are known to be linked to this one."""
        while above.setdefault(column, column) != column:
            above[column] = column = above[above[column]]
        return column

    for rule in (each for listed in rules.by_view.values() for each in listed):
        check_time()
        for first, *others in filter(None, _meetings(rule, compared)):
            leader = top(first)
            for each in others:
                above[top(each)] = leader
    groups: dict[Column, set[Column]] = {}
    for column in above:
        groups.setdefault(top(column), set()).add(column)
    made = {each: frozenset(group) for each, group in groups.items()}
    return {column: made[top(column)] for column in above}


def linked_columns(rules: Rules) -> Mapping[Column, frozenset[Column]]:
    """For each column, the base columns whose values may be taken for its own: a value that is in none of them is new
    to all rules."""
    groups = column_groups(rules)
    base = {group: frozenset(each for each in group if rules.is_base(each[0])) for group in set(groups.values())}
    return {column: base[group] for column, group in groups.items()}


def named_constants(rules: Rules) -> Mapping[Column, frozenset[Any]]:
    """For each base column, the constants that rules ask its values to be, or not to be, or look for in columns that it
    is linked to."""
    groups, found = linked_columns(rules), dict[Column, set[Any]]()
    for rule in (each for listed in rules.by_view.values() for each in listed):
        for column, value in _constants(rule):
            for each in groups.get(column, frozenset()) | ({column} if rules.is_base(column[0]) else set()):
                found.setdefault(each, set()).add(value)
    return {column: frozenset(values) for column, values in found.items()}


def compared_constants(rules: Rules, related: Mapping[Column, frozenset[Column]]) -> Mapping[Column, frozenset[Any]]:
    """For each column, the constants that rules compare its values with, or those of columns that are related to it;
    but not those that totals are compared with."""
    found, totals = dict[frozenset[Column], set[Any]](), folded_columns(rules.program.clauses, COMPUTED)
    for rule in (each for listed in rules.by_view.values() for each in listed):
        names = folded_names(rule.clause, totals)
        for each in rule.built_ins:
            if isinstance(each, Comparison) and not names.intersection(variables(each)):
                columns = [column for name in _met_by(each, rule) for column in columns_of(name, rule)]
                sides = (each.left, each.right)
                constants = [side.value for side in sides if isinstance(side, Constant) and side.value is not None]
                for group in {related[column] for column in columns}:
                    found.setdefault(group, set()).update(constants)
    return {column: frozenset(found[group]) for column, group in related.items() if group in found}


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


def _meetings(rule: RuleParts, compared: bool) -> Iterable[set[Column]]:
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
            case _ if compared:
                yield {column for name in _met_by(each, rule) for column in found.get(name, ())}


def _met_by(literal: Literal, rule: RuleParts) -> set[str]:
    """The variables of a built-in, and of others that have variables in common with it."""
    found, size = {*variables(literal)}, -1
    while len(found) != size:
        size = len(found)
        for each in rule.built_ins:
            if found.intersection(variables(each)):
                found.update(variables(each))
    return found
