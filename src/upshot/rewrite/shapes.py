"""The shapes of clauses: atoms, recursion, whole rows, aggregates as check leaves them and as the normal form has
them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from upshot.check.names.variables import atoms, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.precedence import reachable
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Constant,
    Formula,
    Not,
    Or,
    Term,
    Test,
    Variable,
    Wildcard,
)


def atoms_of(clause: Clause) -> Iterator[tuple[int, Atom, bool]]:
    """The atoms r1 … rn of a clause: body position, atom, whether it is negated."""
    for position, literal in enumerate(clause.body):
        match literal:
            case Atom():
                yield position, literal, False
            case Not(Atom() as atom):
                yield position, atom, True
            case _:
                pass


def with_atom(literal: Literal, change: Callable[[Atom], Atom]) -> Literal:
    """The literal with its atom changed, negated or not; built-ins stay as they are."""
    match literal:
        case Atom():
            return change(literal)
        case Not(Atom() as atom):
            return replace(literal, body=change(atom))
        case _:
            return literal


def relations_read(clause: Clause) -> set[str]:
    """The relations in the body of a clause, those inside aggregates included."""
    return {atom.relation for literal in clause.body for atom in atoms(literal)}


def clauses_by_head(clauses: Iterable[Clause]) -> defaultdict[str, list[Clause]]:
    """The clauses of each view, in order; none for other names."""
    found: defaultdict[str, list[Clause]] = defaultdict(list)
    for clause in clauses:
        found[clause.head.relation].append(clause)
    return found


def relations_below(clauses: Iterable[Clause], goals: Iterable[str]) -> set[str]:
    """The goals, and all relations that they depend on by these clauses."""
    defined = clauses_by_head(clauses)
    return reachable(goals, lambda name: {read for clause in defined[name] for read in relations_read(clause)})


def is_recursive(program: CheckedProgram, layer: Collection[str]) -> bool:
    """A stratum is recursive if it has two views, or one that uses itself."""
    if len(layer) > 1:
        return True
    own = [clause for clause in program.clauses if clause.head.relation in layer]
    return any(atom.relation in layer for clause in own for _, atom, _ in atoms_of(clause))


def row_variables(schema: Schema) -> tuple[str, ...]:
    """One variable per column, named after the column if its name can be capitalized to a variable.

    >>> from upshot.core.schema import Column
    >>> from upshot.core.types import NUMBER
    >>> row_variables(Schema("edge", (Column("from", NUMBER), Column("to", NUMBER))))
    ('From', 'To')
    """
    chosen: list[str] = []
    for position, column in enumerate(schema.columns):
        good = column.name.isascii() and column.name.isidentifier() and column.name[0].isalpha()
        base = column.name[0].upper() + column.name[1:] if good else f"X{position}"
        chosen.append(fresh_name(base, chosen))
    return tuple(chosen)


def row_atom(schema: Schema) -> tuple[Atom, dict[str, Type]]:
    """The atom of the relation with one variable per column, and the types of these variables."""
    names = row_variables(schema)
    return Atom(schema.name, tuple(map(Variable, names))), dict(zip(names, schema.types, strict=True))


def without_wildcards(atom: Atom, schema: Schema, types: dict[str, Type], names: Sequence[str] | None = None) -> Atom:
    """The atom with a fresh variable for each wildcard, called `Any` or as in `names`; `types` gets their types."""
    args: list[Term] = []
    for place, (term, column) in enumerate(zip(atom.args, schema.columns, strict=True)):
        if isinstance(term, Wildcard):
            term = Variable(fresh_name("Any" if names is None else names[place], types), span=term.span)
            types[term.name] = column.type
        args.append(term)
    return replace(atom, args=tuple(args))


def aggregates(clause: Clause) -> list[tuple[int, str, Aggregate]]:
    """The literals `Variable = aggregate` of a clause: body position, variable, aggregate."""
    found = []
    for position, literal in enumerate(clause.body):
        match literal:
            case Comparison("=", Variable(name), Aggregate() as aggregate):
                found.append((position, name, aggregate))
            case _:
                pass
    return found


def aggregate_of(clause: Clause) -> Aggregate | None:
    """The aggregate of a normal-form clause, None for the other clauses."""
    found = aggregates(clause)
    return found[0][2] if found else None


def disjuncts(body: Formula) -> tuple[tuple[Literal, ...], ...]:
    """The alternatives of an aggregate's body; usually there is one."""
    return tuple(map(conjunction, body.parts)) if isinstance(body, Or) else (conjunction(body),)


def conjunction(body: Formula) -> tuple[Literal, ...]:
    """The literals of an aggregate's body that has no alternatives, as in normal form."""
    match body:
        case And(parts):
            return tuple(literal for part in parts for literal in conjunction(part))
        case Test("true"):
            return ()
        case Atom() | Comparison() | Test() | Not():
            return (body,)
        case Or():
            raise AssertionError("the body of an aggregate is not a conjunction")


def retyped(clause: Clause, schemas: Mapping[str, Schema]) -> Clause:
    """The clause with the types of its own variables only, nullable where NULL can reach them. Types of variables that
    occur in aggregates only stay as they are."""
    literals = (clause.head, *clause.body)
    used = {name for literal in literals for name in variables(literal)}
    outside = {name for literal in literals for name in variables(literal, inside_aggregates=False)}
    nullable = nullable_variables(clause.body, schemas, ())
    types = {name: type for name, type in clause.types.items() if name in used}
    for name in outside & types.keys():
        types[name] = types[name].optional() if name in nullable else types[name].required()
    return replace(clause, types=types)


def is_aggregate_clause(clause: Clause, schemas: Mapping[str, Schema]) -> bool:
    """Test whether the clause is `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.`

    G, L and V are distinct variables, T is one of G and L or a constant, and no column of G is nullable: a NULL in the
    literal would be a group for the engine, and no solution of the body for the language. V has no more digits than
    its column: values that are too long are found where they are derived from a relation.
    """
    match clause.body:
        case (Atom(rows, outer), Comparison("=", Variable(value), Aggregate(_, target, formula))):
            pass
        case _:
            return False
    match disjuncts(formula):
        case ((Atom(again, inner),),) if again == rows:
            pass
        case _:
            return False
    names = [arg.name for arg in inner if isinstance(arg, Variable)]
    width = len(clause.head.args) - 1
    group = tuple(map(Variable, names[:width]))
    return (
        len(names) == len(inner)
        and len({*names, value}) == len(names) + 1
        and clause.head.args == (*group, Variable(value))
        and outer == (*group, *(Wildcard() for _ in inner[width:]))
        and _is_target(target, names)
        and not any(type.nullable for type in schemas[rows].types[:width])
        and not clause.types[value].exceeds(schemas[clause.head.relation].types[width])
    )


def _is_target(target: Term | None, names: list[str]) -> bool:
    match target:
        case None | Constant():
            return True
        case Variable(name):
            return name in names
        case _:
            return False
