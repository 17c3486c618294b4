"""The requests of a rule to its body when its head is to be inserted or deleted. [Behrend & Manthey 2008, Definition 9]

    p(X) :- q(X, Y), !r(Y), Y < 3.      ∇+p(X)  all of  ∇+q(X, Y), ∇-r(Y)  for some Y with Y < 3
                                        ∇-p(X)  one of  ∇-q(X, Y), ∇+r(Y)  for each Y with which it is derived

The rules that are printed for a program with one operator a rule, R∇, and the search, which takes a rule as it stands,
both have it from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from upshot.check.names.variables import all_names, fresh_name
from upshot.check.program import Clause, Literal
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.rewrite.normalize.term_type import row_variables
from upshot.syntax.ast import Atom, Not, Term, Variable, Wildcard

INSERT, DELETE = "+", "-"
REQUEST, CHANGE = "∇", "Δ"


@dataclass(frozen=True, slots=True)
class Signed:
    """A request (`∇+p`) for a row, or its change (`Δ+p`)."""

    kind: str
    sign: str
    atom: Atom


def asked(sign: str, atom: Atom) -> Signed:
    return Signed(REQUEST, sign, atom)


@dataclass(frozen=True)
class RequestRule:
    """A rule in normal form, in whose positive literals `_` has become a variable. `all_of` is what has to come true,
    or to go, for its head to be derived, as far as it is not so already, in the order of its body."""

    clause: Clause
    all_of: tuple[Signed, ...]
    built_ins: tuple[Literal, ...]
    types: Mapping[str, Type]

    @cached_property
    def one_of(self) -> tuple[Signed, ...]:
        """The literals whose change ends the derivation of the head."""
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
    taken, types = {*clause.types, *all_names([clause.head, *clause.body])}, dict(clause.types)

    def named(atom: Atom) -> Atom:
        if not any(isinstance(term, Wildcard) for term in atom.args):
            return atom
        args: list[Term] = []
        schema = schemas[atom.relation]
        for term, column, name in zip(atom.args, schema.columns, row_variables(schema), strict=True):
            if isinstance(term, Wildcard):
                term = Variable(fresh_name(name, taken))
                taken.add(term.name)
                types[term.name] = column.type
            args.append(term)
        return replace(atom, args=tuple(args))

    all_of: list[Signed] = []
    built_ins: list[Literal] = []
    for literal in clause.body:
        match literal:
            case Atom():
                all_of.append(asked(INSERT, named(literal)))
            case Not(Atom() as atom):
                all_of.append(asked(DELETE, atom))
            case _:
                built_ins.append(literal)
    return RequestRule(clause, tuple(all_of), tuple(built_ins), types)
