"""Rows that could come to a group: instances of rules with the group given, and values for what is folded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from upshot.check.names.variables import variables
from upshot.core.types import Kind, Type
from upshot.revise.alternatives import Alternatives
from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined
from upshot.revise.folds import COUNT, Fold
from upshot.revise.group_steps import Steps
from upshot.revise.open_instances import waiting
from upshot.revise.placeholders import regions, witnesses
from upshot.revise.request import INSERT, Key, Row
from upshot.revise.rules import Column, RuleParts, columns_of, free_variables, ground
from upshot.revise.spans import Span, common, is_among, point
from upshot.revise.ways import Ways
from upshot.syntax.ast import Comparison, Constant, Variable


@dataclass(frozen=True, slots=True)
class Wanted:
    """A row that is to come to a group, unlike the rows there, which adds to the fold what the steps say. Only of the
    first row is it worked out what it would have to add to be enough: others make endlessly many sums."""

    fold: Fold
    group: Row
    rows: frozenset[Row]
    steps: Steps
    is_first: bool
    most: Any = None
    """What a row adds if none may add enough: as much as it may."""
    is_tried: bool = False
    """Whether what a row has to add hangs on a new value: then it is one itself, or a value that is stored."""

    def fits(self, row: Row) -> bool:
        if row in self.rows:
            return False
        value = self.fold.folded(row)
        return value is not None and (self.fold.function == COUNT or is_among(value, self.steps.new))


@dataclass(slots=True)
class NewRows:
    """Continues branches by bringing rows to groups."""

    ways: Ways
    endless: set[Column] = field(default_factory=set)
    """The columns of which it was said that not all values were tried."""

    def alternatives(self, branch: Branch, about: Key, wanted: Wanted) -> Iterator[Alternatives]:
        """The ways to one more row; those of which most holds already come first."""
        below = wanted.fold.below
        if not self.ways.can_grow(below):
            return
        rules, fill = self.ways.rules, partial(self._with_target, wanted)
        if rules.is_base(below) or below in rules.folds:
            number = wanted.steps.coming if rules.is_base(below) else 1
            price = self.ways.preferences.price(below, INSERT) * number if rules.is_base(below) else 0
            rule = rules.identities[below]
            known, make = rule.binding(wanted.group) or {}, partial(self._made, wanted, rule)
            yield Alternatives(branch, about, number, price, self.ways.instances(branch, rule, (), known, fill, make))
            return
        for rule in rules.by_view.get(below, ()):
            if (head := rule.binding(wanted.group)) is not None:
                make = partial(self._made, wanted, rule)
                yield from self.ways.alternatives(branch, about, rule, head, fill, make)

    # ---- one rule -----------------------------------------------------------------------------------------------

    def _made(self, wanted: Wanted, rule: RuleParts, branch: Branch, binding: Binding) -> Branch | None:
        head = rule.clause.head
        if any(name not in binding for name in variables(head)):
            return self.ways.open_instance(branch, rule, binding, None, wanted.rows)
        key = ground(head, binding)
        if not wanted.fits(key[1]) or key in branch.false:
            return None
        if wanted.most is not None and wanted.fold.folded(key[1]) == wanted.most:
            branch = replace(branch, brought=branch.brought - {(wanted.fold.view, wanted.group)})
        if self.ways.rules.is_base(head.relation):
            return self.ways.decided(branch, [key], [])
        made = self.ways.decided(branch, [key], [])
        return None if made is None else self.ways.instance(made, key, rule, binding)

    # ---- what is folded -----------------------------------------------------------------------------------------

    def _with_target(
        self, wanted: Wanted, branch: Branch, rule: RuleParts, binding: Binding
    ) -> Iterator[tuple[Binding, Branch]]:
        """The binding with values for all variables, first of all for the one that is folded."""
        fold = wanted.fold
        term = None if fold.target is None else rule.clause.head.args[fold.target]
        free = isinstance(term, Variable) and term.name not in binding
        if not free or fold.function == COUNT or waits(term, self.ways, rule, binding):
            yield from self.ways.filled(branch, rule, binding)
            return
        assert isinstance(term, Variable)
        left = [each.low for each in wanted.steps.new if each.low is not None and each.low == each.high]
        if len(left) < len(wanted.steps.new):
            self.note_endless(fold)
        name, type = term.name, rule.types[term.name].required()
        taken = {each.witness for each in branch.placeholders}
        is_extreme = fold.function in ("min", "max")
        is_column = any(columns_of(name, rule))
        between = wanted.steps.decisive if is_extreme and not is_column else ()
        works_out = is_extreme or (wanted.is_first and not self.rests_on_new(branch, wanted.fold))
        ends = self._ends(branch, wanted, rule, binding, name) if works_out and not between else ()
        tried: dict[Any, None] = dict.fromkeys(each for each in (*ends, *left) if each not in taken)
        if is_column:
            if wanted.is_tried:
                yield from self._following(branch, wanted, rule, binding, name) if works_out else ()
                tried.clear()
            if works_out:
                yield from self._placed(branch, wanted, rule, binding, name)
            values = self.ways.candidates(branch, rule, name, binding)
            tried |= dict.fromkeys(v for v in values if is_among(v, wanted.steps.new) and v not in taken)
        for value in tried:
            known = determined(rule.built_ins, {**binding, name: value}, rule.types)
            if known is not None:
                made = self.ways.filled(branch, rule, known)
                yield from made if is_column or is_extreme else _without_new(made, name, rule)
        for span in between:
            # What it is computed from may be new, as long as it comes to lie there.
            bounded = replace(rule, built_ins=(*rule.built_ins, *_bounding(term, span, type)))
            yield from self.ways.filled(branch, bounded, binding)
        if not is_column:
            made = self.ways.filled(branch, rule, binding)
            yield from (each for each in _without_new(made, name, rule) if each[0][name] not in tried)

    def _ends(self, branch: Branch, wanted: Wanted, rule: RuleParts, binding: Binding, name: str) -> Iterator[Any]:
        """The bounds that make one row enough, but for those that a new value stands for; the most that a row adds."""
        type, new_values = rule.types[name].required(), self.ways.new_values
        others = free_variables(rule, {**binding, name: None})
        is_placed = any(columns_of(name, rule)) and new_values.room(branch) > len(others)
        new = new_values.placeholder(branch, rule, name, None)
        for span in wanted.steps.decisive:
            for value in ends_of(replace(wanted.steps, decisive=(span,)), type):
                if not (is_placed and span.low != span.high and new_values.is_new(value, new)):
                    yield value
        yield from () if wanted.most is None else (wanted.most,)

    def _following(
        self, branch: Branch, wanted: Wanted, rule: RuleParts, binding: Binding, name: str
    ) -> Iterator[tuple[Binding, Branch]]:
        """Values for what is folded that new ones leave no choice: they follow from those, and are new as well."""
        only = [each for each in wanted.steps.decisive if each.low is not None and each.low == each.high]
        for value in ends_of(replace(wanted.steps, decisive=tuple(only)), rule.types[name].required()):
            made = replace(self.ways.new_values.placeholder(branch, rule, name, value), is_computed=True)
            known = determined(rule.built_ins, {**binding, name: value}, rule.types)
            if known is not None and self.ways.new_values.is_new(value, made):
                placed = replace(branch, placeholders=(*branch.placeholders, made))
                yield from self.ways.filled(placed, rule, known)

    def _placed(
        self, branch: Branch, wanted: Wanted, rule: RuleParts, binding: Binding, name: str
    ) -> Iterator[tuple[Binding, Branch]]:
        """A new value for what is folded, between the bounds that make one row enough."""
        type, ways = rule.types[name].required(), self.ways
        number = len(branch.placeholders) + 1
        if type.kind is Kind.BOOLEAN:
            return
        landmarks = sorted(ways.new_values.landmarks(rule, name))
        around = [Span(low, high, True, True) for low, high in regions(type, landmarks)]
        for span in common(tuple(_inside(each, type) for each in wanted.steps.decisive), tuple(around)):
            if span.low is not None and span.low == span.high:
                continue
            if not ways.new_values.leaves_room(branch):
                return
            near = [each for each in (span.low, span.high) if each is not None]
            taken = {*near, *(each.witness for each in branch.placeholders)}
            taken.update(binding.values())
            placeholder = ways.new_values.placeholder(branch, rule, name, None)
            fitting = (v for v in _witnesses(number, type, span) if v in span and v not in taken)
            witness = next((v for v in fitting if ways.new_values.is_new(v, placeholder)), None)
            known = determined(rule.built_ins, {**binding, name: witness}, rule.types) if witness is not None else None
            if known is None:
                ways.limits.note("the new values that were tried")
                continue
            made = replace(branch, placeholders=(*branch.placeholders, replace(placeholder, witness=witness)))
            yield from ways.filled(made, rule, known)

    def rests_on_new(self, branch: Branch, fold: Fold) -> bool:
        """Whether the fold may have new values in it already: what it lacks would say nothing."""
        new, columns = {each.witness for each in branch.placeholders}, self._folded_columns(fold)
        return any(row[place] in new for name, row in branch.insert for relation, place in columns if relation == name)

    def _folded_columns(self, fold: Fold) -> set[Column]:
        """The base columns whose values are folded, or are what is folded is computed from."""
        rules, found = self.ways.rules, set[Column]()
        for rule in rules.by_view.get(fold.below, [rules.identities[fold.below]]):
            term = rule.clause.head.args[fold.target or 0]
            parts = _computed(term.name, rule) if isinstance(term, Variable) and fold.target is not None else ()
            found.update(each for part in parts for column in columns_of(part, rule) for each in rules.sources(column))
        return found

    def note_endless(self, fold: Fold) -> None:
        """Says of a sum or a mean of columns that endlessly many values can make it up, of which some were tried."""
        if fold.function not in ("sum", "mean") or fold.target is None:
            return
        schemas, found = self.ways.rules.program.schemas, self._folded_columns(fold)
        self.endless |= found
        names = ", ".join(f"`{relation}.{schemas[relation].columns[at].name}`" for relation, at in sorted(found))
        of = f"the values of {names}" if names else "the values"
        self.ways.limits.note(f"{of} that were tried: a {fold.function} can be made up of any others")


def waits(term: object, ways: Ways, rule: RuleParts, binding: Binding) -> bool:
    """Whether a term has the value of another aggregate, which is not known yet."""
    return isinstance(term, Variable) and term.name in waiting(rule, ways.rules.folds, binding)


def hangs_on_new(term: object, branch: Branch, rule: RuleParts, binding: Binding) -> bool:
    """Whether built-ins make of new values what a term has to be."""
    parts = _computed(term.name, rule) if isinstance(term, Variable) and branch.placeholders else ()
    return any(
        each.stands_at(column, binding[name])
        for name in parts if name in binding for column in columns_of(name, rule) for each in branch.placeholders
    )  # fmt: skip


def _without_new(
    made: Iterable[tuple[Binding, Branch]], name: str, rule: RuleParts
) -> Iterator[tuple[Binding, Branch]]:
    """Those in which a variable is not computed from new values: what it came to would say nothing."""
    parts = _computed(name, rule)
    for binding, branch in made:
        new = {each.witness for each in branch.placeholders}
        if not any(binding[each] in new for each in parts):
            yield binding, branch


def _computed(name: str, rule: RuleParts) -> set[str]:
    """The variables that a variable is computed from, and those they are computed from."""
    found, size = {name}, 0
    while len(found) != size:
        size = len(found)
        for each in rule.built_ins:
            if found & {*variables(each)}:
                found.update(variables(each))
    return found


def most_of(steps: Steps, admitted: Span) -> Any:
    """The bound of what a new row may add that is nearest to what would be enough, if nothing within it is."""
    if not steps.decisive or common(steps.decisive, (admitted,)):
        return None
    bounds = (admitted.low, admitted.low_open), (admitted.high, admitted.high_open)
    return next((value for value, is_open in bounds if value is not None and not is_open
                 and is_among(value, steps.new)), None)  # fmt: skip


def ends_of(steps: Steps, type: Type) -> Iterator[Any]:
    """The bounds of what makes one row enough, which belong to it and are values of the type."""
    for span in steps.decisive:
        for value, is_open in ((span.low, span.low_open), (span.high, span.high_open)):
            if value is not None and not is_open:
                fitted = _fitted(value, type)
                if fitted is not None and is_among(fitted, steps.new):
                    yield fitted


def _bounding(variable: Variable, span: Span, type: Type) -> Iterator[Comparison]:
    """That a variable lies in the span, in values of its type."""
    for value, is_open, op, down in (
        (span.low, span.low_open, ">", math.floor),
        (span.high, span.high_open, "<", math.ceil),
    ):
        if value is not None:
            fitted = _fitted(value, type) if isinstance(value, int | Fraction | float) else value
            at = _rounded(Fraction(value), type, down) if fitted is None else fitted
            yield Comparison(op if is_open or fitted is None else f"{op}=", variable, Constant(at, type))


def _inside(span: Span, type: Type) -> Span:
    """The span without its bounds, as far as values of the type can say it."""
    low, high = span.low, span.high
    if isinstance(low, Fraction | float) and math.isfinite(low):
        low = _rounded(Fraction(low), type, math.floor)
    if isinstance(high, Fraction | float) and math.isfinite(high):
        high = _rounded(Fraction(high), type, math.ceil)
    return Span(low, high, True, True) if low is None or high is None or low < high else point(low)


def _rounded(value: Fraction, type: Type, down: Any) -> Any:
    match type.kind:
        case Kind.FLOAT:
            return float(value)
        case Kind.DECIMAL:
            return Decimal(down(value * 10**type.scale)).scaleb(-type.scale)
        case _:
            return down(value)


def _fitted(value: Any, type: Type) -> Any:
    """The number as a value of the type; None if it is none."""
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            exact = Fraction(value) if math.isfinite(value) else None
            fits = exact is not None and exact.denominator == 1 and (exact >= 0 or type.kind is Kind.NUMBER)
            return int(value) if fits else None
        case Kind.FLOAT:
            return float(value)
        case Kind.DECIMAL if isinstance(value, Fraction):
            scaled = value * 10**type.scale
            return Decimal(int(scaled)).scaleb(-type.scale) if scaled.denominator == 1 else None
        case _:
            return value


def _witnesses(number: int, type: Type, span: Span) -> Iterator[Any]:
    """Values beside the bounds, the nearest first, then unusual ones."""
    near = [each for each in (span.low, span.high) if each is not None]
    if type.kind is Kind.SYMBOL and span.high:
        # What begins as the bound does and has an earlier letter where it ends comes before it.
        start, last = span.high[:-1], ord(span.high[-1])
        yield from (f"{start}{chr(last - 1)} {number}",) if last > ord("!") else (start,)
    for distance in range(number, number + 32):
        yield from list(witnesses(distance, type, near))[::-1]
