"""Rules for explanations: every premise is a whole row, and a query finds the instances that derive given rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check.names.variables import all_names, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER, Type
from upshot.rewrite.shapes import disjuncts, retyped
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Term, Test, Variable, Wildcard

Row = tuple[Any, ...]
Picks = tuple[tuple[int | None, Any], ...]
"""For each argument the index of its variable in a binding, or else its constant."""

EngineQuery = tuple[Schema, Sequence[Clause], Mapping[str, tuple[Schema, Sequence[Row]]], Mapping[str, Schema]]
"""A query to an engine: the head, clauses, given rows, relations that the clauses define."""

ASKED = "asked_rows"


@dataclass(frozen=True, slots=True)
class Premise:
    """A positive literal over a relation; `row` makes its row from a binding."""

    relation: str
    picks: Picks

    def row(self, binding: Row) -> Row:
        return tuple(value if place is None else binding[place] for place, value in self.picks)


@dataclass(frozen=True)
class ConcreteRule:
    """A clause whose positive literals name whole rows: a variable replaces `_`, an equation a computed argument.
    `names` are its variables outside aggregates, in the order of a binding; `literals` its body as written, each with
    its premise if it is a positive literal. `derived` are the premises over views."""

    number: int
    clause: Clause
    body: tuple[Literal, ...]
    types: Mapping[str, Type]
    names: tuple[str, ...]
    literals: tuple[tuple[Literal, Premise | None], ...]
    derived: tuple[Premise, ...]

    @property
    def is_leaf(self) -> bool:
        return not self.derived

    def values(self, binding: Row) -> dict[str, Any]:
        return dict(zip(self.names, binding, strict=True))


def concrete_rules(program: CheckedProgram) -> dict[str, tuple[ConcreteRule, ...]]:
    views = {clause.head.relation for clause in program.clauses}
    made: dict[str, list[ConcreteRule]] = {}
    # Two alternatives of a rule may be equal.
    for number, clause in enumerate(dict.fromkeys(program.clauses)):
        rule = concrete_rule(number, clause, program.schemas, views)
        made.setdefault(clause.head.relation, []).append(rule)
    return {view: tuple(rules) for view, rules in made.items()}


def concrete_rule(number: int, clause: Clause, schemas: Mapping[str, Schema], views: Collection[str]) -> ConcreteRule:
    making = _FreshVariables(set(all_names([clause.head, *clause.body])), dict(clause.types), schemas)
    atoms = [making.whole(literal) if isinstance(literal, Atom) else None for literal in clause.body]
    body = [atom or literal for atom, literal in zip(atoms, clause.body, strict=True)] + making.equations
    names = tuple(dict.fromkeys(n for literal in body for n in variables(literal, inside_aggregates=False)))
    places = {name: place for place, name in enumerate(names)}
    premises = [None if atom is None else Premise(atom.relation, _picks(atom.args, places)) for atom in atoms]
    return ConcreteRule(
        number, clause, tuple(body), making.types, names,
        tuple(zip(clause.body, premises, strict=True)),
        tuple(premise for premise in premises if premise is not None and premise.relation in views),
    )  # fmt: skip


def row_rule(number: int, relation: str, schemas: Mapping[str, Schema]) -> ConcreteRule:
    """The rule that derives the rows of a relation from themselves: its instances are the present rows."""
    schema = schemas[relation]
    atom = Atom(relation, tuple(Variable(f"X{place}") for place in range(schema.arity)))
    types = {f"X{place}": type for place, type in enumerate(schema.types)}
    return concrete_rule(number, Clause(atom, (atom,), types), schemas, ())


class _FreshVariables:
    def __init__(self, taken: set[str], types: dict[str, Type], schemas: Mapping[str, Schema]) -> None:
        self.taken, self.types, self.schemas = taken, types, schemas
        self.equations: list[Literal] = []

    def whole(self, atom: Atom) -> Atom:
        """The atom with a variable or constant for every argument."""
        columns = self.schemas[atom.relation].columns
        return replace(atom, args=tuple(map(self._named, atom.args, (column.type for column in columns))))

    def _named(self, term: Term, type: Type) -> Term:
        if isinstance(term, Variable | Constant):
            return term
        variable = self.fresh("V", type)
        if not isinstance(term, Wildcard):
            self.equations.append(Comparison("=", variable, term))
        return variable

    def fresh(self, base: str, type: Type) -> Variable:
        name = fresh_name(base, self.taken)
        self.taken.add(name)
        self.types[name] = type
        return Variable(name)


def _picks(args: Iterable[Term], places: Mapping[str, int]) -> Picks:
    picks: list[tuple[int | None, Any]] = []
    for term in args:
        match term:
            case Variable(name):
                picks.append((places[name], None))
            case Constant(value):
                picks.append((None, value))
            case _:
                raise AssertionError("a premise is made of variables and constants")
    return tuple(picks)


# ---- queries for instances ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """A query from numbered rows to bindings: `clause` derives the number and the binding from the number and the
    columns of `input`."""

    schema: Schema
    clause: Clause
    input: Schema
    helpers: tuple[Clause, ...] = ()
    """Clauses of relations that exist for this query only."""
    helper_schemas: Mapping[str, Schema] = field(default_factory=dict)

    def given(self, rows: Sequence[Row]) -> dict[str, tuple[Schema, Sequence[Row]]]:
        return {ASKED: (self.input, rows)}

    def query(self, rows: Sequence[Row]) -> EngineQuery:
        return self.schema, (self.clause, *self.helpers), self.given(rows), self.helper_schemas


def instances_question(
    rule: ConcreteRule, nulls: tuple[bool, ...], schemas: Mapping[str, Schema], tag: str
) -> InstanceQuery | None:
    """The query for the instances of the rule that derive rows with NULL in these places, by their other values. None
    if no instance can. A join never matches NULL, so each pattern of NULLs needs its own query."""
    head = rule.clause.head
    making = _FreshVariables({*rule.types, *all_names([head, *rule.body])}, dict(rule.types), schemas)
    args: list[Term] = [making.fresh("N", NUMBER)]
    columns = [Column("n", NUMBER)]
    tests: list[Literal] = []
    for place, (term, column, null) in enumerate(zip(head.args, schemas[head.relation].columns, nulls, strict=True)):
        if null:
            if not isinstance(term, Constant):
                tests.append(Test("is_null", (term,)))
            elif term.value is not None:
                return None
            continue
        if isinstance(term, Constant) and term.value is None:
            return None
        type = column.type.required()
        columns.append(Column(f"c{place}", type))
        if isinstance(term, Variable):
            args.append(term)
            continue
        args.append(making.fresh("A", type))
        tests.append(Comparison("=", args[-1], term))
    name = fresh_name(f"instances_{tag}_{rule.number}_{''.join('ny'[null] for null in nulls)}", schemas)
    return _question(name, args, columns, (*rule.body, *tests), rule.names, making.types, schemas)


def _question(
    name: str, args: Sequence[Term], columns: Sequence[Column], body: Sequence[Literal], wanted: Sequence[str],
    types: Mapping[str, Type], schemas: Mapping[str, Schema],
) -> InstanceQuery:  # fmt: skip
    input = Schema(ASKED, tuple(columns))
    head = Atom(name, (args[0], *map(Variable, wanted)))
    literals = (Atom(ASKED, tuple(args)), *body)
    clause = retyped(Clause(head, literals, types), {**schemas, ASKED: input})
    answer = (Column("n", NUMBER), *(Column(f"v{i}", clause.types[each]) for i, each in enumerate(wanted)))
    return InstanceQuery(Schema(name, answer, Role.VIEW), clause, input)


def asked_rows(rows: Sequence[Row], nulls: tuple[bool, ...]) -> list[Row]:
    """The rows for `instances_question`, numbered."""
    return [
        (number, *(value for value, null in zip(row, nulls, strict=True) if not null))
        for number, row in enumerate(rows)
    ]


def row_shapes(keys: Iterable[tuple[str, Row]]) -> dict[tuple[str, tuple[bool, ...]], list[Row]]:
    """The rows by relation and by the places that are NULL."""
    shapes: dict[tuple[str, tuple[bool, ...]], list[Row]] = {}
    for relation, row in keys:
        shapes.setdefault((relation, tuple(value is None for value in row)), []).append(row)
    return shapes


# ---- groups ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AggregateGroup:
    """The rows that an aggregate combines: `question` finds the solutions of its body for the values of `shared`
    variables; `atoms` are the positive literals of a solution. `clause` has the body as written, `body` with whole
    rows; `names` are the variables of a solution."""

    question: InstanceQuery
    shared: tuple[str, ...]
    atoms: tuple[Premise, ...]
    clause: Clause
    body: tuple[Literal, ...]
    names: tuple[str, ...]

    def rule(self, number: int) -> ConcreteRule:
        """The body as a rule whose instances are solutions."""
        atoms = iter(self.atoms)
        literals = tuple((each, next(atoms) if isinstance(each, Atom) else None) for each in self.clause.body)
        return ConcreteRule(number, self.clause, self.body, self.clause.types, self.names, literals, ())


def groups_of(
    rule: ConcreteRule, aggregate: Aggregate, place: int, schemas: Mapping[str, Schema], tag: str
) -> tuple[AggregateGroup, ...]:
    """The group of one aggregate of a rule, in one part for each alternative of its body."""
    bodies = disjuncts(aggregate.body)
    return tuple(_group(rule, body, schemas, f"{tag}_{rule.number}_{place}_{n}") for n, body in enumerate(bodies))


def _group(rule: ConcreteRule, inner: Sequence[Literal], schemas: Mapping[str, Schema], tag: str) -> AggregateGroup:
    outside = {*rule.names, *all_names([rule.clause.head])}
    shared = tuple(name for name in dict.fromkeys(n for each in inner for n in variables(each)) if name in outside)
    making = _FreshVariables({*rule.types, *all_names([rule.clause.head, *rule.body])}, dict(rule.types), schemas)
    number = making.fresh("N", NUMBER)
    atoms = [making.whole(literal) if isinstance(literal, Atom) else None for literal in inner]
    body = [atom or literal for atom, literal in zip(atoms, inner, strict=True)] + making.equations
    names = tuple(dict.fromkeys(n for each in body for n in variables(each, inside_aggregates=False)))
    columns = [Column("n", NUMBER), *(Column(f"c{i}", rule.types[name].optional()) for i, name in enumerate(shared))]
    name = fresh_name(f"group_{tag}", schemas)
    wanted = tuple(dict.fromkeys((*names, *shared)))
    question = _question(name, [number, *map(Variable, shared)], columns, body, wanted, making.types, schemas)
    places = {each: at for at, each in enumerate(wanted)}
    premises = tuple(Premise(a.relation, _picks(a.args, places)) for a in atoms if a is not None)
    clause = Clause(Atom(name, tuple(map(Variable, wanted))), tuple(inner), making.types)
    return AggregateGroup(question, shared, premises, clause, tuple(body), wanted)
