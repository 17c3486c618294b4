"""Side effects: views in which they add up, and views in which they depend on fresh values.

Side effects add up if the changes of a minimal realization affect no fewer rows together than one by one. A minimal
realization inserts into a base relation only if more rows there can help a goal, and deletes only if fewer can: it has
no other changes. If all such changes move a view in one direction, no change undoes the effect of another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from upshot.check.names.variables import variables, walk
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.revise.request import Request
from upshot.revise.rule_forms import reached
from upshot.rewrite.shapes import atoms_of
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Not, Variable, Wildcard

Signed = tuple[str, int]
"""A relation, and 1 if more rows there can matter, -1 if fewer can."""


def adding_up(program: CheckedProgram, request: Request, constraints: Collection[str]) -> frozenset[str]:
    """The views that all changes of minimal realizations move in one direction. `constraints` must not gain rows."""
    read: dict[str, set[Signed]] = {}
    used: dict[str, set[Signed]] = {}
    for clause in program.clauses:
        head = clause.head.relation
        is_plain = program.schemas[head].lattice is None
        for name, sign in (each for literal in clause.body for each in _signed(literal)):
            for own in (sign,) if is_plain else (1, -1):
                read.setdefault(head, set()).add((name, own))
                used.setdefault(name, set()).add((head, own))
    goals = {(name, 1) for name, _ in request.insert}
    # A row of a view with a key can need the deletion of the one that has the key.
    keyed = (name for name, schema in program.schemas.items() if schema.keys and schema.role is Role.VIEW)
    goals |= {(name, -1) for name in (*constraints, *keyed, *(name for name, _ in request.delete))}
    helpful = {each for each in signed_steps(goals, read) if program.schemas[each[0]].role is Role.BASE}
    # An insertion into a relation with a key can need the deletion of another row.
    helpful |= {(name, -1) for name, sign in helpful if sign == 1 and program.schemas[name].keys}
    moved = signed_steps(helpful, used)
    return frozenset(name for name, sign in moved if (name, -sign) not in moved)


def _signed(literal: Literal) -> Iterator[Signed]:
    """The relations that a literal reads, with the directions in which the head changes with them."""
    inside = list(walk(literal))
    is_folded = any(isinstance(node, Aggregate) for node in inside)
    sign = -1 if isinstance(literal, Not) else 1
    for node in inside:
        if isinstance(node, Atom):
            yield from ((node.relation, each) for each in ((1, -1) if is_folded else (sign,)))


def signed_steps(start: Iterable[Signed], steps: Mapping[str, Collection[Signed]]) -> set[Signed]:
    """Everything that steps reach, with the products of the signs on the way."""
    return reached(start, lambda each: ((other, each[1] * own) for other, own in steps.get(each[0], ())))


# ---- views whose rows depend on fresh values -------------------------------------------------------------------------


def uncertain_views(
    program: CheckedProgram, changed: Iterable[str], certain: Collection[str], computed: Iterable[str]
) -> frozenset[str]:
    """The views whose rows can differ for other fresh values: rules that compare, compute or aggregate derive them from
    relations in which fresh values are inserted (`changed`), or they read rows with formulas (`computed`). The rows of
    `certain` views are known for all values."""
    moved, found, size = {*changed}, {*computed}, -1
    while len(moved) + len(found) != size:
        size = len(moved) + len(found)
        for clause in program.clauses:
            head, read = clause.head.relation, {atom.relation for _, atom, _ in atoms_of(clause)}
            if moved.isdisjoint(read):
                continue
            moved.add(head)
            is_plain = program.schemas[head].lattice is None and _only_joins(clause)
            if head not in certain and not (is_plain and found.isdisjoint(read)):
                found.add(head)
    return frozenset(found.difference(certain))


def _only_joins(clause: Clause) -> bool:
    """Test whether a rule only joins and counts: a fresh value differs from all values with which it is joined."""
    atoms = [atom for _, atom, _ in atoms_of(clause)]
    joined = {name for atom in atoms for name in variables(atom)}
    for literal in clause.body:
        match literal:
            case Comparison("=" | "!=", Variable(), Variable()) | Comparison("=", _, Aggregate("count")):
                pass
            case Comparison("=", Variable(name), Constant()) if name not in joined:
                pass
            case Atom() | Not(Atom()):
                pass
            case _:
                return False
    return all(isinstance(term, Variable | Wildcard) for atom in atoms for term in atom.args)
