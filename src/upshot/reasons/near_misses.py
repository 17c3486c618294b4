"""The near misses of a rule for a row: the largest sets of its literals that hold together, and their values.

As few literals as possible are omitted, and the others are queried. An omitted literal does not hold: otherwise fewer
would have been omitted. A literal with a variable that no queried literal binds is omitted too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import Clause, Literal
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.reasons.concrete import Row
from upshot.reasons.wording import substituted
from upshot.rewrite.normalize.term_type import term_type
from upshot.rewrite.shapes import retyped
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Term, Test, Variable

SMALL_BODY = 8
"""In rules of at most this many literals any may be omitted; in longer ones at most `FEW`."""
FEW = 3


@dataclass(frozen=True, slots=True)
class Ground:
    """A rule for a given row: `literals` are those of the body and the equations of the head, with the row's values."""

    clause: Clause
    literals: tuple[Literal, ...]
    types: dict[str, Type]


@dataclass(frozen=True, slots=True)
class LiteralChoice:
    """Literals that are queried together, by position; the others were `dropped`, or are `open` without them."""

    kept: tuple[int, ...]
    dropped: frozenset[int]
    open: frozenset[int]
    names: tuple[str, ...]

    @property
    def failing(self) -> int:
        return len(self.dropped) + len(self.open)


def grounded(clause: Clause, schema: Schema, row: Row) -> Ground | None:
    """The rule for this row; None if its head cannot be the row."""
    values: dict[str, Any] = {}
    tests: list[Literal] = []
    types = dict(clause.types)
    for term, column, value in zip(clause.head.args, schema.columns, row, strict=True):
        known: Term = Constant(value, column.type if value is None else column.type.required())
        match term:
            case Constant(other):
                if not same(other, value):
                    return None
            case Variable(name) if value is not None:
                if name in values and not same(values[name], value):
                    return None
                values[name] = value
                types[name] = column.type.required()
            case _:
                tests.append(Test("is_null", (term,)) if value is None else Comparison("=", known, term))
    literals = tuple(substituted(literal, values, types) for literal in (*clause.body, *tests))
    return Ground(clause, literals, types)  # type: ignore[arg-type] # literals stay literals


def same(left: Any, right: Any) -> bool:
    """Test whether two values are equal in a set: NULL is NULL, NaN is NaN."""
    return bool(left == right) or (left != left and right != right)


def choices(ground: Ground) -> Iterator[list[LiteralChoice]]:
    """The choices of literals, grouped by how many they omit, the fewest first."""
    count = len(ground.literals)
    most = count if count <= SMALL_BODY else FEW
    found: dict[tuple[int, ...], LiteralChoice] = {}
    for number in range(1, most + 1):
        for dropped in combinations(range(count), number):
            choice = _choice(ground, frozenset(dropped))
            other = found.get(choice.kept)
            if other is None or len(other.dropped) > len(choice.dropped):
                found[choice.kept] = choice
    nothing = LiteralChoice((), frozenset(range(count)), frozenset(), ())
    found.setdefault((), nothing)
    for failing in sorted({choice.failing for choice in found.values()}):
        yield [choice for choice in found.values() if choice.failing == failing]


def _choice(ground: Ground, dropped: frozenset[int]) -> LiteralChoice:
    outside = frozenset(
        name for literal in (ground.clause.head, *ground.clause.body)
        for name in variables(literal, inside_aggregates=False)
    )  # fmt: skip
    bound: dict[str, None] = {}
    kept: list[int] = []
    waiting = [place for place in range(len(ground.literals)) if place not in dropped]
    moved = True
    while moved:
        moved = False
        for place in list(waiting):
            binds = _binds(ground.literals[place], bound.keys(), outside)
            if binds is not None:
                bound |= dict.fromkeys(binds)
                kept.append(place)
                waiting.remove(place)
                moved = True
    return LiteralChoice(tuple(sorted(kept)), dropped, frozenset(waiting), tuple(bound))


def _binds(literal: Literal, bound: Collection[str], outside: frozenset[str]) -> tuple[str, ...] | None:
    """The variables that a literal binds, given bound ones; None if it needs others to be bound."""
    needs = set(_needed(literal, outside)).difference(bound)
    match literal:
        case Atom(_, args):
            direct = tuple(term.name for term in args if isinstance(term, Variable))
            return direct if needs <= set(direct) else None
        case Comparison("=", Variable(name), other) | Comparison("=", other, Variable(name)):
            rest = set(_needed(Test("", (other,)), outside)).difference(bound)
            if not rest:
                return (name,)
            if needs and name in bound and isinstance(other, Variable):
                return (other.name,)
            return None if needs else ()
        case _:
            return () if not needs else None


def _needed(literal: Literal, outside: frozenset[str]) -> Iterator[str]:
    """The variables that a literal shares with the rest of its rule."""
    yield from variables(literal, inside_aggregates=False)
    yield from (name for name in variables(literal) if name in outside)


def question(
    body: Sequence[Literal], names: Sequence[str], types: Mapping[str, Type], schemas: Mapping[str, Schema]
) -> tuple[Schema, Clause]:
    """The query for the values of these variables that make literals hold."""
    name = fresh_name("near_misses", schemas)
    known = dict(types)
    literals: list[Literal] = []
    for literal in body:
        match literal:
            case Comparison("=", Constant() as value, Aggregate() as folded):
                # Clauses have aggregates only as the value of a variable.
                variable = Variable(fresh_name("V", {*known, *names}))
                known[variable.name] = term_type(folded, types)
                literals += [Comparison("=", variable, folded), Comparison("=", variable, value)]
            case _:
                literals.append(literal)
    clause = retyped(Clause(Atom(name, tuple(map(Variable, names))), tuple(literals), known), schemas)
    columns = tuple(Column(f"v{place}", clause.types[each]) for place, each in enumerate(names))
    return Schema(name, columns, Role.VIEW), clause


def whole_row(atom: Atom) -> Row | None:
    values: Sequence[Any] = [term.value for term in atom.args if isinstance(term, Constant)]
    return tuple(values) if len(values) == len(atom.args) else None
