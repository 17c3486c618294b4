"""Columns for whose values it matters more than whether they are the same."""

from __future__ import annotations

from collections.abc import Mapping

from upshot.check.names.variables import variables
from upshot.revise.rules import Column, Rules, columns_of
from upshot.syntax.ast import Comparison, Constant, Variable


def ordered_columns(rules: Rules, related: Mapping[Column, frozenset[Column]]) -> frozenset[Column]:
    """The columns whose values rules compare by order, test, compute with or fold, and those `related` to them. To the
    values of others nothing happens but that they are joined, or found to be a constant: whether one that is equal to
    no constant lies above or below one makes no difference."""
    found: set[Column] = set()
    for rule in (each for listed in rules.by_view.values() for each in listed):
        names = set[str]()
        for each in rule.built_ins:
            match each:
                case Comparison("=" | "!=", Variable() | Constant(), Variable() | Constant()):
                    pass
                case _:
                    names.update(variables(each))
        found.update(column for name in names for column in columns_of(name, rule))
    for fold in rules.folds.values():
        found.update([] if fold.target is None else [(fold.below, fold.target)])
    return frozenset(other for column in found for other in related.get(column, (column,)))
