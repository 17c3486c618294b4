"""How a row of a view can become true: rules, what of their bodies holds already, values for the rest."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from typing import Any

from upshot.check.variables import variables
from upshot.core.types import Kind, Type
from upshot.reasons.wording import literal_text
from upshot.revise.branch import Branch
from upshot.revise.built_ins import UNKNOWN, Binding, determined, value_of
from upshot.revise.matches import Matches, Places
from upshot.revise.placeholders import Placeholder, lies_in, regions, witnesses
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences
from upshot.revise.rules import RuleParts, Rules, columns_of, free_variables, ground
from upshot.revise.world import World
from upshot.syntax.ast import Comparison, Constant
from upshot.syntax.printing import print_term


@dataclass(slots=True)
class Limits:
    """What kept the search from looking further: bounds that were reached, frozen relations that were in the way."""

    reached: dict[str, None] = field(default_factory=dict)
    frozen: dict[str, None] = field(default_factory=dict)

    def note(self, words: str) -> None:
        self.reached[words] = None


@dataclass(slots=True)
class Alternatives:
    """Branches that are made from another when they are asked for, to make a row true or false; each has at least so
    many more changes."""

    source: Branch
    about: Key
    changes: int
    price: float
    branches: Iterator[Branch]
    is_empty: bool = True


@dataclass(slots=True)
class Ways:
    """Continues branches by making rows true or false."""

    world: World
    rules: Rules
    preferences: Preferences
    bounds: Bounds
    limits: Limits = field(default_factory=Limits)
    counts: dict[str, int] = field(default_factory=dict)
    _matches: Matches = field(init=False)
    _rests_on: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._matches = Matches(self.rules.program.schemas)

    # ---- decisions ----------------------------------------------------------------------------------------------

    def decided(self, branch: Branch, true: Iterable[Key], false: Iterable[Key]) -> Branch | None:
        """The branch in which these rows are, and are not, there in the end; None if that contradicts it, or would
        touch what is frozen."""
        wanted = {key: True for key in true if key not in branch.true}
        for key in false:
            if key in wanted or key in branch.true:
                return None
            if key not in branch.false:
                wanted[key] = False
        if any(there and key in branch.false for key, there in wanted.items()):
            return None
        insert, delete = set(branch.insert), set(branch.delete)
        for key, there in wanted.items():
            if not self.rules.is_base(key[0]) or self.world.stored(key) == there:
                continue
            sign = INSERT if there else DELETE
            if self.preferences.is_frozen(key[0], sign):
                self.limits.frozen[key[0]] = None
                return None
            (insert if there else delete).add(key)
        if self.bounds.size is not None and len(insert) + len(delete) > self.bounds.size:
            self.limits.note(f"{self.bounds.size} changes")
            return None
        return replace(
            branch,
            insert=frozenset(insert),
            delete=frozenset(delete),
            true=branch.true.union(key for key, there in wanted.items() if there),
            false=branch.false.union(key for key, there in wanted.items() if not there),
        )

    # ---- rows that are to become true ---------------------------------------------------------------------------

    def derivations(self, branch: Branch, key: Key) -> Iterator[Alternatives]:
        """The alternatives for a row of a view that is not there; rules of which most holds already come first."""
        relation, row = key
        for rule in self.rules.by_view.get(relation, ()):
            if rule.is_aggregate:
                self.limits.note(f"`{relation}`, whose rows are aggregates and are not asked for")
                continue
            if rule.binding(row) is None:
                continue
            count = len(rule.positive)
            for missing in range(count + 1):
                for places in combinations(range(count), count - missing):
                    lacking = [rule.positive[each].relation for each in range(count) if each not in places]
                    if missing == 0 and not rule.negative:
                        continue
                    if not all(map(self._can_grow, lacking)):
                        continue
                    relations = {name for name in lacking if self.rules.is_base(name)}
                    price = sum(self.preferences.price(name, INSERT) for name in relations)
                    changes = max(len(relations), min(missing, 1))
                    yield Alternatives(branch, key, changes, price, self._instances(branch, key, rule, places))

    def _can_grow(self, relation: str) -> bool:
        """Whether what is not frozen could bring a row to the relation."""
        if relation not in self._rests_on:
            self._rests_on[relation] = self.rules.below(relation)
        below = self._rests_on[relation]
        if self.rules.is_base(relation):
            free = not self.preferences.is_frozen(relation, INSERT)
        else:
            free = any(not self.preferences.is_frozen(name, sign) for name in below for sign in (INSERT, DELETE))
        if not free:
            self.limits.frozen |= dict.fromkeys(sorted(below))
        return free

    def _instances(self, branch: Branch, key: Key, rule: RuleParts, places: Places) -> Iterator[Branch]:
        """The branches in which the rule derives the row and the literals at these places hold already. Nothing is
        asked before the first one is wanted."""
        known = rule.binding(key[1])
        assert known is not None, "the head is that of the row"
        if places:
            self.world.stage(branch.insert, branch.delete)
        found = list(self._matches.find(self.world, rule, places, known))
        self._count("matches", len(found))
        for binding in found:
            for filled, continued in self._filled(branch, rule, binding):
                made = self._instance(continued, key, rule, filled)
                if made is not None:
                    yield made

    def _instance(self, branch: Branch, key: Key, rule: RuleParts, binding: Binding) -> Branch | None:
        """The branch in which this instance of the rule derives the row."""
        positive = [ground(atom, binding) for atom in rule.positive]
        made = replace(branch, rounds=branch.rounds + 1).supported(
            key, (each for each in positive if not self.rules.is_base(each[0]))
        )
        if made is None:
            return None
        conditions = [text for each in rule.built_ins if (text := self._condition(each, binding, rule, branch))]
        made = replace(made, conditions=tuple(dict.fromkeys((*made.conditions, *conditions))))
        return self.decided(made, positive, (ground(atom, binding) for atom in rule.negative))

    def _condition(self, literal: Any, binding: Binding, rule: RuleParts, branch: Branch) -> str:
        """The built-in in words, if a placeholder is one of its values."""
        names = {each.witness: each for each in branch.placeholders}
        used = {name: binding[name] for name in variables(literal)}
        if not any(value in names for value in used.values()):
            return ""
        shown = {name: names.get(value, value) for name, value in used.items()}
        text = literal_text(literal, {n: v for n, v in shown.items() if not isinstance(v, Placeholder)}, rule.types)
        for name, value in shown.items():
            if isinstance(value, Placeholder):
                text = _renamed(text, name, value.name)
        return text

    # ---- values for free variables ------------------------------------------------------------------------------

    def _filled(self, branch: Branch, rule: RuleParts, binding: Binding) -> Iterator[tuple[Binding, Branch]]:
        """The binding with values for all variables: a new value, one that is new already, one of the columns."""
        free = free_variables(rule, binding)
        if not free:
            yield binding, branch
            return
        name, type = free[0], rule.types[free[0]].required()
        for longer, placeholder, condition in self._new(branch, rule, binding, name, type):
            placed = replace(
                branch,
                placeholders=(*branch.placeholders, placeholder),
                conditions=(*branch.conditions, *condition),
            )
            yield from self._filled(placed, rule, longer)
        for value in self._candidates(branch, rule, name, type):
            known = determined(rule.built_ins, {**binding, name: value}, rule.types)
            if known is not None:
                yield from self._filled(branch, rule, known)

    def _new(
        self, branch: Branch, rule: RuleParts, binding: Binding, name: str, type: Type
    ) -> Iterator[tuple[Binding, Placeholder, tuple[str, ...]]]:
        """Values that do not occur yet and that no built-in excludes: one above all constants that rules compare with,
        and one in each region between them, which is then a condition."""
        number, label = len(branch.placeholders) + 1, f"?{len(branch.placeholders) + 1}"
        landmarks = self.rules.landmarks.get(type.kind, ())
        near = [*landmarks, *self._compared(rule, binding, name)]
        taken = {*near, *(each.witness for each in branch.placeholders)}
        fitting = [
            (value, known)
            for value in dict.fromkeys(witnesses(number, type, near))
            if value not in taken and (known := determined(rule.built_ins, {**binding, name: value}, rule.types))
        ]
        if not fitting:
            if type.kind is not Kind.BOOLEAN:
                head = rule.clause.head.relation
                self.limits.note(f"the conditions of a rule of `{head}`, for which no value was found")
            return
        if number > self.bounds.new_constants:
            self.limits.note(f"{self.bounds.new_constants} new values")
            return
        if self.rules.compares_values:
            self.limits.note("the new values that were tried")
        for place, region in enumerate(regions(type, landmarks)):
            found = next(((value, known) for value, known in fitting if lies_in(value, region)), None)
            if found is not None:
                value, known = found
                yield known, Placeholder(label, type, value), _bounds_of(label, type, region) if place else ()

    def _compared(self, rule: RuleParts, binding: Binding, name: str) -> Iterator[Any]:
        """The values that the rule compares a variable with."""
        for each in rule.built_ins:
            if isinstance(each, Comparison) and name in variables(each):
                for side in (each.left, each.right):
                    value = value_of(side, binding, rule.types)
                    if value is not UNKNOWN and value is not None:
                        yield value

    def _candidates(self, branch: Branch, rule: RuleParts, name: str, type: Type) -> Iterator[Any]:
        """The values that a variable may take: new ones of this branch, those of its columns, those the caller gave."""
        seen: set[Any] = set()
        columns = frozenset(source for each in columns_of(name, rule) for source in self.rules.sources(each))
        for value in self._listed(branch, columns, type):
            if value not in seen and value is not None:
                seen.add(value)
                yield value

    def _listed(self, branch: Branch, columns: frozenset[tuple[str, int]], type: Type) -> Iterator[Any]:
        yield from (each.witness for each in branch.placeholders if each.type.kind is type.kind)
        yield from (row[place] for relation, row in sorted(branch.insert, key=repr) for r, place in columns
                    if r == relation)  # fmt: skip
        yield from (value for value in self.bounds.constants if _fits(value, type))
        yield from (False, True) if type.kind is Kind.BOOLEAN else ()
        for relation, place in sorted(columns):
            self._count("columns read", 1)
            yield from self.world.column(relation, place)

    def _count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


def _bounds_of(label: str, type: Type, region: tuple[Any, Any]) -> tuple[str, ...]:
    """The region in words."""
    low, high = (None if each is None else print_term(Constant(each, type)) for each in region)
    return (*((f"{label} > {low}",) if low else ()), *((f"{label} < {high}",) if high else ()))


def _renamed(text: str, variable: str, placeholder: str) -> str:
    parts = text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    return " ".join(placeholder if part == variable else part for part in parts)


def _fits(value: Any, type: Type) -> bool:
    """Whether a constant that the caller gave can be in a column of the type."""
    if type.kind is Kind.UNSIGNED and value.__class__ is int:
        return bool(value >= 0)
    return _PYTHON[type.kind] is value.__class__


_PYTHON = {
    Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float, Kind.SYMBOL: str, Kind.BOOLEAN: bool,
    Kind.DATE: datetime.date, Kind.TIMESTAMP: datetime.datetime, Kind.DECIMAL: Decimal,
}  # fmt: skip
