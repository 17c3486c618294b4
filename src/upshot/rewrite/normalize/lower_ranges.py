"""Replace `X = range(A, B)` by a recursive view of the values, for the bounds that the rule needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Kind, Type
from upshot.rewrite.normalize.occurrences import binders, visible
from upshot.rewrite.shapes import retyped
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Test, Variable
from upshot.values.functions import RANGE


def lower_ranges(program: CheckedProgram) -> CheckedProgram:
    """The program without `range`.

    `p(X) :- r(A, B), X = range(A, B), X > 3.` becomes

        p(X) :- r(A, B), p_range(A, B, X), X > 3.
        p_range(A, B, A) :- p_range_bounds(A, B), A != B.
        p_range(A, B, Y) :- p_range(A, B, X), A < B, Y = X + 1, Y < B.
        p_range(A, B, Y) :- p_range(A, B, X), A > B, Y = X - 1, Y > B.
        p_range_bounds(A, B) :- r(A, B).

    The bounds satisfy all literals that do not depend on the value, so that no range is longer than the rule needs.
    """
    if not any(_ranges(clause) for clause in program.clauses):
        return program
    work = _RangeLowering(dict(program.schemas))
    for clause in program.clauses:
        work.add(clause)
    return stratified(program, work.clauses, work.schemas, by="lower_ranges")


def _ranges(clause: Clause) -> list[int]:
    """The positions of the literals `Variable = range(…)`."""
    return [
        position
        for position, literal in enumerate(clause.body)
        if isinstance(literal, Comparison) and isinstance(literal.right, Call) and literal.right.function == RANGE
    ]


@dataclass(slots=True)
class _RangeLowering:
    schemas: dict[str, Schema]
    clauses: list[Clause] = field(default_factory=list)

    def add(self, clause: Clause) -> None:
        """Add the clause without its ranges, and the views that they need."""
        while places := _ranges(clause):
            outside = visible(clause.head, clause.body)
            plain = [literal for place, literal in enumerate(clause.body) if place not in places]
            bound = binders(plain, outside)
            place = next(p for p in places if all(name in bound for name in _bounds(clause.body[p])))
            known = tuple(literal for literal in plain if all(name in bound for name in variables(literal)))
            clause = self._lowered(clause, place, known)
        self.clauses.append(clause)

    def _lowered(self, clause: Clause, place: int, known: tuple[Literal, ...]) -> Clause:
        literal = clause.body[place]
        assert isinstance(literal, Comparison)
        assert isinstance(literal.left, Variable)
        assert isinstance(literal.right, Call)
        bounds, value = literal.right.args, literal.left
        type = Type(clause.types[value.name].kind)
        name = self._view(f"{clause.head.relation}_range", len(bounds) + 1, type)
        bounds_view = self._view(f"{name}_bounds", len(bounds), type)
        nullable = nullable_variables(known, self.schemas, ())
        guards = (Not(Test("is_null", (Variable(each),))) for each in _bounds(literal) if each in nullable)
        seeds = Clause(Atom(bounds_view, bounds), (*known, *guards), clause.types, clause.origin)
        values = _values(name, bounds_view, len(bounds), type, clause)
        self.clauses += (retyped(each, self.schemas) for each in (seeds, *values))
        atom = Atom(name, (*bounds, value), span=literal.span)
        lowered = replace(clause, body=(*clause.body[:place], atom, *clause.body[place + 1 :]))
        return retyped(lowered, self.schemas)

    def _view(self, wish: str, arity: int, type: Type) -> str:
        name = fresh_name(wish, self.schemas)
        columns = tuple(Column(each, type) for each in ("from", "to", "step", "value")[:arity])
        self.schemas[name] = Schema(name, columns, Role.VIEW)
        return name


def _bounds(literal: Literal) -> tuple[str, ...]:
    assert isinstance(literal, Comparison)
    return variables(literal.right)


_FROM, _TO, _STEP, _VALUE, _NEXT = (Variable(name) for name in ("From", "To", "Step", "Value", "Next"))


def _values(name: str, bounds_view: str, width: int, type: Type, clause: Clause) -> Iterator[Clause]:
    """The clauses of the values: the first value, and from each value the next, upwards or downwards."""
    bounds = (_FROM, _TO, _STEP)[:width]
    one = Constant(1.0 if type.kind is Kind.FLOAT else 1, type)
    zero = Constant(0.0 if type.kind is Kind.FLOAT else 0, type)
    rises, falls = Comparison("<", _FROM, _TO), Comparison(">", _FROM, _TO)
    types = {each.name: type for each in (*bounds, _VALUE, _NEXT)}

    def made(last: Variable, *body: Literal) -> Clause:
        return Clause(Atom(name, (*bounds, last)), body, types, clause.origin)

    seeds, before = Atom(bounds_view, bounds), Atom(name, (*bounds, _VALUE))
    if width == 2:
        yield made(_FROM, seeds, Comparison("!=", _FROM, _TO))
    else:
        yield made(_FROM, seeds, Comparison(">", _STEP, zero), rises)
        yield made(_FROM, seeds, Comparison("=", _STEP, zero), Comparison("!=", _FROM, _TO))
        if type.kind is not Kind.UNSIGNED:
            yield made(_FROM, seeds, Comparison("<", _STEP, zero), falls)
    up = Comparison("=", _NEXT, Call("+", (_VALUE, one if width == 2 else _STEP)))
    yield made(_NEXT, before, rises, up, Comparison("<", _NEXT, _TO))
    down = Comparison("=", _NEXT, Call("-", (_VALUE, one)) if width == 2 else up.right)
    if width == 2 or type.kind is not Kind.UNSIGNED:
        yield made(_NEXT, before, falls, down, Comparison(">", _NEXT, _TO))
