"""The normal form, from which plans and maintenance rules are made."""

from __future__ import annotations

from dataclasses import replace

from upshot.check.program import CheckedProgram
from upshot.rewrite.normalize.flatten_terms import flatten_terms
from upshot.rewrite.normalize.lower_aggregates import lower_aggregates
from upshot.rewrite.normalize.lower_ranges import lower_ranges
from upshot.rewrite.normalize.project_negations import project_negations


def distinct_clauses(program: CheckedProgram) -> CheckedProgram:
    """The program without duplicate clauses.

    The number of derivations of a row depends on how often a clause occurs, and a change of rules is a difference of
    sets of clauses: both agree only if no clause occurs twice. Equal clauses come from rules that are written twice,
    and from different rules that share an alternative: `v(X) :- a(X).  v(X) :- (a(X) ; b(X)).`
    """
    clauses = tuple(dict.fromkeys(program.clauses))
    return program if len(clauses) == len(program.clauses) else replace(program, clauses=clauses)


PASSES = (distinct_clauses, lower_aggregates, flatten_terms, lower_ranges, project_negations, distinct_clauses)
"""The order matters: `lower_aggregates` leaves computed targets and wildcards under negation to later passes, and
different clauses may be equal after all passes."""


def normal_form(program: CheckedProgram) -> CheckedProgram:
    """The equivalent program in normal form. The function is idempotent.

    No clause occurs twice. Arguments of atoms are variables, constants and wildcards; those of heads and negated atoms
    are variables and constants. Calls occur only as `Variable = f(…)` over variables and constants, aggregates only in
    clauses `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.`
    """
    for rewriting in PASSES:
        program = rewriting(program)
    return program
