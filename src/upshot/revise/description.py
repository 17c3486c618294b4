"""The description of a confirmed candidate: placeholders for fresh values, conditions on them, formulas in rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.revise.built_ins import UNKNOWN, variables
from upshot.revise.candidates import Trial
from upshot.revise.conditions import (
    ANY,
    Condition,
    Conditions,
    Signs,
    Subject,
    all_replaced,
    as_written,
    linear_value,
    names_of,
    substituted,
    without_symbols,
    words,
)
from upshot.revise.ground_program import GroundProgram
from upshot.revise.groups import total_value, with_totals
from upshot.revise.ordered_values import Linear, in_words, new_value, number, number_of
from upshot.revise.placeholders import Formula, Placeholder, Symbol
from upshot.revise.request import Key, Row
from upshot.revise.solver import Model
from upshot.revise.witnesses import is_refuted, pinned, without_implied
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Variable
from upshot.syntax.printing import print_formula
from upshot.values.structures import MAKE


@dataclass(frozen=True, slots=True)
class Found:
    """A realization, with witnesses for its fresh values. `rows` has its inserted rows and the rows of views that
    follow from them, by their rows with witnesses: with placeholders, and formulas of them. Of the views in `open`
    other values can give other rows; of those in `certain` they cannot."""

    insert: frozenset[Key]
    delete: frozenset[Key]
    placeholders: tuple[Placeholder, ...] = ()
    conditions: tuple[str, ...] = ()
    rows: Mapping[Key, Row] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    certain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stated:
    """Conditions on the fresh values of a candidate that are `open`, and the types of all symbols in them."""

    conditions: Conditions
    open: Mapping[str, Symbol]
    types: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """Describes candidates of a ground program."""

    program: GroundProgram

    def stated(self, model: Model, stated: Conditions) -> Stated:
        """The conditions on the fresh values that they do not determine."""
        symbols = symbols_of(model)
        types = {name: self.program.demand.types[name] for each in stated for name in names_of(each)}
        types |= {name: symbol.type for name, symbol in symbols.items()}
        fixed = {name: value for name, value in pinned(stated, types).items() if name in symbols}
        hidden = types.keys() - symbols.keys() - _field_names(stated, symbols.keys()).keys()
        plain = without_symbols(stated, hidden, types)
        values = {name: Constant(value, types[name]) for name, value in fixed.items()}
        shown = self._narrowed(all_replaced(plain, values, types) or {})
        return Stated(shown, {name: symbol for name, symbol in symbols.items() if name not in fixed}, types)

    def _narrowed(self, stated: Conditions) -> dict[Subject, Signs]:
        """The conditions without the signs that fresh values exclude."""
        found = {}
        for subject, signs in stated.items():
            made = self.program.demand.narrowed(Condition(subject, signs), is_inserted=True)
            if isinstance(made, Condition):
                found[subject] = made.signs
        return found

    def named(self, trial: Trial, stated_: Stated) -> Found:
        """The realization with placeholders for its fresh values, numbered in the order of its rows."""
        open_, types = stated_.open, stated_.types
        shown = self._with_constants_apart(trial, stated_)
        rows = sorted(((trial.concrete(key), key) for key in trial.model.insert), key=lambda each: repr(each[0]))
        order = dict.fromkeys(v.name for _, key in rows for v in key[1] if isinstance(v, Symbol) and v.name in open_)
        names = {name: f"?{number}" for number, name in enumerate(order, 1)}
        stated = without_implied(dict(shown), types)
        every = names | _field_names(stated, names)
        type_of = {**types} | {every.get(name, name): type for name, type in types.items()}
        named = {each: signs for each, signs in stated.items() if every.keys() >= {*names_of(each)}}
        called = all_replaced(named, {name: Variable(other) for name, other in every.items()}, type_of) or {}
        texts = list(words(called, type_of))
        texts += [text for text in self._apart(open_, names, called) if text not in texts]
        texts += [text for text in self._negations(trial, names) if text not in texts]
        placeholders = tuple(Placeholder(names[name], open_[name].type, trial.values[name]) for name in order)
        if not placeholders:
            return Found(trial.insert, trial.model.delete, conditions=tuple(texts))
        found, uncertain = self._rows(trial, dict(zip(order, placeholders, strict=True)), shown, types)
        certain = frozenset(self.program.rules.by_view.keys() - uncertain)
        return Found(trial.insert, trial.model.delete, placeholders, tuple(texts), found, uncertain, certain)

    def _rows(
        self, trial: Trial, placeholders: Mapping[str, Placeholder], shown: Conditions, types: Mapping[str, Any]
    ) -> tuple[dict[Key, Row], frozenset[str]]:
        """The rows with placeholders and formulas, by their rows with witnesses; and the views of which other values
        can give other rows."""
        known = self.program.demand.types
        totals = {name: total_value(each, self.program, trial.model.true) for name, each in self.program.totals.items()}
        rows: dict[Key, Row] = {}
        open_: set[str] = set()
        for key in sorted(trial.model.insert, key=repr):
            cells = zip(key[1], trial.concrete(key)[1], strict=True)
            rows[trial.concrete(key)] = tuple(
                placeholders.get(value.name, now) if isinstance(value, Symbol) else now for value, now in cells
            )
        for key in (each for each in sorted(trial.brought, key=repr) if not self.program.rules.is_base(each[0])):
            row = []
            for value, now in zip(key[1], trial.concrete(key)[1], strict=True):
                linear = linear_value(value, known, totals) if isinstance(value, Symbol) else None
                if isinstance(value, Symbol) and linear is None:
                    open_.add(key[0])
                row.append(now if linear is None else _shown(linear, now, placeholders))
            if UNKNOWN not in trial.concrete(key)[1]:
                rows[trial.concrete(key)] = tuple(row)
            node = self.program.nodes.get(key)
            for instance in filter(trial.may_derive, node.instances if node else ()):
                if not all(self._is_decided(each, trial.model, shown, types) for each in instance.conditions):
                    open_.add(key[0])
        return rows, frozenset(open_)

    def _is_decided(self, condition: Condition, model: Model, shown: Conditions, types: Mapping[str, Any]) -> bool:
        """Test whether the shown conditions decide another one, which can name values of groups."""
        left = with_totals({condition.subject: condition.signs}, self.program, model.true)
        return left is None or all(_is_decided(Condition(*each), shown, types) for each in left.items())

    def _with_constants_apart(self, trial: Trial, stated: Stated) -> dict[Subject, Signs]:
        """Add the conditions that fresh values differ from other values that are inserted into their families."""
        families, shown = self.program.families, dict(stated.conditions)
        if not any(symbol.is_fresh for symbol in stated.open.values()):
            return shown
        witnesses = {trial.values[name] for name in stated.open}
        moving = {trial.concrete(key) for key in trial.brought}
        views = ((name, row) for name in self.program.rules.by_view for row in self.program.world.added(name))
        rows = [*trial.insert, *(key for key in views if key not in moving)]
        for name, symbol in stated.open.items():
            for relation, row in rows if symbol.is_fresh else ():
                for place, value in enumerate(row):
                    at = number_of(value)
                    is_apart = at is not None and families.of((relation, place)) == symbol.family
                    if at is None or not is_apart or value in witnesses or families.is_taken(value, symbol.family):
                        continue
                    border = new_value(name).minus(number(at))
                    shown[border] = shown.get(border, ANY) & Signs((-1, 1))
        return shown

    def _apart(self, open_: Mapping[str, Symbol], names: Mapping[str, str], stated: Conditions) -> Iterator[str]:
        """The conditions that fresh values of one family differ, unless others imply it."""
        ordered = [name for name in names if name in open_]
        for place, one in enumerate(ordered):
            for other in ordered[place + 1 :]:
                if open_[one].family == open_[other].family and open_[one].is_fresh and open_[other].is_fresh:
                    pair = {names[one], names[other]}
                    implied = any({*names_of(each)} == pair and isinstance(each, Linear) and not each.more
                                  and 0 not in signs for each, signs in stated.items())  # fmt: skip
                    if not implied:
                        yield f"{names[one]} != {names[other]}"

    def _negations(self, trial: Trial, names: Mapping[str, str]) -> Iterator[str]:
        """The conditions that a row is absent that could equal one of many stored ones: `!b(?1 * 2)`."""
        called = {name: Variable(other) for name, other in names.items()}
        for name, row in trial.negations:
            columns = self.program.rules.program.schemas[name].columns
            terms = [as_written(value, column.type) for value, column in zip(row, columns, strict=True)]
            if any(names.keys() & {*variables(term)} for term in terms):
                shown = tuple(substituted(term, called) for term in terms)
                yield f"!{print_formula(Atom(self.program.rules.shown(name), shown))}"


def symbols_of(model: Model) -> dict[str, Symbol]:
    """The fresh values that the candidate inserts."""
    return {
        value.name: value for key in sorted(model.insert, key=repr) for value in key[1] if isinstance(value, Symbol)
    }


def _field_names(stated: Conditions, names: Collection[str]) -> dict[str, str]:
    """Names for the fields of fresh records that are in no row: `?1 = [7, ?2]`."""
    fields = dict.fromkeys(
        name
        for each in stated
        if isinstance(each, Comparison) and isinstance(each.right, Call) and each.right.function == MAKE
        for name in names_of(each)
        if name not in names
    )
    return {name: f"?{number}" for number, name in enumerate(fields, len(names) + 1)}


def _shown(value: Linear, now: Any, placeholders: Mapping[str, Placeholder]) -> Any:
    """A value as a placeholder or a formula of placeholders."""
    if any(name not in placeholders for name, _ in value.parts):
        return now
    if value.is_bare:
        return placeholders[value.parts[0][0]]
    named = value.replaced({name: new_value(placeholders[name].name) for name, _ in value.parts})
    return Formula(in_words(named), now) if named.parts else now


def _is_decided(condition: Condition, stated: Conditions, types: Mapping[str, Any]) -> bool:
    """Test whether stated conditions imply another one, or its opposite."""
    if not {*names_of(condition.subject)} <= types.keys():
        return False
    other = ANY - condition.signs
    both = (
        {**stated, condition.subject: stated.get(condition.subject, ANY) & each} for each in (condition.signs, other)
    )
    return any(is_refuted(each, types) for each in both)
