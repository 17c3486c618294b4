"""Which values that do not occur yet a variable of a rule is tried with, and which values those are."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Any

from upshot.check.names.variables import variables
from upshot.core.counted import counted
from upshot.core.types import Kind, Type
from upshot.revise.alternatives import Limits
from upshot.revise.borders import Borders
from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined, suggested
from upshot.revise.cells import TRIES, value_at
from upshot.revise.folds import Fold
from upshot.revise.known_borders import KnownBorders, values_around
from upshot.revise.linear import Linear, new_value, number_of
from upshot.revise.linked_columns import column_groups, compared_constants, linked_columns
from upshot.revise.offered_values import OfferedValues
from upshot.revise.ordered_columns import ordered_columns
from upshot.revise.placeholders import Placeholder, further_witnesses, lies_in, regions, witnesses
from upshot.revise.request import Bounds, Key
from upshot.revise.rules import Column, RuleParts, Rules, columns_of
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.revise.text_witnesses import containing, matching
from upshot.revise.world import World
from upshot.syntax.ast import Comparison, Test, Variable


@dataclass(slots=True)
class NewValues:
    """Finds them. `asked` are the rows of the request: their values are not new."""

    world: World
    rules: Rules
    bounds: Bounds
    limits: Limits
    offered: OfferedValues
    asked: frozenset[Key]
    borders: Borders = field(init=False)
    _borders: KnownBorders = field(default_factory=KnownBorders)
    _groups: Mapping[Column, frozenset[Column]] = field(init=False)
    _related: Mapping[Column, frozenset[Column]] = field(init=False)
    _landmarks: Mapping[Column, frozenset[Any]] = field(init=False)
    _ordered: frozenset[Column] = field(init=False)
    _given: dict[Column, set[Any]] = field(default_factory=dict)
    _base: dict[tuple[frozenset[Column] | None, Type], list[Column]] = field(default_factory=dict)
    _new_at: dict[tuple[Column, Any], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.borders = Borders(self.world, self.rules, self.asked)
        self._groups, self._related = column_groups(self.rules), column_groups(self.rules, compared=True)
        self._landmarks = compared_constants(self.rules, self._related)
        self._ordered = ordered_columns(self.rules, self._related)
        linked = linked_columns(self.rules)
        for relation, row in self.asked:
            for place, value in enumerate(row):
                for column in linked.get((relation, place), ((relation, place),)):
                    self._given.setdefault(column, set()).add(value)

    @property
    def has_news(self) -> bool:
        """Whether borders were noted that are not taken in yet."""
        return self._borders.has_news

    def take_in(self) -> bool:
        """Whether any were noted; from now on values are tried for them."""
        return self._borders.take_in()

    def values(
        self, branch: Branch, rule: RuleParts, binding: Binding, name: str, type: Type
    ) -> Iterator[tuple[Binding, Placeholder]]:
        """Values that do not occur yet and that no built-in excludes: one in each region between the constants that
        rules compare with, then one for each way to lie to what was found to be compared with them."""
        number, placeholder = len(branch.placeholders) + 1, self.placeholder(branch, rule, name, None)
        landmarks = sorted({*self.landmarks(rule, name), *self._extremes(rule, binding, name)})
        near = [*landmarks, *self._compared(rule, binding, name)]
        taken = {each.witness for each in branch.placeholders}
        solving = suggested(rule.built_ins, binding, name, rule.types, number)
        passing = self._passing(rule, binding, name, number)
        tried = dict.fromkeys(chain(witnesses(number, type, near), passing, solving))
        around, is_certain = self._around(branch, rule, binding, name, landmarks)
        around = [tuple(value for value in each if value not in taken) for each in around]
        tried |= dict.fromkeys(value for each in around for value in each[:2])
        fit = {v: known for v in tried if v not in taken and (known := fitting(rule, binding, name, v))}
        if not fit:
            if type.kind is not Kind.BOOLEAN and not is_certain:
                head = self.rules.shown(rule.clause.head.relation)
                self.limits.note(f"the conditions of a rule of `{head}`, for which no value was found")
            return
        self._offer_stored(around, fit, placeholder, self._sources(rule, name))
        if not self.leaves_room(branch):
            return
        further = [value for value in further_witnesses(number, type, near) if value not in taken]
        given: set[Any] = set()
        between = landmarks if self._are_ordered(rule, name) else []
        for value in self._chosen(regions(type, between), fit, further, around, placeholder, given):
            known = fit.get(value) or fitting(rule, binding, name, value)
            if known is not None:
                given.add(value)
                yield known, replace(placeholder, witness=value)

    def _chosen(
        self,
        regions: Iterable[tuple[Any, Any]],
        fitting: Collection[Any],
        further: Sequence[Any],
        around: Iterable[Sequence[Any]],
        placeholder: Placeholder,
        given: Collection[Any],
    ) -> Iterator[Any]:
        """Of values that fit, and further ones that may, those that are new: of each region until one is `given`, then
        one of each of those around, unless it was."""
        for region in regions:
            here = [value for value in (*fitting, *further) if lies_in(value, region)]
            if any(lies_in(value, region) for value in fitting):
                for value in (each for each in here if self.is_new(each, placeholder)):
                    yield value
                    if value in given:
                        break
                else:
                    self.limits.note("the new values that were tried")
        for values in around:
            # Between two borders all values fit, or none does.
            if any(value in fitting for value in values[:2]) and not any(value in given for value in values):
                yield from islice((value for value in values if self.is_new(value, placeholder)), 1)

    def _offer_stored(
        self,
        around: Iterable[Sequence[Any]],
        fitting: Collection[Any],
        placeholder: Placeholder,
        columns: frozenset[Column],
    ) -> None:
        """Where all values between two borders, or at one, are stored somewhere, they are to be offered."""
        few = (values for values in around if 2 * len(values) < TRIES and any(v in fitting for v in values[:2]))
        for values in few:
            if not any(self.is_new(value, placeholder) for value in values):
                self.offered.ask(columns)
                for value in values:
                    self.offered.note_value(columns, value)

    def _around(
        self, branch: Branch, rule: RuleParts, binding: Binding, name: str, landmarks: Iterable[Any]
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Values for each way in which a variable can lie to what it is known to be compared with; whether there are no
        others for which the built-ins of the rule hold. They leave room for other new values only where there may be
        others, and lie between what they are compared with only where their order matters."""
        columns, type = frozenset(self.columns(rule, name)), rule.types[name].required()
        if type.kind is Kind.BOOLEAN:
            return [], True
        found, is_certain = self.borders.between(rule, binding, name, _SOME[type.kind])
        roots = {*found, *self._borders.borders(columns, branch.placeholders)}
        roots.update(number for each in landmarks if (number := number_of(each)) is not None)
        if not self._are_ordered(rule, name):
            return [(value,) for each in sorted(roots) if (value := value_at(each, type)) is not None], is_certain
        leaves_others = self._number(branch) + 1 < self.bounds.new_constants
        return list(values_around(roots, type, leaves_others and self._borders.are_joint(columns))), is_certain

    def placeholder(self, branch: Branch, rule: RuleParts, name: str, witness: Any) -> Placeholder:
        """One more for a branch."""
        label, type = f"?{len(branch.placeholders) + 1}", rule.types[name].required()
        return Placeholder(label, type, witness, frozenset(self.columns(rule, name)))

    def taken_again(self, branch: Branch, rule: RuleParts, name: str, value: Any) -> Branch | None:
        """The branch in which a variable has a value: where that stands for a new one of other columns, a new value of
        its own, as large; None if those are too many."""
        same = [each for each in branch.placeholders if each.witness == value]
        made = self.placeholder(branch, rule, name, value)
        if not same or any(made.is_linked(each) for each in same) or not self.is_new(value, made):
            return branch
        return replace(branch, placeholders=(*branch.placeholders, made)) if self.leaves_room(branch) else None

    def leaves_room(self, branch: Branch) -> bool:
        """Whether there may be one more new value, beside those that follow from others."""
        if self.room(branch) > 0:
            return True
        self.limits.note(counted(self.bounds.new_constants, "new value"))
        return False

    def room(self, branch: Branch) -> int:
        """How many more new values there may be."""
        return self.bounds.new_constants - self._number(branch)

    def _number(self, branch: Branch) -> int:
        """How many new values a branch has that do not follow from others."""
        return sum(not each.is_computed for each in branch.placeholders)

    def columns(self, rule: RuleParts, name: str) -> Iterator[Column]:
        """The columns of a variable, and those whose values may be taken for theirs."""
        head = rule.clause.head
        at = ((head.relation, place) for place, term in enumerate(head.args) if term == Variable(name))
        for column in (*columns_of(name, rule), *at):
            yield from self._groups.get(column, (column,))

    def _are_ordered(self, rule: RuleParts, name: str) -> bool:
        """Whether it matters for values of a variable how they lie to others that they are not."""
        return not self._ordered.isdisjoint(self.columns(rule, name))

    def landmarks(self, rule: RuleParts, name: str) -> set[Any]:
        """The constants that rules compare values of a variable with."""
        found = {value for column in self.columns(rule, name) for value in self._landmarks.get(column, ())}
        return {value for value in found if fits_type(value, rule.types[name])}

    def is_new(self, value: Any, placeholder: Placeholder) -> bool:
        """Whether a value is not among those that rules could take a new one for: stored ones, those of the request,
        those that the caller gave."""
        place = placeholder.columns, placeholder.type
        if place not in self._base:
            schemas = self.rules.program.schemas
            self._base[place] = [
                column for column in placeholder.columns or ()
                if self.rules.is_base(column[0])
                and schemas[column[0]].columns[column[1]].type.required() == placeholder.type
            ]  # fmt: skip
        base = self._base[place]
        return (
            value not in self.bounds.constants
            and not any(value in self._given.get(column, ()) for column in base)
            and not self.world.occurs(value, base)
        )

    def is_new_at(self, column: Column, value: Any) -> bool:
        """The same of a value in a column."""
        place = column, value
        if place not in self._new_at:
            type = self.rules.program.schemas[column[0]].columns[column[1]].type.required()
            made = Placeholder("", type, value, self._groups.get(column, frozenset({column})))
            self._new_at[place] = value is not None and self.is_new(value, made)
        return self._new_at[place]

    def _extremes(self, rule: RuleParts, binding: Binding, name: str) -> set[Any]:
        """The least and greatest values that the rule asks for of columns of a variable: what is new there has to lie
        on one side of them."""
        columns, found = self._sources(rule, name), set[Any]()
        for atom in rule.positive:
            fold = self.rules.folds.get(atom.relation)
            if fold is not None and fold.function in ("min", "max") and columns & self._of(fold):
                found.add(value_of(atom.args[-1], binding, rule.types))
        return found - {UNKNOWN, None}

    def _sources(self, rule: RuleParts, name: str) -> frozenset[Column]:
        """The base columns that the values of a variable come from."""
        columns = frozenset(source for each in columns_of(name, rule) for source in self.rules.sources(each))
        return self.offered.columns(columns)

    def _of(self, fold: Fold) -> frozenset[Column]:
        return self.rules.sources((fold.view, fold.width))

    def _passing(self, rule: RuleParts, binding: Binding, name: str, number: int) -> Iterator[str]:
        """Texts for a variable that pass the tests of a rule."""
        for each in rule.built_ins:
            match each:
                case Test(test, (first, Variable(tested))) if tested == name:
                    given = value_of(first, binding, rule.types)
                    if isinstance(given, str):
                        yield from (matching if test == "match" else containing)(given, number)

    def _compared(self, rule: RuleParts, binding: Binding, name: str) -> Iterator[Any]:
        """The values that the rule compares a variable with."""
        for each in rule.built_ins:
            if isinstance(each, Comparison) and name in variables(each):
                for side in (each.left, each.right):
                    value = value_of(side, binding, rule.types)
                    if value is not UNKNOWN and value is not None and fits_type(value, rule.types[name]):
                        yield value

    def note_borders(self, borders: Iterable[Linear], used: Sequence[Placeholder]) -> None:
        """New values are to be tried on all sides of borders, and values at them that are not new."""
        named = {
            (each.name, -number)
            for each in used for column in each.columns or () for value in self._landmarks.get(column, ())
            if (number := number_of(value)) is not None
        }  # fmt: skip
        # Those that rules name are tried from the start.
        found = [each for each in borders if len(each.parts) > 1 or (each.parts[0][0], each.more) not in named]
        if not self._borders.note(found, used):
            self.limits.note("the new values that were tried")
        for each in used:
            base = [column for column in each.columns or () if self.rules.is_base(column[0])]
            for border in borders:
                if border.parts == new_value(each.name).parts:
                    value = value_at(-border.more, each.type)
                    if value is not None and not self.is_new(value, each):
                        self.offered.note_value(base, value)

    def note_compared(self, branch: Branch, rule: RuleParts, binding: Binding) -> None:
        """New values are to be tried on all sides of the borders that built-ins of a rule have for those of a branch,
        given the values of its variables."""
        used = {
            name: each
            for name, value in binding.items() for each in branch.placeholders
            if any(each.stands_at(column, value) for column in columns_of(name, rule))
        }  # fmt: skip
        moving = {name: new_value(used[name].name) if name in used else value for name, value in binding.items()}
        values = {each.name: each.witness for each in used.values()}
        self.note_borders(self.borders.compared(rule, moving, values), [*dict.fromkeys(used.values())])

    def related_to(self, name: str, rule: RuleParts) -> Callable[[Placeholder], bool]:
        """Whether rules compare a new value with those of a variable."""
        found = {each for column in self.columns(rule, name) for each in self._related.get(column, (column,))}
        return lambda placeholder: placeholder.columns is None or not found.isdisjoint(placeholder.columns)


def fitting(rule: RuleParts, binding: Binding, name: str, value: Any) -> Binding | None:
    """The binding with a value for a variable, and what follows; None if a built-in excludes it."""
    return determined(rule.built_ins, {**binding, name: value}, rule.types)


def fits_type(value: Any, type: Type) -> bool:
    """Whether a constant that the caller gave can be in a column of the type."""
    if type.kind is Kind.UNSIGNED and value.__class__ is int:
        return bool(value >= 0)
    return _PYTHON[type.kind] is value.__class__


_SOME = {
    Kind.NUMBER: 1, Kind.UNSIGNED: 1, Kind.FLOAT: 0.5, Kind.SYMBOL: "a", Kind.DATE: datetime.date(2000, 1, 1),
    Kind.TIMESTAMP: datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC), Kind.DECIMAL: Decimal(1),
}  # fmt: skip

_PYTHON = {
    Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float, Kind.SYMBOL: str, Kind.BOOLEAN: bool,
    Kind.DATE: datetime.date, Kind.TIMESTAMP: datetime.datetime, Kind.DECIMAL: Decimal,
}  # fmt: skip
