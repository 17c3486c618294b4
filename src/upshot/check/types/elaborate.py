"""Type clauses: the types of variables, conversion of constants, and the check of head columns.

The kinds of the clauses must agree and all variables must be bound, since types follow the order of binding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from upshot.check.clause.clause_form import Conjunction, RawLiteral, with_bodies, with_terms
from upshot.check.clause.safety import bind, names_inside, shared
from upshot.check.findings import Findings
from upshot.check.names.type_names import BUILT_IN, Names, TypeNames, name_of
from upshot.check.names.variables import occurrences
from upshot.check.types.constants import convert, natural_type
from upshot.check.types.kinds import Kinds, Typed, TypedAggregate, TypedLiteral
from upshot.check.types.nullability import can_be_null, nullable_variables
from upshot.core.schema import Column, Schema
from upshot.core.span import Span
from upshot.core.types import Kind, Type
from upshot.syntax import ast
from upshot.values.aggregates import AGGREGATES
from upshot.values.functions import FUNCTIONS

T = TypeVar("T")

FREE: Names = frozenset()
"""The names of a value that is in every subtype of its kind: a constant, or a computed value."""


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of a term, without NULL, and the declared types that its values belong to."""

    type: Type
    names: Names


@dataclass(frozen=True, slots=True)
class Target:
    """The head argument at `place` is stored in a column of another relation, where it is written as `term`."""

    place: int
    relation: str
    column: Column
    term: ast.Term


@dataclass(slots=True)
class Elaboration:
    """Types one clause; `failed` after an error."""

    schemas: Mapping[str, Schema]
    types: TypeNames
    kinds: Kinds
    findings: Findings
    values: dict[str, InferredType] = field(default_factory=dict)
    sources: dict[str, tuple[Span | None, str]] = field(default_factory=dict)
    nullable: set[str] = field(default_factory=set)
    failed: bool = False

    # ---- types of variables -------------------------------------------------------------------

    def scope(self, body: tuple[TypedLiteral, ...], outside: Collection[str], visible: set[str]) -> None:
        """Set the type of every variable that `body` binds, in the order of binding."""
        for typed in body:
            if isinstance(typed.literal, ast.Atom):
                self._sources(typed.literal, typed.terms)
        raw = tuple(t.literal for t in body)
        for position in bind(raw, outside, visible).definitions:
            self._definition(body[position], visible)

    def _sources(self, atom: ast.Atom, terms: tuple[Typed, ...]) -> None:
        for typed, column in zip(terms, self.schemas[atom.relation].columns, strict=True):
            if isinstance(typed.term, ast.Variable):
                value = InferredType(column.type.required(), frozenset({name_of(column.type)}))
                words = f"column `{column.name}` of `{atom.relation}`"
                self._give(typed.term, value, words)

    def _give(self, variable: ast.Variable, value: InferredType, words: str) -> None:
        """Restrict the type of a variable to the common values of its type and this one."""
        have = self.values.get(variable.name)
        if have is None:
            self.values[variable.name] = value
            self.sources[variable.name] = (variable.span, words)
            return
        if have.type.kind is Kind.DECIMAL and have.type.scale != value.type.scale:
            self._scales(variable, have.type, f"{words} has", value.type)
            return
        names = self._meet(have.names, value.names)
        if names is None:
            span, first = self.sources[variable.name]
            self._mismatch(
                f"`{variable.name}` is {_spell(value.names)} in {words}, but {_spell(have.names)} in {first}",
                variable.span,
                label="no value belongs to both types",
                help="use two variables, or give the columns a common type",
                notes=((span, f"{_spell(have.names)} here"),),
            )
            return
        narrower = value.type if names == value.names and names != have.names else have.type
        self.values[variable.name] = _renamed(narrower, names)

    def _meet(self, left: Names, right: Names) -> Names | None:
        if not left or not right:
            return left or right
        return self.types.meet(left, right) or None

    def _definition(self, typed: TypedLiteral, visible: set[str]) -> None:
        variable = typed.terms[0]
        if typed.aggregate is not None:
            assert isinstance(variable.term, ast.Variable)
            self._aggregate(typed, typed.aggregate, visible)
            return
        for target, source in (typed.terms, reversed(typed.terms)):
            term = target.term
            if isinstance(term, ast.Variable) and term.name not in self.values and self._known(source):
                self.values[term.name] = self.value(source)
                self.sources[term.name] = (term.span, "this equation")
        left, right = (t.term for t in typed.terms)
        if isinstance(left, ast.Variable) and isinstance(right, ast.Variable) and left.name != right.name:
            self._equate(left, right)

    def _equate(self, left: ast.Variable, right: ast.Variable) -> None:
        """Restrict both variables to their common types; if there are none, `_comparison` reports it."""
        a, b = self.values[left.name], self.values[right.name]
        names = self._meet(a.names, b.names)
        if names is not None:
            self.values[left.name] = _renamed(a.type, names)
            self.values[right.name] = _renamed(b.type, names)

    def _unrelated(self, left: ast.Term, a: InferredType, right: ast.Term, b: InferredType) -> None:
        self._mismatch(
            f"{_subject(left)} is {_spell(a.names)}, but {_subject(right)} is {_spell(b.names)}",
            right.span,
            label="no value belongs to both types",
            help="compare values of related types only",
        )

    def _known(self, typed: Typed) -> bool:
        return all(v.name in self.values for v in occurrences(typed.term))

    def _aggregate(self, typed: TypedLiteral, aggregate: TypedAggregate, visible: set[str]) -> None:
        comparison = typed.literal
        assert isinstance(comparison, ast.Comparison)
        variable, function = comparison.left, comparison.right
        assert isinstance(variable, ast.Variable)
        assert isinstance(function, ast.Aggregate)
        outside = shared(function, visible)
        for body in aggregate.bodies:
            self.scope(body, outside, names_inside(function, outside))
        kind = self.kinds.kind_of_variable(variable.name)
        value = InferredType(Type(kind), FREE)
        known = AGGREGATES.get(function.function)
        if aggregate.target is not None and known is not None and known.signature.uniform:
            value = self.value(aggregate.target)
            if function.function == "sum":
                value = replace(value, type=value.type.widest())
        elif aggregate.target is not None and known is not None:
            value = InferredType(known.result(self.value(aggregate.target).type), FREE)
        self._give(variable, value, f"`{function.function}`")

    # ---- types of terms -----------------------------------------------------------------------

    def value(self, typed: Typed) -> InferredType:
        """The type of a term whose variables are known."""
        return fold_typed(typed, self._value)

    def _value(self, typed: Typed, parts: tuple[InferredType, ...]) -> InferredType:
        kind = self.kinds.kind(typed.node)
        match typed.term:
            case ast.Variable(name):
                return self.values.get(name) or InferredType(Type(kind), FREE)
            case ast.Constant(value):
                return InferredType(natural_type(value, kind), FREE)
            case ast.Call():
                return self._call(typed.term, kind, parts)
            case _:
                return InferredType(Type(kind), FREE)

    def _call(self, call: ast.Call, kind: Kind, parts: tuple[InferredType, ...]) -> InferredType:
        if call.function.startswith(ast.CAST):
            name = call.function.removeprefix(ast.CAST)
            return _renamed(parts[0].type, frozenset({name_of(self.types.types.get(name, Type(kind)))}))
        if kind is not Kind.DECIMAL:
            return InferredType(Type(kind), FREE)
        return InferredType(FUNCTIONS[call.function].result([part.type for part in parts]), FREE)

    # ---- the finished clause ------------------------------------------------------------------

    def term(self, typed: Typed, place: Type | None = None) -> ast.Term:
        """The term with its constants converted; a single constant is converted to the type of its place."""
        if place is not None and isinstance(typed.term, ast.Constant):
            return convert(typed.term, place, self.findings)
        return fold_typed(typed, self._convert)

    def _convert(self, typed: Typed, parts: tuple[ast.Term, ...]) -> ast.Term:
        term = typed.term
        if isinstance(term, ast.Constant):
            return convert(term, natural_type(term.value, self.kinds.kind(typed.node)), self.findings)
        if isinstance(term, ast.Call):
            if term.function.startswith(ast.CAST):
                return parts[0]
            joins = term.function == "+" and self.kinds.kind(typed.node) is Kind.SYMBOL
            return ast.Call("cat" if joins else term.function, parts, span=term.span)
        return term

    def literal(self, typed: TypedLiteral, nullable: set[str], visible: set[str]) -> RawLiteral:
        """The literal with its constants converted; report values of different types."""
        plain = typed.literal.body if isinstance(typed.literal, ast.Not) else typed.literal
        match plain:
            case ast.Atom():
                result: RawLiteral = self._atom(plain, typed.terms, negated=plain is not typed.literal)
            case ast.Comparison() if typed.aggregate is not None:
                return self._finish_aggregate(plain, typed.aggregate, nullable, visible)
            case ast.Comparison():
                result = self._comparison(plain, typed.terms)
            case ast.Test():
                result = with_terms(plain, [self.term(t) for t in typed.terms])
            case _:
                raise TypeError(f"not a literal: {plain!r}")
        return ast.Not(result, span=typed.literal.span) if isinstance(typed.literal, ast.Not) else result

    def _atom(self, atom: ast.Atom, terms: tuple[Typed, ...], *, negated: bool) -> ast.Atom:
        columns = self.schemas[atom.relation].columns
        args = []
        for typed, column in zip(terms, columns, strict=True):
            if not isinstance(typed.term, ast.Constant | ast.Wildcard) and (
                negated or isinstance(typed.term, ast.Call)
            ):
                self._same_scale(typed, f"column `{column.name}` of `{atom.relation}`", column.type)
            if isinstance(typed.term, ast.Constant) and typed.term.value is None:
                self._null_matches_nothing(typed.term, negated)
            args.append(self.term(typed, column.type.required()))
        return ast.Atom(atom.relation, tuple(args), atom.state, span=atom.span)

    def _null_matches_nothing(self, term: ast.Constant, negated: bool) -> None:
        self.findings.warn(
            "null-comparison",
            "`null` in a literal matches nothing, not even NULL",
            term.span,
            label="always true" if negated else "never true",
            help="bind a variable there and test it: `r(X), is_null(X)`",
        )

    def _comparison(self, comparison: ast.Comparison, terms: tuple[Typed, ...]) -> ast.Comparison:
        left, right = terms
        a, b = self.value(left), self.value(right)
        if isinstance(left.term, ast.Constant) and not isinstance(right.term, ast.Constant):
            a = b
        elif isinstance(right.term, ast.Constant) and not isinstance(left.term, ast.Constant):
            b = a
        elif isinstance(left.term, ast.Constant) and isinstance(right.term, ast.Constant):
            a = b = a if a.type.scale >= b.type.scale else b
        elif a.type.scale != b.type.scale:
            self._scales(right.term, b.type, "the left side has", a.type)
        elif self._meet(a.names, b.names) is None:
            self._unrelated(left.term, a, right.term, b)
        if any(isinstance(t.term, ast.Constant) and t.term.value is None for t in terms):
            self.findings.warn(
                "null-comparison",
                "a comparison with `null` is never true",
                comparison.span,
                label="always false",
                help="test with `is_null(…)` or `!is_null(…)`",
            )
        return ast.Comparison(
            comparison.op, self.term(left, _widest(a.type)), self.term(right, _widest(b.type)), span=comparison.span
        )

    def _finish_aggregate(
        self, comparison: ast.Comparison, aggregate: TypedAggregate, nullable: set[str], visible: set[str]
    ) -> ast.Comparison:
        function = comparison.right
        assert isinstance(function, ast.Aggregate)
        outside = shared(function, visible)
        names = names_inside(function, outside)
        bodies: list[Conjunction] = []
        for body in aggregate.bodies:
            raw = tuple(each.literal for each in body)
            inside = nullable_variables(raw, self.schemas, outside, nullable.intersection(outside))
            self.nullable |= {n for n in inside if n not in visible}
            bodies.append(tuple(self.literal(t, inside, names) for t in body))
        target = None if aggregate.target is None else self.term(aggregate.target)
        return ast.Comparison("=", comparison.left, with_bodies(function, target, bodies), span=comparison.span)

    def head(self, atom: ast.Atom, terms: tuple[Typed, ...], nullable: set[str]) -> ast.Atom:
        """The head with its constants converted; report columns that get values of other types."""
        schema = self.schemas[atom.relation]
        args = []
        for typed, column in zip(terms, schema.columns, strict=True):
            self._reaches(typed, atom.relation, column, nullable)
            args.append(self.term(typed, column.type.required()))
        return ast.Atom(atom.relation, tuple(args), span=atom.span)

    def _reaches(self, typed: Typed, relation: str, column: Column, nullable: set[str]) -> None:
        where = f"column `{column.name}` of `{relation}`"
        if not isinstance(typed.term, ast.Constant):
            self._flow(typed, where, column)
        if not column.type.nullable and can_be_null(typed.term, nullable):
            self._null(typed.term, where, column)

    def inferred_head(
        self, atom: ast.Atom, terms: tuple[Typed, ...], nullable: set[str], targets: Sequence[Target] = ()
    ) -> tuple[ast.Atom, list[Type]]:
        """The head of a relation without declaration, and the inferred types of its columns."""
        types = []
        for typed in terms:
            type = self.value(typed).type
            types.append(type.optional() if can_be_null(typed.term, nullable) else type)
        for target in targets:
            typed, column = replace(terms[target.place], term=target.term), target.column
            self._reaches(typed, target.relation, column, nullable)
            if isinstance(typed.term, ast.Constant):
                types[target.place] = column.type if typed.term.value is None else column.type.required()
        args = tuple(self.term(t, type.required()) for t, type in zip(terms, types, strict=True))
        return ast.Atom(atom.relation, args, span=atom.span), types

    def _flow(self, typed: Typed, where: str, column: Column) -> None:
        value = self.value(typed)
        if not self._same_scale(typed, where, column.type):
            return
        if not self.types.flows(value.names, name_of(column.type)):
            subject = _subject(typed.term)
            self._mismatch(
                f"{subject} is {_spell(value.names)}, but {where} is `{name_of(column.type)}`",
                typed.term.span,
                label=f"not every value of {_spell(value.names)} is a `{name_of(column.type)}`",
                help=f"declare the column with a wider type, or take {subject} from a `{name_of(column.type)}` column",
            )

    def _null(self, term: ast.Term, where: str, column: Column) -> None:
        names = [v.name for v in occurrences(term) if v.name in self.nullable]
        if isinstance(term, ast.Constant):
            message, help = f"{where} cannot be `null`", f"declare it as `{column.type}?`"
        else:
            message = f"{f'`{names[0]}`' if names else 'this value'} can be NULL, but {where} cannot"
            guard = f"add `!is_null({names[0]})` to the body, or " if names else ""
            help = f"{guard}declare the column as `{column.type}?`"
        self.failed = True
        self.findings.error("nullable-value", message, term.span, label="can be NULL", help=help)

    def _same_scale(self, typed: Typed, where: str, type: Type) -> bool:
        if type.kind is not Kind.DECIMAL or isinstance(typed.term, ast.Wildcard):
            return True
        value = self.value(typed)
        if value.type.scale == type.scale:
            return True
        self._scales(typed.term, value.type, f"{where} has", type)
        return False

    def _scales(self, term: ast.Term, have: Type, words: str, other: Type) -> None:
        zeros = "0." + "0" * max(have.scale, other.scale)
        self._mismatch(
            f"{_subject(term)} has {have.scale} digits after the point, but {words} {other.scale}",
            term.span,
            label="decimals of different scale",
            help=f'use one scale; adding `decimal("{zeros}")` widens a value',
        )

    def _mismatch(
        self,
        message: str,
        span: Span | None,
        *,
        label: str,
        help: str,
        notes: tuple[tuple[Span | None, str], ...] = (),
    ) -> None:
        self.failed = True
        self.findings.error("type-mismatch", message, span, label=label, help=help, notes=notes)

    def variable_types(self) -> dict[str, Type]:
        """The type of every variable of the clause, including NULL."""
        return {n: v.type.optional() if n in self.nullable else v.type for n, v in self.values.items()}


def fold_typed(typed: Typed, visit: Callable[[Typed, tuple[T, ...]], T]) -> T:
    """Fold a typed term bottom-up, without recursion."""
    if not typed.parts:
        return visit(typed, ())
    every: list[Typed] = []
    stack = [typed]
    while stack:
        current = stack.pop()
        every.append(current)
        stack.extend(reversed(current.parts))
    done: list[T] = []
    for current in reversed(every):
        parts = tuple(done.pop() for _ in current.parts)
        done.append(visit(current, parts))
    return done[0]


def _widest(type: Type) -> Type:
    """The type for comparisons with values of this type: of a decimal only the scale matters."""
    return replace(type.widest(), name="") if type.kind is Kind.DECIMAL else type


def _renamed(type: Type, names: Names) -> InferredType:
    """The value of the type, with the name of the declared type if there is only one."""
    if len(names) != 1:
        return InferredType(type, names)
    (name,) = names
    return InferredType(replace(type, name="" if name in BUILT_IN else name), names)


def _spell(names: Names) -> str:
    return " or ".join(f"`{n}`" for n in sorted(names)) if names else "a value"


def _subject(term: ast.Term) -> str:
    return f"`{term.name}`" if isinstance(term, ast.Variable) else "this value"
