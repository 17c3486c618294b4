"""The differentials of nervous conditions: one for each literal, through the views that it reads.

A view that is not recursive is expanded, as if its rules were part of the condition: a literal of it has a differential
for each literal of its rules. The expansion is a relation with the rows of the view that can now be derived from a
changed row. A negated literal, and a literal of a recursive view, reads the net changes of its relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from upshot.check.active.transitions import States
from upshot.check.clause.clause_form import Conjunction
from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.check.strata import needs, order
from upshot.core.operations import DELETED, INSERTED
from upshot.core.schema import Schema
from upshot.syntax.ast import Atom, Not

Views = Mapping[str, Sequence[Clause]]


def expandable(clauses: Iterable[Clause], schemas: Mapping[str, Schema]) -> Views:
    """The clauses of the views that can be expanded: those that are not recursive and contain all derived rows."""
    found: dict[str, list[Clause]] = {}
    for clause in clauses:
        found.setdefault(clause.head.relation, []).append(clause)
    uses = [need for name, some in found.items() for clause in some for need in needs(name, clause.body)]
    recursive = {need.head for need in uses if need.head == need.relation}
    for component in order(list(found), uses):
        recursive |= set(component) if len(component) > 1 else set()
    return {name: some for name, some in found.items() if name not in recursive and schemas[name].lattice is None}


class Differentials:
    """The differentials of one condition; `triggers` are the changes that they start from, `expanded` the relations
    that replace views."""

    def __init__(self, states: States, views: Views) -> None:
        self._states, self._views = states, views
        self.expanded: dict[str, str] = {}
        self.triggers: dict[tuple[str, str], None] = {}

    def of(self, conjunction: Conjunction) -> Iterator[Conjunction]:
        """The conjunction restricted to changed rows, once for each literal: a positive literal to inserted rows, a
        negated one to deleted rows. A change of a relation in an aggregate fires every instance that holds."""
        for place, literal in enumerate(conjunction):
            rest = (*conjunction[:place], *conjunction[place + 1 :])
            match literal:
                case Atom(relation, args) if relation in self._views:
                    yield (Atom(self._through_changes(relation), args, span=literal.span), *rest)
                case Atom(relation, args):
                    yield (Atom(self._window(relation, INSERTED), args, span=literal.span), *rest)
                case Not(Atom(relation, args)):
                    yield (Atom(self._window(relation, DELETED), args, span=literal.span), literal, *rest)
                case _:
                    pass
        if aggregated := dict.fromkeys(_aggregated(conjunction)):
            self.triggers |= dict.fromkeys((name, each) for name in aggregated for each in (INSERTED, DELETED))
            yield (self._states.changed(aggregated), *conjunction)

    def _window(self, relation: str, operation: str) -> str:
        self.triggers[relation, operation] = None
        return self._states.window(relation, operation)

    def _through_changes(self, view: str) -> str:
        """The relation of the rows of a view with a derivation from a changed row."""
        if view not in self.expanded:
            name = self.expanded[view] = self._states.helper(f"{view}_through_changes", view)
            for clause in self._views[view]:
                head = Atom(name, clause.head.args, span=clause.head.span)
                for body in self.of(clause.body):
                    self._states.define(Clause(head, body, clause.types, clause.origin))
        return self.expanded[view]


def _aggregated(conjunction: Conjunction) -> Iterator[str]:
    """The relations that aggregates read."""
    for literal in conjunction:
        plain = literal.body if isinstance(literal, Not) else literal
        yield from (atom.relation for atom in atoms(plain) if atom is not plain)
