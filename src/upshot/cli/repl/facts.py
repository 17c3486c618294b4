"""Facts as they are typed, turned into rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError, counted, unknown_relation
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.syntax import parse
from upshot.syntax.ast import Atom, Constant, Program, Rule

Row = tuple[Any, ...]


def fact_rows(text: str, schemas: Mapping[str, Schema]) -> list[tuple[str, Row]]:
    """The relation and the row of each fact in a text such as `edge(1, 2)`."""
    program = parse(text.rstrip().removesuffix(".") + ".", "<repl>")
    return [(atom.relation, row(atom, schemas)) for atom in _atoms(program)]


def ground_facts(program: Program) -> list[Atom] | None:
    """The heads of a program that consists of facts only; None if there is anything else in it."""
    if not all(isinstance(item, Rule) and item.body is None for item in program.items):
        return None
    return list(_atoms(program))


def _atoms(program: Program) -> Iterable[Atom]:
    for item in program.items:
        if not isinstance(item, Rule) or item.body is not None:
            found = Diagnostic(
                "not-a-fact", "only facts can be inserted or deleted", item.span, help="as in +edge(1, 2)."
            )
            raise ProgramError([found])
        yield from item.heads


def row(atom: Atom, schemas: Mapping[str, Schema]) -> Row:
    """The row of an atom, its constants converted to the types of the columns."""
    if atom.relation not in schemas:
        raise unknown_relation(atom.relation, schemas)
    schema = schemas[atom.relation]
    if len(atom.args) != schema.arity:
        message = f"`{atom.relation}` has {counted(schema.arity, 'column')}, this fact has {len(atom.args)}"
        raise ProgramError([Diagnostic("wrong-arity", message, atom.span, help=f"the relation is `{schema}`")])
    values = []
    for term, column in zip(atom.args, schema.columns, strict=True):
        if not isinstance(term, Constant):
            found = Diagnostic("not-a-fact", "a fact has only constants", term.span, help="as in +edge(1, 2).")
            raise ProgramError([found])
        values.append(_converted(term, column.type))
    return tuple(values)


def _converted(constant: Constant, type: Type) -> Any:
    """Numbers take the type of the column; what does not fit is left for the engine to refuse by name."""
    value = constant.value
    if isinstance(value, str) and type.kind in (Kind.DATE, Kind.TIMESTAMP):
        kind = type.kind.value
        message = f"expected a {kind}, found text"
        raise ProgramError([Diagnostic("wrong-type", message, constant.span, help=f'write {kind}("{value}")')])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if type.kind is Kind.FLOAT:
        return float(value)
    if type.kind is Kind.DECIMAL:
        written = constant.span.text if constant.span is not None else repr(value)
        try:
            return Decimal(written)
        except InvalidOperation:
            return value
    return value
