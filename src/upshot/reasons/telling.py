"""The findings as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from upshot.check.program import CheckedProgram
from upshot.core.rows import Rows
from upshot.reasons.concrete import AggregateGroup, ConcreteRule, Row, groups_of
from upshot.reasons.derivation import ABSENT, AGGREGATE, BASE, CONDITION, RULE, Derivation
from upshot.reasons.search import Key, QueryState, RuleInstance, one_nan
from upshot.reasons.wording import absence_text, is_aggregate, literal_text, row_text, rule_text, shown_name
from upshot.syntax.ast import Aggregate, Atom, Comparison, Not

KEPT = 100
"""Solutions of a group that a derivation holds."""
SORTED = 10_000
"""Of larger groups, those kept are any."""

Place = tuple[int, Row, int]
"""Of a folded group: rule, binding, position in the body."""


@dataclass(slots=True)
class Telling:
    """Makes derivations of rule instances in one state of a database."""

    program: CheckedProgram
    world: QueryState
    _views: frozenset[str] = frozenset()
    _groups: dict[tuple[int, int], tuple[AggregateGroup, ...]] = field(default_factory=dict)
    _folded: dict[Place, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._views = frozenset(clause.head.relation for clause in self.program.clauses)

    def prepare(self, instances: Iterable[RuleInstance]) -> None:
        """Queries the groups that these instances fold, one query per aggregate, all together."""
        asked: dict[tuple[int, int], tuple[ConcreteRule, Aggregate, list[Row]]] = {}
        for each in instances:
            for place, (literal, _) in enumerate(each.rule.literals):
                folded = each.rule.number, each.binding, place
                if not (isinstance(literal, Comparison) and isinstance(literal.right, Aggregate)):
                    continue
                if folded not in self._folded:
                    asked.setdefault((each.rule.number, place), (each.rule, literal.right, []))[2].append(each.binding)
                    self._folded[folded] = ((), 0)
        groups = [
            (place, rule, bindings, group)
            for (_, place), (rule, aggregate, bindings) in asked.items()
            for group in self._group(rule, aggregate, place)
        ]
        answers = self.world.ask_all(
            [(group.question, _shared_values(group, rule, bindings)) for _, rule, bindings, group in groups]
        )
        for (place, rule, bindings, group), rows in zip(groups, answers, strict=True):
            self._fold(rule, group, place, bindings, rows)

    def _group(self, rule: ConcreteRule, aggregate: Aggregate, place: int) -> tuple[AggregateGroup, ...]:
        shape = rule.number, place
        if shape not in self._groups:
            self._groups[shape] = groups_of(rule, aggregate, place, self.program.schemas, self.world.tag)
        return self._groups[shape]

    def _fold(self, rule: ConcreteRule, group: AggregateGroup, place: int, bindings: list[Row], answers: Rows) -> None:
        """Add the solutions of one alternative; one of several alternatives is shown, and counted, for each."""
        found: dict[int, list[Row]] = {}
        for number, *solution in _ordered(answers):
            found.setdefault(number, []).append(one_nan(tuple(solution)))
        for number, binding in enumerate(bindings):
            shown, count = self._folded[rule.number, binding, place]
            solutions = found.get(number, [])
            more = (self._solution(group, each) for each in islice(solutions, KEPT - len(shown)))
            self._folded[rule.number, binding, place] = ((*shown, *more), count + len(solutions))

    def _solution(self, group: AggregateGroup, solution: Row) -> str:
        told = [row_text(self.program, atom.relation, atom.row(solution)) for atom in group.atoms]
        return ", ".join(told) or "once"

    def derivation(self, instance: RuleInstance, below: Iterable[Derivation]) -> Derivation:
        """The derivation that ends with an instance, over those of its premises in views, in order. The groups it folds
        were prepared."""
        left = iter(below)
        parts = tuple(self.part(instance, place, left) for place in range(len(instance.rule.literals)))
        relation, row = instance.head
        return Derivation(
            RULE, row_text(self.program, relation, row), shown_name(self.program, relation), row,
            rule_text(instance.rule.clause, self.program), parts,
            height=1 + max((part.height for part in parts), default=0), size=1 + sum(part.size for part in parts),
        )  # fmt: skip

    def part(self, instance: RuleInstance, place: int, below: Iterator[Derivation]) -> Derivation:
        """The premise that one literal of the rule's body is in an instance; what it says of a view comes from
        `below`."""
        rule, binding = instance.rule, instance.binding
        literal, premise = rule.literals[place]
        if premise is not None:
            key = premise.relation, one_nan(premise.row(binding))
            return next(below) if premise.relation in self._views else self.base(key)
        values = rule.values(binding)
        if isinstance(literal, Not) and isinstance(literal.body, Atom):
            return Derivation(ABSENT, absence_text(literal, values, rule.types), literal.body.relation)
        told = literal_text(literal, values, rule.types)
        if is_aggregate(literal):
            group, count = self._folded[(rule.number, binding, place)]
            return Derivation(AGGREGATE, told, group=group, count=count)
        return Derivation(CONDITION, told)

    def base(self, key: Key) -> Derivation:
        """A base fact; what a view was given goes by the view's name."""
        return Derivation(BASE, row_text(self.program, *key), shown_name(self.program, key[0]), key[1])


def _shared_values(group: AggregateGroup, rule: ConcreteRule, bindings: list[Row]) -> list[Row]:
    """The query for the solutions of a group, for each binding of its rule."""
    values = [rule.values(binding) for binding in bindings]
    return [(number, *(each[name] for name in group.shared)) for number, each in enumerate(values)]


def _ordered(rows: Rows) -> Iterable[Row]:
    return rows.sorted() if len(rows) <= SORTED else rows
