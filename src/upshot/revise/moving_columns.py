"""Through which columns the values of others go, and where rules look at them on their way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.revise.rules import Column, RuleParts, Rules, columns_in
from upshot.syntax.ast import Comparison, Variable


def joins(literal: Literal, rule: RuleParts, rules: Rules) -> bool:
    """Whether a built-in asks if two variables are the same, both with values that are stored somewhere."""
    match literal:
        case Comparison("=" | "!=", Variable(one), Variable(other)):
            columns = [[*columns_in(name, rule.positive)] for name in (one, other)]
            return all(each and not any(map(rules.is_made_column, each)) for each in columns)
        case _:
            return False


def watched_columns(rules: Rules) -> frozenset[Column]:
    """The columns whose values rules compare, fold, look for by name, join with computed ones, or hand on to columns of
    which that is so."""
    found: set[Column] = set()
    size = -1
    every = [rule for listed in rules.by_view.values() for rule in listed]
    while len(found) != size:
        size = len(found)
        for rule in every:
            head, fold = rule.clause.head, rules.folds.get(rule.clause.head.relation)
            used = {name for each in rule.built_ins if not joins(each, rule, rules) for name in variables(each)}
            used |= {
                t.name for at, t in enumerate(head.args) if isinstance(t, Variable) and (head.relation, at) in found
            }
            columns = [((a.relation, at), t) for a in (*rule.positive, *rule.negative) for at, t in enumerate(a.args)]
            used |= {t.name for c, t in columns if isinstance(t, Variable) and rules.is_made_column(c)}
            found.update(column for column, term in columns if not isinstance(term, Variable) or term.name in used)
            if fold is not None:
                found.update(
                    (fold.below, at) for at in (*range(fold.width), *(() if fold.target is None else (fold.target,)))
                )
    return frozenset(found)


def moving_columns(rules: Rules, columns: frozenset[Column]) -> frozenset[Column]:
    """The columns to which values of these come, or what is computed from them."""
    found, size = set(columns), -1
    every = [rule for listed in rules.by_view.values() for rule in listed]
    while len(found) != size:
        size = len(found)
        for rule in every:
            head, fold = rule.clause.head, rules.folds.get(rule.clause.head.relation)
            atoms = (*rule.positive, *rule.negative)
            names = {
                term.name for atom in atoms for at, term in enumerate(atom.args)
                if isinstance(term, Variable) and (atom.relation, at) in found
            }  # fmt: skip
            names = _computed_from(names, rule.built_ins)
            found.update(
                (head.relation, at) for at, t in enumerate(head.args) if isinstance(t, Variable) and t.name in names
            )
            if fold is not None and fold.target is not None and (fold.below, fold.target) in found:
                found.add((fold.view, fold.width))
    return frozenset(found)


def looked_at(rules: Rules, columns: frozenset[Column], told: Collection[str] = ()) -> frozenset[str]:
    """The views that may come to something else with other new values in these columns: rules on the way to them
    compare those, fold them, or compute others from them. Of views that are `told` it is known what they come to."""
    moving, found, size = moving_columns(rules, columns), set[str](), -1
    # A computed row may be there already: then there is one less to be folded.
    computed = looked_at(rules, columns) & {name for name, _ in moving} if told else ()
    every = [rule for listed in rules.by_view.values() for rule in listed if rule.clause.head.relation not in told]
    while len(found) != size:
        size = len(found)
        for rule in every:
            atoms, fold = (*rule.positive, *rule.negative), rules.folds.get(rule.clause.head.relation)
            cells = [((atom.relation, at), term) for atom in atoms for at, term in enumerate(atom.args)]
            used = {name for each in rule.built_ins if not joins(each, rule, rules) for name in variables(each)}
            used |= {t.name for c, t in cells if isinstance(t, Variable) and rules.is_made_column(c)}
            if (
                any(atom.relation in found for atom in atoms)
                or any(c in moving and (not isinstance(t, Variable) or t.name in used) for c, t in cells)
                or (fold is not None and any((fold.below, at) in moving for at in (*range(fold.width), fold.target)))
                or (fold is not None and fold.below in computed)
            ):
                found.add(rule.clause.head.relation)
    return frozenset(found)


def _computed_from(names: set[str], literals: Iterable[Any]) -> set[str]:
    size = -1
    while len(names) != size:
        size = len(names)
        for each in literals:
            if isinstance(each, Comparison) and each.op == "=" and names & {*variables(each)}:
                names = names | {*variables(each)}
    return names
