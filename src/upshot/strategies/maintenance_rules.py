"""The rules that compute the changes of stored views, and the states of the relations that they read.

Deletions follow derivations of stored rows. In a view that keeps the best row of each group, the first derivation of a
stored row may have used a worse row that was replaced since; then the stored rows of a cycle can support each other
without other support. This is impossible if every recursive rule is strict (`is_strict`): if a premise had been worse
when it derived the row, its better value would have derived a better row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.schema import Lattice, Role, Schema
from upshot.core.types import Kind, Type
from upshot.rewrite.shapes import aggregates, atoms_of, clauses_by_head, conjunction, row_variables, with_atom
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Constant, Not, Term, Variable, Wildcard

Rules = TypeVar("Rules", bound="ViewRules")

STATES = (
    "old", "del", "red", "open", "check", "proven", "gone", "kept", "ins", "new", "plus", "minus", "gain", "loss",
)  # fmt: skip


class RuleStage(Enum):
    DELETE = "delete"
    REDERIVE = "rederive"
    CHECK = "check"
    PROVE = "prove"
    INSERT = "insert"
    STATE = "state"
    NET = "net"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class StateOf:
    """The content of a generated relation: `state` is one of `STATES`, of `relation`."""

    relation: str
    state: str


@dataclass(frozen=True, slots=True)
class MaintenanceRule:
    """A generated clause. `driver` is the body position of its delta literal, `source` the original clause."""

    name: str
    stage: RuleStage
    clause: Clause
    driver: int | None
    source: Clause | None


@dataclass(frozen=True, slots=True)
class MaintenanceProgram:
    """`states` maps every relation of the rules to its meaning; `program` has the same rules with declarations.

    The N and E rules and the first literal of R compare whole rows, with NULL equal to itself; all other literals join
    as in any program.
    """

    rules: tuple[MaintenanceRule, ...]
    states: Mapping[str, StateOf]
    program: CheckedProgram


class RelationStates:
    """The names of the states of relations, assigned at the first lookup: the name of the relation for its old state,
    else the name with the state as suffix, and a number if a relation of the user has that name."""

    def __init__(self, program: CheckedProgram) -> None:
        self._program = program
        self._names: dict[StateOf, str] = {}
        self._taken = set(program.schemas)

    def name(self, relation: str, state: str) -> str:
        key = StateOf(relation, state)
        if key not in self._names:
            self._names[key] = relation if state == "old" else fresh_name(f"{relation}_{state}", self._taken)
            self._taken.add(self._names[key])
        return self._names[key]

    def atom(self, atom: Atom, state: str) -> Atom:
        """The atom over another state of its relation."""
        return replace(atom, relation=self.name(atom.relation, state))

    def row(self, relation: str, state: str) -> Atom:
        """The atom with one variable per column."""
        return Atom(self.name(relation, state), tuple(map(Variable, self.types(relation))))

    def types(self, relation: str) -> dict[str, Type]:
        """The types of the variables in `row`."""
        schema = self._program.schemas[relation]
        return dict(zip(row_variables(schema), schema.types, strict=True))

    def entered(self) -> dict[str, StateOf]:
        return {name: key for key, name in self._names.items()}


def chosen_layers(program: CheckedProgram, views: Collection[str] | None) -> list[tuple[str, ...]]:
    """The strata of the requested views, in order; None: all. An unknown name is an error."""
    known = [view for layer in program.strata for view in layer]
    for view in () if views is None else views:
        if view not in known:
            raise UsageError(
                f"`{view}` is not a view of the program", code="unknown-view", help=did_you_mean(view, known)
            )
    chosen = set(known if views is None else views)
    return [layer for layer in program.strata if not chosen.isdisjoint(layer)]


def rules_by_view(
    kind: type[Rules], program: CheckedProgram, views: Collection[str] | None, states: RelationStates
) -> Iterator[Rules]:
    """The rules of each requested view, and of the views that are mutually recursive with it, in order."""
    layers, clauses = chosen_layers(program, views), clauses_by_head(program.clauses)
    maintained = frozenset(view for layer in layers for view in layer)
    for layer in layers:
        for view in layer:
            yield kind(program, states, frozenset(layer), maintained, view, tuple(clauses[view]))


@dataclass(frozen=True, slots=True)
class ViewRules:
    """The rules of one view; `layer` are the views that it is mutually recursive with, `maintained` all views that get
    rules. Methods that take `defined` add the relations to it for which they yield N' and N''."""

    program: CheckedProgram
    states: RelationStates
    layer: frozenset[str]
    maintained: frozenset[str]
    view: str
    clauses: tuple[Clause, ...]

    @property
    def is_aggregate(self) -> bool:
        return any(aggregates(clause) for clause in self.clauses)

    def algorithm_1(self, defined: set[str]) -> Iterator[MaintenanceRule]:
        """D, N1, N', R, N2, I, N3, N'', E1 and E2 of one view."""
        if self.lattice is not None:
            yield from self.improvement(defined)
            return
        inputs = self.inputs(defined)
        yield from self.driven(RuleStage.DELETE)
        yield kept_rule("N1", self.view, "del", self.states)
        yield from self.inputs_without_deleted(inputs)
        yield from map(self.rederive, self.clauses)
        yield added_rule("N2", self.view, "red", self.states)
        yield from self.driven(RuleStage.INSERT)
        yield added_rule("N3", self.view, "ins", self.states)
        yield from self.inserted_inputs(inputs)
        yield self.net("E1", "plus", "ins", ("old",))
        yield self.net("E2", "minus", "del", ("ins", "red"))

    @property
    def lattice(self) -> Lattice | None:
        return self.program.schemas[self.view].lattice

    def improvement(self, defined: set[str]) -> Iterator[MaintenanceRule]:
        """The rules of a view that keeps the best row of each group. A group whose row may have lost a derivation is
        derived again, with any value (R), together with insertions (I); the new state keeps the best of the remaining
        and the derived rows, so that a better row also deletes another (E2)."""
        inputs = self.inputs(defined)
        yield from self.driven(RuleStage.DELETE)
        yield kept_rule("N1", self.view, "del", self.states)
        yield from self.inputs_without_deleted(inputs)
        yield from map(self.derive_again, self.clauses)
        yield from self.driven(RuleStage.INSERT)
        yield added_rule("N2", self.view, "ins", self.states)
        yield from self.inserted_inputs(inputs)
        yield self.net("E1", "plus", "new", ("old",))
        yield self.net("E2", "minus", "old", ("new",))

    def aggregate(self, defined: set[str]) -> Iterator[MaintenanceRule]:
        """A, E1 and E2 of an aggregate view. The engine evaluates A for changed groups only."""
        inputs = self.inputs(defined)
        for pair in zip(self.inputs_without_deleted(inputs), self.inserted_inputs(inputs), strict=True):
            yield from pair
        for clause in self.clauses:
            yield aggregate_rule(clause, self.states)
        yield self.net("E1", "plus", "new", ("old",))
        yield self.net("E2", "minus", "old", ("new",))

    def inputs_without_deleted(self, inputs: Iterable[str]) -> Iterator[MaintenanceRule]:
        """The rules N'."""
        for number, name in enumerate(inputs, start=1):
            yield kept_rule(f"N'{number}", name, self.delta(name, "del"), self.states)

    def inserted_inputs(self, inputs: Iterable[str]) -> Iterator[MaintenanceRule]:
        """The rules N''."""
        for number, name in enumerate(inputs, start=1):
            yield added_rule(f"N''{number}", name, self.delta(name, "ins"), self.states)

    def delta(self, relation: str, sign: str) -> str:
        """The state that drives a rule: `ins` or `del` of a base relation or of the own stratum, else the net
        change."""
        if relation in self.layer or self.program.schemas[relation].role is Role.BASE:
            return sign
        return {"ins": "plus", "del": "minus"}[sign]

    def derived_state(self, sign: str) -> str:
        """The state that the driven rules derive."""
        return sign

    def inputs(self, defined: set[str]) -> list[str]:
        """The relations read here whose new state is not defined yet; they are added to `defined`."""
        read = dict.fromkeys(atom.relation for clause in self.clauses for _, atom, _ in atoms_of(clause))
        found = [name for name in read if name not in self.maintained and name not in defined]
        defined.update(found)
        return found

    def driven(self, stage: RuleStage) -> Iterator[MaintenanceRule]:
        """The rules (Di) or (Ii): one per atom of each clause, the others in the old or the new state."""
        letter, sign, others = ("D", "del", "old") if stage is RuleStage.DELETE else ("I", "ins", "new")
        for clause in self.clauses:
            for number, (position, atom, negated) in enumerate(atoms_of(clause), start=1):
                # Insertions into a negated relation remove solutions, deletions from it add some.
                against = {"del": "ins", "ins": "del"}[sign] if negated else sign
                body = [in_state(literal, others, self.states) for literal in clause.body]
                body[position] = self.states.atom(atom, self.delta(atom.relation, against))
                head = self.states.atom(clause.head, self.derived_state(sign))
                made = replace(clause, head=head, body=tuple(body))
                if sign == "del" and self.lattice is not None:
                    made = self.of_stored(made, clause.head)
                yield MaintenanceRule(f"{letter}{number}", stage, made, position, clause)

    def rederive(self, clause: Clause) -> MaintenanceRule:
        deleted = self.states.atom(clause.head, "del")
        body = (deleted, *(in_state(literal, "new", self.states) for literal in clause.body))
        made = replace(clause, head=self.states.atom(clause.head, "red"), body=body)
        return MaintenanceRule("R", RuleStage.REDERIVE, made, 0, clause)

    def of_stored(self, rule: Clause, head: Atom) -> Clause:
        """The rule of a view that keeps best rows, for the stored row of its group: the derived row if all rules are
        strict, else the row with any value."""
        assert self.lattice is not None
        types, args = dict(rule.types), list(rule.head.args)
        layer = [clause for clause in self.program.clauses if clause.head.relation in self.layer]
        if not is_strict(layer, self.layer, self.program.schemas):
            name = fresh_name("V", types)
            types[name] = self.program.schemas[self.view].types[self.lattice.column]
            args[self.lattice.column] = Variable(name)
        stored = replace(self.states.atom(head, "old"), args=tuple(args))
        return replace(rule, head=replace(rule.head, args=tuple(args)), body=(*rule.body, stored), types=types)

    def derive_again(self, clause: Clause) -> MaintenanceRule:
        """The rule R of a view that keeps best rows: the group of a deleted row, derived with any value."""
        assert self.lattice is not None
        args = list(clause.head.args)
        args[self.lattice.column] = Wildcard()
        deleted = self.states.atom(replace(clause.head, args=tuple(args)), "del")
        body = (deleted, *(in_state(literal, "new", self.states) for literal in clause.body))
        made = replace(clause, head=self.states.atom(clause.head, "ins"), body=body)
        return MaintenanceRule("R", RuleStage.INSERT, made, 0, clause)

    def net(self, name: str, state: str, candidates: str, without: Iterable[str]) -> MaintenanceRule:
        minus = tuple(Not(self.states.row(self.view, each)) for each in without)
        body: tuple[Literal, ...] = (self.states.row(self.view, candidates), *minus)
        return row_rule(name, RuleStage.NET, self.view, state, body, self.states)


def kept_rule(name: str, relation: str, removed: str, states: RelationStates) -> MaintenanceRule:
    """`r_new :- r, !r_del.`"""
    body = (states.row(relation, "old"), Not(states.row(relation, removed)))
    return row_rule(name, RuleStage.STATE, relation, "new", body, states)


def added_rule(name: str, relation: str, added: str, states: RelationStates) -> MaintenanceRule:
    """`r_new :- r_ins.`"""
    return row_rule(name, RuleStage.STATE, relation, "new", (states.row(relation, added),), states)


def row_rule(
    name: str, stage: RuleStage, relation: str, state: str, body: tuple[Literal, ...], states: RelationStates
) -> MaintenanceRule:
    """A rule that derives whole rows of one state of a relation from other states."""
    return MaintenanceRule(name, stage, Clause(states.row(relation, state), body, states.types(relation)), None, None)


def in_state(literal: Literal, state: str, states: RelationStates) -> Literal:
    """The literal over another state of its relation; built-ins stay as they are."""
    return with_atom(literal, lambda atom: states.atom(atom, state))


def aggregate_rule(clause: Clause, states: RelationStates) -> MaintenanceRule:
    """The rule A: an aggregate clause in the new state."""
    match clause.body:
        case (Atom() as rows, Comparison(right=Aggregate() as fold) as comparison):
            inner = And(tuple(in_state(literal, "new", states) for literal in conjunction(fold.body)))
            body = (states.atom(rows, "new"), replace(comparison, right=replace(fold, body=inner)))
        case _:
            raise AssertionError(f"not in normal form: the aggregate clause of `{clause.head.relation}`")
    made = replace(clause, head=states.atom(clause.head, "new"), body=body)
    return MaintenanceRule("A", RuleStage.INSERT, made, None, clause)


def assembled(
    program: CheckedProgram,
    rules: Iterable[MaintenanceRule],
    states: RelationStates,
    *,
    by: str,
    in_waves: bool = False,
) -> MaintenanceProgram:
    """The rules with declarations of their relations; relations without rules are inputs. Rules that run `in_waves`
    need no strata."""
    rules = tuple(rules)
    entered = states.entered()
    defined = {rule.clause.head.relation for rule in rules}
    schemas = {}
    places = {name: position for position, name in enumerate(program.schemas)}
    for name, meaning in sorted(entered.items(), key=lambda item: _place(item[1], places)):
        source = program.schemas[meaning.relation]
        keys = source.keys if meaning.state == "old" else ()
        lattice = source.lattice if meaning.state in ("ins", "new") and name in defined else None
        role = Role.VIEW if name in defined else Role.BASE
        schemas[name] = Schema(name, source.columns, role, keys, lattice=lattice)
    clauses = tuple(rule.clause for rule in rules)
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    if in_waves:
        return MaintenanceProgram(rules, entered, replace(empty, clauses=clauses, schemas=schemas))
    return MaintenanceProgram(rules, entered, stratified(empty, clauses, schemas, by=by))


def _place(meaning: StateOf, places: Mapping[str, int]) -> tuple[int, int]:
    """The order of declarations: that of the program's relations, the states of one relation together."""
    return places[meaning.relation], STATES.index(meaning.state)


def is_strict(clauses: Iterable[Clause], layer: Collection[str], schemas: Mapping[str, Schema]) -> bool:
    """Test whether the head's value of every rule changes with each value read from a row of the component."""
    return all(_is_strict(clause, layer, schemas) for clause in clauses)


def _is_strict(clause: Clause, layer: Collection[str], schemas: Mapping[str, Schema]) -> bool:
    head = schemas[clause.head.relation].lattice
    value = clause.head.args[head.column] if head is not None else Constant(0)
    equations = {
        literal.left.name: literal.right
        for literal in clause.body
        if isinstance(literal, Comparison) and literal.op == "=" and isinstance(literal.left, Variable)
    }
    for literal in clause.body:
        if isinstance(literal, Atom) and literal.relation in layer:
            lattice = schemas[literal.relation].lattice
            if lattice is not None and not _is_injective(value, literal.args[lattice.column], equations, clause):
                return False
    return True


def _is_injective(term: Term, source: Term, equations: Mapping[str, Term], clause: Clause) -> bool:
    """Test whether different values of the source give different values of the term, all else equal."""
    while isinstance(term, Variable):
        if term == source:
            return True
        if term.name not in equations:
            return False
        found = equations[term.name]
        # Equations can be cyclic: each is followed once.
        equations = {name: value for name, value in equations.items() if name != term.name}
        if isinstance(found, Call) and clause.types[term.name].kind is Kind.FLOAT:
            return False  # rounding can give the same float
        term = found
    if not isinstance(term, Call):
        return False
    dependent = [arg for arg in term.args if _is_injective(arg, source, equations, clause)]
    match term.function:
        case "+" | "-" | "neg":
            return len(dependent) == 1
        case "*":
            others = [arg for arg in term.args if arg not in dependent]
            return len(dependent) == 1 and all(isinstance(arg, Constant) and arg.value != 0 for arg in others)
    return False
