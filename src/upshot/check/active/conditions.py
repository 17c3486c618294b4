"""The conditions of active rules: identity, triggers, and the clauses that derive the instances."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from upshot.check.active.nervous import Differentials, Views
from upshot.check.active.transitions import States, as_old
from upshot.check.clause.clause_form import Conjunction, alternatives
from upshot.check.clause.clauses import ClauseMaker, Inferred
from upshot.check.constraints import inferred_schema, retyped
from upshot.check.names.variables import all_names, atoms, fresh_name, terms_of
from upshot.check.program import Clause, WindowTable
from upshot.core.operations import DELETED, INSERTED, UPDATED
from upshot.core.schema import Role, Schema
from upshot.syntax.ast import ActiveRule, And, Atom, Constant, EventClause, Formula, Not, Test, Variable, Wildcard

BOTH = (INSERTED, DELETED)
EVENTS = {"insert": (INSERTED,), "delete": (DELETED,), "update": (UPDATED,), "change": BOTH}
"""The changes that each kind of event reacts to."""


@dataclass(slots=True)
class RuleCondition:
    """The fields of a `CheckedRule` that define when it fires."""

    identity: tuple[int, ...]
    triggers: tuple[tuple[str, str], ...] = ()
    windows: tuple[WindowTable, ...] = ()
    clauses: tuple[Clause, ...] = ()
    helpers: Mapping[str, Schema] = field(default_factory=dict)
    expanded: Mapping[str, str] = field(default_factory=dict)
    before: tuple[Clause, ...] = ()
    before_schema: Schema | None = None
    becomes: Schema | None = None
    """A new view with `becomes_clauses`, or without clauses an existing one."""
    becomes_clauses: tuple[Clause, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """The `names` of other hidden views, the tables with the `bindings` for which the rule is active, and the `views`
    that a nervous condition expands."""

    names: Collection[str] = ()
    bindings: tuple[Schema, ...] = ()
    views: Views = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule without errors in names and types. `head` derives an instance, `schema` is its shape; `maker` checks it
    against the columns that the actions fill, `free` does not."""

    rule: ActiveRule
    head: Atom
    schema: Schema
    maker: ClauseMaker
    free: ClauseMaker
    states: States
    bindings: Sequence[Schema] = ()

    def clauses(self, bodies: Iterable[Formula]) -> tuple[Clause, ...]:
        """The clauses that derive the instances for which the rule is active."""
        maker = replace(self.maker, schemas=self.states.schemas)
        return made_clauses(self.head, self.schema, self.active(bodies), maker, self.rule)

    def active(self, bodies: Iterable[Formula], names: Container[str] | None = None) -> Iterator[Formula]:
        """The bodies joined with the bindings for which the rule is active, restricted to parameters of these names."""
        for body in bodies:
            if not self.bindings:
                yield body
            for table in self.bindings:
                for literal in self._bound(table, names):
                    yield And((literal, body))

    def _bound(self, table: Schema, names: Container[str] | None) -> Iterator[Formula]:
        kept = [i for i, column in enumerate(table.columns) if names is None or column.name in names]
        columns = tuple(table.columns[i] for i in kept)
        args = tuple(Variable(column.name) for column in columns)
        for found in _matching(Atom(table.name, args), Schema(table.name, columns, Role.BASE), self.states):
            assert isinstance(found, And)
            atom, *tests = found.parts
            assert isinstance(atom, Atom)
            terms = dict(zip(kept, atom.args, strict=True))
            wide = tuple(terms.get(i, Wildcard()) for i in range(table.arity))
            yield And((replace(atom, args=wide), *tests))


def condition_of(
    rule: ActiveRule, head: Atom, schema: Schema, nervous: bool, maker: ClauseMaker, taken: Taken
) -> RuleCondition:
    """The condition of the rule. `maker` has the columns that the actions fill as targets."""
    free = replace(maker, targets=())
    nodes = [*head.args, *_formulas(rule)]
    states = States(free, all_names(nodes), rule.span)
    states.schemas.update((table.name, table) for table in taken.bindings)
    work = TypedRule(rule, head, schema, maker, free, states, taken.bindings)
    identity = _identity(rule, head)
    stated = rule.condition is not None and any(atom.state for atom in atoms(rule.condition))
    if rule.event is not None:
        found = _on_event(work, identity, strict=not (nervous or stated))
    elif stated:
        found = _on_any_change(work, identity)
    elif nervous:
        found = _nervous(work, identity, taken.views)
    else:
        found = _becoming(work, identity, taken.names)
    clauses = (*found.clauses, *found.before)
    used = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
    found.windows = tuple(table for table in states.windows.values() if table.schema.name in used)
    found.helpers = states.helpers
    return found


def made_clauses(
    head: Atom, schema: Schema, bodies: Iterable[Formula], maker: ClauseMaker, rule: ActiveRule
) -> tuple[Clause, ...]:
    """The clauses of a head over these bodies, without contradictory ones."""
    made: list[Inferred] = []
    for body in bodies:
        made += maker.rule((head,), body, rule.span, infer=True)
    return tuple(dict.fromkeys(retyped(each.clause, schema) for each in made if not _contradicts_itself(each.clause)))


def _contradicts_itself(clause: Clause) -> bool:
    """Test whether the body has an atom and its negation; with NULL in a row, both can hold."""
    there = {literal for literal in clause.body if isinstance(literal, Atom)}
    return any(
        isinstance(literal, Not)
        and literal.body in there
        and all(
            isinstance(t, Constant) or (isinstance(t, Variable) and not clause.types[t.name].nullable) for t in args
        )
        for literal in clause.body
        for args in [terms_of(literal)]
    )


def _formulas(rule: ActiveRule) -> list[Formula]:
    event: list[Formula] = [] if rule.event is None else [event_atom(rule.event)]
    return event + ([] if rule.condition is None else [rule.condition])


def event_atom(event: EventClause) -> Atom:
    """The literal over the rows of the event; for an update it has the columns of two rows."""
    return replace(event.atom, state=UPDATED) if event.kind == "update" else event.atom


def _identity(rule: ActiveRule, head: Atom) -> tuple[int, ...]:
    """The places that identify an instance: the parameters, or else all variables of the actions, that are arguments of
    a positive literal; computed values depend on these."""
    listed = len(rule.parameters) or len(head.args)
    positive = {
        term.name
        for conjunction in alternatives(And(tuple(_formulas(rule))))
        for literal in conjunction
        if isinstance(literal, Atom)
        for term in literal.args
        if isinstance(term, Variable)
    }
    return tuple(
        place for place, term in enumerate(head.args[:listed]) if isinstance(term, Variable) and term.name in positive
    )


# ---- a condition becomes true -------------------------------------------------------------------


def _becoming(work: TypedRule, identity: tuple[int, ...], hidden: Iterable[str]) -> RuleCondition:
    """Strict semantics: a view over the identity, whose inserted rows fire the rule."""
    rule = work.rule
    assert rule.condition is not None
    if (selected := _selected(work, identity)) is not None:
        return selected
    taken = {*work.states.schemas, *hidden}
    head = Atom(fresh_name(f"{rule.name}_becomes", taken), tuple(work.head.args[i] for i in identity), span=rule.span)
    names = {term.name for term in head.args if isinstance(term, Variable)}
    maker = replace(work.free, schemas=work.states.schemas)
    made = [
        each
        for body in work.active([rule.condition], names)
        for each in maker.rule((head,), body, rule.span, infer=True)
    ]
    schema = inferred_schema(head, made, work.free.findings, Role.VIEW)
    if schema is None:
        return RuleCondition(identity)
    found = RuleCondition(identity, ((schema.name, INSERTED),), becomes=schema)
    found.becomes_clauses = tuple(dict.fromkeys(retyped(each.clause, schema) for each in made))
    if identity == tuple(range(len(work.head.args))):
        return found
    work.states.schemas[schema.name] = schema
    window = Atom(work.states.window(schema.name, INSERTED), head.args)
    found.clauses = work.clauses(And((joined, rule.condition)) for joined in _matching(window, schema, work.states))
    return found


def _selected(work: TypedRule, identity: tuple[int, ...]) -> RuleCondition | None:
    """The condition without a view, if it selects whole rows of one relation: then the inserted rows of that relation
    fire the rule."""
    choices = alternatives(work.rule.condition)
    reading = [literal for literal in choices[0] if any(True for _ in atoms(literal))]
    if len(choices) > 1 or len(reading) != 1 or not isinstance(reading[0], Atom) or _has_strategy(work.rule):
        return None
    atom = reading[0]
    names = {term.name for term in atom.args if isinstance(term, Variable)}
    if not all(isinstance(term, Variable | Constant) for term in atom.args) or len(names) != len(identity):
        return None
    found = RuleCondition(identity, ((atom.relation, INSERTED),))
    whole = atom.args == work.head.args and len(names) == len(atom.args)
    if len(choices[0]) == 1 and whole and not work.bindings:
        return replace(found, becomes=work.free.schemas[atom.relation])
    window = replace(atom, relation=work.states.window(atom.relation, INSERTED))
    found.clauses = work.clauses([And(tuple(window if literal is atom else literal for literal in choices[0]))])
    return found


def _has_strategy(rule: ActiveRule) -> bool:
    """Test whether the rule has a strategy for its view, and so needs a view."""
    return any(option == "strategy" for option, _ in rule.options)


def _matching(window: Atom, schema: Schema, states: States) -> Iterator[Formula]:
    """The literal, and a variant for each set of its nullable columns that are NULL: NULL joins with nothing, so a
    variant tests both sides with `is_null`."""
    optional = [i for i, column in enumerate(schema.columns) if column.type.nullable]
    for count in range(len(optional) + 1):
        for nulls in combinations(optional, count):
            others = {i: states.variable("Null") for i in nulls}
            args = tuple(others.get(i, term) for i, term in enumerate(window.args))
            tests = [Test("is_null", (term,)) for i, other in others.items() for term in (other, window.args[i])]
            yield And((Atom(window.relation, args), *tests))


# ---- a condition holds, and something changed -----------------------------------------------------


def _nervous(work: TypedRule, identity: tuple[int, ...], views: Views) -> RuleCondition:
    """Nervous semantics: one differential for each literal, see `nervous.py`."""
    rule, states = work.rule, work.states
    assert rule.condition is not None
    found = Differentials(states, views)
    bodies = [And(body) for conjunction in alternatives(rule.condition) for body in found.of(conjunction)]
    clauses = (*work.clauses(bodies), *states.take_clauses())
    expanded = {name: view for view, name in found.expanded.items()}
    return RuleCondition(identity, tuple(found.triggers), clauses=clauses, expanded=expanded)


# ---- events and transitions -----------------------------------------------------------------------


def _on_event(work: TypedRule, identity: tuple[int, ...], strict: bool) -> RuleCondition:
    """Join the event rows of the window with the condition; strict semantics exclude instances that held before."""
    rule = work.rule
    assert rule.event is not None
    event = rule.event.atom
    operations = EVENTS[rule.event.kind]
    found = RuleCondition(identity, tuple((event.relation, each) for each in operations))
    found.clauses = _transition_clauses(work, rule.condition, operations)
    if strict and rule.condition is not None and any(True for _ in atoms(rule.condition)):
        names = tuple(work.head.args[i] for i in identity)
        columns = tuple(work.schema.columns[i] for i in identity)
        head = Atom(fresh_name(f"{rule.name}_before", work.states.schemas), names, span=rule.span)
        found.before_schema = Schema(head.relation, columns, Role.VIEW)
        bodies = _bodies(work, as_old(rule.condition), operations)
        maker = work.states.maker
        made = made_clauses(head, found.before_schema, bodies, maker, rule)
        found.before = (*made, *work.states.take_clauses())
    return found


def _on_any_change(work: TypedRule, identity: tuple[int, ...]) -> RuleCondition:
    """A condition that reads other states: every change of a relation in it triggers the rule."""
    condition = work.rule.condition
    assert condition is not None
    triggers = {
        (atom.relation, each): None
        for atom in atoms(condition)
        for each in ((UPDATED,) if atom.state == UPDATED else BOTH)
    }
    return RuleCondition(identity, tuple(triggers), clauses=_transition_clauses(work, condition, ()))


def _transition_clauses(work: TypedRule, condition: Formula | None, operations: Iterable[str]) -> tuple[Clause, ...]:
    clauses = work.clauses(_bodies(work, condition, operations))
    return (*clauses, *work.states.take_clauses())


def _bodies(work: TypedRule, condition: Formula | None, operations: Iterable[str]) -> Iterator[Formula]:
    """The alternatives of event and condition, over the current state and the tables of the window."""
    event = work.rule.event
    starts: list[Conjunction] = [()]
    if event is not None:
        starts = [(replace(event.atom, state=operation),) for operation in operations]
    for start in starts:
        for conjunction in alternatives(condition):
            yield work.states.body((*start, *conjunction))
