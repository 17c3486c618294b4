"""Rules for the search: a recursion that uses its view twice is asked for one step at a time.

`path(X, Z) :- path(X, Y), path(Y, Z)` would have rows of the view asked for from rows of the view, in all the ways a
chain can be cut in two; `path(X, Z) :- path(X, Y), edge(Y, Z)` means the same and decides on a base row each step.
"""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import CheckedProgram, Clause
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.normalize.unfold import can_expand, expanded
from upshot.rewrite.shapes import retyped
from upshot.syntax.ast import Atom


def linear_clauses(program: CheckedProgram) -> tuple[Clause, ...]:
    """The clauses of the program with linear recursion where that is the same, over the relations it has."""
    clauses = program.clauses
    for view in dict.fromkeys(clause.head.relation for clause in program.clauses):
        found = linearize(program, view)
        made = None if found.program is None else _without_exits(found.program, view, found.exits)
        if made is not None:
            clauses = (*(clause for clause in clauses if clause.head.relation != view), *made)
    return clauses


def _without_exits(linear: CheckedProgram, view: str, exits: str) -> list[Clause] | None:
    """The clauses of a linear view, with the rules without recursion in place of the view that was made of them; None
    where they cannot stand there."""
    own = [clause for clause in linear.clauses if clause.head.relation == view]
    if not exits:
        return own
    rules = [clause for clause in linear.clauses if clause.head.relation == exits]
    made = [replace(rule, head=replace(rule.head, relation=view)) for rule in rules]
    for clause in own:
        places = [i for i, each in enumerate(clause.body) if isinstance(each, Atom) and each.relation == exits]
        if len(clause.body) == 1 and places:
            continue
        for rule in rules:
            if not can_expand(clause, places[0], rule):
                return None
            made.append(retyped(expanded(clause, places[0], rule), linear.schemas))
    return made
