"""Programs with the columns of every relation packed into one record, and the rows on both sides of that.

The flat program is the judge: it has no records, so nothing of how they are checked, made or taken apart takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.properties.cases import Row
from upshot.core.schema import Schema
from upshot.engine import naive_values
from upshot.syntax import parse, print_program
from upshot.syntax.ast import (
    Atom,
    Attribute,
    BranchDeclaration,
    Call,
    Declaration,
    Item,
    Not,
    Program,
    SyntaxNode,
    Term,
    TypeDeclaration,
    TypeName,
    Wildcard,
)
from upshot.syntax.rebuild import rebuilt


@dataclass(frozen=True, slots=True)
class Packing:
    """One way to hold the columns of a relation in a value."""

    types: Callable[[Declaration], list[Item]]
    term: Callable[[str, tuple[Term, ...]], Term]
    value: Callable[[str, Row], object]
    row: Callable[[str], Row]


def _type(name: str, branches: tuple[BranchDeclaration, ...]) -> Item:
    return TypeDeclaration(name, (), True, branches)


def _flat(name: str, args: tuple[Term, ...]) -> Term:
    return Call("[", args)


def _nested(name: str, args: tuple[Term, ...]) -> Term:
    return Call("[", (args[0], Call("[", args[1:])))


RECORD = Packing(
    lambda d: [_type(f"T_{d.name}", (BranchDeclaration("", d.attributes),))],
    _flat,
    lambda name, row: row,
    lambda text: naive_values.read(text)[1:],
)
BRANCH = Packing(
    lambda d: [
        _type(f"T_{d.name}", (BranchDeclaration(f"Other_{d.name}", ()), BranchDeclaration(f"B_{d.name}", d.attributes)))
    ],
    lambda name, args: Call(f"$B_{name}", args),
    lambda name, row: {f"B_{name}": row},
    lambda text: naive_values.read(text)[1:],
)
NESTED = Packing(
    lambda d: [
        _type(f"R_{d.name}", (BranchDeclaration("", d.attributes[1:]),)),
        _type(
            f"T_{d.name}",
            (BranchDeclaration("", (d.attributes[0], Attribute("rest", TypeName(f"R_{d.name}")))),),
        ),
    ],
    _nested,
    lambda name, row: (row[0], row[1:]),
    lambda text: (naive_values.read(text)[1], *naive_values.read(text)[2][1:]),
)
PACKINGS = (RECORD, BRANCH, NESTED)


def packing(seed: int, schema: Schema) -> Packing:
    """The way that a relation is packed; one column alone cannot be split."""
    choice = (seed + sum(map(ord, schema.name))) % len(PACKINGS if schema.arity > 1 else PACKINGS[:2])
    return PACKINGS[choice]


class CannotPack(Exception):
    """A negated literal with `_` in it, which is no record."""


def packed(text: str, seed: int, schemas: dict[str, Schema]) -> str:
    """The program over records."""

    def change(node: SyntaxNode) -> SyntaxNode:
        match node:
            case Not(body=Atom(args=(Call(args=args),))) if any(isinstance(n, Wildcard) for n in _deep(args)):
                raise CannotPack
            case Atom(relation=name, args=args) if args:
                return replace(node, args=(packing(seed, schemas[name]).term(name, args),))
            case _:
                return node

    items: list[Item] = []
    for item in parse(text).items:
        if isinstance(item, Declaration) and item.attributes:
            items += packing(seed, schemas[item.name]).types(item)
            column = Attribute("value", TypeName(f"T_{item.name}"))
            items.append(replace(item, attributes=(column,)))
        else:
            items.append(rebuilt(item, change))
    return print_program(Program(tuple(items)))


def _deep(terms: tuple[Term, ...]) -> list[Term]:
    found: list[Term] = []
    for term in terms:
        found += [term, *(_deep(term.args) if isinstance(term, Call) else [])]
    return found
