"""Views that may report more than their net changes (`semantics=nervous`). [Sköld & Risch 1996]"""

from __future__ import annotations

from collections.abc import Iterator

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, Clause
from upshot.core.diagnostic import Diagnostic
from upshot.core.schema import Role

REASON = "nervous: it may also report rows that were there before, or still are"


def nervous_views(checked: CheckedProgram, problems: list[Diagnostic]) -> frozenset[str]:
    """The views that ask for it. Only conditions can be nervous, by `differencing`: whoever reads a view, or keeps a
    copy of it, relies on its net changes. What cannot be done is added to `problems`."""
    asked = [view for view, options in checked.options.items() if options.semantics == "nervous"]
    for view in asked:
        told = next(_obstacles(checked, view), None) if view in checked.schemas else None
        if told is not None:
            message = f"view `{view}` cannot be nervous: {told}"
            problems.append(
                Diagnostic(
                    "nervous-not-applicable", message, checked.schemas[view].span, help="remove `semantics=nervous`"
                )
            )
    return frozenset(asked)


def _obstacles(checked: CheckedProgram, view: str) -> Iterator[str]:
    options = checked.options[view]
    if options.strategy != "differencing":
        yield f"by `{options.strategy}` it has net changes only; only `strategy=differencing` can be"
    if options.materialized:
        yield "the copy that `materialized=true` asks for must follow net changes"
    if checked.schemas[view].role is Role.CONSTRAINT:
        yield "a constraint is about what a transaction adds, and it would find what was there again"
    for clause in checked.clauses:
        if _reads(clause, view):
            reader = clause.head.relation
            if reader == view:
                yield "it is recursive, so that its own rules read it"
            yield "a rule's condition reads it" if reader in checked.hidden else f"`{reader}` reads it"
    for rule in checked.rules:
        told = {name for name, _ in rule.triggers} | {rule.becomes, *(table.relation for table in rule.windows)}
        if view in told or any(_reads(clause, view) for clause in (*rule.clauses, *rule.before)):
            yield f"rule `{rule.name}` is about it, and can be nervous itself"


def _reads(clause: Clause, view: str) -> bool:
    return any(atom.relation == view for literal in clause.body for atom in atoms(literal))
