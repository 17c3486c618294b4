"""The graph of changes that can follow from changes: what rules write, what they answer, and what lies between."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, CheckedRule, Clause, RuleAction
from upshot.check.strata import needs
from upshot.core.operations import DELETED, INSERTED, OPPOSITE, SIGNS, UPDATED
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Term, Variable

_WRITES = {"insert": INSERTED, "delete": DELETED}
Event = tuple[str, str]
"""A relation, and `inserted` or `deleted`."""


def written(rule: CheckedRule) -> Iterator[tuple[RuleAction, Event]]:
    """The changes that a rule's actions are."""
    for action in rule.actions:
        if action.kind != "call":
            yield action, (action.target, _WRITES[action.kind])


@dataclass(frozen=True, slots=True)
class Events:
    """The clauses of a program by what they read and by what they define."""

    users: Mapping[str, Sequence[Clause]]
    definitions: Mapping[str, Sequence[Clause]]

    @staticmethod
    def of(program: CheckedProgram) -> Events:
        users: dict[str, dict[int, Clause]] = {}
        definitions: dict[str, list[Clause]] = {}
        for clause in (*program.clauses, *(clause for rule in program.rules for clause in rule.asleep)):
            definitions.setdefault(clause.head.relation, []).append(clause)
            for need in needs(clause.head.relation, clause.body):
                users.setdefault(need.relation, {})[id(clause)] = clause
        return Events({name: tuple(found.values()) for name, found in users.items()}, definitions)

    def above(self, rule: CheckedRule, action: RuleAction) -> frozenset[Event]:
        """The event of an action, and all that can follow from it in views. A sign turns at every negation and is lost
        in aggregates."""
        values = known_values(rule, action)
        first = (action.target, _WRITES[action.kind])
        found = {first}
        waiting = [first]
        while waiting:
            relation, sign = waiting.pop()
            for clause in self.users.get(relation, ()):
                if (relation, sign) == first and not can_meet(values, relation, clause):
                    continue
                head = clause.head.relation
                for need in needs(head, clause.body):
                    if need.relation != relation:
                        continue
                    signs = {"": (sign,), "!": (OPPOSITE[sign],)}.get(need.how, (INSERTED, DELETED))
                    for event in ((head, each) for each in signs):
                        if event not in found:
                            found.add(event)
                            waiting.append(event)
        return frozenset(found)

    def answered(self, rule: CheckedRule) -> frozenset[Event]:
        """The events one of which must happen for the rule to find new instances."""
        if rule.becomes is not None:
            return frozenset(rule.triggers)
        windows = {table.schema.name: (table.relation, table.operation) for table in rule.windows}
        found: set[Event] = set()
        for clause in instance_clauses(rule):
            used = {windows[x.relation] for x in clause.body if isinstance(x, Atom) and x.relation in windows}
            found |= used or set(rule.triggers)
        return frozenset((relation, sign) for relation, operation in found for sign in SIGNS[operation])

    def meets(self, source: CheckedRule, action: RuleAction, rule: CheckedRule, event: Event) -> bool:
        """Test whether rows of the action can be rows that the rule asks its window for."""
        if event != (action.target, _WRITES[action.kind]) or rule.becomes is not None:
            return True
        if any(table.relation == action.target and table.operation == UPDATED for table in rule.windows):
            return True
        values = known_values(source, action)
        names = [table.schema.name for table in rule.windows if (table.relation, table.operation) == event]
        return any(can_meet(values, name, clause) for clause in rule.clauses for name in names)

    def read(self, rule: CheckedRule) -> frozenset[str]:
        """All relations that the rule's condition rests on."""
        windows = {table.schema.name: table.relation for table in rule.windows}
        clauses = (*rule.clauses, *rule.before, *self.definitions.get(rule.becomes or "", ()))
        waiting = [windows.get(a.relation, a.relation) for clause in clauses for x in clause.body for a in atoms(x)]
        waiting += [] if rule.becomes is None else [rule.becomes]
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                below = self.definitions.get(name, ())
                waiting += [atom.relation for clause in below for literal in clause.body for atom in atoms(literal)]
        return frozenset(found)

    def must_end(self, rules: Sequence[CheckedRule], everyone: Sequence[CheckedRule]) -> bool:
        """Test whether rules that set each other off come to rest in any case: what they insert nobody deletes, what
        they delete nobody inserts, and no value is computed, so that only finitely many rows can change."""
        all_writes = {event for rule in everyone for _, event in written(rule)}
        own = {event for rule in rules for _, event in written(rule)}
        if any((relation, OPPOSITE[operation]) in all_writes for relation, operation in own):
            return False
        if not any(operation == INSERTED for _, operation in own):
            return True
        reached = {name for rule in rules for action, _ in written(rule) for name, _ in self.above(rule, action)}
        made = [clause for name in reached for clause in self.definitions.get(name, ())]
        made += [clause for rule in rules for clause in rule.clauses]
        return not any(_computes(clause) for clause in made)


def instance_clauses(rule: CheckedRule) -> list[Clause]:
    """The clauses that give instances, those of helpers left out."""
    return [clause for clause in rule.clauses if clause.head.relation == rule.name]


def _computes(clause: Clause) -> bool:
    """Test whether a column of the head can get a value that no relation has."""
    bound = {t.name for x in clause.body if isinstance(x, Atom) for t in x.args if isinstance(t, Variable)}
    return any(not (isinstance(t, Constant) or (isinstance(t, Variable) and t.name in bound)) for t in clause.head.args)


# ---- rows that cannot be meant --------------------------------------------------------------------


def known_values(rule: CheckedRule, action: RuleAction) -> dict[int, Constant]:
    """The arguments of an action that are the same constant in every firing, by their place."""
    clauses = instance_clauses(rule)
    found: dict[int, Constant] = {}
    for place, column in enumerate(action.columns):
        values = [_constant(clause.head.args[column], clause) for clause in clauses]
        if values and values[0] is not None and all(value == values[0] for value in values):
            found[place] = values[0]
    return found


def _constant(term: Term, clause: Clause) -> Constant | None:
    """The constant that a term is, or that an equation of the clause makes it."""
    if isinstance(term, Constant):
        return term
    for literal in clause.body:
        match literal:
            case Comparison("=", Variable() as left, Constant() as right) if left == term:
                return right
            case Comparison("=", Constant() as left, Variable() as right) if right == term:
                return left
            case _:
                pass
    return None


def can_meet(values: Mapping[int, Constant], relation: str, clause: Clause) -> bool:
    """Test whether a row with these values can match a literal of the clause, as far as constants tell."""
    inside = False
    for literal in clause.body:
        atom = literal.body if isinstance(literal, Not) else literal
        if isinstance(atom, Atom):
            if atom.relation == relation and _matches(values, atom, clause):
                return True
        elif any(each.relation == relation for each in atoms(literal)):
            inside = True
    return inside


def _matches(values: Mapping[int, Constant], atom: Atom, clause: Clause) -> bool:
    given: dict[str, Constant] = {}
    for place, value in values.items():
        match atom.args[place]:
            case Constant() as constant:
                if constant.value != value.value:
                    return False
            case Variable(name):
                if given.setdefault(name, value).value != value.value:
                    return False
            case _:
                pass
    return all(_possible(literal, given) for literal in clause.body if isinstance(literal, Comparison))


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _possible(comparison: Comparison, given: Mapping[str, Constant]) -> bool:
    """Test whether a comparison can hold when these variables have these values."""
    sides = [given.get(t.name) if isinstance(t, Variable) else t for t in (comparison.left, comparison.right)]
    left, right = sides
    if not isinstance(left, Constant) or not isinstance(right, Constant):
        return True
    if left.value is None or right.value is None:
        return False
    return bool(_OPERATORS[comparison.op](left.value, right.value))


@dataclass(frozen=True, slots=True)
class HeardChanges:
    """Pairs of a relation and `inserted` or `deleted`: heard by the rules in a transaction `once` deferred rules run at
    its end only, and in one with `several` processing points."""

    once: frozenset[Event] = frozenset()
    several: frozenset[Event] = frozenset()


def heard_changes(program: CheckedProgram) -> HeardChanges:
    """The changes that the rules of a program listen to.

    A propagation reports the net change since the transaction began. A row that came before a turn of a rule and left
    after it is no such change, yet one of the window that begins with the turn. It is seen only if both signs are
    reported. So the opposite of what a rule listens to matters where the change itself can happen after one of its
    turns: by an action of a rule before the commit, or by a statement, after the turn of an immediate rule or a
    processing point.
    """
    if not program.rules:
        return HeardChanges()
    events = Events.of(program)
    early = [rule for rule in program.rules if rule.is_awake and rule.coupling != "after"]
    made = {event for rule in early for action, _ in written(rule) for event in events.above(rule, action)}
    once = {event for rule in program.rules for event in rule.hears}
    several = set(once)
    for rule in early:
        undone = rule.hears if rule.coupling == "immediate" else rule.hears & made
        once |= {(relation, OPPOSITE[operation]) for relation, operation in undone}
        several |= {(relation, OPPOSITE[operation]) for relation, operation in rule.hears}
    return HeardChanges(frozenset(once), frozenset(several))
