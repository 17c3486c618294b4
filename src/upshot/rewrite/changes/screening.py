"""Screening: find changed rows that are irrelevant because no literal matches them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Schema
from upshot.rewrite.demand.demand import guards
from upshot.rewrite.demand.sip import can_fail
from upshot.rewrite.shapes import aggregate_of, atoms_of, without_wildcards
from upshot.syntax.ast import Atom, Not, Variable


def relevant_rows(program: CheckedProgram, relation: str, views: Collection[str]) -> tuple[Clause, ...] | None:
    """Guards `r(X, 1) :- r(X, 1), X > 3.`, one for each literal over the relation in the normal-form rules of the
    views. A changed row that no guard derives is irrelevant. None if every row may be relevant; empty if no row is.

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
    """The guard of one literal; None if it matches every row."""
    types = dict(clause.types)
    matched = without_wildcards(replace(atom, span=None), schema, types)
    tests: list[Literal] = list(guards(atom, clause.types)) if negated else []
    if aggregate_of(clause) is None:
        tests += (literal for literal in clause.body if _is_test(literal, set(variables(atom)), clause))
    names = [term.name for term in matched.args if isinstance(term, Variable)]
    if not tests and len(set(names)) == schema.arity:
        columns = zip(names, schema.types, strict=True)
        if all(types[name].nullable or not type.nullable for name, type in columns):
            return None
    return replace(clause, head=matched, body=(matched, *tests), types={n: t for n, t in types.items() if n in names})


def _is_test(literal: Literal, known: set[str], clause: Clause) -> bool:
    """Test whether a literal depends on the row alone and cannot fail."""
    if isinstance(literal, Atom) or (isinstance(literal, Not) and isinstance(literal.body, Atom)):
        return False
    return known.issuperset(variables(literal)) and not can_fail(literal, clause.types)
