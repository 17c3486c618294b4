"""Update propagation as a person reads it: one operator a rule, what the new state is, and the rules that run."""

from __future__ import annotations

from collections.abc import Iterable

from upshot.check.printing import print_clause
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role
from upshot.rewrite.changes.changes_on_demand import changes_on_demand
from upshot.rewrite.demand.print_demand import print_demand
from upshot.rewrite.strategies.maintenance import atoms_of
from upshot.rewrite.strategies.operators import operators
from upshot.rewrite.strategies.propagation import transition_rules


def print_propagation(program: CheckedProgram, view: str | None = None) -> str:
    """The rules of a program in normal form, one operator each; the transition rules; and the propagation rules, with
    the questions they ask. Of one view, with the views that were put in for it, or of all."""
    views = [name for layer in program.strata for name in layer]
    demand = changes_on_demand(program, dict.fromkeys(views, "propagation"))
    propagated = print_demand(demand, view)
    single = operators(program, views)
    shown = set(views) | single.schemas.keys() - program.schemas.keys() if view is None else _own(program, single, view)
    rules = [clause for clause in single.clauses if clause.head.relation in shown]
    if not rules:
        return propagated
    read = {atom.relation for clause in rules for _, atom, _ in atoms_of(clause)}
    bases = {name for name in read if single.schemas[name].role is Role.BASE}
    names = {(meaning.relation, meaning.state): name for name, meaning in demand.relations.items()}
    told = shown | bases
    states = [
        rule
        for relation, rule in zip(_heads(single), transition_rules(single, names), strict=True)
        if relation in told
    ]  # fmt: skip
    return (
        _section("the program, one operator a rule", rules)
        + _section(
            "transition rules: what everything is after the change; only what is asked of it is computed", states
        )
        + propagated
    )


def _own(program: CheckedProgram, single: CheckedProgram, view: str) -> set[str]:
    """The view, and those put in between for it."""
    found, waiting = set[str](), [view]
    while waiting:
        name = waiting.pop()
        found.add(name)
        for clause in single.clauses:
            if clause.head.relation == name:
                read = {atom.relation for _, atom, _ in atoms_of(clause)}
                waiting += sorted(read - program.schemas.keys() - found)
    return found


def _heads(program: CheckedProgram) -> Iterable[str]:
    """The relations that the transition rules are about, in their order."""
    for name, schema in program.schemas.items():
        if schema.role is Role.BASE:
            yield from (name, name)
    for clause in program.clauses:
        yield clause.head.relation


def _section(title: str, clauses: Iterable[Clause]) -> str:
    return "\n".join([f"// ---- {title}", *map(print_clause, clauses)]) + "\n\n"
