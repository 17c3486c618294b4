"""The instances of rules that derive a row, listed where their variables have few values.

Where values are many, a search asks for the instances of which something holds already, and makes up the rest bit by
bit. Where they are few, all instances are known at once: a row that has none, or only one, is seen before anything else
is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined, listed
from upshot.revise.keyed_rows import KeyedRows
from upshot.revise.nulls import denied
from upshot.revise.offered_values import OfferedValues
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Bounds, Key
from upshot.revise.rules import Column, RuleParts, Rules, free_variables, ground
from upshot.revise.world import World

MOST = 128
"""Instances of a rule that are listed rather than looked for."""
REMEMBERED = 5_000
"""Lists that are remembered; beyond that they are forgotten and made again."""

Fill = Callable[[Branch, RuleParts, Binding], Iterator[tuple[Binding, Branch]]]
"""Gives values to the variables of a rule that have none."""


@dataclass(frozen=True, slots=True)
class GroundRule:
    """A rule with values for its variables, the rows that have to be there for it and those that must not be; the
    placeholders of the branch with those among them, and on what conditions."""

    rule: RuleParts
    binding: Binding
    there: tuple[Key, ...]
    away: tuple[Key, ...]
    placeholders: tuple[Placeholder, ...]
    conditions: tuple[str, ...]


@dataclass(slots=True)
class GroundRules:
    """What is listed is remembered: it depends on the values that a branch brings to the columns in question, not on
    what else it has decided."""

    world: World
    rules: Rules
    bounds: Bounds
    offered: OfferedValues
    sources: Callable[[str, RuleParts], frozenset[Column]]
    fill: Fill
    keyed_rows: KeyedRows
    _listed: dict[object, list[GroundRule]] = field(default_factory=dict)
    _are_few: dict[object, bool] = field(default_factory=dict)
    _sources: dict[object, frozenset[Column]] = field(default_factory=dict)

    def listed(self, branch: Branch, rule: RuleParts, head: Binding) -> list[GroundRule] | None:
        """The instances of a rule with a head; None if they are too many to be listed, or not all known."""
        known = determined(rule.built_ins, head, rule.types)
        known = None if known is None else self.keyed_rows.determined(branch, rule, known)
        if known is None:
            return []
        shape = rule.number, frozenset(known)
        if shape not in self._are_few:
            self._are_few[shape] = self._number(rule, known) <= MOST
        if not self._are_few[shape]:
            return None
        bare = self._bare(branch, rule)
        place = rule.number, frozenset(known.items()), bare.placeholders, self._brought(branch, rule, known), bare.state
        if place not in self._listed:
            if len(self._listed) >= REMEMBERED:
                self._listed.clear()
            found = self.fill(bare, rule, known)
            self._listed[place] = [_ground(rule, each, made) for each, made in found]
        return self._listed[place]

    def at_most(self, branch: Branch, key: Key) -> int | None:
        """How many instances could derive a row at most, as far as what they need contradicts the branch at once; None
        if they are too many to be listed."""
        number = 0
        for rule in self.rules.by_view.get(key[0], ()):
            head = rule.binding(key[1])
            found = [] if head is None else self.listed(branch, rule, head)
            if found is None:
                return None
            number += sum(branch.false.isdisjoint(each.there) and branch.true.isdisjoint(each.away) for each in found)
        return number

    def _bare(self, branch: Branch, rule: RuleParts) -> Branch:
        """What of a branch decides on the values that variables of a rule are offered: its new values, rows whose keys
        the rule may ask for, and what is to become of aggregates, to which rows may bring what they lack."""
        wishes = frozenset(key for key in branch.true if key[0] in self.rules.folds)
        keyed = self.keyed_rows.wanted(branch, rule)
        if not wishes and not branch.open:
            return Branch(true=keyed, placeholders=branch.placeholders)
        return Branch(branch.insert, branch.delete, wishes | keyed, placeholders=branch.placeholders, open=branch.open,
                      brought=branch.brought)  # fmt: skip

    def forget(self) -> None:
        """Makes ready for variables that are offered more values."""
        for known in (self._listed, self._are_few, self._sources):
            known.clear()

    def _brought(self, branch: Branch, rule: RuleParts, known: Binding) -> frozenset[tuple[Column, Any]]:
        """The values that a branch brings to the columns from which the free variables of a rule take theirs."""
        columns = self._columns(rule, known)
        if not columns:
            return frozenset()
        return frozenset(
            ((name, place), value)
            for name, row in branch.insert for place, value in enumerate(row) if (name, place) in columns
        )  # fmt: skip

    def _columns(self, rule: RuleParts, known: Binding) -> frozenset[Column]:
        shape = rule.number, frozenset(known)
        if shape not in self._sources:
            free = free_variables(rule, known)
            self._sources[shape] = frozenset(source for name in free for source in self.sources(name, rule))
        return self._sources[shape]

    def _number(self, rule: RuleParts, known: Binding) -> int:
        """How many instances there are at most."""
        if any(atom.relation in self.rules.folds for atom in rule.positive):
            return MOST + 1
        number, free = 1, free_variables(rule, known)
        few = listed(rule.built_ins, known, free, rule.types)
        for name in free:
            if few is not None and name == few[0]:
                number *= len(few[1])
                continue
            columns = self.sources(name, rule)
            if self.rules.is_made(name, rule) or sum(self.world.size(each) for each, _ in columns) > MOST:
                return MOST + 1
            values = {value for relation, place in columns for value in self.world.column(relation, place)}
            values.update(self.offered.values(columns))
            number *= len(values.union(self.bounds.constants)) + self.bounds.new_constants + len(known)
        return number


def _ground(rule: RuleParts, binding: Binding, made: Branch) -> GroundRule:
    there = tuple(ground(atom, binding) for atom in rule.positive)
    return GroundRule(rule, binding, there, tuple(denied(rule, binding)), made.placeholders, made.conditions)
