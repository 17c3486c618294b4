"""The graph of changes that can cause others: writes of rules, the events that trigger them, the views between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, CheckedRule, Clause, RuleAction
from upshot.check.strata import needs
from upshot.core.operations import DELETED, INSERTED, OPPOSITE, SIGNS, UPDATED
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Term, Variable
from upshot.values.conditions import COMPARISONS

_WRITES = {"insert": INSERTED, "delete": DELETED}
Event = tuple[str, str]
"""A relation, and `inserted` or `deleted`."""


def written(rule: CheckedRule) -> Iterator[tuple[RuleAction, Event]]:
    """The actions of a rule that change relations, each with its change."""
    for action in rule.actions:
        if action.kind != "call":
            yield action, (action.target, _WRITES[action.kind])


@dataclass(frozen=True, slots=True)
class Events:
    """The clauses of a program by the relations that they read, and by the relation that they define."""

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

    def consequences(self, rule: CheckedRule, action: RuleAction) -> frozenset[Event]:
        """The event of an action, and all events that it can cause in views. Negation inverts the sign of a change; an
        aggregate can have changes of both signs."""
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

    def triggers(self, rule: CheckedRule) -> frozenset[Event]:
        """The events of which at least one must happen before the rule can have new instances."""
        if rule.becomes is not None:
            return frozenset(rule.triggers)
        windows = {table.schema.name: (table.relation, table.operation) for table in rule.windows}
        found: set[Event] = set()
        for clause in instance_clauses(rule):
            used = {windows[x.relation] for x in clause.body if isinstance(x, Atom) and x.relation in windows}
            found |= used or set(rule.triggers)
        return frozenset((relation, sign) for relation, operation in found for sign in SIGNS[operation])

    def can_match(self, source: CheckedRule, action: RuleAction, rule: CheckedRule, event: Event) -> bool:
        """Test whether rows of the action can match the window literals of the rule."""
        if event != (action.target, _WRITES[action.kind]) or rule.becomes is not None:
            return True
        if any(table.relation == action.target and table.operation == UPDATED for table in rule.windows):
            return True
        values = known_values(source, action)
        names = [table.schema.name for table in rule.windows if (table.relation, table.operation) == event]
        return any(can_meet(values, name, clause) for clause in rule.clauses for name in names)

    def relations(self, rule: CheckedRule) -> frozenset[str]:
        """All relations that the condition of the rule depends on."""
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
        """Test whether rules that trigger each other always terminate: no rule deletes the rows that they insert or
        inserts those that they delete, and no value is computed, so that only finitely many rows can change."""
        all_writes = {event for rule in everyone for _, event in written(rule)}
        own = {event for rule in rules for _, event in written(rule)}
        if any((relation, OPPOSITE[operation]) in all_writes for relation, operation in own):
            return False
        if not any(operation == INSERTED for _, operation in own):
            return True
        reached = {name for rule in rules for action, _ in written(rule) for name, _ in self.consequences(rule, action)}
        made = [clause for name in reached for clause in self.definitions.get(name, ())]
        made += [clause for rule in rules for clause in rule.clauses]
        return not any(_computes(clause) for clause in made)


def instance_clauses(rule: CheckedRule) -> list[Clause]:
    """The clauses that derive instances, without those of helpers."""
    return [clause for clause in rule.clauses if clause.head.relation == rule.name]


def _computes(clause: Clause) -> bool:
    """Test whether a column of the head can have a value that is in no relation."""
    bound = {t.name for x in clause.body if isinstance(x, Atom) for t in x.args if isinstance(t, Variable)}
    return any(not (isinstance(t, Constant) or (isinstance(t, Variable) and t.name in bound)) for t in clause.head.args)


# ---- rows that cannot match -----------------------------------------------------------------------


def known_values(rule: CheckedRule, action: RuleAction) -> dict[int, Constant]:
    """The arguments of an action that are the same constant in every firing, by place."""
    clauses = instance_clauses(rule)
    found: dict[int, Constant] = {}
    for place, column in enumerate(action.columns):
        values = [_constant(clause.head.args[column], clause) for clause in clauses]
        if values and values[0] is not None and all(value == values[0] for value in values):
            found[place] = values[0]
    return found


def _constant(term: Term, clause: Clause) -> Constant | None:
    """The value of a term that is a constant, or equal to one by an equation of the clause."""
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
    """Test whether a row with these values can match a literal of the clause, judged by its constants."""
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
    bound: dict[str, Constant] = {}
    for place, value in values.items():
        match atom.args[place]:
            case Constant() as constant:
                if constant.value != value.value:
                    return False
            case Variable(name):
                if bound.setdefault(name, value).value != value.value:
                    return False
            case _:
                pass
    return all(_possible(literal, bound) for literal in clause.body if isinstance(literal, Comparison))


def _possible(comparison: Comparison, values: Mapping[str, Constant]) -> bool:
    """Test whether a comparison can hold for these values of variables."""
    sides = [values.get(t.name) if isinstance(t, Variable) else t for t in (comparison.left, comparison.right)]
    left, right = sides
    if not isinstance(left, Constant) or not isinstance(right, Constant):
        return True
    if left.value is None or right.value is None:
        return False
    return bool(COMPARISONS[comparison.op].python(left.value, right.value))


@dataclass(frozen=True, slots=True)
class RelevantChanges:
    """The changes that rules react to: in a transaction whose deferred rules run `once`, at its end, and in one with
    `several` processing points."""

    once: frozenset[Event] = frozenset()
    several: frozenset[Event] = frozenset()


def relevant_changes(program: CheckedProgram) -> RelevantChanges:
    """The changes that the rules of a program react to.

    A propagation reports the net change since the transaction began. A row inserted before a turn of a rule and deleted
    after it is no net change, but it is a change of the window that begins with the turn, and found only if both signs
    are reported. So the opposite of a change is needed too if the change can happen after a turn of the rule: by an
    action of a rule before the commit, or by a statement after the turn of an immediate rule or a processing point.
    """
    if not program.rules:
        return RelevantChanges()
    events = Events.of(program)
    early = [rule for rule in program.rules if rule.is_awake and rule.coupling != "after"]
    made = {event for rule in early for action, _ in written(rule) for event in events.consequences(rule, action)}
    once = {event for rule in program.rules for event in rule.reacts_to}
    several = set(once)
    for rule in early:
        undone = rule.reacts_to if rule.coupling == "immediate" else rule.reacts_to & made
        once |= {(relation, OPPOSITE[operation]) for relation, operation in undone}
        several |= {(relation, OPPOSITE[operation]) for relation, operation in rule.reacts_to}
    return RelevantChanges(frozenset(once), frozenset(several))
