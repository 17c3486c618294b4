"""The dependency graph of a checked program: its edges and their closure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Formula, Not, Or, Term, Test, subterms


@dataclass(frozen=True, slots=True, order=True)
class Dependency:
    """`view` is derived from `relation`, under negation or inside an aggregate."""

    relation: str
    view: str
    negated: bool = False
    aggregated: bool = False


def dependencies(program: CheckedProgram) -> tuple[Dependency, ...]:
    """Every edge of the program once, sorted."""
    edges = set()
    for clause in program.clauses:
        for relation, negated, aggregated in uses(clause):
            edges.add(Dependency(relation, clause.head.relation, negated, aggregated))
    return tuple(sorted(edges))


def uses(clause: Clause) -> Iterator[tuple[str, bool, bool]]:
    """The relations in the body of the clause: (name, under negation, inside an aggregate)."""
    return uses_in(clause.body)


def uses_in(formulas: Iterable[Formula]) -> Iterator[tuple[str, bool, bool]]:
    stack: list[tuple[Formula, bool, bool]] = [(literal, False, False) for literal in formulas]
    while stack:
        formula, negated, aggregated = stack.pop()
        terms: tuple[Term, ...] = ()
        match formula:
            case Atom(relation, args):
                yield relation, negated, aggregated
                terms = args
            case Not(body):
                stack.append((body, not negated, aggregated))
            case And(parts) | Or(parts):
                stack.extend((part, negated, aggregated) for part in parts)
            case Comparison(_, left, right):
                terms = (left, right)
            case Test(_, args):
                terms = args
        for term in terms:
            stack.extend((inner.body, negated, True) for inner in subterms(term) if isinstance(inner, Aggregate))


def inputs(program: CheckedProgram) -> dict[str, frozenset[str]]:
    """For each view the relations its rules mention."""
    found: dict[str, set[str]] = defaultdict(set)
    for edge in dependencies(program):
        found[edge.view].add(edge.relation)
    return {view: frozenset(relations) for view, relations in found.items()}


def everything_below(names: str | Iterable[str], inputs: Mapping[str, Collection[str]]) -> frozenset[str]:
    """One or more relations and all that they depend on, transitively."""
    seen, pending = set[str](), [names] if isinstance(names, str) else list(names)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += inputs.get(name, ())
    return frozenset(seen)


def base_relations_of(view: str, program: CheckedProgram) -> list[str]:
    """The base relations that a view depends on, by the names that users know, sorted."""
    shown = {hidden: relation for relation, hidden in program.input_part.items()}
    below = everything_below(view, inputs(program))
    return sorted(shown.get(name, name) for name in below if program.schemas[name].role is Role.BASE)
