"""One question, answered once: a rule body with parameters, over the state as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upshot.check import check_query
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.database.state import State
from upshot.syntax import parse_query
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Formula, Not, Or, Parameter, Test, subterms


def query(state: State, text: object, values: Mapping[str, Any]) -> Rows:
    """The answers, one column a variable in order of appearance. Values are bound, never spliced into the text."""
    formula = _formula(text, values)
    with state.reading() as engine:
        schema, clauses = check_query(formula, state.schemas, values)
        return engine.query(schema, clauses)


def query_open(state: State, text: object, /, **values: Any) -> Rows:
    """The answers in the state that an open transaction has reached, for the functions that its rules call."""
    formula = _formula(text, values)
    schema, clauses = check_query(formula, state.schemas, values)
    return state.engine.query_open(schema, clauses, {})


def _formula(text: object, values: Mapping[str, Any]) -> Formula:
    if not isinstance(text, str):
        message = f"a query must be text, not {type(text).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in db.query("closure($x, Y)", x=1)')
    formula = parse_query(text)
    _match_parameters(formula, values)
    return formula


def _match_parameters(formula: Formula, values: Mapping[str, Any]) -> None:
    asked = {parameter.name: parameter for parameter in parameters(formula)}
    for name in values:
        if name not in asked:
            hint = did_you_mean(name, asked.keys() - values.keys()) or f"write `${name}` in the query"
            raise UsageError(f"parameter `{name}` does not occur in the query", code="unused-parameter", help=hint)
    for name, parameter in asked.items():
        if name not in values:
            message = f"parameter `${name}` has no value"
            raise UsageError(message, code="missing-parameter", span=parameter.span, help=f"pass {name}=…")


def parameters(formula: Formula) -> Iterator[Parameter]:
    """Every `$x` of the formula, from left to right."""
    match formula:
        case Atom(_, args) | Test(_, args):
            terms = args
        case Comparison(_, left, right):
            terms = (left, right)
        case Not(body):
            yield from parameters(body)
            return
        case And(parts) | Or(parts):
            for part in parts:
                yield from parameters(part)
            return
    for term in terms:
        for inner in subterms(term):
            if isinstance(inner, Parameter):
                yield inner
            elif isinstance(inner, Aggregate):
                if inner.target is not None:
                    yield from parameters(Test("", (inner.target,)))
                yield from parameters(inner.body)
