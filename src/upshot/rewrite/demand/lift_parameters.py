"""Queries of one shape: the values of parameters become columns, read from a relation of parameter rows.

`reach("a", Y)`, where `"a"` is the value of `$x`, becomes `live($x, Y) :- parameters($x), reach($x, Y).` and the row
`("a")` of `parameters`. Two queries that differ in nothing but the values have the same lifted clauses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upshot.check.names.variables import atoms, fold, terms_of
from upshot.check.program import Clause, Literal
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Or,
    Term,
    Test,
    Variable,
    subterms,
)

Place = tuple[str, Type]
"""A parameter as values of one type: the same parameter may be compared with columns of two types."""


@dataclass(frozen=True, slots=True)
class LiftedQuery:
    """`clauses` define `answer` and its `helpers`, all with the columns of `parameters` first. `parameters` has no
    columns if the query has no parameters."""

    answer: Schema
    parameters: Schema
    helpers: Mapping[str, Schema]
    clauses: tuple[Clause, ...]

    @property
    def visible(self) -> tuple[Column, ...]:
        """The columns of an answer without those of the parameters."""
        return self.answer.columns[self.parameters.arity :]

    @property
    def reads(self) -> set[str]:
        """The relations that the bodies of its clauses read."""
        return {atom.relation for clause in self.clauses for literal in clause.body for atom in atoms(literal)}


def lift_parameters(
    answer: Schema, clauses: Sequence[Clause], helpers: Mapping[str, Schema], name: str, names: Collection[str]
) -> tuple[LiftedQuery, tuple[Any, ...]]:
    """The query with its parameters lifted, and their values as a row. `names` are those of the parameters: a constant
    whose text is `$x` or `:x` is the value of one. NULL, and what was computed from a parameter already, stays."""
    values: dict[Place, Any] = {}
    for clause in clauses:
        for constant in _constants(clause):
            place = _place(constant, names)
            if place is not None:
                values.setdefault(place, constant.value)
    places = sorted(values, key=lambda place: (place[0], str(place[1])))
    variables = {place: f"${place[0]}" + f"_{place[1].kind.value}" * _is_shared(place, places) for place in places}
    columns = tuple(Column(variables[place], place[1]) for place in places)
    lifting = _ParameterLifting(answer.name, name, names, variables, f"{name}_parameters", clauses)
    made = LiftedQuery(
        replace(answer, name=name, columns=(*columns, *answer.columns), role=Role.VIEW),
        Schema(f"{name}_parameters", columns, Role.BASE),
        {f"{name}_{old}": lifting.schema(each, columns) for old, each in helpers.items()},
        tuple(map(lifting.clause, clauses)),
    )
    return made, tuple(values[place] for place in places)


def _is_shared(place: Place, places: Sequence[Place]) -> bool:
    return sum(other[0] == place[0] for other in places) > 1


def _place(constant: Constant, names: Collection[str]) -> Place | None:
    if constant.span is None or constant.value is None or constant.type is None:
        return None
    text = constant.span.text
    return (text[1:], constant.type.required()) if text[:1] in ("$", ":") and text[1:] in names else None


def _constants(clause: Clause) -> list[Constant]:
    found: list[Constant] = []
    stack: list[Formula | Term] = [*clause.head.args, *clause.body]
    while stack:
        node = stack.pop()
        match node:
            case And(parts) | Or(parts):
                stack.extend(parts)
            case Not(body):
                stack.append(body)
            case Atom() | Comparison() | Test():
                stack.extend(terms_of(node))
            case Aggregate(_, target, body):
                stack.append(body)
                stack.extend(() if target is None else (target,))
            case Call():
                stack.extend(each for each in subterms(node) if not isinstance(each, Call))
            case Constant():
                found.append(node)
            case _:
                pass
    return found


@dataclass(slots=True)
class _ParameterLifting:
    """`old` is the relation of the answers, which becomes `new`; helpers get its name before theirs."""

    old: str
    new: str
    names: Collection[str]
    variables: Mapping[Place, str]
    parameters: str
    own: Any

    def __post_init__(self) -> None:
        self.own = {clause.head.relation for clause in self.own}

    def schema(self, schema: Schema, columns: tuple[Column, ...]) -> Schema:
        return replace(
            schema, name=f"{self.new}_{schema.name}", columns=(*columns, *schema.columns), role=Role.VIEW, keys=()
        )

    @property
    def _row(self) -> tuple[Variable, ...]:
        return tuple(map(Variable, self.variables.values()))

    def clause(self, clause: Clause) -> Clause:
        given: tuple[Literal, ...] = (Atom(self.parameters, self._row),) if self.variables else ()
        body: tuple[Any, ...] = (*given, *map(self._formula, clause.body))
        types = {**clause.types, **{name: place[1] for place, name in self.variables.items()}}
        return replace(clause, head=self._atom(clause.head), body=body, types=types)

    def _atom(self, atom: Atom) -> Atom:
        args = tuple(map(self._term, atom.args))
        if atom.relation not in self.own:
            return replace(atom, args=args)
        name = self.new if atom.relation == self.old else f"{self.new}_{atom.relation}"
        return replace(atom, relation=name, args=(*self._row, *args))

    def _formula(self, formula: Formula) -> Formula:
        match formula:
            case And(parts):
                return replace(formula, parts=tuple(map(self._formula, parts)))
            case Or(parts):
                return replace(formula, parts=tuple(map(self._formula, parts)))
            case Not(body):
                return replace(formula, body=self._formula(body))
            case Atom():
                return self._atom(formula)
            case Comparison(_, left, right):
                return replace(formula, left=self._term(left), right=self._term(right))
            case Test(_, args):
                return replace(formula, args=tuple(map(self._term, args)))

    def _term(self, term: Term) -> Term:
        def visit(node: Term, parts: tuple[Term, ...]) -> Term:
            match node:
                case Constant():
                    place = _place(node, self.names)
                    return node if place is None else Variable(self.variables[place], span=node.span)
                case Call():
                    return replace(node, args=parts)
                case Aggregate(_, target, body):
                    goal = None if target is None else self._term(target)
                    return replace(node, target=goal, body=self._formula(body))
                case _:
                    return node

        return fold(term, visit)
