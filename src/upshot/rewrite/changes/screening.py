"""Irrelevant changes: rows of a stored relation that no literal can match, known from the literal alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Schema
from upshot.rewrite.demand.demand import guards
from upshot.rewrite.demand.sip import can_fail
from upshot.rewrite.shapes import aggregate_of, atoms_of
from upshot.syntax.ast import Atom, Not, Term, Variable, Wildcard


def relevant_rows(program: CheckedProgram, relation: str, views: Collection[str]) -> tuple[Clause, ...] | None:
    """Clauses `r(X, 1) :- r(X, 1), X > 3.`, one for each literal over the relation in the rules of the views (in normal
    form): a change of r whose row none of them derives from itself can lead to nothing. None if every row may matter,
    no clause if no row does.

    >>> from upshot.check import check, print_clause
    >>> from upshot.rewrite import normal_form
    >>> from upshot.syntax import parse
    >>> program = normal_form(check(parse(".decl r(x: number, y: number) .decl p(x: number) p(X) :- r(X, 1), X > 3.")))
    >>> [print_clause(clause) for clause in relevant_rows(program, "r", ["p"])]
    ['r(X, 1) :- r(X, 1), X > 3.']
    """
    found: dict[str, Clause] = {}
    for clause in program.clauses:
        if clause.head.relation not in views:
            continue
        for _, atom, negated in atoms_of(clause):
            if atom.relation != relation:
                continue
            guard = _guard(clause, atom, negated, program.schemas[relation])
            if guard is None:
                return None
            found.setdefault(repr((guard.head, guard.body)), guard)
    return tuple(found.values())


def _guard(clause: Clause, atom: Atom, negated: bool, schema: Schema) -> Clause | None:
    """None if every row passes."""
    taken = dict(clause.types)
    args: list[Term] = []
    for term, column in zip(atom.args, schema.columns, strict=True):
        if isinstance(term, Wildcard):
            name = fresh_name("Any", taken)
            taken[name] = column.type
            term = Variable(name)
        args.append(term)
    tests: list[Literal] = list(guards(atom, clause.types)) if negated else []
    if aggregate_of(clause) is None:
        tests += (literal for literal in clause.body if _is_test(literal, set(variables(atom)), clause))
    names = [term.name for term in args if isinstance(term, Variable)]
    if not tests and len(set(names)) == len(args):
        takes_null = all(
            taken[name].nullable or not type.nullable for name, type in zip(names, schema.types, strict=True)
        )
        if takes_null:
            return None
    matched = Atom(atom.relation, tuple(args))
    return replace(clause, head=matched, body=(matched, *tests), types={n: t for n, t in taken.items() if n in names})


def _is_test(literal: Literal, known: set[str], clause: Clause) -> bool:
    """Test whether a literal says something of the row alone, and cannot go wrong."""
    if isinstance(literal, Atom) or (isinstance(literal, Not) and isinstance(literal.body, Atom)):
        return False
    return known.issuperset(variables(literal)) and not can_fail(literal, clause.types)
