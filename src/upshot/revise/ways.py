"""How a row of a view can become true: rules, what of their bodies holds already, values for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.core.types import Kind, Type
from upshot.reasons.wording import literal_text
from upshot.revise.alternatives import Alternatives, Limits
from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined, first_to_fill, listed, ordered_with
from upshot.revise.fitting_rows import fits
from upshot.revise.ground_rules import Fill, GroundRules
from upshot.revise.keyed_rows import KeyedRows
from upshot.revise.linear import NotLinearError, new_value, symbolic
from upshot.revise.linked_columns import linked_columns, named_constants
from upshot.revise.matches import Matches, Places
from upshot.revise.new_values import NewValues, fits_type, fitting
from upshot.revise.nulls import denied, joins_null
from upshot.revise.offered_values import OfferedValues
from upshot.revise.open_instances import opened, waiting
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences, Row
from upshot.revise.rules import Column, RuleParts, Rules, columns_of, free_variables, ground
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.revise.world import World
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Test, Variable

Make = Callable[[Branch, Binding], Branch | None]
"""Makes a branch of an instance of a rule."""


@dataclass(slots=True)
class Ways:
    """Continues branches by making rows true or false."""

    world: World
    rules: Rules
    preferences: Preferences
    bounds: Bounds
    within: frozenset[Key] | None = None
    """The only base rows that may be changed, if not all may."""
    asked: frozenset[Key] = frozenset()
    """The rows of the request."""
    limits: Limits = field(default_factory=Limits)
    counts: dict[str, int] = field(default_factory=dict)
    completing: Callable[[Branch, RuleParts, Binding, str], Iterable[Any]] = lambda *_: ()
    """Values for a variable of a rule with which aggregates in it come to what they are to come to."""
    matches: Matches = field(init=False)
    offered: OfferedValues = field(init=False)
    new_values: NewValues = field(init=False)
    ground_rules: GroundRules = field(init=False)
    keyed_rows: KeyedRows = field(init=False)
    _determined: dict[Key, bool] = field(default_factory=dict)
    _rests_on: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.matches = Matches(self.rules.program.schemas)
        linked, named = linked_columns(self.rules), named_constants(self.rules)
        self.offered = OfferedValues(self.world, self.bounds.constants, linked, named, self.rules.sources, self.limits)
        self.offered.bring(self.within or ())
        self.new_values = NewValues(self.world, self.rules, self.bounds, self.limits, self.offered, self.asked)
        self.keyed_rows = KeyedRows(self.rules, self.new_values)
        self.ground_rules = GroundRules(
            self.world, self.rules, self.bounds, self.offered, self._sources, self.filled, self.keyed_rows
        )

    # ---- decisions ----------------------------------------------------------------------------------------------

    def decided(self, branch: Branch, true: Iterable[Key], false: Iterable[Key]) -> Branch | None:
        """The branch in which these rows are, and are not, there in the end; None if that contradicts it, would touch
        what is frozen, or asks for a row that its relation cannot have."""
        wanted = {key: True for key in true if key not in branch.true}
        if not all(map(self._fits, wanted)):
            return None
        for key in filter(self._fits, false):
            if wanted.get(key) or key in branch.true:
                return None
            if key not in branch.false:
                wanted[key] = False
        if any(there and key in branch.false for key, there in wanted.items()):
            return None
        insert, delete = set(branch.insert), set(branch.delete)
        self.world.look_up(key for key in wanted if self.rules.is_base(key[0]))
        for key, there in wanted.items():
            if not self.rules.is_base(key[0]) or self.world.stored(key) == there:
                continue
            if self.within is not None and key not in self.within:
                return None
            sign = INSERT if there else DELETE
            if self.preferences.is_frozen(key[0], sign):
                self.limits.frozen[key[0]] = None
                return None
            (insert if there else delete).add(key)
        if self.bounds.size is not None and len(insert) + len(delete) > self.bounds.size:
            large = replace(branch, insert=frozenset(insert), delete=frozenset(delete))
            self.limits.note_size(large, self.bounds.size)
            return None
        depths = {key: branch.depth + there for key, there in wanted.items()}
        return replace(
            branch,
            depths={**branch.depths, **depths},
            insert=frozenset(insert),
            delete=frozenset(delete),
            true=branch.true.union(key for key, there in wanted.items() if there),
            false=branch.false.union(key for key, there in wanted.items() if not there),
        )

    def _fits(self, key: Key) -> bool:
        return fits(key[1], self.rules.program.schemas[key[0]])

    # ---- rows that are to become true ---------------------------------------------------------------------------

    def derivations(self, branch: Branch, key: Key) -> Iterator[Alternatives]:
        """The alternatives for a row of a view that is not there; rules of which most holds already come first."""
        for rule in self.rules.by_view.get(key[0], ()):
            known = rule.binding(key[1])
            if known is not None:
                makes = partial(self._made, key, rule)
                yield from self.alternatives(branch, key, rule, known, self.filled, makes)

    def alternatives(
        self, branch: Branch, about: Key, rule: RuleParts, known: Binding, fill: Fill, make: Make
    ) -> Iterator[Alternatives]:
        """The alternatives in which a rule has an instance with these values that it has not yet: some of its literals
        hold already, `fill` gives values to the other variables, and `make` makes a branch of that."""
        count = len(rule.positive)
        for missing in range(0 if rule.negative else 1, count + 1):
            for places in combinations(range(count), count - missing):
                lacking = [rule.positive[each].relation for each in range(count) if each not in places]
                if all(map(self.can_grow, lacking)):
                    relations = {name for name in lacking if self.rules.is_base(name)}
                    price = sum(self.preferences.price(name, INSERT) for name in relations)
                    made = self.instances(branch, rule, places, known, fill, make)
                    yield Alternatives(branch, about, max(len(relations), min(missing, 1)), price, made)

    def listed(self, branch: Branch, key: Key) -> list[Branch] | None:
        """The branches in which a rule derives a row of a view, those with the fewest changes first; None where there
        are too many to be listed."""
        made: list[Branch] = []
        for rule in self.rules.by_view.get(key[0], ()):
            head = rule.binding(key[1])
            found = [] if head is None else self.ground_rules.listed(branch, rule, head)
            if found is None:
                return None
            for each in found:
                conditions = (*branch.conditions, *each.conditions)
                placed = replace(branch, placeholders=each.placeholders, conditions=conditions)
                instance = self.instance(placed, key, rule, each.binding)
                if instance is not None:
                    made.append(instance)
        return sorted(made, key=lambda each: each.size)

    def is_determined(self, key: Key) -> bool:
        """Whether the row itself says what its rules would derive it from."""
        if key not in self._determined:
            heads = ((rule, rule.binding(key[1])) for rule in self.rules.by_view.get(key[0], ()))
            known = ((rule, determined(rule.built_ins, head, rule.types)) for rule, head in heads if head is not None)
            self._determined[key] = not any(free_variables(rule, each) for rule, each in known if each is not None)
        return self._determined[key]

    def take_in_values(self) -> bool:
        """Whether there are values that variables were not offered; from now on they are."""
        self.ground_rules.forget()
        are_offered, are_tried = self.offered.take_in(), self.new_values.take_in()
        return are_offered or are_tried

    @property
    def has_news(self) -> bool:
        """Whether there are any."""
        return self.offered.has_news or self.new_values.has_news

    def can_grow(self, relation: str) -> bool:
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

    def instances(
        self, branch: Branch, rule: RuleParts, places: Places, known: Binding, fill: Fill, make: Make
    ) -> Iterator[Branch]:
        """The branches with instances of the rule of which the literals at these places hold already. Nothing is asked
        before the first one is wanted."""
        if places:
            self.world.stage(branch.insert, branch.delete)
        for binding in self.matches.find(self.world, rule, places, known):
            self._count("matches", 1)
            for filled, continued in fill(branch, rule, binding):
                made = make(continued, filled)
                if made is not None:
                    yield made

    def _made(self, key: Key, rule: RuleParts, branch: Branch, binding: Binding) -> Branch | None:
        return self.instance(branch, key, rule, binding)

    def instance(self, branch: Branch, key: Key, rule: RuleParts, binding: Binding) -> Branch | None:
        """The branch in which this instance of the rule derives the row; open while its aggregates have no value."""
        if waiting(rule, self.rules.folds, binding):
            return self.open_instance(branch, rule, binding, key)
        if joins_null(rule, binding):
            return None
        branch = self._with_solved(branch, key, rule, binding)
        positive = [ground(atom, binding) for atom in rule.positive]
        made = branch.seeing_to(key).supported(
            key, (each for each in positive if self.rules.are_mutual(key[0], each[0]))
        )
        if made is None:
            return None
        conditions = self._conditions(rule, binding, branch)
        made = replace(made, conditions=tuple(dict.fromkeys((*made.conditions, *conditions))))
        return self.decided(made, positive, denied(rule, binding))

    def _with_solved(self, branch: Branch, key: Key, rule: RuleParts, binding: Binding) -> Branch:
        """The branch in which values that equations make of new values are placeholders too: they are what the user
        makes of them, and the equations are conditions."""
        new = {each.witness for each in branch.placeholders}
        given = {None, *key[1], *new}
        left = [each for each in rule.built_ins if new and isinstance(each, Comparison) and each.op == "="]
        while (each := next((e for e in left if new.intersection(binding[n] for n in variables(e))), None)) is not None:
            left.remove(each)
            for name in (name for name in variables(each) if binding[name] not in given):
                solved = self.new_values.placeholder(branch, rule, name, binding[name])
                if self.new_values.is_new(solved.witness, solved):
                    branch = replace(branch, placeholders=(*branch.placeholders, replace(solved, is_computed=True)))
                    new.add(solved.witness)
                given.add(binding[name])
        return branch

    def open_instance(
        self, branch: Branch, rule: RuleParts, binding: Binding, head: Key | None, unlike: frozenset[Row] = frozenset()
    ) -> Branch | None:
        """The branch in which the rule is to derive the row, or some row, once its aggregates have fitting values."""
        made = opened(branch if head is None else branch.seeing_to(head), self.rules, rule, binding, head, unlike)
        return None if made is None else self.decided(*made)

    def _conditions(self, rule: RuleParts, binding: Binding, branch: Branch) -> list[str]:
        """What built-ins demand of new values, in words, where that is not found out by trying other values: of those
        that cannot be followed, and of what they compute."""
        names = {each.witness: each for each in branch.placeholders}
        if names.keys().isdisjoint(binding.values()):
            return []
        asking = [each for each in rule.built_ins if any(binding[name] in names for name in variables(each))]
        opaque = {value for value, each in names.items() if each.is_opaque}
        left = {
            name for each in asking
            if not self._is_followed(each, binding, names, rule)
            or any(binding[name] in opaque for name in variables(each))
            for name in variables(each)
        }  # fmt: skip
        stated = [each for each in asking if left.intersection(variables(each))]
        return [self._condition(each, binding, rule, names) for each in stated]

    def _condition(self, literal: Literal, binding: Binding, rule: RuleParts, names: Mapping[Any, Placeholder]) -> str:
        """The built-in with its values."""
        shown = {name: names.get(binding[name], binding[name]) for name in variables(literal)}
        text = literal_text(literal, {n: v for n, v in shown.items() if not isinstance(v, Placeholder)}, rule.types)
        for name, value in shown.items():
            if isinstance(value, Placeholder):
                text = _renamed(text, name, value.name)
        return text

    def _is_followed(
        self, literal: Literal, binding: Binding, names: Mapping[Any, Placeholder], rule: RuleParts
    ) -> bool:
        """Whether what a built-in says about new values is found out by trying others."""
        if isinstance(literal, Comparison):
            used = {name: binding[name] for name in variables(literal)}
            moving = {name: new_value(names[v].name) if v in names else v for name, v in used.items()}
            try:
                for side in (literal.left, literal.right):
                    symbolic(side, moving, rule.types, lambda term: value_of(term, used, rule.types))
            except NotLinearError:
                return False
            return True
        test = literal.body if isinstance(literal, Not) else literal
        return isinstance(test, Test) and isinstance(test.args[0], Constant) and isinstance(test.args[-1], Variable)

    # ---- values for free variables ------------------------------------------------------------------------------

    def filled(
        self, branch: Branch, rule: RuleParts, binding: Binding, above: frozenset[str] = frozenset()
    ) -> Iterator[tuple[Binding, Branch]]:
        """The binding with values for all variables but those that wait for an aggregate: a new value, one that is new
        already, one of the columns; of columns that rules make, what they come to. `above` are the views whose rules
        are looked into for that."""
        known_by_keys = self.keyed_rows.determined(branch, rule, binding)
        if known_by_keys is None:
            return
        binding = known_by_keys
        later = waiting(rule, self.rules.folds, binding)
        free = [name for name in free_variables(rule, binding) if name not in later]
        if not free:
            yield binding, branch
            return
        new = {each.witness for each in branch.placeholders}
        few = listed(rule.built_ins, {n: v for n, v in binding.items() if v not in new}, free, rule.types)
        if few is not None:
            for value in few[1]:
                if (known := fitting(rule, binding, few[0], value)) is not None:
                    yield from self.filled(branch, rule, known, above)
            return
        name = first_to_fill(rule.built_ins, free)
        type = rule.types[name].required()
        made = self._made_at(name, rule, above)
        if made is not None:
            for value, continued in self._made_values(branch, binding, *made, above):
                known = fitting(rule, binding, name, value)
                if known is not None:
                    yield from self.filled(continued, rule, known, above)
            return
        takes_new = self._takes_new(rule, name)
        for longer, placeholder in self.new_values.values(branch, rule, binding, name, type) if takes_new else ():
            placed = replace(branch, placeholders=(*branch.placeholders, placeholder))
            yield from self.filled(placed, rule, longer, above)
        for value in self.candidates(branch, rule, name, binding):
            known = determined(rule.built_ins, {**binding, name: value}, rule.types)
            again = None if known is None else self.new_values.taken_again(branch, rule, name, value)
            if known is not None and again is not None:
                yield from self.filled(again, rule, known, above)
        for known, continued in self._beside_others(branch, rule, binding, name, free) if takes_new else ():
            yield from self.filled(continued, rule, known, above)

    def _takes_new(self, rule: RuleParts, name: str) -> bool:
        """Whether a variable may have a new value: one that is in a literal of a relation which gets no rows has one
        that is there."""
        return all(self.can_grow(atom.relation) for atom in rule.positive if name in variables(atom))

    def _beside_others(
        self, branch: Branch, rule: RuleParts, binding: Binding, name: str, free: Sequence[str]
    ) -> Iterator[tuple[Binding, Branch]]:
        """New values for a variable beside those that others have which the rule compares it with."""
        for other in ordered_with(name, rule.built_ins, free):
            for value in self.candidates(branch, rule, other, binding):
                known = determined(rule.built_ins, {**binding, other: value}, rule.types)
                again = None if known is None else self.new_values.taken_again(branch, rule, other, value)
                if known is None or again is None or name in known:
                    continue
                for longer, placeholder in self.new_values.values(
                    again, rule, known, name, rule.types[name].required()
                ):
                    yield longer, replace(again, placeholders=(*again.placeholders, placeholder))

    def _made_at(self, name: str, rule: RuleParts, above: frozenset[str]) -> tuple[Atom, int] | None:
        """The literal and place where a variable has values that rules make; None if it has others, or if they are made
        of each other, or of aggregates."""
        if not self.rules.is_made(name, rule):
            return None
        for atom in rule.positive:
            for place, term in enumerate(atom.args):
                if isinstance(term, Variable) and term.name == name and atom.relation not in above:
                    rules = self.rules.by_view.get(atom.relation, ())
                    if rules and atom.relation not in self.rules.folds and not any(map(self._recurs, rules)):
                        return atom, place
        return None

    def _recurs(self, rule: RuleParts) -> bool:
        return any(self.rules.are_mutual(rule.clause.head.relation, atom.relation) for atom in rule.positive)

    def _made_values(
        self, branch: Branch, binding: Binding, atom: Atom, place: int, above: frozenset[str]
    ) -> Iterator[tuple[Any, Branch]]:
        """The values that rules make for a place of a literal, and the branch with the new values they are made of."""
        seen: set[object] = set()
        for rule in self.rules.by_view[atom.relation]:
            known = _head_values(rule, atom, binding)
            known = None if known is None else determined(rule.built_ins, known, rule.types)
            if known is None:
                continue
            term = rule.clause.head.args[place]
            for given, continued in self.filled(branch, rule, known, above | {atom.relation}):
                value = term.value if isinstance(term, Constant) else given.get(getattr(term, "name", ""), UNKNOWN)
                if value is not UNKNOWN and (value, continued.placeholders) not in seen:
                    seen.add((value, continued.placeholders))
                    new = {each.witness for each in continued.placeholders}
                    if isinstance(term, Variable) and value not in new and new.intersection(given.values()):
                        solved = self.new_values.placeholder(continued, rule, term.name, value)
                        if self.new_values.is_new(value, solved):
                            opaque = self._is_opaque(term.name, rule, given, continued)
                            solved = replace(solved, is_computed=True, is_opaque=opaque)
                            continued = replace(continued, placeholders=(*continued.placeholders, solved))
                    yield value, continued

    def _is_opaque(self, name: str, rule: RuleParts, binding: Binding, branch: Branch) -> bool:
        """Whether a variable is computed from new values in a way that is not found out by trying others."""
        names = {each.witness: each for each in branch.placeholders}
        computing = (each for each in rule.built_ins if name in variables(each))
        return any(each.is_opaque for each in names.values() if each.witness in binding.values()) or not all(
            self._is_followed(each, binding, names, rule) for each in computing
        )

    def candidates(self, branch: Branch, rule: RuleParts, name: str, binding: Binding) -> Iterator[Any]:
        """The values that a variable may take: those of other variables of the same columns, new ones of this branch,
        those of its columns, those the caller gave, NULL."""
        type = rule.types[name].required()
        seen, columns, related = {None}, self._sources(name, rule), self.new_values.related_to(name, rule)
        self.offered.ask(columns)
        for other, value in binding.items():
            if value not in seen and columns & self._sources(other, rule):
                seen.add(value)
                yield value
        named = (value for column in columns_of(name, rule) for value in self.rules.constants(column))
        completing = self.completing(branch, rule, binding, name)
        new = (each.witness for each in branch.placeholders if each.type.kind is type.kind and related(each))
        for value in chain(completing, named, new, self._listed(branch, columns, type)):
            if value not in seen:
                seen.add(value)
                yield value
        if rule.types[name].nullable:
            yield None

    def _sources(self, name: str, rule: RuleParts) -> frozenset[Column]:
        """The base columns that the values of a variable come from."""
        columns = frozenset(source for each in columns_of(name, rule) for source in self.rules.sources(each))
        return self.offered.columns(columns)

    def _listed(self, branch: Branch, columns: frozenset[Column], type: Type) -> Iterator[Any]:
        yield from (row[place] for relation, row in sorted(branch.insert, key=repr) for r, place in columns
                    if r == relation)  # fmt: skip
        yield from self.offered.values(columns)
        yield from (value for value in self.bounds.constants if fits_type(value, type))
        yield from (False, True) if type.kind is Kind.BOOLEAN else ()
        for relation, place in sorted(columns):
            self._count("columns read", 1)
            yield from self.world.column(relation, place)

    def _count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


def _head_values(rule: RuleParts, atom: Atom, binding: Binding) -> Binding | None:
    """What a literal says about the variables of a rule for it; None if the rule derives nothing that it asks for."""
    return rule.binding(tuple(value_of(wanted, binding, rule.types) for wanted in atom.args))


def _renamed(text: str, variable: str, placeholder: str) -> str:
    """The text with the placeholder for the variable, but not in what is quoted."""
    quoted_or_named = rf'"(?:[^"\\]|\\.)*"|\b{re.escape(variable)}\b'
    return re.sub(quoted_or_named, lambda found: found[0] if found[0][0] == '"' else placeholder, text)
