"""The solutions of an aggregate's body, as a clause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from upshot.check.names.variables import fresh_name, terms_of, variables
from upshot.check.program import Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.rewrite.normalize.occurrences import binders, needed_by, substitute_in
from upshot.rewrite.normalize.term_type import term_type
from upshot.rewrite.shapes import conjunction
from upshot.syntax.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Not,
    Term,
    Test,
    Variable,
    Wildcard,
    subterms,
)


@dataclass(frozen=True, slots=True)
class Rows:
    """One column per variable of the aggregate's body, the outer ones first; `target` is what is folded over them."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    body: tuple[Literal, ...]
    all_types: Mapping[str, Type]
    target: Variable | Constant | None
    origin: Span | None

    def clause(self, name: str) -> Clause:
        """The clause that defines the rows as a view of that name."""
        return Clause(Atom(name, tuple(map(Variable, self.names))), self.body, self.all_types, self.origin)

    def stored_in(self) -> str | None:
        """The relation that has exactly these rows already, if the body is nothing but a literal of it."""
        match self.body:
            case (Atom(relation, args),) if args == tuple(map(Variable, self.names)):
                return relation
            case _:
                return None

    def meaning(self) -> object:
        """A key that is equal for rows that differ in the names of variables only."""
        numbers: dict[str, Variable] = {}

        def change(variable: Variable) -> Term:
            return numbers.setdefault(variable.name, Variable(f"V{len(numbers)}"))

        head = substitute_in(Atom("", tuple(map(Variable, self.names))), change)
        return head, tuple(substitute_in(literal, change) for literal in self.body), self.types


def aggregate_rows(
    clause: Clause,
    aggregate: Aggregate,
    group: Sequence[str],
    surroundings: Sequence[Literal],
    schemas: Mapping[str, Schema],
) -> Rows:
    """The rows that an aggregate of the clause folds, `group` being its outer variables.

    An outer variable that the body does not bind is bound by literals around it. A body that may fail, by dividing say,
    is confined to the values that the literals around it allow. Outer variables are never NULL here: NULL asks for no
    group.
    """
    types = dict(clause.types)
    literals = _without_wildcards(conjunction(aggregate.body), types, schemas)
    target = _target(aggregate.target, literals, types)
    bound = binders(literals, {*group, *_direct(literals)})
    missing = [name for name in group if name not in bound]
    outer = binders(surroundings, ())
    unbound = [name for name in missing if name not in outer]
    if unbound:
        raise ProgramError([_bound_by_recursion(clause, aggregate, unbound[0])])
    if any(_may_fail(term) for literal in literals for term in terms_of(literal)):
        added = [literal for literal in surroundings if all(name in outer for name in variables(literal))]
    else:
        added = _binding(missing, surroundings, outer)
    body = (*added, *(literal for literal in literals if literal not in added))
    nullable = nullable_variables(body, schemas, ())
    guards = [Not(Test("is_null", (Variable(name),))) for name in group if name in nullable]
    names = tuple(dict.fromkeys([*group, *_direct(literals)]))
    kinds = {n: t.optional() if n in nullable and n not in group else t.required() for n, t in types.items()}
    return Rows(names, tuple(kinds[n] for n in names), (*body, *guards), kinds, target, clause.origin)


def _direct(literals: Iterable[Literal]) -> list[str]:
    return [name for literal in literals for name in variables(literal, inside_aggregates=False)]


def _without_wildcards(
    literals: Iterable[Literal], types: dict[str, Type], schemas: Mapping[str, Schema]
) -> list[Literal]:
    """The literals with a variable for each wildcard of a positive atom; the new variables are entered into `types`."""
    changed: list[Literal] = []
    for literal in literals:
        if isinstance(literal, Atom) and any(isinstance(arg, Wildcard) for arg in literal.args):
            args: list[Term] = []
            for arg, column in zip(literal.args, schemas[literal.relation].columns, strict=True):
                if isinstance(arg, Wildcard):
                    name = fresh_name("Any", types)
                    types[name] = column.type
                    args.append(Variable(name, span=arg.span))
                else:
                    args.append(arg)
            changed.append(Atom(literal.relation, tuple(args), span=literal.span))
        else:
            changed.append(literal)
    return changed


def _target(target: Term | None, literals: list[Literal], types: dict[str, Type]) -> Variable | Constant | None:
    """What is folded, as a variable or constant: a computed target gets a variable, and its equation joins the body.

    Where the target is NULL the equation drops the solution, which the fold would have skipped.
    """
    if target is None or isinstance(target, Constant | Variable):
        return target
    name = fresh_name("Value", types)
    types[name] = term_type(target, types).required()
    literals.append(Comparison("=", Variable(name), target))
    return Variable(name)


def _binding(wanted: Iterable[str], literals: Sequence[Literal], positions: Mapping[str, int]) -> list[Literal]:
    """The literals that give the wanted variables their values, and the variables these need."""
    todo, chosen = list(wanted), set()
    while todo:
        name = todo.pop()
        position = positions[name]
        if position not in chosen:
            chosen.add(position)
            todo += needed_by(literals[position], name)
    return [literal for position, literal in enumerate(literals) if position in chosen]


def _may_fail(term: Term) -> bool:
    """Whether evaluation can end in an error that depends on more than the size of the values."""
    for each in subterms(term):
        match each:
            case Call("to_number"):
                return True
            case Call("/" | "%", (_, divisor)):
                if not (isinstance(divisor, Constant) and divisor.value):
                    return True
            case Call("^", (_, exponent)):
                if not (isinstance(exponent, Constant) and exponent.value >= 0):
                    return True
            case _:
                pass
    return False


def _bound_by_recursion(clause: Clause, aggregate: Aggregate, name: str) -> Diagnostic:
    view = clause.head.relation
    return Diagnostic(
        "aggregate-in-recursion",
        f"the aggregate in the recursive rule of `{view}` depends on `{name}`, which only the recursion gives a value",
        aggregate.span or clause.origin,
        label=f"asked for each `{name}` found on the way",
        help=f"bind `{name}` in the aggregate's body or by a relation that does not depend on `{view}`",
    )
