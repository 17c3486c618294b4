"""Programs resolved, typed, safe and stratified; all diagnostics at once."""

from upshot.check.checking import check
from upshot.check.clause.query import binding, check_query
from upshot.check.mistakes import with_findings
from upshot.check.printing import print_checked, print_clause
from upshot.check.program import CheckedProgram, Clause, Constraint, Literal, ViewOptions
from upshot.check.strata import stratify

__all__ = [
    "CheckedProgram",
    "Clause",
    "Constraint",
    "Literal",
    "ViewOptions",
    "binding",
    "check",
    "check_query",
    "print_checked",
    "print_clause",
    "stratify",
    "with_findings",
]
