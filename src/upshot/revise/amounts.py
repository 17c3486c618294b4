"""What rows can add to an aggregate, and what it can come to whatever rows there are.

A count is at least 1, a sum of what is never negative is not negative, and a least value is one that some row may have:
a group that is asked for anything else cannot be had by any number of rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check.names.variables import variables
from upshot.core.types import Kind, Type
from upshot.revise.folds import COUNT, Fold
from upshot.revise.group_steps import Steps
from upshot.revise.rules import Column, RuleParts, Rules
from upshot.revise.spans import ANY, Span, Spans, closed, common, point, without, words
from upshot.revise.tolerance import wished
from upshot.syntax.ast import Comparison, Constant, Term, Variable

EXACT = (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL)
"""Numbers that add up exactly; floats may be rounded beyond a bound."""


@dataclass(slots=True)
class Amounts:
    """Bounds that types, comparisons with constants and, of new rows, `constraints` set."""

    rules: Rules
    constraints: Collection[str]
    _of_rows: dict[str, Span] = field(default_factory=dict)
    _of_new_rows: dict[str, Span] = field(default_factory=dict)

    def of_rows(self, fold: Fold) -> Span:
        """What any row of a group adds to the fold."""
        if fold.view not in self._of_rows:
            self._of_rows[fold.view] = self._hull(fold)
        return self._of_rows[fold.view]

    def of_new_rows(self, fold: Fold) -> Span:
        """The same of rows that come, which must not violate a constraint by themselves."""
        if fold.view not in self._of_new_rows:
            spans: Spans = (self.of_rows(fold),)
            for column in self._columns(fold):
                for constraint in self.constraints:
                    for rule in self.rules.by_view.get(constraint, ()):
                        for denied in _denied(rule, *column):
                            spans = without(spans, denied)
            type = fold.type if fold.target is None else self._type(fold, fold.target)
            self._of_new_rows[fold.view] = _whole(closed(spans, type))
        return self._of_new_rows[fold.view]

    def totals(self, fold: Fold) -> Spans:
        """What a group that has rows can come to."""
        each = self.of_rows(fold)
        match fold.function:
            case "count":
                return (Span(1),)
            case "sum" if self._may_be_null(fold):
                # A group of nothing but NULL sums to 0 like one without rows.
                return ANY if each.low is None or each.low < 0 else (Span(0),)
            case "sum" if each.low is not None and each.low >= 0:
                return (Span(each.low, None, each.low_open),)
            case "sum" if each.high is not None and each.high <= 0:
                return (Span(None, each.high, high_open=each.high_open),)
            case "sum":
                return ANY
            case _:
                return (each,)

    def within(self, fold: Fold, allowed: Spans, steps: Steps) -> Steps:
        """The steps that rows can make. Where none takes anything away, none adds more than the whole."""
        each: Spans = (self.of_rows(fold),)
        if fold.function == COUNT or fold.target is None:
            return steps
        low, high = each[0].low, each[0].high
        if fold.function == "sum" and ((low is not None and low >= 0) or (high is not None and high <= 0)):
            each = common(each, (_whole((*allowed, point(0))),))
        return replace(steps, new=common(steps.new, each))

    def are_apart(self, fold: Fold, allowed: Spans) -> bool:
        """Whether the fold can come to none of these values, since it goes in steps."""
        step = 1 if fold.function == COUNT else fold.constant
        if fold.function not in (COUNT, "sum") or not isinstance(step, int) or not allowed:
            return False
        points = [each.low for each in allowed if each.low is not None and each.low == each.high]
        return len(points) == len(allowed) and all(value % step if step else value for value in points)

    def bounds(self, fold: Fold) -> str:
        """What keeps the fold from other values, in words."""
        if fold.function == COUNT:
            return "a count is at least 0"
        if fold.target is None:
            return f"every row adds {fold.constant} to the {fold.function}"
        schemas = self.rules.program.schemas
        columns = [f"`{relation}.{schemas[relation].columns[at].name}`" for relation, at in self._columns(fold)]
        name = f"a {fold.function} of {columns[0] if columns else 'such values'} is"
        return " and ".join(words(name, _whole(self.totals(fold)), fold.type))

    def _type(self, fold: Fold, target: int) -> Type:
        return self.rules.program.schemas[fold.below].columns[target].type

    def _may_be_null(self, fold: Fold) -> bool:
        return fold.target is not None and self._type(fold, fold.target).nullable

    def _hull(self, fold: Fold) -> Span:
        if fold.function == COUNT:
            return point(1)
        if fold.target is None:
            return point(fold.constant) if isinstance(fold.constant, int) else Span()
        return self._of_column((fold.below, fold.target), frozenset())

    def _of_column(self, column: Column, above: frozenset[Column]) -> Span:
        """The values that a column can have. `above` are columns that take theirs from it."""
        relation, place = column
        if column in above:
            return Span()
        if relation in self.rules.folds:
            fold = self.rules.folds[relation]
            return _whole(self.totals(fold)) if place == fold.width else Span()
        if self.rules.is_base(relation):
            return _whole(_of_type(self.rules.program.schemas[relation].columns[place].type))
        rules = self.rules.by_view.get(relation, ())
        return _whole(tuple(self._of_term(rule.clause.head.args[place], rule, above | {column}) for rule in rules))

    def _of_term(self, term: Term, rule: RuleParts, above: frozenset[Column]) -> Span:
        match term:
            case Constant(value) if value is not None:
                return point(value)
            case Variable(name) if rule.types[name].kind in EXACT:
                spans = common(_of_type(rule.types[name]), wished(name, rule.built_ins, {}, rule.types))
                for atom in rule.positive:
                    for place in (at for at, each in enumerate(atom.args) if each == term):
                        spans = common(spans, (self._of_column((atom.relation, place), above),))
                return _whole(spans)
            case _:
                return Span()

    def _columns(self, fold: Fold) -> list[tuple[str, int]]:
        """The base column that is folded, if it is just one."""
        if fold.target is None:
            return []
        found = sorted(self.rules.sources((fold.below, fold.target)))
        return found if len(found) == 1 else []


def _of_type(type: Type) -> Spans:
    return (Span(0),) if type.kind is Kind.UNSIGNED else ANY


def _whole(spans: Spans) -> Span:
    """One span with all of these in it."""
    if not spans:
        return Span()
    lows = [(each.low, each.low_open) for each in spans]
    highs: list[tuple[Any, bool]] = [(each.high, not each.high_open) for each in spans]
    low, low_open = (None, False) if any(value is None for value, _ in lows) else min(lows)
    high, closed = (None, True) if any(value is None for value, _ in highs) else max(highs)
    return Span(low, high, low_open, not closed)


def _denied(rule: RuleParts, relation: str, place: int) -> Spans:
    """The values of a column that a constraint on single rows forbids, if it says nothing else of them."""
    if len(rule.positive) != 1 or rule.negative or rule.positive[0].relation != relation:
        return ()
    atom = rule.positive[0]
    term = atom.args[place]
    others = [each for at, each in enumerate(atom.args) if at != place]
    if not isinstance(term, Variable) or not all(isinstance(each, Variable) for each in others):
        return ()
    names = [each.name for each in atom.args if isinstance(each, Variable)]
    plain = all(isinstance(each, Comparison) and {*variables(each)} == {term.name} for each in rule.built_ins)
    if len({*names}) < len(names) or not rule.built_ins or not plain:
        return ()
    found = wished(term.name, rule.built_ins, {}, rule.types)
    return () if found == ANY else found
