"""The sources of FROM, with a variable for each column, and scopes that resolve names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from upshot.core.diagnostic import did_you_mean
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.sql.names import chosen, matches
from upshot.sql.trouble import Statement
from upshot.syntax.ast import Atom, Variable


@dataclass(slots=True)
class SourceColumn:
    """`term` changes if the column is unified with another; then `type` becomes required. A `shadowed` column can only
    be qualified: USING has merged it with another, which is `merged` and precedes the others in `*`."""

    table: str
    name: str
    term: Variable
    type: Type
    shadowed: bool = False
    merged: bool = False

    def reference(self) -> exp.Column:
        """The qualified name of the column."""
        return exp.column(self.name, self.table or None, quoted=True)


@dataclass(slots=True)
class FromItem:
    """A relation of FROM. `hidden` are its columns without a name, which distinguish equal rows."""

    relation: str
    columns: list[SourceColumn]
    hidden: list[Variable] = field(default_factory=list)
    hidden_types: list[Type] = field(default_factory=list)
    span: Span | None = None

    def atom(self) -> Atom:
        return Atom(self.relation, (*(c.term for c in self.columns), *self.hidden), span=self.span)

    def identity(self) -> list[tuple[Variable, Type]]:
        """The columns that identify a row."""
        return [(c.term, c.type) for c in self.columns] + list(zip(self.hidden, self.hidden_types, strict=True))


@dataclass(slots=True)
class Scope:
    """The sources of one SELECT, inside the scopes of the SELECTs around it."""

    parent: Scope | None = None
    sources: list[FromItem] = field(default_factory=list)

    def outer(self) -> Iterator[FromItem]:
        """The sources of all scopes around this one."""
        scope = self.parent
        while scope is not None:
            yield from scope.sources
            scope = scope.parent

    def columns(self) -> Iterator[SourceColumn]:
        return (column for source in self.sources for column in source.columns)

    def tables(self) -> list[str]:
        return list(dict.fromkeys(column.table for column in self.columns() if column.table))

    def star(self) -> list[SourceColumn]:
        """The columns of `*`."""
        shown = [column for column in self.columns() if not column.shadowed]
        return sorted(shown, key=lambda column: not column.merged)

    def column(self, statement: Statement, node: exp.Column) -> SourceColumn:
        """The column of this name in this scope, or in the innermost scope around it that has one."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.own(statement, node)
            if found is not None:
                return found
            scope = scope.parent
        return self._unknown(statement, node)

    def own(self, statement: Statement, node: exp.Column) -> SourceColumn | None:
        """The column of this name in this scope itself; None if there is none."""
        table, name = node.args.get("table"), node.this
        if node.args.get("db") is not None:
            statement.refuse("sql-name", "a schema stands before the table", node, help="there are no schemas")
        if table is None:
            names = [c.name for c in self.columns() if not c.shadowed]
            expected = chosen(name, names)
            found = [c for c in self.columns() if c.name in expected and not c.shadowed]
        else:
            tables = chosen(table, self.tables())
            own = [c for c in self.columns() if c.table in tables]
            expected = chosen(name, [c.name for c in own])
            found = [c for c in own if c.name in expected]
        if len(found) > 1:
            listed = " or ".join(f"`{c.table}.{c.name}`" for c in found)
            statement.refuse("sql-ambiguous", f"`{node.sql()}` is {listed}", node, help="name the table")
        return found[0] if found else None

    def _unknown(self, statement: Statement, node: exp.Column) -> SourceColumn:
        known: list[str] = []
        tables: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            tables += scope.tables()
            known += [c.name for c in scope.columns()]
            scope = scope.parent
        table = node.args.get("table")
        if table is not None and not any(matches(table, each) for each in tables):
            listed = ", ".join(f"`{each}`" for each in tables)
            statement.unknown_relation(table, tables, f"FROM has {listed or 'no table'}")
        listed = ", ".join(dict.fromkeys(known))
        hint = did_you_mean(node.name, known) or (f"the columns are {listed}" if known else "FROM is empty")
        statement.refuse("unknown-column", f"unknown column `{node.sql()}`", node, help=hint)
