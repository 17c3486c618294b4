"""Candidates are staged and propagated; instances that the ground program lacks are added to it.

If the solver took a row to be absent that is present after the change, the instances that derive it are added, down to
rows on which both agree. If it took a row to be present that is absent, it is wrong about a row of the instance's body.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.revise.built_ins import UNKNOWN, Binding, are_same, value_of, variables
from upshot.revise.demand import Instance, has_symbol, unified
from upshot.revise.ground_program import GroundProgram, Node, Stage
from upshot.revise.placeholders import Symbol
from upshot.revise.request import Key, Row, World
from upshot.revise.rules import COUNT, RuleParts, arguments, ground
from upshot.revise.solver import Model

MOST_SPREAD = 5_000
"""The most instances through which rows with symbols are followed."""
MOST_EQUATED = 50
"""The most stored rows with which a negated row is compared one by one; with more, the negation is the condition."""


@dataclass(slots=True)
class Trial:
    """One candidate, staged with the `values` of its symbols."""

    world: World
    program: GroundProgram
    constraints: Collection[str]
    model: Model
    values: Mapping[str, Any]
    _symbolic: dict[Key, Key] = field(default_factory=dict)
    """Rows with symbols, by their rows with witnesses."""
    _seen: set[Key] = field(default_factory=set)
    _there: set[Key] = field(default_factory=set)
    _varying: set[Key] = field(default_factory=set)
    """Rows that are present with some values of symbols only."""
    negations: list[Key] = field(default_factory=list)
    """Base rows with symbols that must be absent, and could equal one of many stored rows; found by `spread`."""
    is_cut: bool = False
    """True if `spread` left out instances, since there are too many."""

    @property
    def insert(self) -> frozenset[Key]:
        return frozenset(map(self.concrete, self.model.insert))

    def stage(self) -> None:
        """Stage and propagate the candidate."""
        self.world.stage(self.insert, self.model.delete)

    def concrete(self, key: Key) -> Key:
        """A row with the witnesses of its symbols; `UNKNOWN` where a symbol has none."""
        return key[0], tuple(self._value(value) if isinstance(value, Symbol) else value for value in key[1])

    def _value(self, symbol: Symbol) -> Any:
        if symbol.term is not None:
            totals = {name: self._value(self.program.totals[name]) for name in variables(symbol.term)
                      if name in self.program.totals}  # fmt: skip
            return value_of(symbol.term, {**self.values, **totals}, self.program.demand.types)
        if symbol.group is None:
            return self.values.get(symbol.name, UNKNOWN)
        view, group = symbol.group
        rows = self.program.demand.rows_with(view, self.concrete((view, group))[1])
        return rows[0][-1] if rows else UNKNOWN

    def holds(self, key: Key) -> bool:
        """Test whether a row is present after the change; without witnesses for its symbols, the model decides."""
        row = self.concrete(key)
        if UNKNOWN not in row[1]:
            return self.world.holds(row)
        return key in self.model.true and key[0] not in self.program.rules.folds

    def unmet(self) -> Iterator[tuple[Key, bool]]:
        """The rows whose presence contradicts the request or a constraint, and whether they are present."""
        request = self.program.request
        for keys, wanted in ((request.insert, True), (request.delete, False)):
            listed = sorted(keys, key=repr)
            for key, is_there in zip(listed, self.world.holding(listed), strict=True):
                if is_there != wanted:
                    yield key, is_there
        for constraint in sorted(self.constraints):
            for row in sorted(self.world.added(constraint), key=repr):
                yield (constraint, row), True

    def conflicts(self) -> list[tuple[Key, Key]]:
        return list(self.world.key_conflicts())

    # ---- refinement -------------------------------------------------------------------------------------------------

    def refine(self, unmet: Iterable[tuple[Key, bool]], conflicts: Iterable[tuple[Key, Key]]) -> bool:
        """Add the instances that the ground program lacks; return whether there are any."""
        program = self.program
        self._note_symbolic()
        depth = self._depth()
        there: list[Key] = []
        absent: list[Key] = []
        for key, is_there in unmet:
            if is_there and key[0] in program.total_constraints:
                self._deny_totals(key, there, absent)
                continue
            lifted = self.lifted(key)
            if is_there and key[0] in self.constraints and key not in program.request.delete:
                program.deny(lifted, depth)
            (there if is_there else absent).append(lifted)
        for one, other in conflicts:
            program.exclude(self.lifted(one), self.lifted(other), depth)
            there += [self.lifted(key) for key in (one, other)]
        self._explain(there, absent)
        return program.is_grown

    def _note_symbolic(self) -> None:
        for key in (*self.model.true, *self.model.insert):
            if has_symbol(key):
                self._symbolic[self.concrete(key)] = key

    def _explain(self, there: list[Key], absent: list[Key]) -> None:
        while there or absent:
            for key in absent:
                there += self._wrongly_true(key)
            absent = []
            frontier = [k for k in dict.fromkeys(there) if k not in self._seen and not self.program.rules.is_base(k[0])]
            self._seen.update(frontier)
            there = []
            for instance in self._instances(frontier):
                self._disagreement(instance, there, absent)
            for key in frontier:
                if key[0] in self.program.rules.folds:
                    there += self._group_rows(key)
                    absent += self._missing_rows(key)

    def _disagreement(self, instance: Instance, there: list[Key], absent: list[Key]) -> None:
        """Collect the body rows of an instance that holds, for which the model has another truth value, or can have
        another value of an aggregate."""
        folds = self.program.rules.folds
        there += [key for key in instance.positive if key not in self.model.true or key[0] in folds]
        absent += [key for key in instance.negative if key in self.model.true]

    def _deny_totals(self, key: Key, there: list[Key], absent: list[Key]) -> None:
        """Deny a violation for all values of its group."""
        if key[0] in self.program.rules.folds:
            fold, row = self.program.rules.folds[key[0]], self.lifted(key)[1][:-1]
            total = key[0], (*row, self.program.demand.total(key[0], row, fold.type))
            self.program.deny(total, self._depth())
            there.append(total)
        for rule, _, binding in list(self.program.demand.supported([(key, key[1])])):
            for instance in self._lifted_instances(rule, None, binding):
                self._take(instance)
                self._disagreement(instance, there, absent)

    def _instances(self, keys: Iterable[Key]) -> Iterator[Instance]:
        """The instances that derive rows in the staged state, with the symbols of the candidate."""
        rows = ((key, self.concrete(key)[1]) for key in keys if key[0] not in self.program.rules.folds)
        plain = [(key, row) for key, row in rows if UNKNOWN not in row]
        for key, _ in plain:
            self.program.want(key, self._depth())
        found = list(self.program.demand.supported(plain))
        for rule, key, binding in found:
            for instance in self._lifted_instances(rule, key, binding):
                self.program.add(instance)
                yield instance

    def _depth(self) -> int:
        return max((self.program.nodes[key].depth for key in self.model.changes), default=0)

    def _lifted_instances(self, rule: RuleParts, key: Key | None, binding: Binding) -> Iterator[Instance]:
        """An instance with symbols for the values that come from rows of the candidate. If a stored value equals one by
        chance, that is a condition."""
        if not self.values and not self.program.groups:
            yield from self.program.demand.completed(key, rule, binding)
            return
        lifted: Binding = {}
        head = None if key is None else rule.binding(key[1])
        for each in (head or {}, binding):
            lifted |= {name: value for name, value in each.items() if isinstance(value, Symbol)}
        for atom in rule.positive:
            names = variables(atom)
            if any(isinstance(binding.get(name), Symbol) or name not in binding for name in names):
                continue
            row = self.lifted(ground(atom, binding))[1]
            for name, value in zip(arguments(atom), row, strict=True):
                if isinstance(value, Symbol):
                    lifted.setdefault(name, value)
        lifted |= self._totals(rule, binding, lifted)
        given = {each for atom in (*rule.positive, rule.head) for each in arguments(atom)}
        # Values that are computed from symbols are computed again.
        known = {name: lifted.get(name, value) for name, value in binding.items() if name in lifted or name in given}
        made = False
        for instance in self.program.demand.completed(key, rule, known):
            made = True
            yield instance
        if not made:
            unlifted = self.program.demand.completed(key, rule, binding)
            yield from (each for each in unlifted if not any(map(self._is_witnessed, each.positive)))

    def _is_witnessed(self, key: Key) -> bool:
        """Test whether a row depends on the witnesses of symbols."""
        return self.lifted(key) != key and not self.world.stored(key)

    # ---- consequences of other fresh values -------------------------------------------------------------------------

    def spread(self) -> bool:
        """Add the instances with rows with symbols in their bodies, for all values of the symbols; return whether any
        is new."""
        made = 0
        self._note_symbolic()
        left = [key for key in sorted(self.model.true, key=repr) if has_symbol(key)]
        seen = {*left}
        self._there = {*left}
        while left and not self.is_cut:
            key = left.pop()
            for total in self._folded(key):
                if total not in seen:
                    seen.add(total)
                    self._there.add(total)
                    left.append(total)
            for instance in self._affected(key):
                made += 1
                if made > MOST_SPREAD:
                    self.is_cut = True
                    break
                self._take(instance)
                self._take_equal(instance)
                head = instance.head
                is_varying = head not in self._varying and self._varies(instance)
                if is_varying:
                    self._varying.add(head)
                    self._presume(head)
                if head not in seen and has_symbol(head):
                    self._there.add(head)
                elif not is_varying:
                    continue
                seen.add(head)
                left.append(head)
        for key in self._negated():
            for _, row in sorted((each for each in self.model.insert - {key} if each[0] == key[0]), key=repr):
                self._equate(key, row)
            if self.program.families.is_apart(key):
                continue
            stored = [row for row in self.program.demand.rows_like(*key) if self.world.stored((key[0], row))]
            if len(stored) > MOST_EQUATED:
                self.negations.append(key)
                continue
            for row in stored:
                self._equate(key, row)
        return bool(self._unexpanded) or self.program.is_grown

    def _affected(self, key: Key) -> Iterator[Instance]:
        """The instances that read a row with symbols, or a row that is present with some of their values."""
        for rule, place in self.program.rules.users.get(key[0], ()):
            yield from self._met(rule, place, key)
        for rule, atom in () if has_symbol(key) else self.program.rules.negators.get(key[0], ()):
            yield from self._matched(rule, (), unified(atom, key[1], {}))

    def _varies(self, instance: Instance) -> bool:
        """Test whether an instance holds for some values of symbols only."""
        if instance.head in self.program.request.insert:
            return False
        changing = bool(instance.conditions) or any(map(has_symbol, instance.negative))
        return changing or any(key in self._varying for key, _ in instance.body)

    def _presume(self, key: Key) -> None:
        """Register a row that the candidate presumes to stay, and that other values can delete."""
        node = self.program.nodes[key]
        if node.stage is Stage.UNEXPANDED and node.is_stored and not node.is_base and key in self.model.true:
            self._unexpanded.append(node)

    def _negated(self) -> list[Key]:
        """The base rows with symbols that must be absent: those of negated literals, or of views in them."""
        nodes, true = self.program.nodes, self.model.true
        used = (each for key in true if key in nodes for each in nodes[key].instances if self._is_true(each))
        left = list(dict.fromkeys(key for each in used for key in each.negative if has_symbol(key)))
        seen = {*left}
        while left:
            for instance in nodes[left.pop()].instances:
                further = [key for key in instance.positive if has_symbol(key) and key not in seen]
                seen.update(further)
                left += further
        return sorted((key for key in seen if nodes[key].is_base and UNKNOWN not in self.concrete(key)[1]), key=repr)

    def _equate(self, key: Key, row: Row) -> None:
        """Add the instance that a base row with symbols is present if it equals this stored or inserted row."""
        conditions = self.program.demand.equal(key[1], row)
        if conditions:
            self.program.want((key[0], row), self._depth())
            self.program.add(Instance(key, ((key[0], row),), (), tuple(conditions)))

    def foresee(self) -> None:
        """Add the instances with which requested rows violate constraints."""
        self.world.undo()
        for key in sorted(self.model.true, key=repr):
            self.foresee_row(key, self._depth())
        asked = [key for key in self.program.request.delete if key[0] in self.program.total_constraints]
        for rule, _, binding in list(self.program.demand.supported((key, key[1]) for key in asked)):
            for instance in self._lifted_instances(rule, None, binding):
                self._take(instance)

    def foresee_row(self, key: Key, depth: int) -> int:
        """Add the instances with which an inserted row violates constraints; return their number."""
        rules = [each for each in self.program.rules.users.get(key[0], ()) if each[0].head.relation in self.constraints]
        found = [instance for rule, place in rules for instance in self._met(rule, place, key)]
        for instance in found:
            self._take(instance, depth)
        return len(found)

    def _folded(self, key: Key) -> Iterator[Key]:
        """The rows of aggregates whose groups contain a row with symbols."""
        for fold in self.program.rules.folds.values():
            if fold.below == key[0] and fold.function != COUNT:
                total = self.program.demand.total(fold.view, key[1][: fold.width], fold.type)
                made = fold.view, (*key[1][: fold.width], total)
                self.program.want(made, self._depth())
                yield made

    def _take_equal(self, instance: Instance) -> None:
        """Add the instance for the known rows that its head equals with certain values of its symbols."""
        if not has_symbol(instance.head):
            return
        for key in [each for each in self.program.nodes if each[0] == instance.head[0] and each != instance.head]:
            if has_symbol(key) and key not in self.program.negated:
                continue
            conditions = self.program.demand.equal(instance.head[1], key[1])
            if conditions is not None:
                self.program.add(replace(instance, head=key, conditions=(*instance.conditions, *conditions)))

    def _take(self, instance: Instance, depth: int | None = None) -> None:
        head, depth = instance.head, self._depth() if depth is None else depth
        node = self.program.want(head, depth)
        if head[0] in self.constraints and not node.is_stored and head not in self.program.request.delete:
            self.program.deny(head, depth)
        self.program.add(instance)

    def _met(self, rule: RuleParts, place: int, key: Key) -> Iterator[Instance]:
        """The instances of a rule in which one literal is a row with symbols, and the other rows are present."""
        yield from self._matched(rule, (place,), unified(rule.positive[place], key[1], {}))

    def _matched(self, rule: RuleParts, done: tuple[int, ...], bound: Binding | None) -> Iterator[Instance]:
        """The instances of a rule in which these literals are bound, and the other rows are present."""
        for joined, known in self._joined(rule, done, None if bound is None else rule.with_constants(bound)):
            used = {name for name, value in known.items() if isinstance(value, Symbol)}
            others = tuple(
                at for at, atom in enumerate(rule.positive)
                if at not in joined and used.isdisjoint(variables(atom))
            )  # fmt: skip
            for binding in list(self.program.demand.matches(rule, others, known)):
                yield from self._lifted_instances(rule, None, binding)

    def _joined(
        self, rule: RuleParts, done: tuple[int, ...], known: Binding | None, start: int = 0
    ) -> Iterator[tuple[tuple[int, ...], Binding]]:
        """Bind the literals that share symbols with bound ones to rows with symbols, and others possibly to rows that
        are present with other values only; with the literals that are bound so."""
        if known is None:
            return
        symbols = {name for name, value in known.items() if isinstance(value, Symbol)}
        for at, atom in enumerate(rule.positive):
            if at not in done and symbols.intersection(variables(atom)):
                for other in sorted(self._there, key=repr):
                    if other[0] == atom.relation:
                        yield from self._joined(rule, (*done, at), unified(atom, other[1], known), start)
                return
        yield done, known
        for at, atom in enumerate(rule.positive):
            if at not in done and at >= start:
                for other in sorted(self._varying - self._there, key=repr):
                    if other[0] == atom.relation and not (self.world.is_local and self.world.holds(other)):
                        yield from self._joined(rule, (*done, at), unified(atom, other[1], known), at + 1)

    def _totals(self, rule: RuleParts, binding: Binding, lifted: Binding) -> Binding:
        """Symbols for values of groups that are only compared: all values that compare alike are denied together."""
        found: Binding = {}
        demand = self.program.demand
        for atom in rule.positive:
            if atom.relation not in self.program.rules.folds:
                continue
            name, head = arguments(atom)[-1], rule.head
            in_head = name in arguments(head) and head.relation not in self.program.total_constraints
            if demand.is_joined(name, rule) or name in lifted or in_head:
                continue
            group = ground(atom, {**binding, **lifted})[1][:-1]
            found[name] = demand.total(atom.relation, group, rule.types[name])
        return found

    def lifted(self, key: Key) -> Key:
        """Replace the witnesses in a row by the symbols of the candidate."""
        if not self.values:
            return key
        known = self._symbolic.get(key)
        if known is not None:
            return known
        if self.program.rules.is_base(key[0]):
            return key
        families = self.program.families
        row = []
        for place, value in enumerate(key[1]):
            family = families.of((key[0], place))
            row.append(next((s for s in self._fresh() if s.family == family and self._is(s, value)), value))
        return key[0], tuple(row)

    def _is(self, symbol: Symbol, value: Any) -> bool:
        return are_same(self.values.get(symbol.name, UNKNOWN), value)

    def _fresh(self) -> list[Symbol]:
        found = {v.name: v for key in self.model.insert for v in key[1] if isinstance(v, Symbol)}
        return list(found.values())

    def _group_rows(self, key: Key) -> list[Key]:
        """The rows of a group that the model has as absent, or does not have."""
        fold, row = self.program.rules.folds[key[0]], key[1][:-1]
        self.program.want(key, self._depth())
        group = self.program.groups[key[0], row]
        found = []
        for each in self.program.demand.rows_with(fold.below, self.concrete((fold.view, row))[1]):
            lifted = self.lifted((fold.below, each))
            if lifted not in group.rows:
                self.program.want_row(group, lifted[1], self._depth())
            if lifted not in self.model.true:
                found.append(lifted)
        return found

    def _missing_rows(self, key: Key) -> list[Key]:
        """The rows of a group that are absent, and present in the model."""
        group = self.program.groups[key[0], key[1][:-1]]
        return [each for each in group.rows if each in self.model.true and not self.holds(each)]

    def explain_groups(self, names: Collection[str]) -> None:
        """Find the rows in the groups with these names that were presumed to stay, and do not: conditions count
        them."""
        named = [total for name, total in self.program.totals.items() if name in names]
        keys = [(each.group[0], (*each.group[1], each)) for each in named if each.group in self.program.groups]
        self._explain([], [row for key in keys for row in self._missing_rows(key)])

    def _wrongly_true(self, key: Key) -> list[Key]:
        """For a row that is absent, and present in the model: the rows below it that are present, and absent in the
        model. Unexpanded rows on the way are registered."""
        left, seen, there = [key], {key}, list[Key]()
        while left:
            current = left.pop()
            node = self.program.nodes.get(current)
            if node is None or node.is_base:
                continue
            if current[0] in self.program.rules.folds:
                there += self._group_rows(current)
                wrong = self._missing_rows(current)
            else:
                if node.stage is Stage.UNEXPANDED:
                    self._unexpanded.append(node)
                wrong = []
                for instance in node.instances:
                    if not self._is_true(instance):
                        continue
                    wrong += [k for k in instance.positive if not self.holds(k)]
                    there += [k for k in instance.negative if self.holds(k)]
                    for k in instance.negative:
                        if has_symbol(k) and self.program.rules.is_base(k[0]) and self.world.stored(self.concrete(k)):
                            self._equate(k, self.concrete(k)[1])
            for each in wrong:
                if each not in seen:
                    seen.add(each)
                    left.append(each)
        return there

    _unexpanded: list[Node] = field(default_factory=list)

    def _is_true(self, instance: Instance) -> bool:
        true = self.model.true
        return all(key in true for key in instance.positive) and not any(key in true for key in instance.negative)

    @property
    def brought(self) -> frozenset[Key]:
        """The rows with symbols that are present with the tried values; found by `spread`."""
        nodes, folds = self.program.nodes, self.program.rules.folds
        return frozenset(
            key
            for key in self._there
            if key in self.model.insert or key[0] in folds or any(map(self._derives, nodes[key].instances))
        )

    def _derives(self, instance: Instance) -> bool:
        """Test whether an instance derives its head with the tried values."""
        return all(self.holds(key) == wanted for key, wanted in instance.body)

    def may_derive(self, instance: Instance) -> bool:
        """Test whether an instance can derive its head with some values."""
        return all(has_symbol(key) or self.holds(key) == wanted for key, wanted in instance.body)

    @property
    def presumed(self) -> list[Node]:
        """The rows that were presumed to stay, and do not."""
        return list(dict.fromkeys(self._unexpanded))
