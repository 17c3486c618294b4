"""The translation of one statement: the relations that it can read, its variables, and its auxiliary views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.check.clause.clause_form import Conjunction, TooMany, alternatives
from upshot.check.names.variables import fresh_name, variables
from upshot.check.types.nullability import can_be_null, nullable_variables
from upshot.core.schema import Column, Lattice, Role, Schema
from upshot.core.span import Span
from upshot.core.types import Kind, Type
from upshot.sql.expressions.formulas import FALSE, TRUE, bound_names, conjunction, conjuncts, without_idle_names
from upshot.sql.expressions.values import Value, combinations, filler
from upshot.sql.queries.sources import FromItem, Scope, SourceColumn
from upshot.sql.trouble import Statement
from upshot.syntax import literals, operators
from upshot.syntax.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Declaration,
    Formula,
    Item,
    Rule,
    Term,
    TypeName,
    Variable,
)

if TYPE_CHECKING:
    from upshot.sql.queries.queries import QueryReader

_NO_VARIABLES = {*operators.AGGREGATES, *operators.INFIX, *operators.PREFIX, *operators.TESTS, *operators.STATES}
_NUMBERED = re.compile(r"(?:_\d+)+$")
_NO_VARIABLES |= {*literals.CONSTANT_NAMES, *literals.TAGGED, "_", "nil"}


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a query: conditions, and the values of the columns if they hold."""

    parts: tuple[Formula, ...]
    values: tuple[Value, ...]
    identity: tuple[Value, ...] = ()
    """The values that distinguish equal rows, where requested."""
    span: Span | None = None
    """The place of its query."""

    @property
    def nodes(self) -> Iterator[Formula | Term]:
        """The parts, and the conditions and terms of the values."""
        yield from self.parts
        for value in self.values:
            yield from value.nodes


@dataclass(slots=True)
class Translation:
    """The auxiliary views are added to `schemas`; they belong to `owner`, and their names begin with its name."""

    statement: Statement
    schemas: dict[str, Schema]
    owner: str
    reader: QueryReader
    """Reads queries inside expressions."""
    reserved: frozenset[str] = frozenset()
    """Names of other relations, visible or not."""
    parameters: Mapping[str, Constant] = field(default_factory=dict)
    functors: Mapping[str, str] = field(default_factory=dict)
    """The signatures of the functions of the user, by `@name`."""
    now: datetime | None = None
    """The time of a query; a view and a live query have none."""
    reads_clock: bool = False
    """Set if a term depends on the time."""
    items: list[Item] = field(default_factory=list)
    homes: dict[str, FromItem] = field(default_factory=dict)
    """The source of each variable of a column."""
    _taken: set[str] = field(default_factory=set)

    @property
    def is_view(self) -> bool:
        """Test whether the statement is a part of the program, and no query."""
        return self.statement.kind != "query"

    # ---- names ----------------------------------------------------------------------------------

    def variable(self, wish: str) -> Variable:
        """A variable that occurs nowhere else in the statement."""
        name = fresh_name(variable_name(_NUMBERED.sub("", wish)), self._taken)
        self._taken.add(name)
        return Variable(name)

    def source(self, relation: str, table: str, names: Sequence[str] = (), hidden: int = 0) -> FromItem:
        """A source over the relation, with new variables; its last `hidden` columns have no names."""
        schema = self.schemas[relation]
        named = schema.columns[: schema.arity - hidden]
        columns = [
            SourceColumn(table, name, self.variable(name), column.type)
            for name, column in zip(names or [c.name for c in named], named, strict=True)
        ]
        extra = schema.columns[schema.arity - hidden :]
        made = FromItem(
            relation, columns, [self.variable(c.name) for c in extra], [c.type for c in extra],
            span=self.statement.span,
        )  # fmt: skip
        self.homes.update((v.name, made) for v, _ in made.identity())
        return made

    def renewed(self, source: FromItem) -> FromItem:
        """A copy of the source with new variables."""
        columns = [replace(column, term=self.variable(column.name)) for column in source.columns]
        hidden = [self.variable(variable.name) for variable in source.hidden]
        made = replace(source, columns=columns, hidden=hidden)
        self.homes.update((v.name, made) for v, _ in made.identity())
        return made

    def identity(self, sources: Sequence[FromItem]) -> list[tuple[Variable, Type]]:
        """The columns that identify a row of the join of the sources: the keys of tables with a key, else all
        columns."""
        found: list[tuple[Variable, Type]] = []
        for source in sources:
            keys = self.schemas[source.relation].keys
            every = source.identity()
            found += [every[place] for place in min(keys, key=len)] if keys and not source.hidden else every
        return list(dict.fromkeys(found))

    # ---- views ----------------------------------------------------------------------------------

    def view(self, purpose: str, names: Sequence[str], types: Sequence[Type], branches: Iterable[Branch]) -> str:
        """Define an auxiliary view with these columns, and return its name."""
        name = fresh_name(f"{self.owner}__{purpose}", {*self.schemas, *self.reserved})
        self.define(name, names, types, branches, part_of=self.owner)
        return name

    def define(
        self, name: str, names: Sequence[str], types: Sequence[Type], branches: Iterable[Branch], *,
        part_of: str = "", keep_nullable: bool = False,
    ) -> Schema:  # fmt: skip
        """Add the declaration and the rules of a relation. Nullability of its columns is inferred from the rules,
        unless `keep_nullable`."""
        rules = [rule for branch in branches for rule in self.rules(name, branch)]
        if not keep_nullable:
            nullable = self.nullable_columns(rules, len(types))
            types = [replace(type, nullable=can) for type, can in zip(types, nullable, strict=True)]
        schema = self.declare(name, names, types)
        if not rules:
            # Without a rule it would be a table.
            head = Atom(name, tuple(filler(type) for type in types), span=self.statement.span)
            rules = [Rule((head,), FALSE, span=self.statement.span)]
        self.items.append(declaration(schema, part_of))
        self.items += rules
        return schema

    def declare(self, name: str, names: Sequence[str], types: Sequence[Type]) -> Schema:
        """Add the schema of a relation, without rules."""
        columns = tuple(map(Column, names, types))
        self.schemas[name] = Schema(name, columns, Role.VIEW, span=self.statement.span)
        return self.schemas[name]

    def keep_best(self, name: str, place: int, word: str) -> None:
        """Make a column of a relation a lattice column, of which only the least or greatest value is kept."""
        for at, item in enumerate(self.items):
            if isinstance(item, Declaration) and item.name == name:
                attributes = list(item.attributes)
                attributes[place] = replace(attributes[place], lattice=word)
                self.items[at] = replace(item, attributes=tuple(attributes))
        self.schemas[name] = replace(self.schemas[name], lattice=Lattice(place, word))

    def mark(self) -> tuple[int, dict[str, Schema]]:
        """A savepoint of the translation."""
        return len(self.items), dict(self.schemas)

    def back_to(self, mark: tuple[int, dict[str, Schema]]) -> None:
        """Drop the views made since the savepoint."""
        count, schemas = mark
        del self.items[count:]
        self.schemas.clear()
        self.schemas.update(schemas)

    def rules(self, name: str, branch: Branch) -> list[Rule]:
        """One rule for each combination of cases that is possible."""
        found: list[Rule] = []
        for when, terms in combinations(branch.values):
            body = conjunction((*branch.parts, *when))
            if body == FALSE:
                continue
            parts = without_idle_names(terms, conjuncts(body))
            place = branch.span or self.statement.span
            head = Atom(name, terms, span=place)
            # Equal atoms are kept: a variable of both is not NULL.
            found.append(Rule((head,), And(parts) if len(parts) > 1 else body_of(parts), span=place))
        return found

    def nullable_columns(self, rules: Sequence[Rule], arity: int) -> list[bool]:
        nullable = [False] * arity
        for rule in rules:
            for body in self.clauses(rule.body):
                names = nullable_variables(body, self.schemas)
                for place, term in enumerate(rule.heads[0].args):
                    nullable[place] |= can_be_null(term, names)
        return nullable

    def clauses(self, body: Formula | None) -> list[Conjunction]:
        """The alternatives of a body, each a conjunction."""
        try:
            return alternatives(body)
        except TooMany:
            self.statement.refuse(
                "too-many-alternatives",
                "the conditions of the query expand to too many alternatives",
                help="move a part of them to a view",
            )

    # ---- values of outer queries ----------------------------------------------------------------

    def correlated(self, scope: Scope, nodes: Iterable[Formula | Term]) -> list[Variable]:
        """The variables of queries outside the scope that occur in the nodes."""
        around = {id(source) for source in scope.outer()}
        names = dict.fromkeys(name for node in nodes for name in variables(node))
        return [Variable(name) for name in names if name in self.homes and id(self.homes[name]) in around]

    def refuse_correlated(
        self, scope: Scope, branches: Iterable[Branch], what: str, node: exp.Expression | None = None, *, help: str
    ) -> None:
        """Refuse branches that use variables of queries outside the scope."""
        if self.correlated(scope, (each for branch in branches for each in branch.nodes)):
            self.statement.unsupported(what, node, help=help)

    def domain(
        self, names: Iterable[Variable], parts: Sequence[Formula], around: Sequence[FromItem] = ()
    ) -> tuple[Formula, ...]:
        """The parts, with the sources of variables that they do not bind. Of several sources `around` with a variable,
        take the one that shares most variables with the parts, so that its rows join with few of theirs."""
        bound = bound_names(parts)
        added: list[Formula] = []
        for variable in names:
            if variable.name not in bound:
                home = self.homes[variable.name].atom()
                joined = (atom for source in around if variable in (atom := source.atom()).args)
                atom = max((home, *joined), key=lambda each: len(bound & bound_names([each])))
                added.append(atom)
                bound |= bound_names([atom])
        return (*added, *parts)

    def type_of(self, variable: Variable) -> Type:
        """The type of a variable of a source."""
        return next(type for found, type in self.homes[variable.name].identity() if found.name == variable.name)


def body_of(parts: Sequence[Formula]) -> Formula:
    """The only part, or `true`."""
    return parts[0] if parts else TRUE


def variable_name(wish: str) -> str:
    """The name, or with `_` if it is a keyword."""
    return f"{wish}_" if wish in _NO_VARIABLES or not wish else wish


def declaration(schema: Schema, part_of: str = "") -> Declaration:
    attributes = tuple(Attribute(column.name, type_name(column.type)) for column in schema.columns)
    return Declaration(schema.name, attributes, part_of=part_of, span=schema.span)


def type_name(type: Type) -> TypeName:
    if type.kind is Kind.DECIMAL and not type.name:
        return TypeName("decimal", (type.precision, type.scale), type.nullable)
    return TypeName(type.name or type.kind.value, (), type.nullable)


def equality(left: Term, right: Term) -> Comparison:
    return Comparison("=", left, right)
