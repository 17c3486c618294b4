"""The requests of a rule to its body when its head is to be inserted or deleted. [Behrend & Manthey 2008, Definition 9]

    p(X) :- q(X, Y), !r(Y), Y < 3.      ∇+p(X)  all of  ∇+q(X, Y), ∇-r(Y)  for some Y with Y < 3
                                        ∇-p(X)  one of  ∇-q(X, Y), ∇+r(Y)  for each Y with which it is derived

Used by the printed rules R∇, over programs with one operator per rule, and by the search, over rules as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from upshot.check.program import Clause, Literal
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.rewrite.shapes import row_variables, without_wildcards
from upshot.syntax.ast import Atom, Not

INSERT, DELETE = "+", "-"
REQUEST, CHANGE = "∇", "Δ"


@dataclass(frozen=True, slots=True)
class Signed:
    """A request (`∇+p`) for a row, or its change (`Δ+p`)."""

    kind: str
    sign: str
    atom: Atom


def request(sign: str, atom: Atom) -> Signed:
    return Signed(REQUEST, sign, atom)


@dataclass(frozen=True)
class RequestRule:
    """A rule in normal form, with variables for the wildcards of positive literals. `all_of` are the requests, in the
    order of the body, that must all be satisfied for the head to be derived."""

    clause: Clause
    all_of: tuple[Signed, ...]
    built_ins: tuple[Literal, ...]
    types: Mapping[str, Type]

    @cached_property
    def one_of(self) -> tuple[Signed, ...]:
        """The requests of which any ends the derivation of the head."""
        return tuple(replace(each, sign=_OTHER[each.sign]) for each in self.all_of)

    @cached_property
    def positive(self) -> tuple[Atom, ...]:
        return tuple(each.atom for each in self.all_of if each.sign == INSERT)

    @cached_property
    def negative(self) -> tuple[Atom, ...]:
        return tuple(each.atom for each in self.all_of if each.sign == DELETE)


_OTHER = {INSERT: DELETE, DELETE: INSERT}


def request_rule(clause: Clause, schemas: Mapping[str, Schema]) -> RequestRule:
    """The requests of a rule to its body."""
    types = dict(clause.types)
    all_of: list[Signed] = []
    built_ins: list[Literal] = []
    for literal in clause.body:
        match literal:
            case Atom(relation):
                schema = schemas[relation]
                all_of.append(request(INSERT, without_wildcards(literal, schema, types, row_variables(schema))))
            case Not(Atom() as atom):
                all_of.append(request(DELETE, atom))
            case _:
                built_ins.append(literal)
    return RequestRule(clause, tuple(all_of), tuple(built_ins), types)
