"""The translation of one SELECT: the sources of FROM, and the conditions of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from upshot.check.types.nullability import required_names
from upshot.core.diagnostic import did_you_mean
from upshot.core.span import Source, Span
from upshot.core.types import Type
from upshot.sql.expressions import conditions
from upshot.sql.expressions.expressions import value_of
from upshot.sql.expressions.formulas import conjuncts, is_given
from upshot.sql.expressions.values import Value, plain
from upshot.sql.queries import subqueries
from upshot.sql.queries.sources import Scope, SourceColumn
from upshot.sql.queries.stages import staged
from upshot.sql.translation import Translation
from upshot.sql.trees import is_aggregate, unwrapped
from upshot.sql.trouble import Statement
from upshot.syntax.ast import Atom, Formula, Variable


@dataclass(slots=True)
class Block:
    """`conditions` hold for every row, besides the atoms of the sources. For a grouped SELECT, `groups` are the values
    of its keys and aggregates, by their signatures, and `ungrouped` is the scope of the rows before grouping."""

    translation: Translation
    scope: Scope
    conditions: list[Formula] = field(default_factory=list)
    groups: dict[str, Value] | None = None
    ungrouped: Scope | None = None
    stage: Atom | None = None
    """A view of the rows so far with `computed` values: it replaces the sources and their conditions."""
    computed: list[tuple[Variable, Type]] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)
    """Values of expressions by their text, once the rows are a view: then columns are no longer unified."""

    @property
    def statement(self) -> Statement:
        return self.translation.statement

    @property
    def parts(self) -> tuple[Formula, ...]:
        """The conjunction that every row satisfies."""
        if self.stage is not None:
            return (self.stage, *self.conditions)
        return (*(source.atom() for source in self.scope.sources), *self.conditions)

    # ---- conditions -----------------------------------------------------------------------------

    def require(self, nodes: Iterable[exp.Expression]) -> None:
        """Add conditions. Columns that must be equal are unified first."""
        others = [node for node in nodes if not self._unified(node)]
        for node in others:
            self.add(self.holds(node, value=True, certain=True))

    def add(self, formula: Formula) -> None:
        """Add a formula; columns that it requires not to be NULL become required."""
        for part in conjuncts(formula):
            self.conditions.append(part)
            required = required_names(part)
            for column in self.scope.columns():
                if column.term.name in required:
                    column.type = column.type.required()

    def _unified(self, node: exp.Expression) -> bool:
        """Unify two columns that the condition equates; return whether the condition is no longer needed."""
        if not isinstance(node, exp.EQ) or self.stage is not None:
            return False
        sides = (unwrapped(node.this), unwrapped(node.expression))
        columns = [side for side in sides if isinstance(side, exp.Column) and not isinstance(side.this, exp.Star)]
        if len(columns) < 2:
            return False
        left, right = (self.scope.column(self.statement, side) for side in columns)
        same = (left.type.kind, left.type.scale, left.type.name) == (right.type.kind, right.type.scale, right.type.name)
        if left is right or left.term == right.term or not same:
            return False
        own = {id(column) for column in self.scope.columns()}
        keep, drop = (right, left) if self._is_outer(right) else (left, right)
        if self._is_outer(drop) or id(drop) not in own:
            return False
        old = drop.term
        if keep.type.nullable and drop.type.nullable and (self._is_outer(keep) or self._of_one_relation(keep, drop)):
            # The variable may occur in only one atom, inside or after merging equal atoms, where it could be NULL.
            self.conditions.append(is_given(keep.term))
        self.conditions[:] = [is_given(keep.term) if each == is_given(old) else each for each in self.conditions]
        for column in self.scope.columns():
            if column.term in (old, keep.term):
                column.term = keep.term
                column.type = column.type.required()
        return True

    def _is_outer(self, column: SourceColumn) -> bool:
        home = self.translation.homes.get(column.term.name)
        return any(home is source for source in self.scope.outer())

    def _of_one_relation(self, left: SourceColumn, right: SourceColumn) -> bool:
        homes = [self.translation.homes.get(column.term.name) for column in (left, right)]
        return all(home is not None for home in homes) and len({home.relation for home in homes if home}) == 1

    def holds(self, node: exp.Expression, *, value: bool, certain: bool) -> Formula:
        """The formula for the condition being `value`; if not `certain`, for its being `value` or unknown."""
        return conditions.holds(self, node, value=value, certain=certain)

    def can_be_unknown(self, node: exp.Expression) -> bool:
        return conditions.can_be_unknown(self, node)

    # ---- values ---------------------------------------------------------------------------------

    def value(self, node: exp.Expression) -> Value:
        """The value of the expression in the rows of the block."""
        key = "" if node.find(exp.Query) is not None else node.sql()
        if key in self.known:
            return self.known[key]
        found = staged(self, value_of(self, node))
        if key and self.stage is not None:
            self.known[key] = found
        return found

    def column(self, node: exp.Column) -> Value:
        if isinstance(node.this, exp.Star):
            self.statement.unsupported("`*` here", node, help="name the columns")
        if self.ungrouped is not None and self._is_ungrouped(node, self.ungrouped):
            self.statement.refuse(
                "sql-not-grouped",
                f"`{node.sql()}` is neither grouped nor aggregated",
                node,
                help="add it to GROUP BY, or aggregate it: min, max, sum, avg or count",
            )
        found = self.scope.column(self.statement, node)
        return plain(replace(found.term, span=self.statement.place(node)), found.type)

    def _is_ungrouped(self, node: exp.Column, rows: Scope) -> bool:
        """Test whether the column is one of the rows before grouping, but no key."""
        return self.scope.own(self.statement, node) is None and rows.own(self.statement, node) is not None

    def parameter(self, node: exp.Expression) -> Value:
        return subqueries.parameter(self, node)

    def scalar(self, node: exp.Subquery) -> Value:
        return subqueries.scalar(self, node)

    def grouped_value(self, node: exp.Expression) -> Value | None:
        """The value of a key or an aggregate of a grouped SELECT; None for any other expression."""
        if is_aggregate(node) and self.groups is None:
            self.statement.refuse(
                "sql-misplaced-aggregate",
                f"`{self.statement.spelled(node)}` is not allowed here",
                node,
                help="use aggregates in the columns of a SELECT or in HAVING",
            )
        if self.groups is None:
            return None
        found = self.groups.get(self.signature(node))
        if found is None and is_aggregate(node):
            self.statement.refuse(
                "sql-misplaced-aggregate",
                "nested aggregate",
                node,
                help="compute the inner aggregate in a view",
            )
        return found

    def signature(self, node: exp.Expression) -> str:
        """The text of the expression with columns resolved, so that it is equal for equal expressions."""
        scope = self.ungrouped or self.scope

        def named(each: exp.Expression) -> exp.Expression:
            if isinstance(each, exp.Column) and not isinstance(each.this, exp.Star):
                found = (
                    scope.own(self.statement, each) if each.find_ancestor(exp.Subquery, exp.Exists) is None else None
                )
                if found is not None:
                    return exp.column(exp.to_identifier(f"{id(found):x}", quoted=True))
            return each

        return unwrapped(node).copy().transform(named).sql(normalize_functions=True)

    def known_parameter(self, name: str, node: exp.Expression) -> Value:
        constants = self.translation.parameters
        if name not in constants:
            hint = did_you_mean(name, constants) or f"pass {name}=…"
            self.statement.refuse("missing-parameter", f"parameter `:{name}` has no value", node, help=hint)
        constant, place = constants[name], self.statement.place(node)
        if place.text != f":{name}":
            # The tree has no place for it; the text of its place marks a constant as a parameter.
            place = Span(Source(f":{name}", f":{name}"), 0, len(name) + 1)
        return plain(replace(constant, span=place), subqueries.type_of_constant(constant))
