"""Check queries: a body with parameters becomes clauses of a relation with the answers."""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from upshot.check.clause.clauses import ClauseMaker
from upshot.check.findings import Findings
from upshot.check.functors import Functors, resolved
from upshot.check.names.names import NameCheck
from upshot.check.names.type_names import types_of
from upshot.check.names.variables import atoms, fresh_name, occurrences, walk
from upshot.check.program import Clause
from upshot.check.strata import stratify
from upshot.check.types.constants import natural_type
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.core.types import BOOLEAN, DATE, FLOAT, TIMESTAMP, Kind, Type
from upshot.syntax.ast import Atom, Constant, Formula, Parameter, Rule, Variable

NO_FUNCTORS: Functors = MappingProxyType({})


def check_query(
    formula: Formula, schemas: Mapping[str, Schema], parameters: Mapping[str, Any], functors: Functors = NO_FUNCTORS
) -> tuple[Schema, tuple[Clause, ...]]:
    """The schema of the answers and the clauses that derive them.

    The columns are the variables of the body outside aggregates, in order of first appearance; each parameter becomes a
    typed constant. Raises `ProgramError` with all errors of the query.
    """
    findings = Findings()
    formula = resolved(formula, functors, findings)
    findings.raise_errors()
    names = NameCheck(schemas, frozenset(), findings, parameters=True)
    shallow = names.formula(formula)
    constants = _constants(formula, parameters, findings)
    firsts: dict[str, Variable] = {}
    for variable in occurrences(formula, inside_aggregates=False):
        firsts.setdefault(variable.name, variable)
    columns = tuple(firsts)
    name = fresh_name("query", schemas)
    head = Atom(name, tuple(firsts.values()), span=formula.span)
    maker = ClauseMaker(schemas, set(), types_of(schemas), findings, constants, head_words="the query")
    made = maker.rule((head,), formula, formula.span, infer=True, sound=not findings.errors) if shallow else []
    findings.raise_errors()
    types = [
        _answer_type([m.head_types[i] for m in made], column, formula.span, findings)
        for i, column in enumerate(columns)
    ]
    findings.raise_errors()
    schema = Schema(name, tuple(Column(c, t) for c, t in zip(columns, types, strict=True)), Role.VIEW)
    return schema, tuple(m.clause for m in made)


def unquoted_constants(formula: Formula, schemas: Mapping[str, Schema]) -> list[Diagnostic]:
    """Warn of variables that are probably text without quotes: in lower case, used once, in a column of text.

    A variable of one letter, or with the name of its column, is taken for a variable: `edge(x, y)`, `person(name)`.
    """
    counts = Counter(variable.name for variable in occurrences(formula))
    found = []
    for atom in atoms(formula):
        columns = schemas[atom.relation].columns if atom.relation in schemas else ()
        for term, column in zip(atom.args, columns, strict=False):
            if not isinstance(term, Variable) or counts[term.name] > 1 or column.type.kind is not Kind.SYMBOL:
                continue
            if len(term.name) > 1 and term.name[0].islower() and term.name != column.name:
                message = f"`{term.name}` is a variable that occurs once, and any value matches it"
                help = f'write `"{term.name}"` for the text, or `_` for any value'
                found.append(Diagnostic("unquoted-constant", message, term.span, help=help, severity=Severity.WARNING))
    return found


def check_rules(rules: Sequence[Rule], schemas: Mapping[str, Schema]) -> tuple[Clause, ...]:
    """The clauses of rules whose relations all have schemas. Raises `ProgramError` with all their errors."""
    findings = Findings()
    maker = ClauseMaker(schemas, set(), types_of(schemas), findings)
    made = [each.clause for rule in rules for each in maker.rule(rule.heads, rule.body, rule.span)]
    findings.raise_errors()
    own = {rule.heads[0].relation for rule in rules}
    stored = {name: replace(each, role=Role.VIEW if name in own else Role.BASE) for name, each in schemas.items()}
    stratify(stored, made)
    return tuple(made)


def _answer_type(types: Sequence[Type], column: str, span: Span | None, findings: Findings) -> Type:
    """The type of a column in all alternatives of the query."""
    first = types[0]
    for other in types[1:]:
        if (other.kind, other.scale) != (first.kind, first.scale):
            findings.error(
                "type-mismatch",
                f"`{column}` is `{first}` in one alternative of the query and `{other}` in another",
                span,
                label="two types in one column",
                help="run two queries, or use different variables",
            )
    name = first.name if all(t.name == first.name for t in types) else ""
    return replace(first, name=name, nullable=any(t.nullable for t in types))


def _constants(formula: Formula, parameters: Mapping[str, Any], findings: Findings) -> dict[str, Constant]:
    """The values of the parameters of the query; missing and unused ones are reported."""
    used = {n.name: n for n in walk(formula) if isinstance(n, Parameter)}
    for name, parameter in used.items():
        if name not in parameters:
            findings.error(
                "missing-parameter",
                f"parameter `${name}` has no value",
                parameter.span,
                label="not given",
                help=findings.suggest(name, list(parameters), f"give it: `{name}=…`"),
            )
    for name in parameters:
        if name not in used:
            findings.error(
                "unknown-parameter",
                f"the query has no parameter `${name}`",
                formula.span,
                label=f"`${name}` does not occur",
                help=findings.suggest(name, list(used), f"write `${name}` in the query, or omit the value"),
            )
    result = {}
    for name, parameter in used.items():
        if name in parameters:
            constant = value_constant(parameters[name], f"${name}", parameter.span, findings)
            if constant is not None:
                result[name] = constant
    return result


def binding(name: str, value: Any) -> Constant:
    """The constant for the value of a rule's parameter."""
    findings = Findings()
    constant = value_constant(value, name, None, findings)
    findings.raise_errors()
    assert constant is not None, "nothing was reported"
    return constant


def value_constant(value: Any, parameter: str, span: Span | None, findings: Findings) -> Constant | None:
    """The constant for a Python value; None if no column can store it, which is reported."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    match value:
        case None:
            return Constant(None)
        case bool():
            return Constant(value, BOOLEAN)
        case str():
            return Constant(value)
        case tuple() | list() | dict():
            return Constant(value)
        case Decimal() if value.is_finite():
            return Constant(value, natural_type(value, Kind.DECIMAL))
        case datetime.datetime() if value.tzinfo is not None:
            return Constant(value.astimezone(datetime.UTC), TIMESTAMP)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return Constant(value, DATE)
        case numbers.Integral():
            return Constant(int(value))
        case float():
            return Constant(float(value), FLOAT)
        case _:
            naive = isinstance(value, datetime.datetime)
            findings.error(
                "bad-parameter",
                f"parameter `{parameter}` cannot be a "
                + ("datetime without time zone" if naive else f"`{type(value).__name__}`"),
                span,
                label="cannot be bound",
                help="give it a time zone, for example UTC"
                if naive
                else "give an int, float, str, bool, Decimal, date, datetime, a tuple for a record, or None",
            )
            return None
