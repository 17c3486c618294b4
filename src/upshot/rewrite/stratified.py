"""The views of a rewritten program in evaluation order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from upshot.check.program import CheckedProgram, Clause
from upshot.check.strata import stratify
from upshot.core.errors import EngineError, ProgramError
from upshot.core.schema import Schema


def stratified(
    program: CheckedProgram, clauses: Sequence[Clause], schemas: Mapping[str, Schema], *, by: str
) -> CheckedProgram:
    """The program with these clauses and schemas, its strata recomputed; if there are none, the error names the pass
    `by`."""
    try:
        strata = stratify(schemas, clauses)
    except ProgramError as error:
        raise EngineError(
            f"the rewriting `{by}` gave a program that is not stratified: {error.message}",
            code="rewriting-not-stratified",
            help="this is a bug in Upshot; please report the program",
        ) from error
    return replace(program, clauses=tuple(clauses), schemas=dict(schemas), strata=strata)
