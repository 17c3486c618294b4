"""The form that plans and maintenance rules are made from."""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import CheckedProgram
from upshot.rewrite.normalize.flatten_terms import flatten_terms
from upshot.rewrite.normalize.lower_aggregates import lower_aggregates
from upshot.rewrite.normalize.lower_ranges import lower_ranges
from upshot.rewrite.normalize.project_negations import project_negations


def distinct_clauses(program: CheckedProgram) -> CheckedProgram:
    """The program with every clause once.

    The number of derivations of a row depends on how often a clause is there, and a change of rules is a difference of
    sets of clauses: both agree only where no clause is there twice. Equal clauses come from rules that are written
    twice, and from different rules that share an alternative: `v(X) :- a(X).  v(X) :- (a(X) ; b(X)).`
    """
    clauses = tuple(dict.fromkeys(program.clauses))
    return program if len(clauses) == len(program.clauses) else replace(program, clauses=clauses)


PASSES = (distinct_clauses, lower_aggregates, flatten_terms, lower_ranges, project_negations, distinct_clauses)
"""In this order: lowering an aggregate leaves computed targets and wildcards under negation to the later passes, and
clauses that were written differently may be equal after them."""


def normal_form(program: CheckedProgram) -> CheckedProgram:
    """The program in normal form, with the same contents in every relation it had.

    No clause is there twice. Arguments of atoms are variables, constants and wildcards, of heads and negated atoms
    variables and constants; calls occur only as `Variable = f(…)` over variables and constants; aggregates only in
    clauses `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.` A second time it changes nothing.
    """
    for rewriting in PASSES:
        program = rewriting(program)
    return program
