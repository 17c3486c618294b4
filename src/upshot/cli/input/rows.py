"""Rows and values on the command line, in the syntax of programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError, UsageError, counted, unknown_relation
from upshot.core.json_values import JsonMisfit, json_reader
from upshot.core.schema import Schema
from upshot.core.types import TEXTUAL, Kind, Type
from upshot.database.database import Database
from upshot.database.realization import Realization
from upshot.syntax import parse, parse_query
from upshot.syntax.ast import Atom, Constant, Program, Rule, Term, Variable

Row = tuple[Any, ...]

_EXAMPLE = "as in 'closure(1, 3)'"


def parse_row(text: str, database: Database) -> tuple[str, Row]:
    """The relation, or active rule, and the row of a fact such as `closure(1, 3)`."""
    if not text.strip(" ."):
        raise UsageError("the row is empty", code="not-a-fact", help=_EXAMPLE)
    atom = parse_query(text.rstrip().removesuffix("."))
    if not isinstance(atom, Atom):
        raise ProgramError([Diagnostic("not-a-fact", "not a row of a relation", atom.span, help=_EXAMPLE)])
    for term in atom.args:
        if not isinstance(term, Constant):
            raise ProgramError(
                [Diagnostic("not-a-fact", "a row has only constants", term.span, help=_correction(term))]
            )
    if atom.relation in database.rules:
        return atom.relation, tuple(term.value for term in atom.args if isinstance(term, Constant))
    return atom.relation, row(atom, database.schemas)


def _correction(term: Term) -> str:
    """Suggest quotes for a name without them, which is a variable."""
    return f'write text in quotes: "{term.name}"; {_EXAMPLE}' if isinstance(term, Variable) else _EXAMPLE


def fact_rows(text: str, schemas: Mapping[str, Schema]) -> list[tuple[str, Row]]:
    """The relation and the row of each fact in a text such as `edge(1, 2)`."""
    program = parse(text.rstrip().removesuffix(".") + ".", "<repl>")
    return [(atom.relation, row(atom, schemas)) for atom in _atoms(program)]


def ground_facts(program: Program) -> list[Atom] | None:
    """The facts of a program that consists of facts only, or None."""
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
    """Numbers take the type of the column. A value of another type is returned as it is; the engine rejects it."""
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


# ---- values ---------------------------------------------------------------------------------------


def constant(text: str) -> Any:
    """The value of a constant such as `7`, `"ops"` or `date("2026-01-31")`; other text stands for itself."""
    try:
        found = parse_query(f"value({text})")
    except ProgramError:
        return text
    if isinstance(found, Atom) and len(found.args) == 1 and isinstance(found.args[0], Constant):
        return found.args[0].value
    return text


def placeholder_values(texts: Sequence[str], realization: Realization) -> dict[str, Any]:
    """Parse `--value '?1=board'`: a value for each placeholder of the realization, of its type."""
    types = {each.name: each.type for each in realization.placeholders}
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = f"?{name.strip().lstrip('?')}"
        if not equals:
            message = f"`{text}` is not a placeholder and a value"
            raise UsageError(message, code="wrong-argument", help="as in `--value '?1=board'`")
        if name not in types:
            listed = ", ".join(f"`{each}`" for each in types)
            hint = f"it has {listed}" if listed else "it has no placeholders: omit `--value`"
            raise UsageError(f"the realization has no placeholder `{name}`", code="wrong-argument", help=hint)
        found[name] = _typed(value.strip(), types[name], name)
    if missing := [name for name in types if name not in found]:
        raise UsageError(
            f"no value for placeholder {', '.join(f'`{name}`' for name in missing)}",
            code="placeholder-open",
            help=f"give the value: `--value '{missing[0]}=…'`",
        )
    return found


def _typed(text: str, type: Type, name: str) -> Any:
    value = text if type.kind in TEXTUAL and not text.startswith('"') else constant(text)
    if isinstance(value, dt.date | bool):
        return value
    if isinstance(value, int | float) and type.kind in (Kind.FLOAT, Kind.DECIMAL):
        # The written decimal, not the nearest binary number.
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = text
    try:
        return json_reader(type)(value)
    except JsonMisfit as misfit:
        message = f"`{text}` is not a value for `{name}`: {misfit}"
        raise UsageError(message, code="wrong-argument", help=f"`{name}` needs a {type}") from None
