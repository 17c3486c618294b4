"""Infer the kind of every term of a clause, by unification of terms that must have equal kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upshot.check.clause.clause_form import Conjunction, RawLiteral, aggregate_bodies
from upshot.check.findings import Findings
from upshot.check.names.type_names import TypeNames
from upshot.check.names.variables import fold
from upshot.core.schema import Column, Schema
from upshot.core.span import Span
from upshot.core.structures import NIL, Structure
from upshot.core.types import Kind
from upshot.syntax import ast
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.signatures import ANY, NUMERIC, ORDERED, KindSet, only, preferred, spell, uniform
from upshot.values.structures import MAKE, read_form


@dataclass(frozen=True, slots=True)
class Typed:
    """A term with the class of its kind; `parts` are the arguments of a call."""

    term: ast.Term
    node: int
    parts: tuple[Typed, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedAggregate:
    target: Typed | None
    bodies: tuple[tuple[TypedLiteral, ...], ...]


@dataclass(frozen=True, slots=True)
class TypedLiteral:
    """A literal with its typed terms; in `Variable = aggregate` the variable is the only term."""

    literal: RawLiteral
    terms: tuple[Typed, ...]
    aggregate: TypedAggregate | None = None


class Kinds:
    """Equivalence classes of terms of one kind, as a union–find; linear in the size of the clause."""

    def __init__(self, schemas: Mapping[str, Schema], vague: set[str], findings: Findings, types: TypeNames) -> None:
        self._schemas = schemas
        self._types = types
        self._structures: dict[int, str] = {}
        self._built: list[Typed] = []
        self._vague = vague
        self._findings = findings
        self._parent: list[int] = []
        self._kinds: list[KindSet] = []
        self._why: list[tuple[Span | None, str]] = []
        self._variables: dict[str, int] = {}
        self.failed = False

    def kind(self, node: int) -> Kind:
        """The kind of a class; if several are possible, the preferred one."""
        return preferred(self._kinds[self._find(node)])

    def kind_of_variable(self, name: str) -> Kind:
        return self.kind(self._variables[name])

    def structure(self, node: int) -> Structure | None:
        """The record or algebraic data type of a class, if it is known."""
        return self._types.structures.get(self._structures.get(self._find(node), ""))

    def tag(self, term: ast.Term) -> str:
        """The tag of a branch; empty for a record."""
        return term.function[1:] if isinstance(term, ast.Call) and term.function.startswith("$") else ""

    def field_kind(self, type: str) -> Kind:
        return Kind.RECORD if type in self._types.structures else Kind(type)

    def settle(self) -> None:
        """Check the fields of all records against their types; the types of inner records follow from outer ones."""
        waiting = self._built
        while waiting:
            ready = [each for each in waiting if self.structure(each.node) is not None]
            if not ready:
                return
            waiting = [each for each in waiting if self.structure(each.node) is None]
            for each in ready:
                self._hold_fields(each)
        self._built = waiting

    def _hold_fields(self, typed: Typed) -> None:
        structure = self.structure(typed.node)
        assert structure is not None
        branch = structure.branch(self.tag(typed.term))
        count = len(typed.parts)
        if branch is None or len(branch.fields) != count or (isinstance(typed.term, ast.Constant) and branch is None):
            if not (isinstance(typed.term, ast.Constant) and structure.is_record):
                self._misshapen(typed, structure)
            return
        for part, (name, type) in zip(typed.parts, branch.fields, strict=True):
            if isinstance(part.term, ast.Wildcard):
                continue
            words = f"field `{name}` of `{structure.name}` is `{type}`"
            if self._hold(part, only(self.field_kind(type)), words) and type in self._types.structures:
                self._name(part, type, words)

    def _misshapen(self, typed: Typed, structure: Structure) -> None:
        self.failed = True
        self._findings.error(
            "type-mismatch",
            f"this is no value of `{structure.name}`",
            typed.term.span,
            label=f"expected `{structure}`",
            help="give as many fields as the type has",
        )

    def _name(self, typed: Typed, name: str, words: str) -> None:
        """Assign this structure to the class of the term."""
        root = self._find(typed.node)
        have = self._structures.setdefault(root, name)
        if have != name:
            self._other_structure(typed, have, words, typed.term.span)

    def _other_structure(self, typed: Typed, have: str, words: str, span: Span | None) -> None:
        self.failed = True
        self._findings.error(
            "type-mismatch", f"{_subject(typed.term)} is `{have}`, but {words}", span, label=f"`{have}` here",
            help="use values of one type in both places",
        )  # fmt: skip

    def atom(self, atom: ast.Atom) -> tuple[Typed, ...]:
        """The typed arguments, restricted to the kinds of the columns."""
        typed = tuple(self.term(a) for a in atom.args)
        schema = self._schemas.get(atom.relation)
        if schema is None or schema.arity != len(atom.args) or atom.relation in self._vague:
            return typed
        for argument, column in zip(typed, schema.columns, strict=True):
            self.reaches(argument, atom.relation, column)
        return typed

    def reaches(self, typed: Typed, relation: str, column: Column) -> None:
        """Restrict the term to the kind of the column."""
        kind = column.type.kind
        shown = column.type.required() if kind is Kind.RECORD else kind.value
        words = f"column `{column.name}` of `{relation}` is `{shown}`"
        if self._hold(typed, only(kind), words) and kind is Kind.RECORD and column.type.name:
            self._name(typed, column.type.name, words)

    def body(self, body: Conjunction) -> tuple[TypedLiteral, ...]:
        return tuple(self._literal(literal) for literal in body)

    def _literal(self, literal: RawLiteral) -> TypedLiteral:
        plain = literal.body if isinstance(literal, ast.Not) else literal
        match plain:
            case ast.Atom():
                return TypedLiteral(literal, self.atom(plain))
            case ast.Comparison(right=ast.Aggregate() as aggregate):
                return self._aggregate(literal, plain, aggregate)
            case ast.Comparison():
                left, right = self.term(plain.left), self.term(plain.right)
                fits = plain.op in ("=", "!=") or (
                    self._hold(left, ORDERED, f"`{plain.op}` compares values of any type but records")
                    and self._hold(right, ORDERED, f"`{plain.op}` compares values of any type but records")
                )
                if fits:
                    self._join(left, right, plain.span)
                return TypedLiteral(literal, (left, right))
            case ast.Test():
                typed = tuple(self.term(a) for a in plain.args)
                expected = TESTS[plain.name].arguments if plain.name in TESTS else ()
                for i, (argument, kinds) in enumerate(zip(typed, expected, strict=False)):
                    self._hold(argument, kinds, f"argument {i + 1} of `{plain.name}` must be {spell(kinds)}")
                return TypedLiteral(literal, typed)
            case _:
                raise TypeError(f"not a literal: {literal!r}")

    def _aggregate(self, literal: RawLiteral, plain: ast.Comparison, aggregate: ast.Aggregate) -> TypedLiteral:
        variable = self.term(plain.left)
        bodies = tuple(tuple(self._literal(part) for part in body) for body in aggregate_bodies(aggregate))
        target = None if aggregate.target is None else self.term(aggregate.target)
        if aggregate.function in AGGREGATES:
            signature = AGGREGATES[aggregate.function].signature
            words = f"`{aggregate.function}` gives {spell(signature.result)}"
            fits = True
            if target is not None and signature.arguments:
                kinds = signature.arguments[0]
                fits = self._hold(target, kinds, f"`{aggregate.function}` works on {spell(kinds)}")
            if signature.uniform and target is not None:
                if fits:
                    self._join(variable, target, aggregate.span)
            else:
                self._hold(variable, signature.result, words, span=aggregate.span)
        return TypedLiteral(literal, (variable,), TypedAggregate(target, bodies))

    def term(self, term: ast.Term) -> Typed:
        return fold(term, self._visit)

    def _visit(self, term: ast.Term, parts: tuple[Typed, ...]) -> Typed:
        match term:
            case ast.Variable(name):
                node = self._variables.get(name)
                if node is None:
                    node = self._variables[name] = self._node(ANY, term.span, "")
                return Typed(term, node)
            case ast.Constant():
                kinds = kinds_of_constant(term)
                made = Typed(term, self._node(kinds, term.span, f"it is written as {spell(kinds)}"))
                if kinds == only(Kind.RECORD) and term.value == NIL:
                    self._built.append(made)
                return made
            case ast.Call():
                return self._call(term, parts)
            case _:
                return Typed(term, self._node(ANY, term.span, ""))

    def _call(self, call: ast.Call, parts: tuple[Typed, ...]) -> Typed:
        if is_structure(call):
            return self._structured(call, parts)
        if call.function.startswith(ast.CAST):
            return self._cast(call, parts)
        function = FUNCTIONS.get(call.function)
        if function is None:
            return Typed(call, self._node(ANY, call.span, ""), parts)
        joins = call.function == "+" and all(self._kinds[self._find(p.node)] & only(Kind.SYMBOL) for p in parts)
        signature = _JOINING if joins else function.signature
        name = _spelled(call.function)
        typed = Typed(call, self._node(signature.result, call.span, f"`{name}` gives {spell(signature.result)}"), parts)
        for i, part in enumerate(parts):
            kinds = signature.argument(i)
            words = f"argument {i + 1} of `{name}` must be" if not signature.uniform else f"`{name}` works on"
            fits = self._hold(part, kinds, f"{words} {spell(kinds)}")
            if signature.uniform and fits:
                self._join(typed, part, part.term.span or call.span, operator=name)
        if call.function == MAKE and isinstance(parts[0].term, ast.Constant):
            for part, kind in zip(parts[1:], read_form(str(parts[0].term.value))[1], strict=True):
                self._hold(part, only(kind), f"this field is `{kind.value}`")
        return typed

    def _cast(self, call: ast.Call, parts: tuple[Typed, ...]) -> Typed:
        """`as(x, T)`: the same value with another type of the same kind."""
        written = ast.TypeName(call.function.removeprefix(ast.CAST), span=call.span)
        type = self._types.resolve(written, self._findings)
        typed = Typed(call, self._node(ANY, call.span, ""), parts)
        if type is None:
            self.failed = True
            return typed
        words = f"`as` does not convert it to a `{type.kind.value}`"
        if self._hold(typed, only(type.kind), words) and self._hold(parts[0], only(type.kind), words):
            if type.kind is Kind.RECORD:
                self._name(typed, type.name, words)
            self._join(typed, parts[0], call.span)
        return typed

    def _structured(self, call: ast.Call, parts: tuple[Typed, ...]) -> Typed:
        """A record or a branch, as the parser represents it."""
        typed = Typed(call, self._node(only(Kind.RECORD), call.span, "it is written as a record"), parts)
        tag = self.tag(call)
        if tag and tag not in self._types.branches:
            self.failed = True
            known = self._types.branches
            self._findings.error(
                "unknown-branch",
                f"no algebraic data type has a branch `{tag}`",
                call.span,
                label="unknown",
                help=self._findings.suggest(
                    tag, known, f"declare it: `.type T = {tag} {{…}} | …`; in queries `${tag}` is a parameter"
                ),
            )
            return typed
        if tag:
            self._name(typed, self._types.branches[tag], "")
        self._built.append(typed)
        return typed

    # ---- classes ------------------------------------------------------------------------------

    def _node(self, kinds: KindSet, span: Span | None, why: str) -> int:
        node = len(self._parent)
        self._parent.append(node)
        self._kinds.append(kinds)
        self._why.append((span, why))
        return node

    def _find(self, node: int) -> int:
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def _hold(self, typed: Typed, kinds: KindSet, words: str, *, span: Span | None = None) -> bool:
        """Restrict the class of a term to `kinds`, for the reason in `words`; False if that is impossible."""
        root = self._find(typed.node)
        have = self._kinds[root]
        both = have & kinds
        if not both:
            self._conflict(typed, kinds, words, span or typed.term.span, root)
            return False
        if both != have:
            self._kinds[root] = both
            self._why[root] = (span or typed.term.span, words)
        return True

    def _join(self, left: Typed, right: Typed, span: Span | None, *, operator: str = "") -> None:
        """Unify the classes of two terms."""
        a, b = self._find(left.node), self._find(right.node)
        if a == b:
            return
        both = self._kinds[a] & self._kinds[b]
        if not both:
            other = f"the other operands of `{operator}` are" if operator else f"{_subject(left.term)} is"
            self._conflict(right, self._kinds[a], f"{other} {spell(self._kinds[a])}", span, b, a)
            return
        keep, drop = (a, b) if self._kinds[a] == both else (b, a)
        self._parent[drop] = keep
        if drop in self._structures:
            name = self._structures.pop(drop)
            have = self._structures.setdefault(keep, name)
            if have != name:
                words = f"{_subject(left.term)} is `{have if keep == a else name}`"
                self._other_structure(right, name if keep == a else have, words, span)
        if self._kinds[keep] != both:
            self._why[keep] = (span, f"it must be {spell(both)}")
        self._kinds[keep] = both

    def _conflict(
        self, typed: Typed, expected: KindSet, words: str, span: Span | None, root: int, *others: int
    ) -> None:
        self.failed = True
        have = self._kinds[root]
        notes = []
        for place in (root, *others):
            where, why = self._why[place]
            if why and where is not None and where != span:
                notes.append((where, f"{spell(self._kinds[place])} because {why}"))
        self._findings.error(
            "type-mismatch",
            f"{_subject(typed.term)} is {_spell_of(typed.term, have)}, but {words}",
            span,
            label=f"{_spell_of(typed.term, have)} here",
            help=_advice(typed.term, have, expected, words),
            notes=tuple(notes),
        )


_JOINING = uniform(NUMERIC | only(Kind.SYMBOL), 2)
"""The signature of `+` if it can concatenate texts; then it becomes `cat`."""


def is_structure(term: ast.Term) -> bool:
    """Test whether the term is a record or a branch, as the parser represents it."""
    return isinstance(term, ast.Call) and (term.function == "[" or term.function.startswith("$"))


def kinds_of_constant(constant: ast.Constant) -> KindSet:
    """The possible kinds of a constant: all numeric kinds of an integer, all kinds of NULL."""
    value: Any = constant.value
    if constant.type is not None:
        kind = constant.type.kind
        return only(Kind.FLOAT, Kind.DECIMAL) if kind is Kind.FLOAT else only(kind)
    if value is None:
        return ANY
    if isinstance(value, bool):
        return only(Kind.BOOLEAN)
    if isinstance(value, int):
        return NUMERIC
    if isinstance(value, float):
        return only(Kind.FLOAT, Kind.DECIMAL)
    if isinstance(value, tuple | list | dict):
        return only(Kind.RECORD)
    # A text parameter can be a record; text in a program has a type.
    return only(Kind.SYMBOL, Kind.RECORD) if isinstance(value, str) else only(_KIND_OF_CLASS[type(value).__name__])


_KIND_OF_CLASS = {
    "Decimal": Kind.DECIMAL,
    "datetime": Kind.TIMESTAMP,
    "date": Kind.DATE,
}


def _subject(term: ast.Term) -> str:
    match term:
        case ast.Variable(name) if term.span is None or term.span.text == name:
            return f"`{name}`"
        case ast.Constant(value) if isinstance(value, int | float | str) and len(repr(value)) < 40:
            shown = str(value).lower() if isinstance(value, bool) else value
            return f'`"{shown}"`' if isinstance(value, str) else f"`{shown}`"
        case _:
            return "this value"


def _spelled(function: str) -> str:
    return "-" if function == "neg" else function


def _spell_of(term: ast.Term, kinds: KindSet) -> str:
    if isinstance(term, ast.Constant) and kinds == NUMERIC:
        return "an integer"
    return "`float`" if isinstance(term, ast.Constant) and isinstance(term.value, float) else spell(kinds)


def _advice(term: ast.Term, have: KindSet, expected: KindSet, words: str) -> str:
    if isinstance(term, ast.Constant) and isinstance(term.value, str):
        for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.DECIMAL):
            if expected == only(kind):
                return f'write `{kind.value}("{term.value[:40]}")`'
    if isinstance(term, ast.Constant) and kinds_of_constant(term) == NUMERIC and expected == only(Kind.SYMBOL):
        return f'write `"{term.value}"`'
    if have == only(Kind.SYMBOL) and "`+`" in words:
        return "join texts with `cat`"
    if have == only(Kind.SYMBOL) and expected == only(Kind.NUMBER):
        return "use `to_number` if the text is a number"
    if expected == only(Kind.SYMBOL) and have & only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT):
        return "convert it with `to_string`"
    return "use values of one type in both places"
