"""The relevant ground program of a request: rows that can matter, instances of rules that derive them, groups.

It is partial, and grows during the search. A row of a view is

    unexpanded    only its presence in the stored state is known; another truth value is a deviation
    supported     the instances that derive it in the stored state are known; derivation by others is a deviation
    exhausted     all instances that its demand finds are known

A candidate with deviations is not tried yet: the deviating rows are expanded. A candidate without deviations is tried,
and instances that the trial shows to be missing are added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, islice, product
from typing import Any

from upshot.revise.built_ins import variables
from upshot.revise.conditions import Condition, Subject, names_of
from upshot.revise.demand import Demand, Instance, has_symbol
from upshot.revise.ordered_values import Linear, value_at
from upshot.revise.placeholders import Symbol
from upshot.revise.request import INSERT, Key, Request, Row
from upshot.revise.rules import GroupedView, InnerAggregate, RuleParts, arguments

MOST_SUPPORTED = 1_000
"""Instances that are added at a time for a row with the value of an inner aggregate."""


class Stage(IntEnum):
    UNEXPANDED = 0
    SUPPORTED = 1
    EXHAUSTED = 2


Pattern = tuple[str, Row]
"""A base relation, and a row of it in which `UNKNOWN` may be anything."""


@dataclass(slots=True, eq=False)
class Node:
    """A row of the ground program. `depth` is the length of the chain of insertions that needs it."""

    key: Key
    is_base: bool
    is_stored: bool
    depth: int
    stage: Stage = Stage.UNEXPANDED
    instances: dict[Instance, None] = field(default_factory=dict)
    further: Iterator[Instance | None] | None = None
    lacks: int = 0
    """The least number of body rows that an instance not yet known can lack."""

    @property
    def level(self) -> float:
        """The level to which it is expanded."""
        if self.stage is Stage.EXHAUSTED:
            return math.inf
        return -1 if self.stage is Stage.UNEXPANDED else self.lacks


@dataclass(slots=True, eq=False)
class GroupNode:
    """A group of an aggregate: its known rows, and an iterator over further ones."""

    fold: GroupedView
    row: Row
    depth: int
    rows: dict[Key, None] = field(default_factory=dict)
    further: Iterator[Row] | None = None
    is_read: bool = False
    """True if its stored rows have been read."""
    is_exhausted: bool = False


class GroundProgram:
    """The rows, instances and groups known so far."""

    def __init__(self, demand: Demand, request: Request) -> None:
        self.demand, self.request = demand, request
        self.world, self.rules, self.families = demand.world, demand.rules, demand.families
        self.nodes: dict[Key, Node] = {}
        self._views: list[Node] = []
        self.groups: dict[tuple[str, Row], GroupNode] = {}
        self.subjects: dict[Subject, None] = {}
        self._equated: set[str] = set()
        self.denied: dict[Key, None] = {}
        """Rows of constraints that must not be derived."""
        self.staying: dict[Key, list[tuple[Condition, ...]]] = {}
        """The conditions with which a denied row with symbols is a stored row, which may stay."""
        self.exclusive: dict[tuple[Key, Key], None] = {}
        """Rows that share a key."""
        self._by_key: dict[tuple[str, tuple[int, ...], Row], list[Key]] = {}
        self.total_constraints: frozenset[str] = frozenset()
        """Constraints whose rows contain values of aggregates: only stored rows may remain."""
        self.negated: set[Key] = set()
        self._values_found = 0
        self.is_grown = True
        self.most_fresh = max(self.families.fresh - 1, 0)
        for key in (*sorted(request.insert, key=repr), *sorted(request.delete, key=repr)):
            self.want(key, 0)

    @property
    def totals(self) -> dict[str, Symbol]:
        return self.demand.totals

    def group_of(self, total: str) -> GroupNode | None:
        """The group whose value has this name, if it is known."""
        return self.groups.get(self.totals[total].group or ("", ()))

    @property
    def determined(self) -> set[str]:
        """Fresh values that equations can determine: they do not count as new."""
        found = {name for each in self.subjects if isinstance(each, Linear) and len(each.parts) > 1
                 for name, _ in each.parts}  # fmt: skip
        for group in self.groups.values():
            for _, row in group.rows:
                amount = group.fold.amount_in(row)
                if isinstance(amount, Symbol):
                    found.update(variables(amount.written))
        return found | self._equated

    # ---- rows -------------------------------------------------------------------------------------------------------

    def want(self, key: Key, depth: int) -> Node:
        """The node of a row, created if it is new. A shorter chain of insertions lowers its depth, and that of its body
        rows."""
        node = self.nodes.get(key)
        if node is not None:
            if depth < node.depth:
                node.depth = depth
                for instance in node.instances:
                    self._want_body(instance, node)
            return node
        stored = not has_symbol(key) and self.world.stored(key)
        node = self.nodes[key] = Node(key, self.rules.is_base(key[0]), stored, depth)
        self.is_grown = True
        self._note_keys(key)
        if key[0] in self.rules.folds:
            self._want_group(key, depth)
        elif not node.is_base and not stored:
            self._views.append(node)
        return node

    def _note_keys(self, key: Key) -> None:
        schema = self.rules.program.schemas[key[0]]
        for places in schema.keys:
            value = tuple(key[1][place] for place in places)
            others = self._by_key.setdefault((key[0], tuple(places), value), [])
            for other in others:
                self.exclusive[other, key] = None
            others.append(key)

    def views_in_order(self) -> Iterator[Node]:
        """The rows of views that are not stored, including those added during the iteration."""
        place = 0
        while place < len(self._views):
            yield self._views[place]
            place += 1

    def deny(self, key: Key, depth: int) -> None:
        """Add a row of a constraint that must not be derived."""
        self.want(key, depth)
        if key not in self.denied:
            self.denied[key] = None
            self.is_grown = True

    def note_staying(self) -> None:
        """Find the stored rows that denied rows with symbols can equal, except those that the request deletes."""
        for key in [each for each in self.denied if has_symbol(each) and each not in self.staying]:
            self.world.undo()
            stored = [] if self.families.is_apart(key) else self.demand.rows_like(*key)
            may_stay = (row for row in stored if (key[0], row) not in self.request.delete)
            found = (self.demand.equal(key[1], row) for row in may_stay)
            self.staying[key] = [tuple(conditions) for conditions in found if conditions is not None]
            for condition in chain.from_iterable(self.staying[key]):
                self.note(condition)

    def exclude(self, one: Key, other: Key, depth: int) -> None:
        """Add two rows that share a key."""
        for key in (one, other):
            self.want(key, depth)
        if (one, other) not in self.exclusive and (other, one) not in self.exclusive:
            self.exclusive[one, other] = None
            self.is_grown = True

    def deny_totals(self, constraints: Iterable[str]) -> None:
        """Find the constraints whose rows contain values of aggregates: all values are denied together."""
        self.total_constraints = frozenset(
            name
            for name in constraints
            if name in self.rules.folds or any(map(self._names_total, self.rules.by_view.get(name, ())))
        )

    def _names_total(self, rule: RuleParts) -> bool:
        totals = (arguments(atom)[-1] for atom in rule.positive if atom.relation in self.rules.folds)
        return any(each in arguments(rule.head) for each in totals)

    # ---- instances --------------------------------------------------------------------------------------------------

    def add(self, instance: Instance) -> bool:
        """Add an instance; return whether it is new."""
        node = self.nodes[instance.head]
        if instance in node.instances:
            return False
        node.instances[instance] = None
        self.is_grown = True
        for condition in instance.conditions:
            self.note(condition)
        self.negated.update(instance.negative)
        self._want_body(instance, node)
        if self.rules.computes and instance.head in self.request.insert:
            for key in instance.positive:
                if self.nodes[key].is_base and not self.nodes[key].is_stored:
                    self.families.note(key)
        return True

    def note(self, condition: Condition) -> None:
        """Register the subject of a condition."""
        if condition.signs == {0} and not self.is_constant(condition.subject):
            self._equated.update(names_of(condition.subject))
        if condition.subject not in self.subjects:
            self.subjects[condition.subject] = None
            self.is_grown = True

    def is_constant(self, subject: Subject) -> bool:
        """Test whether a subject compares a fresh value with a constant of rules."""
        if not isinstance(subject, Linear) or len(subject.parts) > 1:
            return False
        symbol = self.demand.fresh.get(subject.parts[0][0])
        return symbol is not None and self.families.is_constant(value_at(-subject.more, symbol.type), symbol.family)

    def _want_body(self, instance: Instance, node: Node) -> None:
        self._look_up([instance])
        for key in (*instance.positive, *instance.negative):
            known = self.nodes.get(key)
            stored = known.is_stored if known else (not has_symbol(key) and self.world.stored(key))
            self.want(key, node.depth + (not stored))

    def _look_up(self, instances: Iterable[Instance]) -> None:
        """Looks up together which rows of bodies are stored."""
        rows = (key for each in instances for key, _ in each.body if key not in self.nodes and not has_symbol(key))
        self.world.look_up(rows)

    def support(self, nodes: Iterable[Node], most: int) -> None:
        """Add the instances that derive rows in the stored state, and those of stored rows in their bodies, level by
        level, until there are more than `most`."""
        self.world.undo()
        frontier = [node for node in nodes if node.stage is Stage.UNEXPANDED]
        made = 0
        while frontier and made <= most:
            for node in frontier:
                node.stage = Stage.SUPPORTED
                self.is_grown = True
            plain = [(node.key, node.key[1]) for node in frontier if not has_symbol(node.key)]
            before = list(self.nodes)
            found = [
                instance
                for rule, key, binding in self.demand.supported(plain)
                for instance in self.demand.completed(key, rule, binding)
            ]
            self._look_up(found)
            made += sum(map(self.add, found))
            new = islice(self.nodes.values(), len(before), None)
            frontier = [n for n in new if not n.is_base and n.is_stored and n.key[0] not in self.rules.folds]

    def expand(self, node: Node, most: int) -> int:
        """Add at most `most` further instances for a row, those that lack the fewest rows first; their number."""
        self.world.undo()
        if node.stage is Stage.UNEXPANDED:
            self.demand.prefetch(node.key)
            self.support([node], most)
        if node.further is None:
            node.further = self._further(node)
        count = 0
        for instance in node.further:
            if instance is None:
                self.is_grown = True
                return count
            count += self.add(instance)
            if count >= most:
                return count
        node.stage = Stage.EXHAUSTED
        self.is_grown = True
        return count

    def _further(self, node: Node) -> Iterator[Instance | None]:
        """The further instances; None comes before each greater number of missing rows."""
        rules = [rule for rule in self.rules.by_view.get(node.key[0], ()) if rule.binding(node.key[1]) is not None]
        most = max((len(rule.positive) for rule in rules), default=0)
        start = node.lacks = 0 if has_symbol(node.key) else 1
        for missing in range(start, most + 1):
            if missing > start:
                node.lacks = missing
                yield None
            for rule in rules:
                known = rule.binding(node.key[1])
                if known is not None and missing <= len(rule.positive):
                    yield from self.demand.lack(node.key, rule, known, missing)

    def lacked(self, node: Node) -> list[Pattern] | None:
        """Patterns of base rows of which each further instance lacks one; None if there are none."""
        found: list[Pattern] = []
        for rule in self.rules.by_view.get(node.key[0], ()):
            known = rule.binding(node.key[1])
            if known is None or len(rule.positive) < node.lacks:
                continue
            base = [atom for atom in rule.positive if self.rules.is_base(atom.relation)]
            if node.lacks <= len(rule.positive) - len(base):
                return None
            for atom in base:
                pattern = self.demand.pattern(atom, known)
                found.append((atom.relation, pattern))
        return found

    # ---- groups -----------------------------------------------------------------------------------------------------

    def _want_group(self, key: Key, depth: int) -> None:
        fold, row = self.rules.folds[key[0]], key[1][:-1]
        group = self.groups.get((fold.view, row))
        if group is None:
            group = self.groups[fold.view, row] = GroupNode(fold, row, depth)
        group.depth = min(group.depth, depth)

    def want_row(self, group: GroupNode, row: Row, depth: int) -> None:
        """Add a row to a group, and its variants with other values of an inner aggregate."""
        fold, key = group.fold, (group.fold.below, row)
        keys = [key]
        if fold.inner is not None and row[fold.inner.place] is not None:
            type = self.rules.program.schemas[fold.below].columns[fold.inner.place].type
            total = self.demand.total(fold.inner.view, tuple(row[place] for place in fold.inner.group), type)
            keys += [fold.with_value(key, value) for value in (total, *fold.inner.default)]
        for each in keys:
            if each not in group.rows:
                group.rows[each] = None
                self.is_grown = True
            self.want(each, depth)

    def gather(self) -> None:
        """Add the stored rows, and the known rows, to their groups."""
        if self._values_found != self.families.found:
            # The domains have grown: all rows are expanded again.
            self._values_found = self.families.found
            for node in self.nodes.values():
                node.further, node.stage = None, min(node.stage, Stage.SUPPORTED)
        if not self.groups:
            return
        self.world.undo()
        while unread := [group for group in self.groups.values() if not group.is_read]:
            for group in unread:
                group.is_read = True
                if not any(isinstance(value, Symbol) for value in group.row):
                    for row in self.demand.rows_with(group.fold.below, group.row):
                        self.want_row(group, row, group.depth)
        widths: dict[str, set[int]] = {}
        by_row: dict[tuple[str, Row], list[GroupNode]] = {}
        for group in self.groups.values():
            widths.setdefault(group.fold.below, set()).add(group.fold.width)
            by_row.setdefault((group.fold.below, group.row), []).append(group)
        for key in list(self.nodes):
            for width in widths.get(key[0], ()):
                for group in by_row.get((key[0], key[1][:width]), ()):
                    if key not in group.rows:
                        self.want_row(group, key[1], self.nodes[key].depth)
        for group in list(self.groups.values()):
            inner = group.fold.inner
            if inner is not None:
                for key in list(group.rows):
                    self._support_total(self.nodes[key], inner)
        if not all(group.is_read for group in self.groups.values()):
            self.gather()

    def _support_total(self, node: Node, inner: InnerAggregate) -> None:
        """Add the instances of a row with the value of an inner aggregate that lack only the row of the aggregate."""
        total = node.key[1][inner.place]
        is_open = isinstance(total, Symbol) and total.group is not None and node.key[0] not in self.rules.folds
        while is_open and node.stage is not Stage.EXHAUSTED and node.lacks < 2:
            self.expand(node, MOST_SUPPORTED)

    def expand_group(self, group: GroupNode, most: int) -> int:
        """Add at most `most` rows that a group can gain; return their number."""
        self.world.undo()
        if group.further is None:
            group.further = self._further_rows(group)
        count = 0
        for row in group.further:
            if (group.fold.below, row) not in group.rows:
                self.want_row(group, row, group.depth + 1)
                self.is_grown = True
                count += 1
            if count >= most:
                return count
        group.is_exhausted = True
        self.is_grown = True
        return count

    def _further_rows(self, group: GroupNode) -> Iterator[Row]:
        fold, schema = group.fold, self.rules.program.schemas[group.fold.below]
        columns = [((fold.below, at), column.type) for at, column in enumerate(schema.columns)][fold.width :]
        is_folded = fold.inner is not None and fold.below in self.rules.folds
        is_made = fold.below in self.rules.computing or (fold.inner is not None and not is_folded)
        columns = columns[:-1] if is_folded else columns
        domains = [list(self._column_values(*each)) for each in columns if not is_made]
        if self.rules.is_base(fold.below) and self.demand.preferences.is_frozen(fold.below, INSERT):
            self.demand.frozen[fold.below] = None
            return
        found: Iterator[Row] = ((*group.row, *values) for values in product(*domains))
        if is_folded:
            type = schema.columns[-1].type
            found = ((*row, self.demand.total(fold.below, row, type)) for row in found)
        if is_made:
            found = self.demand.computed_rows(fold.below, group.row)
        yield from (row for row in found if self.demand.fits((fold.below, row)))

    def _column_values(self, column: tuple[str, int], type: Any) -> Iterator[Any]:
        for value in self.families.column_domain(column, type):
            if isinstance(value, Symbol):
                self.demand.note(value)
            yield value
        if type.nullable:
            yield None
