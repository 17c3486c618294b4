"""A second opinion on the oracle: the integer-and-symbol fragment of a program, evaluated by the solver clingo.

A stratified program has one stable model, its perfect model. Clingo aggregates over sets of term tuples, so each tuple
carries every variable of the aggregate's body, `_` included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import clingo

from upshot.check.program import CheckedProgram, Clause
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Term,
    Test,
    Variable,
    Wildcard,
)

Row = tuple[Any, ...]


class Unsupported(Exception):
    """The program leaves the fragment that clingo evaluates with the same meaning."""


def evaluate(program: CheckedProgram, base: Mapping[str, Iterable[Row]]) -> dict[str, set[Row]]:
    """The rows of every view in the only stable model."""
    control = clingo.Control(["--warn=none"], logger=lambda *_: None)
    facts = [f"{_name(name)}{_tuple(map(_constant, row))}." for name, rows in base.items() for row in rows]
    more = [f"{_name(name)}{_tuple(map(_constant, row))}." for name, rows in program.facts.items() for row in rows]
    control.add("base", [], "\n".join([*facts, *more, translate(program)]))
    control.ground([("base", [])])
    views = {_name(view): view for component in program.strata for view in component}
    found: dict[str, set[Row]] = {view: set() for view in views.values()}
    with control.solve(yield_=True) as models:
        (model,) = [list(each.symbols(atoms=True)) for each in models]
    for symbol in model:
        if symbol.name in views:
            found[views[symbol.name]].add(tuple(_value(each) for each in symbol.arguments))
    return found


def translate(program: CheckedProgram) -> str:
    """The rules as clingo's input.

    `p(X, N) :- r(X), N = sum Y : { s(X, Y, _) }.` becomes
    `r_p(V_X,V_N) :- r_r(V_X), V_N = #sum { V_Y,V_Y,A_1 : r_s(V_X,V_Y,A_1) }.`
    """
    return "\n".join(map(_rule, program.clauses))


def _rule(clause: Clause) -> str:
    body = ", ".join(_literal(literal) for literal in clause.body)
    return f"{_atom(clause.head)} :- {body}." if body else f"{_atom(clause.head)}."


def _literal(literal: Formula) -> str:
    match literal:
        case Atom():
            return _atom(literal)
        case Not(Atom() as atom):
            return f"not {_atom(atom)}"
        case Comparison("=", other, Aggregate() as aggregate) | Comparison("=", Aggregate() as aggregate, other):
            return _aggregate(_term(other), aggregate)
        case Comparison(op, left, right):
            return f"{_term(left)} {op} {_term(right)}"
        case Test("true" | "false" as name):
            return f"#{name}"
        case Not(Test("is_null")):
            return "#true"  # no value of the fragment is NULL
    raise Unsupported(literal)


def _atom(atom: Atom) -> str:
    return f"{_name(atom.relation)}{_tuple(map(_term, atom.args))}"


def _aggregate(result: str, aggregate: Aggregate) -> str:
    fresh = count(1)
    parts = aggregate.body.parts if isinstance(aggregate.body, And) else (aggregate.body,)
    named: list[Formula] = []
    for part in parts:
        if isinstance(part, Atom):
            args = tuple(Variable(f"*{next(fresh)}") if isinstance(arg, Wildcard) else arg for arg in part.args)
            named.append(Atom(part.relation, args))
        else:
            named.append(part)
    inside = list(dict.fromkeys(name for part in named for name in _variables(part)))
    key = ",".join(inside) or "0"
    body = ", ".join(_literal(part) for part in named)
    match aggregate.function, aggregate.target:
        case "count", None:
            return f"{result} = #count {{ {key} : {body} }}"
        case "sum", target if target is not None:
            return f"{result} = #sum {{ {_term(target)},{key} : {body} }}"
        case ("min" | "max") as function, target if target is not None:
            empty = "#sup" if function == "min" else "#inf"
            return f"{result} = #{function} {{ {_term(target)},{key} : {body} }}, {result} != {empty}"
    raise Unsupported(aggregate)


def _variables(node: Formula | Term) -> list[str]:
    match node:
        case Variable():
            return [_term(node)]
        case Atom(_, args) | Call(_, args):
            return [name for arg in args for name in _variables(arg)]
        case Comparison(_, left, right):
            return [*_variables(left), *_variables(right)]
        case Not(body):
            return _variables(body)
        case Aggregate():
            raise Unsupported(node)
    return []


def _term(term: Term) -> str:
    match term:
        case Variable(name):
            return f"A_{name[1:]}" if name.startswith("*") else f"V_{name}"
        case Wildcard():
            return "_"
        case Constant(value):
            return _constant(value)
        case Call("neg", (inner,)):
            return f"(-{_term(inner)})"
        case Call("+" | "-" | "*" as op, (left, right)):
            return f"({_term(left)} {op} {_term(right)})"
    raise Unsupported(term)


def _constant(value: Any) -> str:
    match value:
        case bool() | None | float():
            raise Unsupported(value)
        case int():
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
            return f'"{escaped}"'
    raise Unsupported(value)


def _value(symbol: clingo.Symbol) -> int | str:
    return symbol.number if symbol.type is clingo.SymbolType.Number else symbol.string


def _name(relation: str) -> str:
    return f"r_{relation}"


def _tuple(terms: Iterable[str]) -> str:
    inside = ",".join(terms)
    return f"({inside})" if inside else ""
