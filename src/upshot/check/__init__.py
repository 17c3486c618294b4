"""Check programs: resolve names, infer types, test safety, stratify; report all diagnostics at once.

Input: a parsed `Program`, from Datalog or SQL. Output: a `CheckedProgram` with every rule in clause form, or one
`ProgramError` with all diagnostics. Read `program` (the result), `checking` (the order of the checks), `names`, `types`
and `clause` (names, types, clause form and safety), `strata`; then the checks of single features: `constraints` with
`short_forms`, `lattices`, `equivalences`, `disjunctions`, `functors`, `inline`, `growing`, `active`, `options`.
`findings` collects the diagnostics; `printing` prints a checked program as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.check.checking import check, with_findings
    from upshot.check.clause.query import binding, check_query, unquoted_constants
    from upshot.check.printing import print_checked, print_clause
    from upshot.check.program import CheckedProgram, Clause, Constraint, Literal, ViewOptions
    from upshot.check.strata import stratify
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "CheckedProgram": "upshot.check.program",
            "Clause": "upshot.check.program",
            "Constraint": "upshot.check.program",
            "Literal": "upshot.check.program",
            "ViewOptions": "upshot.check.program",
            "binding": "upshot.check.clause.query",
            "check": "upshot.check.checking",
            "check_query": "upshot.check.clause.query",
            "print_checked": "upshot.check.printing",
            "print_clause": "upshot.check.printing",
            "stratify": "upshot.check.strata",
            "unquoted_constants": "upshot.check.clause.query",
            "with_findings": "upshot.check.checking",
        },
    )

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
    "unquoted_constants",
    "with_findings",
]
