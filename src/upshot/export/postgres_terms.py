"""Names, types, values and conditions of a program in PostgreSQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from upshot.core.diagnostic import Diagnostic
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Kind, Type, most_digits
from upshot.syntax.ast import Aggregate, Call, Comparison, Constant, Term, Test, Variable

_TYPES = {
    Kind.NUMBER: "bigint",
    Kind.UNSIGNED: "numeric(20,0)",
    Kind.FLOAT: "double precision",
    Kind.SYMBOL: 'text COLLATE "C"',
    Kind.BOOLEAN: "boolean",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamptz",
}
_OPERATORS = {
    "+": (Kind.NUMBER, Kind.DECIMAL),
    "-": (Kind.NUMBER, Kind.DECIMAL),
    "*": (Kind.NUMBER,),
    "/": (Kind.NUMBER,),
    "%": (Kind.NUMBER,),
    "cat": (Kind.SYMBOL,),
}
"""Functions with an operator, and the kinds for which PostgreSQL has the same results."""
_SPELLED = {"cat": "||"}
_COMPARISONS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_AGGREGATES = {"count": (), "sum": (Kind.NUMBER, Kind.DECIMAL), "min": (), "max": ()}
SUPPORTED = "+ - * / % on numbers, + - on decimals, cat, strlen, to_string, is_null, contains, count, sum, min, max"

PRESENT = "present"
"""The column of a relation without columns; it is always true."""


@dataclass(slots=True)
class ExportFindings:
    """Collects the features of a program that cannot be exported."""

    found: list[Diagnostic] = field(default_factory=list)

    def refuse(self, feature: str, span: Span | None, help: str) -> str:
        """Add a finding. Returns a placeholder text, since no script is written."""
        finding = Diagnostic("not-exported", f"{feature} cannot be exported to PostgreSQL", span, help=help)
        if finding not in self.found:
            self.found.append(finding)
        return "NULL"


def quoted(name: str) -> str:
    """An identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def column_names(schema: Schema) -> list[str]:
    """The names of the columns in PostgreSQL, where a table has at least one."""
    return [quoted(column.name) for column in schema.columns] or [PRESENT]


def column_definitions(schema: Schema, findings: ExportFindings) -> list[str]:
    """The columns of `CREATE TABLE`."""
    if not schema.columns:
        return [f"{PRESENT} boolean NOT NULL DEFAULT true CHECK ({PRESENT})"]
    found = []
    for column in schema.columns:
        name, type = quoted(column.name), sql_type(column.type, schema, findings)
        check = f" CHECK ({name} BETWEEN 0 AND 18446744073709551615)" if column.type.kind is Kind.UNSIGNED else ""
        found.append(f"{name} {type}{'' if column.type.nullable else ' NOT NULL'}{check}")
    return found


def sql_type(type: Type, schema: Schema, findings: ExportFindings) -> str:
    if type.kind is Kind.RECORD:
        return findings.refuse(f"the record in `{schema.name}`", schema.span, "use one column for each of its parts")
    if type.kind is Kind.DECIMAL:
        return f"numeric({type.precision},{type.scale})"
    return _TYPES[type.kind]


def value_text(value: Any, type: Type) -> str:
    """A constant.

    >>> from upshot.core.types import NUMBER, SYMBOL
    >>> value_text(5, NUMBER), value_text("it's", SYMBOL)
    ('5::bigint', "'it''s'::text")
    """
    match value:
        case None:
            return f"NULL::{_constant_type(type)}"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            target = _constant_type(type)
            return f"{value}::{target}" if value >= 0 else f"({value})::{target}"
        case float():
            return f"'{value!r}'::double precision"
        case dt.datetime():
            return f"'{value.isoformat()}'::timestamptz"
        case dt.date():
            return f"'{value.isoformat()}'::date"
        case _:
            return f"{text_literal(str(value))}::text"


def _constant_type(type: Type) -> str:
    if type.kind is Kind.DECIMAL:
        return f"numeric({most_digits(type.scale)},{type.scale})"
    return "text" if type.kind in (Kind.SYMBOL, Kind.RECORD) else _TYPES[type.kind]


def text_literal(text: str) -> str:
    """A text literal that does not depend on the server's setting for backslashes."""
    doubled = text.replace("'", "''")
    return f" E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{doubled}'"


@dataclass(slots=True)
class Expressions:
    """Terms of a clause; `columns` has an expression for each bound variable."""

    types: Mapping[str, Type]
    findings: ExportFindings
    span: Span | None
    columns: dict[str, str] = field(default_factory=dict)

    def is_bound(self, term: Term) -> bool:
        match term:
            case Variable(name):
                return name in self.columns
            case Call(_, args):
                return all(map(self.is_bound, args))
            case _:
                return True

    def type_of(self, term: Term) -> Type:
        match term:
            case Variable(name):
                return self.types[name]
            case Constant(type=Type() as type):
                return type
            case Call(name, args):
                return Type(Kind.NUMBER) if name == "strlen" else self.type_of(args[0])
            case _:
                return Type(Kind.NUMBER)

    def text(self, term: Term) -> str:
        """The expression of a term."""
        match term:
            case Variable(name):
                return self.columns[name]
            case Constant(value, type):
                assert type is not None, "check gives every constant a type"
                if isinstance(value, str) and "\0" in value:
                    return self.findings.refuse(
                        "a text with the character 0", self.span, "PostgreSQL stores no such text"
                    )
                return value_text(value, type)
            case Call(name, args):
                return self._call(name, args)
            case _:
                return self.findings.refuse("this term", self.span, f"supported: {SUPPORTED}")

    def _call(self, name: str, args: Sequence[Term]) -> str:
        texts = [self.text(arg) for arg in args]
        kind = self.type_of(args[0]).kind if args else Kind.NUMBER
        if name == "neg" and kind in (Kind.NUMBER, Kind.DECIMAL):
            return f"(- {texts[0]})"
        if name == "strlen":
            return f"char_length({texts[0]})::bigint"
        if name == "to_string" and kind is Kind.NUMBER:
            return f"({texts[0]})::text"
        if kind in _OPERATORS.get(name, ()):
            return "(" + f" {_SPELLED.get(name, name)} ".join(texts) + ")"
        feature = f"function `{name}` on `{kind.value}`"
        return self.findings.refuse(feature, self.span, f"compute it before rows are inserted; supported: {SUPPORTED}")

    def comparison(self, literal: Comparison) -> str:
        """A condition, which is not true where one side is NULL."""
        left, right = self.text(literal.left), self.text(literal.right)
        ordered = literal.op not in ("=", "!=") and self.type_of(literal.left).kind is Kind.SYMBOL
        return f"{left}{' COLLATE ' + quoted('C') if ordered else ''} {_COMPARISONS[literal.op]} {right}"

    def test(self, literal: Test) -> str:
        texts = [self.text(arg) for arg in literal.args]
        match literal.name:
            case "is_null":
                return f"{texts[0]} IS NULL"
            case "contains":
                return f"strpos({texts[1]}, {texts[0]}) > 0"
            case "true" | "false":
                return literal.name.upper()
            case name:
                return self.findings.refuse(f"test `{name}`", self.span, f"supported: {SUPPORTED}")

    def fold(self, term: Aggregate, target: str) -> str:
        """The aggregate of a group that has rows; `target` is the expression of its values."""
        type = Type(Kind.NUMBER) if term.target is None else self.type_of(term.target)
        kinds = _AGGREGATES.get(term.function)
        refused = kinds is None or (kinds and type.kind not in kinds) or type.kind is Kind.BOOLEAN
        if refused or (term.target is not None and type.nullable):
            feature = f"aggregate `{term.function}` over `{type}`"
            return self.findings.refuse(
                feature, self.span, f"leave the view out of the exported program; supported: {SUPPORTED}"
            )
        if term.target is None:
            return "count(*)"
        digits = f"numeric({most_digits(type.scale)},{type.scale})" if type.kind is Kind.DECIMAL else "bigint"
        return f"sum({target})::{digits}" if term.function == "sum" else f"{term.function}({target})"
