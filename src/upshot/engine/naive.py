"""The oracle: the rows of every view, straight from the definition. Slow on purpose; it shares nothing with the
engines.

In a body, literals that compute come last: an error is raised only for a binding that satisfies all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from upshot.check.program import CheckedProgram, Clause
from upshot.core.errors import DataError, OverflowError_
from upshot.core.types import NUMBER, SYMBOL, Kind, Type
from upshot.engine.naive_functions import RESULTS, aggregate, apply, holds, spread
from upshot.engine.naive_values import canonical, compare
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Or,
    SyntaxNode,
    Term,
    Test,
    Variable,
    Wildcard,
)

Row = tuple[Any, ...]
Binding = dict[str, Any]

RESERVED = {Kind.NUMBER: -(2**63), Kind.UNSIGNED: 2**64 - 1}
"""The one number that a nullable column cannot store."""


def evaluate(program: CheckedProgram, base: Mapping[str, set[Row]]) -> dict[str, set[Row]]:
    """The rows of every view: the perfect model over `base` and the facts of the program, stratum by stratum."""
    relations: dict[str, set[Row]] = {name: set() for name in program.schemas}
    for name, rows in [*base.items(), *program.facts.items()]:
        relations[program.input_part.get(name, name)] |= {tuple(map(canonical, row)) for row in rows}
    for component in program.strata:
        rules = [clause for clause in program.clauses if clause.head.relation in component]
        grown = True
        while grown:
            derived = {(rule.head.relation, row) for rule in rules for row in derive(rule, relations)}
            derived = {(view, row) for view, row in derived if not surpassed(program, view, row, relations[view])}
            grown = any(row not in relations[view] for view, row in derived)
            for view, row in derived:
                if any(
                    c.type.nullable and value is not None and value == RESERVED.get(c.type.kind)
                    for c, value in zip(program.schemas[view].columns, row, strict=True)
                ):
                    raise DataError(f"`{view}{row}` holds a reserved value", code="reserved-value")
                if any(
                    value is not None and value.copy_abs() >= Decimal(10) ** (c.type.precision - c.type.scale)
                    for c, value in zip(program.schemas[view].columns, row, strict=True)
                    if c.type.kind is Kind.DECIMAL
                ):
                    raise OverflowError_(f"`{view}{row}` has more digits than its columns", code="overflow")
                relations[view] -= {other for other in relations[view] if surpassed(program, view, other, {row})}
                if not surpassed(program, view, row, relations[view]):
                    relations[view].add(row)
    return {view: relations[view] for component in program.strata for view in component}


def surpassed(program: CheckedProgram, view: str, row: Row, others: Iterable[Row]) -> bool:
    """Test whether another row of the same group has a better value in the lattice column."""
    lattice = program.schemas[view].lattice
    if lattice is None:
        return False
    place, better = lattice.column, {"min": "<", "max": ">"}[lattice.function]
    return any(
        row[:place] + row[place + 1 :] == other[:place] + other[place + 1 :]
        and compare(better, other[place], row[place])
        for other in others
    )


def derive(rule: Clause, relations: Mapping[str, set[Row]]) -> Iterator[Row]:
    """The derived rows, one for each solution of the body."""
    world = OracleState(relations, rule.types)
    for binding in world.solve(rule.body, {}, names(rule.head)):
        yield tuple(world.value(term, binding) for term in rule.head.args)


class OracleState:
    """The current relations, and the types of one rule's variables."""

    def __init__(self, relations: Mapping[str, set[Row]], types: Mapping[str, Type]) -> None:
        self.relations, self.types = relations, types

    def solve(self, body: Iterable[Formula], binding: Binding, outside: frozenset[str]) -> list[Binding]:
        """Every extension of `binding` that makes the body true; `outside` are the names visible around it."""
        literals = sorted(body, key=computes)
        left, bound, solutions = sorted(literals, key=lambda each: is_result(each, literals)), set(binding), [binding]
        scope = outside.union(*map(names, left))
        while left:
            literal = next(each for each in left if ready(each, bound, scope))
            left.remove(literal)
            solutions = [longer for each in solutions for longer in self.extend(literal, each, scope)]
            bound |= names(literal)
        return solutions

    def extend(self, literal: Formula, binding: Binding, scope: frozenset[str]) -> Iterator[Binding]:
        """The extensions of `binding` that make one literal true."""
        match literal:
            case Atom(relation, args):
                for row in self.relations[relation]:
                    yield from self.unify(args, row, binding)
            case Comparison("=", Variable(name), Call("range", args)):
                for value in spread([self.value(arg, binding) for arg in args], self.types[name]):
                    if name not in binding or compare("=", binding[name], value):
                        yield {**binding, name: value}
            case Comparison("=", Variable(name), other) if name not in binding:
                if (value := self.value(other, binding, scope)) is not None:
                    yield {**binding, name: value}
            case Comparison("=", other, Variable(name) as unbound) if name not in binding:
                yield from self.extend(Comparison("=", unbound, other), binding, scope)
            case Comparison(op, left, right):
                if compare(op, self.value(left, binding, scope), self.value(right, binding, scope)):
                    yield binding
            case Test(name, args):
                if holds(name, [self.value(term, binding) for term in args]):
                    yield binding
            case Not(body):
                if not any(True for _ in self.extend(body, binding, scope)):
                    yield binding

    def unify(self, args: Sequence[Term], row: Row, binding: Binding) -> Iterator[Binding]:
        """The binding that makes the atom equal to the row, if there is one. A variable can be bound to NULL, but NULL
        never joins."""
        longer = dict(binding)
        for term, value in sorted(zip(args, row, strict=True), key=lambda pair: isinstance(pair[0], Call)):
            match term:
                case Wildcard():
                    pass
                case Variable(name) if name not in longer:
                    longer[name] = value
                case _ if not compare("=", self.value(term, longer), value):
                    return
        yield longer

    def value(self, term: Term, binding: Binding, scope: frozenset[str] = frozenset()) -> Any:
        """The value of the term; None for NULL and for the min, max and mean of nothing."""
        match term:
            case Variable(name):
                return binding[name]
            case Constant(value):
                return canonical(value)
            case Call(function, args):
                values = [self.value(arg, binding) for arg in args]
                return None if None in values else canonical(apply(function, values, self.type_of(term)))
            case Aggregate(function, target, body):
                solutions = self.alternatives(body, binding, scope)
                if target is None:
                    return aggregate(function, solutions, NUMBER)
                values = [v for each in solutions if (v := self.value(target, each)) is not None]
                return canonical(aggregate(function, values, self.type_of(target)))
        raise AssertionError(term)

    def alternatives(self, body: Formula, binding: Binding, scope: frozenset[str]) -> list[Binding]:
        """The solutions of an aggregate's body; of a disjunction, the distinct values of the variables of all parts."""
        if not isinstance(body, Or):
            return self.solve(body.parts if isinstance(body, And) else [body], binding, scope)
        kept = frozenset(binding) | frozenset.intersection(*map(names, body.parts))
        found = {
            tuple(sorted((name, value) for name, value in each.items() if name in kept))
            for part in body.parts
            for each in self.alternatives(part, binding, scope)
        }
        return [dict(each) for each in found]

    def type_of(self, term: Term) -> Type:
        match term:
            case Variable(name):
                return self.types[name]
            case Constant(_, type) if type is not None:
                return type
            case Call(function) if function in RESULTS:
                return RESULTS[function]
            case Call(function) if function.startswith("."):
                return Type(Kind(function[1:]))
            case Call(function, args):
                types = [self.type_of(arg) for arg in args]
                scales = [each.scale for each in types]
                return Type(types[0].kind, scale=sum(scales) if function == "*" else max(scales))
        return SYMBOL


def nodes(node: SyntaxNode, *, inside: bool = True) -> Iterator[SyntaxNode]:
    """The node and all below it; those of aggregates only if `inside`."""
    yield node
    if inside or not isinstance(node, Aggregate):
        fields: tuple[str, ...] = node.__match_args__
        for field in fields:
            part = getattr(node, field)
            for each in part if isinstance(part, tuple) else (part,):
                if isinstance(each, SyntaxNode):
                    yield from nodes(each, inside=inside)


def names(node: SyntaxNode, *, inside: bool = False) -> frozenset[str]:
    return frozenset(each.name for each in nodes(node, inside=inside) if isinstance(each, Variable))


def computes(literal: Formula) -> bool:
    return any(isinstance(each, Call | Aggregate) for each in nodes(literal))


def is_result(literal: Formula, body: Sequence[Formula]) -> bool:
    """Test whether the literal computes a value that no other literal reads: it can come after all others."""
    if not computes(literal) or not isinstance(literal, Comparison) or literal.op != "=":
        return False
    others = frozenset[str]().union(*(names(each, inside=True) for each in body if each is not literal))
    return any(isinstance(side, Variable) and side.name not in others for side in (literal.left, literal.right))


def ready(literal: Formula, bound: set[str], scope: frozenset[str]) -> bool:
    """Test whether all variables are bound that the literal cannot bind; for aggregates, those that also occur
    outside."""

    def needs(node: SyntaxNode) -> frozenset[str]:
        return names(node) | names(node, inside=True) & scope

    match literal:
        case Comparison("=", Variable(), other) if needs(other) <= bound:
            return True
        case Comparison("=", other, Variable()) if needs(other) <= bound:
            return True
        case Atom(_, args):
            return needs(literal) <= bound.union(arg.name for arg in args if isinstance(arg, Variable))
    return needs(literal) <= bound
