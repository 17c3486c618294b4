"""Search derivations top-down: rule instances are queried level by level, until the row is derived from base facts.

A derivation is the smaller the lower it is; every part of a smallest one is smallest itself, and among those it has the
fewest nodes. Only rows within the height of the derivation below the row are read: all rows of one level are queried
with one query for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from upshot.check.program import Clause
from upshot.core.errors import LimitError
from upshot.core.rows import Rows, one_nan
from upshot.core.schema import Schema
from upshot.reasons.concrete import (
    ConcreteRule,
    EngineQuery,
    InstanceQuery,
    Row,
    asked_rows,
    instances_question,
    row_shapes,
)

Key = tuple[str, Row]
"""A row of a relation."""

MOST_INSTANCES = 250_000


PORTION = 512
"""Rows per query where a further query costs little."""


class QueryState:
    """A state of a database that answers queries. `tag` distinguishes the queries of two states; where it `is_local`, a
    query costs only what it derives."""

    tag: str
    is_local: bool

    def answers(self, queries: Sequence[EngineQuery]) -> list[Rows]:
        """The answers to queries, together where that costs less."""
        raise NotImplementedError

    def ask(self, question: InstanceQuery, rows: list[Row]) -> Rows:
        (answer,) = self.answers([question.query(rows)])
        return answer

    def ask_all(self, questions: Sequence[tuple[InstanceQuery, list[Row]]]) -> list[Rows]:
        return self.answers([question.query(rows) for question, rows in questions])

    def query(self, schema: Schema, clause: Clause) -> Rows:
        """The rows that a clause derives for a head of its own."""
        (answer,) = self.answers([(schema, (clause,), {}, {})])
        return answer


@dataclass(slots=True, eq=False)
class RuleInstance:
    """A rule with values for its variables, and its premises over views."""

    head: Key
    rule: ConcreteRule
    binding: Row
    premises: tuple[Key, ...]
    missing: int = 0

    @property
    def order(self) -> tuple[Any, ...]:
        """The order among instances of equal size."""
        return self.rule.number, tuple((value is not None, value != value, value) for value in self.binding)


@dataclass(frozen=True, slots=True)
class Best:
    """The smallest derivation of a row: its height, its nodes, its last step."""

    height: int
    size: int
    instance: RuleInstance


@dataclass(slots=True)
class DerivationSearch:
    """The known derivations of rows in one state of a database."""

    world: QueryState
    rules: Mapping[str, tuple[ConcreteRule, ...]]
    schemas: Mapping[str, Schema]
    bounds: int = MOST_INSTANCES
    underived: Callable[[Sequence[Key]], set[Key]] | None = None
    """The rows of views among these that need no derivation."""
    instances: dict[Key, list[RuleInstance]] = field(default_factory=dict)
    seen: int = 0
    _uses: dict[Key, list[RuleInstance]] = field(default_factory=dict)
    _solved: set[Key] = field(default_factory=set)
    _asked: set[tuple[Key, bool]] = field(default_factory=set)
    _questions: dict[tuple[int, tuple[bool, ...]], InstanceQuery | None] = field(default_factory=dict)

    def best(self, root: Key) -> dict[Key, Best] | None:
        """The smallest derivations of a row and of its premises; None if it has none."""
        frontier, known, depth = [root], {root}, 0
        while True:
            depth += 1
            if self.world.is_local:
                self.expand(frontier, leaves=True)
            else:
                # A second query costs more than rows that will not be needed.
                self.expand_all(frontier)
            if root in self._solved:
                found = self.ranked(root)
                # All derivations up to the height of the queried levels are known.
                if found[root].height <= depth:
                    return found
            # A row derived from base facts alone has no lower derivation.
            open_ = [key for key in frontier if not any(not each.premises for each in self.instances.get(key, ()))]
            self.expand(open_, leaves=False)
            frontier = []
            for key in open_:
                for each in self.instances.get(key, ()):
                    for premise in each.premises:
                        if premise not in known:
                            known.add(premise)
                            frontier.append(premise)
            if not frontier:
                return self.ranked(root) if root in self._solved else None

    def best_of(self, roots: Iterable[Key]) -> dict[Key, Best]:
        """The smallest derivations of rows and of all that they can depend on, found together."""
        known = set(roots)
        frontier = list(known)
        while frontier:
            self.expand_all(frontier)
            below = (premise for key in frontier for each in self.instances.get(key, ()) for premise in each.premises)
            frontier = list(dict.fromkeys(premise for premise in below if premise not in known))
            known.update(frontier)
        return self.ranked()

    def expand(self, keys: Iterable[Key], *, leaves: bool) -> None:
        """Find the instances that derive these rows, from base relations alone or also from views."""
        self._take_all(self._to_ask(keys, leaves))

    def expand_all(self, keys: Sequence[Key]) -> None:
        """Find all instances that derive these rows."""
        self._take_all([*self._to_ask(keys, True), *self._to_ask(keys, False)])

    def _to_ask(self, keys: Iterable[Key], leaves: bool) -> list[tuple[ConcreteRule, tuple[bool, ...], list[Row]]]:
        """The rules of one kind that were not queried for these rows yet."""
        waiting = [key for key in keys if (key, leaves) not in self._asked]
        self._asked.update((key, leaves) for key in waiting)
        return [
            (rule, nulls, rows)
            for (view, nulls), rows in row_shapes(waiting).items()
            for rule in self.rules.get(view, ())
            if rule.is_leaf == leaves
        ]

    def _take_all(self, requests: Iterable[tuple[ConcreteRule, tuple[bool, ...], list[Row]]]) -> None:
        # In portions, so that a query with far too many answers is not computed to its end.
        portions = [
            (rule, nulls, some, question)
            for rule, nulls, rows in requests
            if (question := self._question(rule, nulls)) is not None
            for some in self._portions(rows)
        ]
        if self.world.is_local:
            for rule, nulls, rows, question in portions:
                self.take(rule, rows, self.world.ask(question, asked_rows(rows, nulls)))
            return
        answers = self.world.ask_all([(question, asked_rows(rows, nulls)) for _, nulls, rows, question in portions])
        for (rule, _, rows, _), found in zip(portions, answers, strict=True):
            self.take(rule, rows, found)

    def _portions(self, rows: list[Row]) -> list[list[Row]]:
        portion = PORTION if self.world.is_local else len(rows)
        return [rows[first : first + portion] for first in range(0, len(rows), portion)]

    def _question(self, rule: ConcreteRule, nulls: tuple[bool, ...]) -> InstanceQuery | None:
        shape = rule.number, nulls
        if shape not in self._questions:
            self._questions[shape] = instances_question(rule, nulls, self.schemas, self.world.tag)
        return self._questions[shape]

    def take(self, rule: ConcreteRule, rows: Sequence[Row], answers: Rows) -> None:
        """Add the instances of a rule that derive rows; each answer is a row's number and a binding."""
        self.seen += len(answers)
        if self.seen > self.bounds:
            raise out_of_bounds(self.bounds)
        view = rule.clause.head.relation
        found: list[RuleInstance] = []
        for number, *values in answers:
            binding = one_nan(tuple(values))
            premises = tuple((premise.relation, premise.row(binding)) for premise in rule.derived)
            found.append(RuleInstance((view, rows[number]), rule, binding, premises))
        underived = (
            self.underived([premise for each in found for premise in each.premises]) if self.underived else set()
        )
        for each in found:
            each.premises = tuple(premise for premise in each.premises if premise not in underived)
            self._add(each)

    def _add(self, instance: RuleInstance) -> None:
        self.instances.setdefault(instance.head, []).append(instance)
        for premise in set(instance.premises):
            self._uses.setdefault(premise, []).append(instance)
            instance.missing += premise not in self._solved
        newly = [instance.head] if not instance.missing and instance.head not in self._solved else []
        self._solved.update(newly)
        while newly:
            for user in self._uses.get(newly.pop(), ()):
                user.missing -= 1
                if not user.missing and user.head not in self._solved:
                    self._solved.add(user.head)
                    newly.append(user.head)

    def ranked(self, root: Key | None = None) -> dict[Key, Best]:
        """The smallest known derivations of all rows that have one, lowest first, until the root's."""
        ranked: dict[Key, Best] = {}
        height = 0
        ready = [each for found in self.instances.values() for each in found if not each.premises]
        missing: dict[int, int] = {}
        while ready and root not in ranked:
            height += 1
            newly: dict[Key, Best] = {}
            for each in ready:
                if each.head in ranked:
                    continue
                best = Best(height, size_of(each, ranked), each)
                other = newly.get(each.head)
                if other is None or (best.size, each.order) < (other.size, other.instance.order):
                    newly[each.head] = best
            ranked |= newly
            ready = self._made_ready(newly, missing)
        return ranked

    def heights(self) -> dict[Key, int]:
        """The heights of the lowest known derivations."""
        return {key: best.height for key, best in self.ranked().items()}

    def _made_ready(self, newly: Iterable[Key], missing: dict[int, int]) -> list[RuleInstance]:
        """The instances whose last underived premise is one of these rows; `missing` counts underived premises."""
        ready = []
        for key in newly:
            for user in self._uses.get(key, ()):
                missing[id(user)] = missing.get(id(user), len(set(user.premises))) - 1
                if not missing[id(user)]:
                    ready.append(user)
        return ready


def size_of(instance: RuleInstance, ranked: Mapping[Key, Best]) -> int:
    """The nodes of the derivation that ends with this instance, with the smallest ones of its premises."""
    own = 1 + len(instance.rule.literals) - len(instance.premises)
    return own + sum(ranked[premise].size for premise in instance.premises)


def used(best: Mapping[Key, Best], root: Key) -> Iterator[Key]:
    """The rows in the smallest derivation of a row, itself included, each once."""
    seen: set[Key] = {root}
    pending = [root]
    while pending:
        key = pending.pop()
        yield key
        for premise in best[key].instance.premises:
            if premise not in seen:
                seen.add(premise)
                pending.append(premise)


def out_of_bounds(bounds: int) -> LimitError:
    return LimitError(
        f"no derivation was found among {bounds:,} rule instances",
        code="explanation-bounds",
        help="raise `bounds`, or explain a row that depends on fewer others",
    )
