"""Prove from keys that every row of a view has one derivation. [Ceri & Widom 1994, section 6]"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.rewrite.shapes import aggregates, atoms_of, clauses_by_head
from upshot.syntax.ast import Atom, Comparison, Constant, Variable


def unique_derivations(program: CheckedProgram) -> frozenset[str]:
    """The views of a normal-form program that are proven to have one derivation for every row.

    Such a view has one rule, without recursion and negation, and a row of it determines a row of every relation in the
    body: the bound columns contain a key of each. The bound columns are those of head variables and of constants, those
    equal to a bound one, and all columns of a literal whose key is bound. A value that the head computes binds nothing:
    `p(X + Y) :- q(X, Y).` has many derivations. Of a view in the body all columns must be bound.
    """
    clauses = clauses_by_head(program.clauses).items()
    return frozenset(view for view, own in clauses if len(own) == 1 and _is_unique(own[0], program))


def _is_unique(clause: Clause, program: CheckedProgram) -> bool:
    found = list(atoms_of(clause))
    layer = next((views for views in program.strata if clause.head.relation in views), ())
    if not found or aggregates(clause) or any(negated or atom.relation in layer for _, atom, negated in found):
        return False
    bound = bound_variables(clause, program)
    return all(_has_bound_key(atom, program.schemas[atom.relation], bound) for _, atom, _ in found)


def bound_variables(clause: Clause, program: CheckedProgram) -> frozenset[str]:
    """The variables whose values a row of the head determines."""
    atoms = [literal for literal in clause.body if isinstance(literal, Atom)]
    bound = set(variables(clause.head))
    while True:
        found = set(_equated(clause, bound))
        for atom in atoms:
            if _has_bound_key(atom, program.schemas[atom.relation], bound):
                found.update(variables(atom))
        if found <= bound:
            return frozenset(bound)
        bound |= found


def _equated(clause: Clause, bound: Collection[str]) -> Iterator[str]:
    """The variables that an equation makes equal to a constant or to a bound variable."""
    for literal in clause.body:
        match literal:
            case Comparison("=", Variable(left), Variable(right)):
                if left in bound or right in bound:
                    yield from (left, right)
            case Comparison("=", Variable(name), Constant()) | Comparison("=", Constant(), Variable(name)):
                yield name
            case _:
                pass


def _has_bound_key(atom: Atom, schema: Schema, bound: Collection[str]) -> bool:
    fixed = {
        place
        for place, term in enumerate(atom.args)
        if isinstance(term, Constant) or (isinstance(term, Variable) and term.name in bound)
    }
    # A declared key of a view may be violated while the transaction runs; all columns are a key of any set.
    keys = schema.keys if schema.role is Role.BASE else ()
    return any(set(key) <= fixed for key in (*keys, range(len(atom.args))))
