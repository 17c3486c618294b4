"""Queries of one shape: the values of parameters become columns, read from a relation of parameter rows.

`reach("a", Y)`, where `"a"` is the value of `$x`, becomes `live($x, Y) :- parameters($x), reach($x, Y).` and the row
`("a")` of `parameters`. Two queries that differ in nothing but the values have the same lifted clauses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upshot.check.names.variables import walk
from upshot.check.program import Clause
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.rewrite.shapes import relations_read
from upshot.syntax.ast import Atom, Constant, Variable
from upshot.syntax.rebuild import rebuilt

Place = tuple[str, Type]
"""A parameter and the type of its values: a parameter may be compared with columns of two types."""


@dataclass(frozen=True, slots=True)
class LiftedQuery:
    """`clauses` define `answer` and its `helpers`; the columns of `parameters`, if any, come first in all of them."""

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
        return {name for clause in self.clauses for name in relations_read(clause)}


def lift_parameters(
    answer: Schema, clauses: Sequence[Clause], helpers: Mapping[str, Schema], name: str, names: Collection[str]
) -> tuple[LiftedQuery, tuple[Any, ...]]:
    """The query with its parameters lifted, and their values as a row. `names` are those of the parameters: a constant
    whose source text is `$x` or `:x` is the value of parameter `x`. NULL and computed constants stay constants."""
    values: dict[Place, Any] = {}
    nodes = (each for clause in clauses for part in (clause.head, *clause.body) for each in walk(part))
    for constant in (each for each in nodes if isinstance(each, Constant)):
        place = _place(constant, names)
        if place is not None:
            values.setdefault(place, constant.value)
    places = sorted(values, key=lambda place: (place[0], str(place[1])))
    variables = {place: f"${place[0]}" + f"_{place[1].kind.value}" * _is_shared(place, places) for place in places}
    columns = tuple(Column(variables[place], place[1]) for place in places)
    own = frozenset(clause.head.relation for clause in clauses)
    lifting = _ParameterLifting(answer.name, name, names, variables, f"{name}_parameters", own)
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


@dataclass(frozen=True, slots=True)
class _ParameterLifting:
    """`old` is the relation of the answers, which is renamed to `new`; `own` are the relations that the clauses define,
    whose names get `new` as prefix; `parameters` is the relation of parameter rows."""

    old: str
    new: str
    names: Collection[str]
    variables: Mapping[Place, str]
    parameters: str
    own: frozenset[str]

    def schema(self, schema: Schema, columns: tuple[Column, ...]) -> Schema:
        return replace(
            schema, name=f"{self.new}_{schema.name}", columns=(*columns, *schema.columns), role=Role.VIEW, keys=()
        )

    def clause(self, clause: Clause) -> Clause:
        row = tuple(map(Variable, self.variables.values()))

        def visit(node: Any) -> Any:
            match node:
                case Constant() if (place := _place(node, self.names)) is not None:
                    return Variable(self.variables[place], span=node.span)
                case Atom(relation, args) if relation in self.own:
                    name = self.new if relation == self.old else f"{self.new}_{relation}"
                    return replace(node, relation=name, args=(*row, *args))
                case _:
                    return node

        parameters = (Atom(self.parameters, row),) if row else ()
        types = {**clause.types, **{name: place[1] for place, name in self.variables.items()}}
        return replace(
            clause, head=rebuilt(clause.head, visit), body=(*parameters, *rebuilt(clause.body, visit)), types=types
        )
