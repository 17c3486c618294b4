"""Translate queries to branches: one for a SELECT, those of both sides for a UNION; other queries become views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp

from upshot.check.names.variables import fresh_name
from upshot.core.schema import Schema
from upshot.core.types import SYMBOL, Type
from upshot.sql.expressions.expressions import value_of
from upshot.sql.expressions.values import Value, plain
from upshot.sql.names import chosen, new_name, refuse_schema, relation_name
from upshot.sql.queries.block import Block
from upshot.sql.queries.first_rows import first_of_each, has_distinct_on, qualified, with_condition
from upshot.sql.queries.from_clause import read_from
from upshot.sql.queries.grouping import grouped, is_grouped
from upshot.sql.queries.grouping_sets import as_counts, has_grouping_sets, one_query_each
from upshot.sql.queries.limits import CLAUSES, limited
from upshot.sql.queries.presence import presence
from upshot.sql.queries.recursion import (
    BestValues,
    best_values,
    refuse_extremes_of_steps,
    with_derivations,
    with_path,
)
from upshot.sql.queries.row_sets import RowSet, Stored, aligned, all_of, as_view, repeated, typed_like, united
from upshot.sql.queries.sources import FromItem, Scope, SourceColumn
from upshot.sql.queries.stages import staged_columns
from upshot.sql.queries.windows import has_windows, windowed
from upshot.sql.translation import Branch, Translation
from upshot.sql.trees import column_name, conjoined, inner_query

_SELECT_PARTS = {
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "hint", "kind",
    "operation_modifiers", "windows", "qualify",
}  # fmt: skip
_SET_PARTS = {"this", "expression", "distinct", "with_", "expressions"}


@dataclass(slots=True)
class CommonTable:
    """A query of WITH, which becomes a view when it is first used: as a set, or as a bag."""

    name: str
    query: exp.Expression
    columns: tuple[exp.Identifier, ...]
    visible: int
    """The number of WITH queries that it can use."""
    stored: dict[bool, Stored] = field(default_factory=dict)


@dataclass(slots=True)
class QueryReader:
    """Reads queries; `tables` are those of the WITH clauses around, the innermost last."""

    tables: list[CommonTable] = field(default_factory=list)

    def defined_by_recursion(self, translation: Translation, query: exp.Expression, names: Sequence[str]) -> bool:
        """Define the view of the owner by a recursive query of WITH, if the query selects all of it; return whether it
        does. Then no other view is needed."""
        table = _whole_common_table(query)
        if table is None:
            return False
        with self._common_tables(translation, query):
            common = self._common(table)
            if common is None or common is not self.tables[-1] or not _refers_to(common.query, common.name):
                return False
            if common.visible < len(self.tables):
                return False
            self._recursive(
                translation, common, inner_query(common.query), bag=False, view=translation.owner, names=names
            )
        return True

    # ---- entry points ---------------------------------------------------------------------------

    def is_common(self, table: exp.Table) -> bool:
        """Test whether FROM names a query of WITH."""
        return isinstance(table.this, exp.Identifier) and self._common(table.this) is not None

    def rows(
        self, translation: Translation, query: exp.Expression, around: Scope | None = None, *, bag: bool = False
    ) -> RowSet:
        """The rows of a query; with `bag`, equal rows are distinguished."""
        query = inner_query(query)
        with self._common_tables(translation, query):
            if has_distinct_on(query):
                query = first_of_each(query)
            if any(query.args.get(key) for key in CLAUSES):
                return limited(self, translation, query, around, bag=bag)
            match query:
                case exp.Subquery():
                    return self.rows(translation, query.this, around, bag=bag)
                case exp.Select() if has_grouping_sets(query):
                    return self.rows(translation, one_query_each(translation, query), around, bag=bag)
                case exp.Select():
                    return self._select(translation, query, around, bag)
                case exp.Union():
                    return self._union(translation, query, around, bag)
                case exp.Except() | exp.Intersect() if not query.args.get("distinct"):
                    return self._of_bags(translation, query, around, bag)
                case exp.Except() | exp.Intersect():
                    return self._difference(translation, query, around)
                case exp.Values():
                    return self._values(translation, query, around, bag)
        return translation.statement.unsupported(
            "this query form", query, help="write SELECT, VALUES, UNION, INTERSECT or EXCEPT"
        )

    def stored(
        self, translation: Translation, query: exp.Expression, around: Scope | None, purpose: str, *, bag: bool = False
    ) -> Stored:
        """The query as a view."""
        rows = self.rows(translation, query, around, bag=bag)
        cure = "use a correlated query in EXISTS, IN or a comparison"
        translation.refuse_correlated(Scope(around), rows.branches, "a correlated query here", query, help=cure)
        return as_view(translation, rows, purpose)

    def table(self, translation: Translation, node: exp.Expression, around: Scope | None, *, bag: bool) -> FromItem:
        """A source of FROM: a table, a view, a query of WITH, or a query in parentheses."""
        alias = node.args.get("alias")
        name = alias.this if alias is not None else None
        columns = list(alias.args.get("columns") or []) if alias is not None else []
        for key in ("sample", "laterals", "pivots", "version", "when", "only", "partition", "ordinality"):
            if node.args.get(key):
                translation.statement.unsupported(
                    f"`{translation.statement.spelled(node)}` in FROM", node, help="name a table, view or query"
                )
        if isinstance(node, exp.Table):
            return self._named(translation, node, name, columns, bag)
        if not isinstance(node, exp.Subquery | exp.Values):
            translation.statement.unsupported(
                f"`{translation.statement.spelled(node)}` in FROM",
                node,
                help="FROM takes tables, views and queries in parentheses",
            )
        query = node if isinstance(node, exp.Values) else node.this
        found = self.stored(translation, query, around, "query", bag=bag)
        return _source(translation, found, name, columns, node)

    def _named(
        self, translation: Translation, node: exp.Table, alias: exp.Identifier | None, columns: list[exp.Identifier],
        bag: bool,
    ) -> FromItem:  # fmt: skip
        refuse_schema(translation.statement, node)
        common = self._common(node.this)
        if common is not None:
            found = self._common_rows(translation, common, bag)
            return _source(translation, found, alias or node.this, columns, node)
        relation = relation_name(translation.statement, node, translation.schemas)
        schema = translation.schemas[relation]
        known = Stored(relation, tuple(column.name for column in schema.columns), 0)
        made = _source(translation, known, alias, columns, node)
        if alias is None:
            for column in made.columns:
                column.table = relation
        return made

    # ---- SELECT ---------------------------------------------------------------------------------

    def _select(self, translation: Translation, select: exp.Select, around: Scope | None, bag: bool) -> RowSet:
        _refuse_parts(translation, select, _SELECT_PARTS)
        distinct = select.args.get("distinct")
        if distinct is not None and bag:
            return all_of(translation, self.stored(translation, select, around, "distinct_rows"))
        if select.args.get("qualify") is not None:
            columns = self._columns_of_from(translation, select, around)
            rows = self._select(translation, with_condition(select, columns), around, bag)
            return qualified(translation, rows, select, around)
        place = translation.statement.query_place(select)
        if has_windows(select):
            block, select = windowed(self, translation, select, around)
        else:
            block = self._rows_of(translation, select, around, bag)
        names, values = _columns(block, select)
        values = staged_columns(block, values)
        identity = [plain(v, t) for v, t in translation.identity(block.scope.sources)] if bag else []
        return RowSet(names, (Branch(block.parts, values, tuple(identity), place),))

    def _columns_of_from(self, translation: Translation, select: exp.Select, around: Scope | None) -> set[str]:
        """The names of the columns of FROM, in lower case."""
        mark, block = translation.mark(), Block(translation, Scope(around))
        read_from(block, select, bag=False)
        self._back_to(translation, mark)
        return {column.name.lower() for column in block.scope.columns()}

    def _back_to(self, translation: Translation, mark: tuple[int, dict[str, Schema]]) -> None:
        """Drop the views made since the savepoint, also those of WITH."""
        translation.back_to(mark)
        for table in self.tables:
            table.stored = {k: v for k, v in table.stored.items() if v.relation in translation.schemas}

    def _rows_of(self, translation: Translation, select: exp.Select, around: Scope | None, bag: bool) -> Block:
        """The rows of FROM and WHERE, or their groups."""
        block = Block(translation, Scope(around))
        joins = read_from(block, select, bag=bag or is_grouped(select))
        where = select.args.get("where")
        block.require([*joins, *conjoined(where.this if where is not None else None)])
        return grouped(block, select) if is_grouped(select) else block

    def _values(self, translation: Translation, node: exp.Values, around: Scope | None, bag: bool) -> RowSet:
        block = Block(translation, Scope(around))
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if len({len(row) for row in rows}) != 1:
            translation.statement.refuse(
                "wrong-arity", "the rows of VALUES have different lengths", node, help="use one length"
            )
        parts = [
            RowSet(
                tuple(f"column{place}" for place in range(1, len(row) + 1)),
                (Branch((), tuple(value_of(block, each) for each in row)),),
            )
            for row in rows
        ]
        return united(translation, parts, node, bag=bag)

    # ---- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------

    def _union(self, translation: Translation, query: exp.Union, around: Scope | None, bag: bool) -> RowSet:
        _refuse_parts(translation, query, _SET_PARTS)
        if bag and query.args.get("distinct"):
            return all_of(translation, self.stored(translation, query, around, "union"))
        parts = [self.rows(translation, side, around, bag=bag) for side in (query.this, query.expression)]
        return united(translation, parts, query, bag=bag)

    def _of_bags(self, translation: Translation, query: exp.Expression, around: Scope | None, bag: bool) -> RowSet:
        """INTERSECT ALL and EXCEPT ALL, by the number of copies of a row on each side."""
        _refuse_parts(translation, query, _SET_PARTS)
        word = "except" if isinstance(query, exp.Except) else "intersect"
        mark = translation.mark()
        names = self.rows(translation, query.this, around).names
        self._back_to(translation, mark)
        counted = as_counts(query, len(names))
        if not bag:
            counted.expressions.pop()
            return replace(self.rows(translation, counted, around), names=names)
        return repeated(translation, self.stored(translation, counted, around, word), names)

    def _difference(self, translation: Translation, query: exp.Expression, around: Scope | None) -> RowSet:
        _refuse_parts(translation, query, _SET_PARTS)
        word = "EXCEPT" if isinstance(query, exp.Except) else "INTERSECT"
        sides = [self.rows(translation, side, around) for side in (query.this, query.expression)]
        left, right = aligned(translation, sides, query)
        first = all_of(translation, as_view(translation, self._checked(translation, left, around, query), word.lower()))
        (branch,) = first.branches
        self._checked(translation, right, around, query)
        nullable = [value.nullable for value in branch.values]
        names = [translation.variable(name).name for name in left.names]
        other = presence(translation, f"{word.lower()}_right", names, list(right.branches), nullable)
        found, missing = other.probe([value.term for value in branch.values if value.term is not None])
        expected = missing if word == "EXCEPT" else found
        return RowSet(left.names, (Branch((*branch.parts, expected), branch.values),))

    def _checked(self, translation: Translation, rows: RowSet, around: Scope | None, node: exp.Expression) -> RowSet:
        what = "a correlated INTERSECT or EXCEPT"
        translation.refuse_correlated(Scope(around), rows.branches, what, node, help="use EXISTS and NOT EXISTS")
        return rows

    # ---- WITH -----------------------------------------------------------------------------------

    @contextmanager
    def _common_tables(self, translation: Translation, query: exp.Expression) -> Iterator[None]:
        clause = query.args.get("with_")
        before = len(self.tables)
        if clause is not None:
            recursive = bool(clause.args.get("recursive"))
            search = clause.args.get("search")
            if clause.args.get("cycle") is not None:
                translation.statement.unsupported(
                    "SEARCH together with CYCLE",
                    clause.args["cycle"],
                    help="use one of them, and the other in a view of its own",
                )
            for each in clause.expressions:
                alias, query_of = each.args["alias"], each.this
                name = new_name(translation.statement, alias.this)
                visible = len(self.tables) + 1 if recursive else len(self.tables)
                columns = tuple(alias.args.get("columns") or ())
                if recursive:
                    refuse_extremes_of_steps(translation.statement, each)
                if search and each is clause.expressions[-1]:
                    query_of, added = with_path(translation.statement, each, search)
                    columns = (*columns, *(exp.to_identifier(each, quoted=True) for each in added)) if columns else ()
                self.tables.append(CommonTable(name, query_of, columns, visible))
        try:
            yield
        finally:
            del self.tables[before:]

    def _common(self, identifier: exp.Identifier) -> CommonTable | None:
        found = chosen(identifier, [table.name for table in self.tables])
        return next((table for table in reversed(self.tables) if table.name in found), None)

    def _common_rows(self, translation: Translation, table: CommonTable, bag: bool) -> Stored:
        if bag not in table.stored:
            hidden = self.tables[table.visible :]
            del self.tables[table.visible :]
            try:
                table.stored[bag] = self._common_view(translation, table, bag)
            finally:
                self.tables += hidden
        return table.stored[bag]

    def _common_view(self, translation: Translation, table: CommonTable, bag: bool) -> Stored:
        query = inner_query(table.query)
        if _refers_to(query, table.name) and table in self.tables:
            return self._recursive(translation, table, query, bag)
        found = self.stored(translation, query, None, table.name, bag=bag)
        return replace(found, names=_renamed(translation, table, found.names))

    def _recursive(
        self, translation: Translation, table: CommonTable, query: exp.Expression, bag: bool, *, view: str = "",
        names: Sequence[str] = (),
    ) -> Stored:  # fmt: skip
        """A recursive view, with the name `view` if there is one. Its translation is repeated until nullability and
        precision of its columns are stable. A bag of UNION ALL has a hidden column with the path to each row."""
        best = best_values(query)
        union = self._recursive_union(translation, table, best.union if best is not None else query, best)
        _refuse_parts(translation, union, _SET_PARTS)
        is_bag = best is None and not union.args.get("distinct")
        path = int(bag and is_bag)
        taken = {*translation.schemas, *translation.reserved}
        name = view or fresh_name(f"{translation.owner}__{table.name}", taken)
        first = self.rows(translation, union.this, bag=bool(path))
        start = first if best is None else best.arranged(translation.statement, first, first.names)
        own = _renamed(translation, table, start.names)
        stored = checked_names(translation, names or own, len(own), union)
        types = start.types(translation)
        nullable = [any(b.values[i].nullable for b in start.branches) for i in range(len(own))]
        hidden = [fresh_name("path", stored)] * path
        while True:
            mark = translation.mark()
            assumed = [replace(type, nullable=can) for type, can in zip(types, nullable, strict=True)]
            translation.declare(name, (*stored, *hidden), [*assumed, *[SYMBOL] * path])
            table.stored[bag] = table.stored[not bag] = Stored(name, own, path)
            further = self.rows(translation, union.expression, bag=bool(path))
            sides = [start, further if best is None else best.arranged(translation.statement, further, first.names)]
            branches = typed_like(translation, sides, types, union)
            if path:
                branches = with_derivations(translation, name, branches)
            widened = [_widest_of(branches, place, type) for place, type in enumerate(types)]
            rules = [rule for branch in branches for rule in translation.rules(name, branch)]
            found = translation.nullable_columns(rules, len(own) + path)[: len(own)]
            if widened == types and all(had or not has for had, has in zip(nullable, found, strict=True)):
                break
            types = widened
            self._back_to(translation, mark)
            nullable = [had or has for had, has in zip(nullable, found, strict=True)]
        owner = "" if view else translation.owner
        whole = [*assumed, *[SYMBOL] * path]
        translation.define(name, (*stored, *hidden), whole, branches, part_of=owner, keep_nullable=True)
        if best is not None:
            if nullable[best.place]:
                translation.statement.unsupported(
                    f"{best.word} of values that can be NULL in a recursion", union, help="exclude NULL: IS NOT NULL"
                )
            translation.keep_best(name, best.place, best.word)
        if is_bag and not path:
            del table.stored[not bag]
        return Stored(name, own, path)

    def _recursive_union(
        self, translation: Translation, table: CommonTable, query: exp.Expression, best: BestValues | None
    ) -> exp.Union:
        """The union of a recursive query of WITH; any other form is refused."""
        if best is not None and not translation.is_view:
            translation.statement.unsupported(
                f"{best.word} in the recursion of a query", query, help="create a view of it, and query the view"
            )
        if not isinstance(query, exp.Union):
            translation.statement.unsupported(
                f"recursion of `{table.name}` without UNION", query,
                help="start with a SELECT that does not use it; the best value of each group is "
                "SELECT a, min(b) FROM (… UNION …) AS q GROUP BY a",
            )  # fmt: skip
        return query


def _widest_of(branches: Sequence[Branch], place: int, type: Type) -> Type:
    """The type with the greatest precision of all branches."""
    others = (branch.values[place].type for branch in branches)
    return replace(type, precision=max([type.precision, *(other.precision for other in others if other is not None)]))


# ---- columns ----------------------------------------------------------------------------------


def _columns(block: Block, select: exp.Select) -> tuple[tuple[str, ...], tuple[Value, ...]]:
    """The names and values of the selected columns."""
    names: list[str] = []
    values: list[Value] = []
    for place, node in enumerate(select.expressions, start=1):
        starred = _starred(block, node)
        if starred is not None:
            for column in starred:
                names.append(column.name)
                values.append(block.column(column.reference()))
            continue
        identifier = column_name(node)
        names.append(new_name(block.statement, identifier) if identifier is not None else _default_name(node, place))
        if identifier is not None and not isinstance(node, exp.Alias):
            found = block.scope.own(block.statement, node) if isinstance(node, exp.Column) else None
            names[-1] = found.name if found is not None else names[-1]
        values.append(value_of(block, node))
    return tuple(names), tuple(values)


def _starred(block: Block, node: exp.Expression) -> list[SourceColumn] | None:
    """The columns of `*` or `t.*`; None for any other node."""
    if not isinstance(node, exp.Star) and not (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return None
    if block.groups is not None:
        block.statement.unsupported("`*` in a grouped SELECT", node, help="name the columns")
    if any(node.args.get(key) for key in ("except_", "replace", "rename")):
        block.statement.unsupported("`*` with exceptions", node, help="name the columns")
    if isinstance(node, exp.Star):
        return block.scope.star()
    tables = chosen(node.args["table"], block.scope.tables())
    if not tables:
        block.statement.unknown_relation(node.args["table"], block.scope.tables(), "name a table of FROM")
    return [column for column in block.scope.columns() if column.table in tables]


def _default_name(node: exp.Expression, place: int) -> str:
    """The name of a column without an alias: that of its aggregate, or its place."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if isinstance(inner, exp.AggFunc):
        names = {"logicaland": "bool_and", "logicalor": "bool_or", "groupconcat": "string_agg"}
        return names.get(inner.key, inner.key)
    return f"column{place}"


def _source(
    translation: Translation, found: Stored, alias: exp.Identifier | None, columns: Sequence[exp.Identifier],
    node: exp.Expression,
) -> FromItem:  # fmt: skip
    """The view as a source with its alias and the column names of the alias."""
    names = [new_name(translation.statement, each) for each in columns]
    if len(names) > len(found.names):
        translation.statement.refuse(
            "wrong-arity", f"there are only {len(found.names)} columns to rename", node, help="give fewer names"
        )
    table = new_name(translation.statement, alias) if alias is not None else ""
    made = translation.source(found.relation, table, [*names, *found.names[len(names) :]], found.hidden)
    made.span = translation.statement.place(node)
    return made


def _renamed(translation: Translation, table: CommonTable, names: tuple[str, ...]) -> tuple[str, ...]:
    given = tuple(new_name(translation.statement, each) for each in table.columns)
    if len(given) > len(names):
        translation.statement.refuse(
            "wrong-arity",
            f"`{table.name}` has {len(names)} columns, but {len(given)} names are given",
            table.query,
            help="give fewer names",
        )
    return (*given, *names[len(given) :])


def checked_names(translation: Translation, names: Sequence[str], width: int, node: exp.Expression) -> tuple[str, ...]:
    """The names, if they are distinct and as many as the columns."""
    if len(names) != width:
        translation.statement.refuse(
            "wrong-arity", f"{len(names)} names for {width} columns", node, help="name every column of the query"
        )
    for name in names:
        if list(names).count(name) > 1:
            translation.statement.refuse(
                "duplicate-column", f"duplicate column `{name}`", node, help="give one another name"
            )
    return tuple(names)


def _whole_common_table(query: exp.Expression) -> exp.Identifier | None:
    """The name in a query of the form `WITH … SELECT * FROM name`; None for any other query."""
    if not isinstance(query, exp.Select) or not query.args.get("with_"):
        return None
    if any(part and key not in ("with_", "expressions", "from_") for key, part in query.args.items()):
        return None
    start = query.args.get("from_")
    if start is None or len(query.expressions) != 1 or not isinstance(query.expressions[0], exp.Star):
        return None
    table = start.this
    if not isinstance(table, exp.Table) or any(part for key, part in table.args.items() if key != "this"):
        return None
    return table.this if isinstance(table.this, exp.Identifier) else None


def _refers_to(query: exp.Expression, name: str) -> bool:
    return any(table.name.lower() == name.lower() for table in query.find_all(exp.Table))


def _refuse_parts(translation: Translation, query: exp.Expression, known: set[str]) -> None:
    """Refuse clauses without a counterpart."""
    for key, part in query.args.items():
        if not part or key in known:
            continue
        word = key.rstrip("_").upper()
        translation.statement.unsupported(word, query, help="remove it, or use joins and GROUP BY")
