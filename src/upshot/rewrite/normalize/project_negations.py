"""Replace `!r(X, _)` by the negation of a projection of r, which becomes a view."""

from __future__ import annotations

from dataclasses import replace

from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.rewrite.shapes import row_variables
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Not, Variable, Wildcard


def project_negations(program: CheckedProgram) -> CheckedProgram:
    """The program without wildcards in negated atoms; each projection is defined once.

    `!r(X, _, Z)` becomes `!r_on_0_2(X, Z)` with `r_on_0_2(X, Z) :- r(X, _, Z).`
    """
    schemas = dict(program.schemas)
    views: dict[tuple[str, tuple[int, ...]], Clause] = {}

    def projected(literal: Literal) -> Literal:
        match literal:
            case Not(Atom(relation, args)) if any(isinstance(arg, Wildcard) for arg in args):
                kept = tuple(i for i, arg in enumerate(args) if not isinstance(arg, Wildcard))
                if (relation, kept) not in views:
                    clause = _projection(schemas[relation], kept, schemas)
                    views[relation, kept] = clause
                name = views[relation, kept].head.relation
                return Not(Atom(name, tuple(args[i] for i in kept), span=literal.body.span), span=literal.span)
            case _:
                return literal

    clauses = [replace(clause, body=tuple(map(projected, clause.body))) for clause in program.clauses]
    if not views:
        return program
    return stratified(program, [*clauses, *views.values()], schemas, by="project_negations")


def _projection(source: Schema, kept: tuple[int, ...], schemas: dict[str, Schema]) -> Clause:
    """The clause of the projection view, whose schema is added to `schemas`."""
    base = f"{source.name}_on_{'_'.join(map(str, kept))}" if kept else f"{source.name}_any"
    name = fresh_name(base, schemas)
    schemas[name] = Schema(name, tuple(source.columns[i] for i in kept), Role.VIEW)
    names = row_variables(source)
    body = tuple(Variable(names[i]) if i in kept else Wildcard() for i in range(source.arity))
    return Clause(
        head=Atom(name, tuple(Variable(names[i]) for i in kept)),
        body=(Atom(source.name, body),),
        types={names[i]: source.columns[i].type for i in kept},
    )
