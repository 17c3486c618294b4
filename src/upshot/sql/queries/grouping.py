"""GROUP BY and aggregates: the rows, their groups, and the value of each aggregate for every group.

Aggregates range over all rows of FROM and WHERE, also those that are equal in the used columns. A nullable key is
stored with a mark, so that the rows in which it is NULL form one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from upshot.check.names.variables import variables
from upshot.core.types import MOST_DIGITS, NUMBER, SYMBOL, Kind, Type
from upshot.sql.expressions.expressions import argument_of, value_of
from upshot.sql.expressions.formulas import FALSE, conjunction, disjunction, is_given, is_null
from upshot.sql.expressions.values import Case, Value, applied, filler, plain
from upshot.sql.queries.block import Block
from upshot.sql.queries.limits import SortColumn, joined_keys, sort_column, sort_key
from upshot.sql.queries.presence import MOST_NULLABLE
from upshot.sql.queries.sources import FromItem, Scope, SourceColumn
from upshot.sql.spellings import ELEMENT
from upshot.sql.translation import Branch
from upshot.sql.trees import AGGREGATE_OF, aggregates_in, fold_of, unwrapped
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Formula, Not, Term, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.functors import MARK, bare_name, is_functor, signature_of


@dataclass(frozen=True, slots=True)
class _Spec:
    """An aggregate of the query; `value` is None for `count(*)`."""

    signature: str
    function: str
    distinct: bool
    value: Value | None
    separator: Value | None = None
    """The separator of `string_agg`."""

    @property
    def word(self) -> str:
        """The name of the function in names of views and variables."""
        return bare_name(self.function)


@dataclass(frozen=True, slots=True)
class _GroupRows:
    """The rows of one group: `body` over the `shared` variables, which identify the group, and those of `arguments`.
    `keys` are the variables of the keys outside, `groups` the atoms that bind them and the shared variables."""

    body: tuple[Formula, ...]
    shared: tuple[tuple[Variable, Type], ...]
    arguments: tuple[Value | None, ...]
    keys: tuple[tuple[Variable, Type], ...]
    groups: tuple[Formula, ...]


def is_grouped(select: exp.Select) -> bool:
    return bool(select.args.get("group") or select.args.get("having") or aggregates_in(select))


def grouped(block: Block, select: exp.Select) -> Block:
    """The block of the groups: its values are the keys and the aggregates."""
    _average_exactly(block, select)
    return _Grouping(block, select).block()


def _average_exactly(block: Block, select: exp.Select) -> None:
    """Compute the mean of integers as a decimal if it is rounded: rounding a float could give another result."""
    for node in list(select.find_all(exp.Avg)):
        around = node.parent
        while isinstance(around, exp.Paren | exp.Filter):
            around = around.parent
        is_rounded = isinstance(around, exp.Round | exp.Trunc) or (
            isinstance(around, exp.Cast) and around.args["to"].this in _EXACT
        )
        argument = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        if not is_rounded or node.find_ancestor(exp.Select) is not select or argument.find(exp.Select, exp.AggFunc):
            continue
        if value_of(block, argument).kind is Kind.NUMBER:
            argument.replace(exp.cast(argument.copy(), f"decimal({MOST_DIGITS}, 0)"))


_EXACT = (
    exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT, exp.DataType.Type.DECIMAL,
)  # fmt: skip


class _Grouping:
    def __init__(self, block: Block, select: exp.Select) -> None:
        self._block, self._select = block, select
        self._translation, self._statement = block.translation, block.statement
        self._nodes = _key_nodes(block, select)
        self._values = [value_of(block, node) for node in self._nodes]
        self._specs = self._read_aggregates()
        values = (*self._values, *(s.value for s in self._specs if s.value is not None))
        self._around = self._translation.correlated(block.scope, Branch(block.parts, values).nodes)

    def block(self) -> Block:
        self._refuse_untyped()
        if self._nodes:
            # The values of outer queries that the query uses are keys too.
            for variable in self._around:
                self._nodes.append(exp.column(exp.to_identifier(f"around {variable.name}", quoted=True)))
                self._values.append(plain(variable, self._translation.type_of(variable)))
        rows = self._inline() if self._is_simple() else self._stored()
        made = Block(self._translation, Scope(self._block.scope.parent), ungrouped=self._block.scope, groups={})
        assert made.groups is not None
        if self._nodes:
            rows = self._with_groups(made, rows)
        for node, (variable, type) in zip(self._nodes, rows.keys, strict=True):
            made.groups[self._block.signature(node)] = plain(variable, type)
        self._tie_to_values_around(made, rows)
        for spec, argument in zip(self._specs, rows.arguments, strict=True):
            value = self._aggregate(made, spec, argument, rows)
            if spec.separator is not None:
                value = applied("join_lines", [value, spec.separator], SYMBOL)
            made.groups[spec.signature] = value
        having = self._select.args.get("having")
        if having is not None:
            made.add(made.holds(having.this, value=True, certain=True))
        return made

    # ---- aggregates of the query ----------------------------------------------------------------

    def _read_aggregates(self) -> list[_Spec]:
        found: dict[str, _Spec] = {}
        for node in aggregates_in(self._select):
            signature = self._block.signature(node)
            if signature not in found:
                found[signature] = self._spec(node, signature)
        return list(found.values())

    def _spec(self, node: exp.Expression, signature: str) -> _Spec:
        inner, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        fold = fold_of(inner)
        function = fold or AGGREGATE_OF.get(type(inner))
        if function is None:
            self._statement.unsupported(
                f"`{self._statement.spelled(node)}`", node, help=f"there are {', '.join(_spellings())}"
            )
        if isinstance(inner, exp.GroupConcat):
            return self._texts(node, inner, condition, signature)
        argument = self._folded(inner) if fold else inner.this
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) != 1:
                self._statement.unsupported(
                    "count of several columns", node, help="count one column, or use a subquery"
                )
            argument = argument.expressions[0]
        if (inner.expressions and not fold) or inner.args.get("order"):
            self._statement.unsupported(f"`{self._statement.spelled(node)}`", node, help="give the aggregate one value")
        counts_rows = argument is None or isinstance(argument, exp.Star)
        if condition is not None:
            chosen = exp.Literal.number(1) if counts_rows else argument.copy()
            argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=chosen)])
            counts_rows = False
        if fold:
            (expected,), _ = signature_of(fold)
            return _Spec(signature, fold, distinct, argument_of(self._block, argument, expected))
        value = None if counts_rows else value_of(self._block, argument)
        if function == "mean" and value is not None and value.kind is Kind.DECIMAL:
            function = "average"
        self._refuse_kind(node, function, value)
        return _Spec(signature, function, distinct and function not in ("min", "max"), value)

    def _folded(self, node: exp.Expression) -> exp.Expression:
        """The argument of a fold of the user."""
        if len(node.expressions) != 1:
            self._statement.refuse(
                "wrong-arity", f"`{node.name}` folds one value, not {len(node.expressions)}", node,
                help=f"write {node.name}(x)",
            )  # fmt: skip
        found: exp.Expression = node.expressions[0]
        return found

    def _texts(
        self, node: exp.Expression, inner: exp.GroupConcat, condition: exp.Expression | None, signature: str
    ) -> _Spec:
        """`string_agg`: each row becomes a line of its sort key and its text; the lines are sorted and joined."""
        block, written = self._block, inner.this
        order = list(written.expressions) if isinstance(written, exp.Order) else []
        argument = written.this if isinstance(written, exp.Order) else written
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            argument = argument.expressions[0]
        same = block.signature(inner.meta.get(ELEMENT, argument))
        if distinct and any(block.signature(each.this) != same for each in order):
            self._statement.refuse(
                "sql-order", "DISTINCT texts are ordered by something else", node, help="order by the text itself"
            )
        if condition is not None:
            argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
        text = block.value(argument)
        if text.kind not in (None, Kind.SYMBOL):
            self._statement.refuse(
                "type-mismatch", f"`{self._statement.spelled(node)}` needs text", node, help="use CAST(… AS TEXT)"
            )
        separator = block.value(inner.args.get("separator") or exp.Null())
        if separator.constant is None or separator.kind not in (None, Kind.SYMBOL):
            self._statement.unsupported("a computed separator", node, help="write the separator as text")
        keys = [sort_key(block.value(each.this), sort_column(each)) for each in order]
        if not distinct:
            keys.append(applied("sort_key", [text], SYMBOL))
            identity = self._translation.identity(block.scope.sources)
            keys += [sort_key(plain(v, t), SortColumn(0)) for v, t in identity]
        elif not order:
            keys.append(applied("sort_key", [text], SYMBOL))
        keys.append(plain(Constant("\t", SYMBOL), SYMBOL))
        keys.append(applied("window_text", [text], SYMBOL))
        value = replace(joined_keys(keys, block), type=SYMBOL.optional() if text.nullable else SYMBOL)
        between = plain(Constant("", SYMBOL), SYMBOL) if separator.type is None else separator
        return _Spec(signature, "sequence", False, value, between)

    def _refuse_kind(self, node: exp.Expression, function: str, value: Value | None) -> None:
        if value is None or value.type is None:
            return
        if value.kind is not None and not AGGREGATES[function].accepts(value.kind):
            self._statement.refuse(
                "type-mismatch",
                f"`{self._statement.spelled(node)}` needs numbers, not `{value.type.required()}`",
                node,
                help="use count, min or max",
            )

    def _refuse_untyped(self) -> None:
        for value in (*self._values, *(s.value for s in self._specs if s.value is not None)):
            if value.type is None:
                self._statement.unsupported("a group or an aggregate over NULL only", help="use CAST(NULL AS …)")

    # ---- rows -----------------------------------------------------------------------------------

    def _is_simple(self) -> bool:
        """Test whether the rows need no view: one conjunction, and keys that are distinct variables and never NULL."""
        terms = [value.term for value in self._values]
        plain_keys = all(isinstance(term, Variable) for term in terms) and len({str(t) for t in terms}) == len(terms)
        if not plain_keys or any(value.nullable for value in self._values):
            return False
        if any(spec.value is not None and spec.value.term is None for spec in self._specs):
            return False
        together = conjunction(self._block.parts)
        return together != FALSE and len(self._translation.clauses(together)) == 1

    def _inline(self) -> _GroupRows:
        keys = []
        for value in self._values:
            assert isinstance(value.term, Variable)
            assert value.type is not None
            keys.append((Variable(value.term.name), value.type))
        return _GroupRows(
            self._block.parts, tuple(keys), tuple(s.value for s in self._specs), tuple(keys), self._block.parts
        )

    def _stored(self) -> _GroupRows:
        """The rows as a view: keys with their marks, arguments, the columns that identify a row, and the values of
        outer queries."""
        translation = self._translation
        around = [] if self._nodes else self._around
        identity = translation.identity(self._block.scope.sources)
        values = [*self._values, *(s.value for s in self._specs if s.value is not None)]
        values += [plain(variable, type) for variable, type in identity]
        values += [plain(variable, translation.type_of(variable)) for variable in around]
        types = [value.type for value in values if value.type is not None]
        names = [translation.variable(self._wish(place, value)).name for place, value in enumerate(values)]
        marked = [place < len(self._values) and value.nullable for place, value in enumerate(values)]
        if sum(marked) > MOST_NULLABLE:
            self._statement.unsupported(
                f"GROUP BY with more than {MOST_NULLABLE} nullable columns", help="declare columns NOT NULL"
            )
        parts = translation.domain([*around, *(self._around if self._nodes else [])], self._block.parts)
        wide_names, wide_types = _stored_columns(names, types, marked)
        branches = marked_branches(Branch(parts, tuple(values)), types, marked)
        relation = translation.view("rows", wide_names, wide_types, branches)
        self._refuse_null_around(relation, around)
        return self._stored_rows(relation, names, marked, around)

    @staticmethod
    def _wish(place: int, value: Value) -> str:
        return value.term.name if isinstance(value.term, Variable) else f"value_{place + 1}"

    def _refuse_null_around(self, relation: str, around: Sequence[Variable]) -> None:
        """Refuse nullable values of outer queries: NULL would not join with the view."""
        columns = self._translation.schemas[relation].columns[
            len(self._translation.schemas[relation].columns) - len(around) :
        ]
        for variable, column in zip(around, columns, strict=True):
            if column.type.nullable and self._translation.type_of(variable).nullable:
                self._statement.unsupported(
                    f"an aggregate over rows that depend on the nullable `{variable.name}` in this way",
                    help="add IS NOT NULL for that column to the inner query, or join instead",
                )

    def _stored_rows(
        self, relation: str, names: Sequence[str], marked: Sequence[bool], around: Sequence[Variable]
    ) -> _GroupRows:
        translation, columns = self._translation, list(self._translation.schemas[relation].columns)
        inside: list[Term] = []
        outside: list[Term] = []
        shared: list[tuple[Variable, Type]] = []
        keys: list[tuple[Variable, Type]] = []
        arguments: list[Variable] = []
        types = iter(column.type for column in columns)
        used = sum(spec.value is not None for spec in self._specs)
        for place, (name, has_mark) in enumerate(zip(names, marked, strict=True)):
            variable = translation.variable(name)
            if has_mark:
                mark, filled = translation.variable(f"{name}_is_null"), translation.variable(f"{name}_filled")
                pair = [(mark, next(types)), (filled, next(types))]
                type = next(types)
                shared += pair
                inside += [mark, filled, translation.variable(name)]
                outside += [mark, filled, variable]
                keys.append((variable, type))
                continue
            type = next(types)
            if place < len(self._values):
                shared.append((variable, type))
                keys.append((variable, type))
            elif place < len(self._values) + used:
                arguments.append(variable)
            elif place >= len(names) - len(around):
                variable = around[place - (len(names) - len(around))]
            inside.append(variable)
            outside.append(variable)
        return _GroupRows(
            (Atom(relation, tuple(inside)),), tuple(shared), self._arguments(relation, arguments, inside), tuple(keys),
            (Atom(relation, tuple(outside)),),
        )  # fmt: skip

    def _arguments(self, relation: str, found: Sequence[Variable], args: Sequence[Term]) -> tuple[Value | None, ...]:
        columns = self._translation.schemas[relation].columns
        typed = iter([plain(v, columns[args.index(v)].type) for v in found])
        return tuple(None if spec.value is None else next(typed) for spec in self._specs)

    # ---- groups ---------------------------------------------------------------------------------

    def _with_groups(self, made: Block, rows: _GroupRows) -> _GroupRows:
        """The rows, with a view of the groups."""
        translation = self._translation
        shown: list[SourceColumn] = []
        for node, (variable, type) in zip(self._nodes, rows.keys, strict=True):
            column = self._column_of(node)
            if column is not None and all(each.term != variable for each in shown):
                shown.append(SourceColumn(column.table, column.name, variable, type))
        visible = {column.term.name for column in shown}
        every = dict.fromkeys((*rows.keys, *rows.shared))
        hidden = [(v, t) for v, t in every if v.name not in visible]
        columns = [(c.term, c.type) for c in shown] + hidden
        values = tuple(plain(v, t) for v, t in columns)
        parts = translation.domain(self._around, rows.groups)
        names, types = [v.name for v, _ in columns], [t for _, t in columns]
        relation = translation.view("groups", names, types, [Branch(parts, values)])
        source = FromItem(relation, shown, [v for v, _ in hidden], [t for _, t in hidden], self._statement.span)
        made.scope.sources = [source]
        around = {variable.name for variable in self._around}
        translation.homes.update((v.name, source) for v, _ in source.identity() if v.name not in around)
        return _GroupRows(rows.body, rows.shared, rows.arguments, rows.keys, (source.atom(),))

    def _column_of(self, node: exp.Expression) -> SourceColumn | None:
        found = unwrapped(node)
        return self._block.scope.own(self._statement, found) if isinstance(found, exp.Column) else None

    def _tie_to_values_around(self, made: Block, rows: _GroupRows) -> None:
        """Restrict the groups to those of the values of outer queries, if these have become keys of a view."""
        for node, value, (key, type) in zip(self._nodes, self._values, rows.keys, strict=True):
            if not node.name.startswith("around ") or value.term == key:
                continue
            assert value.term is not None
            same: list[Formula] = [Comparison("=", value.term, key)]
            if type.nullable and value.nullable:
                same.append(conjunction((is_null(value.term), is_null(key))))
            made.conditions.append(disjunction(same))

    # ---- aggregates -----------------------------------------------------------------------------

    def _aggregate(self, made: Block, spec: _Spec, argument: Value | None, rows: _GroupRows) -> Value:
        """The value of an aggregate for every group; its conditions are added to the block."""
        result = self._translation.variable(spec.word)
        if argument is None:
            made.conditions.append(Comparison("=", result, Aggregate("count", None, conjunction(rows.body))))
            return plain(result, NUMBER)
        assert argument.term is not None
        assert argument.type is not None
        body, term = self._values_of(spec, argument, rows)
        nullable = argument.nullable and not spec.distinct
        given = conjunction((*body, is_given(term))) if nullable else conjunction(body)
        if spec.function == "count":
            made.conditions.append(Comparison("=", result, Aggregate("count", None, given)))
            return plain(result, NUMBER)
        type = _result_type(spec.function, argument.type)
        if isinstance(term, Constant) and term.value is None:
            # The type of an aggregate of NULL could not be inferred; its value is NULL.
            return plain(term, type.optional())
        aggregate = Aggregate(self._called(spec), term, conjunction(body))
        if self._nodes and not argument.nullable:
            made.conditions.append(Comparison("=", result, aggregate))
            return plain(result, type)
        if self._around and not self._nodes:
            return self._in_cases(spec, result, aggregate, given, type)
        return self._in_view(made, spec, rows, result, aggregate, given, type)

    def _called(self, spec: _Spec) -> str:
        """The name of the aggregate in rules; the checker adds the types of a fold in a view."""
        is_named = is_functor(spec.function) and self._translation.is_view
        return f"{MARK}{spec.word}" if is_named else spec.function

    def _values_of(self, spec: _Spec, argument: Value, rows: _GroupRows) -> tuple[tuple[Formula, ...], Term]:
        """The body to aggregate over, and the term; for DISTINCT, over a view with every value once."""
        assert argument.term is not None
        assert argument.type is not None
        if not spec.distinct:
            outside = {variable.name for variable, _ in (*rows.keys, *rows.shared)}
            outside.update(variable.name for variable in self._around)
            if outside.isdisjoint(variables(argument.term)):
                return rows.body, argument.term
            # Otherwise the variables of the term would be local to the aggregate.
            value = self._translation.variable("value")
            return (*rows.body, Comparison("=", value, argument.term)), value
        around = [] if self._nodes else self._around
        shared = [*rows.shared, *((v, self._translation.type_of(v)) for v in around)]
        value = self._translation.variable("value")
        parts = self._translation.domain(around, (*rows.body, is_given(argument.term)))
        names = [value.name, *(v.name for v, _ in shared)]
        types = [argument.type.required(), *(t for _, t in shared)]
        values = (plain(argument.term, argument.type), *(plain(v, t) for v, t in shared))
        relation = self._translation.view("distinct", names, types, [Branch(parts, values)])
        self._refuse_null_around(relation, around)
        return (Atom(relation, (value, *(v for v, _ in shared))),), value

    def _in_cases(self, spec: _Spec, result: Variable, aggregate: Aggregate, given: Formula, type: Type) -> Value:
        """The aggregate for each combination of values of the outer queries: NULL over no rows."""
        count = self._translation.variable("count")
        counted = Comparison("=", count, Aggregate("count", None, given))
        empty = Case((counted, Comparison("=", count, Constant(0))), Constant(None))
        some: tuple[Formula, ...] = (Comparison("=", result, aggregate),)
        if spec.function == "sum":
            some = (counted, Comparison(">", count, Constant(0)), *some)
        return Value((Case(some, result), empty), type.optional())

    def _in_view(
        self,
        made: Block,
        spec: _Spec,
        rows: _GroupRows,
        result: Variable,
        aggregate: Aggregate,
        given: Formula,
        type: Type,
    ) -> Value:
        """The aggregate as a view, with NULL for groups without values to aggregate."""
        translation = self._translation
        groups = rows.groups if self._nodes else ()
        shared = tuple(plain(v, t) for v, t in rows.shared)
        names, types = [v.name for v, _ in rows.shared], [t for _, t in rows.shared]
        parts = translation.domain((v for v in self._around if v.name in names), (given,))
        some = Atom(
            translation.view(f"{spec.word}_given", names, types, [Branch(parts, shared)]),
            tuple(v for v, _ in rows.shared),
        )
        found = Branch((*groups, some, Comparison("=", result, aggregate)), (*shared, plain(result, type)))
        nothing = Branch((*groups, Not(some)), (*shared, plain(Constant(None), type.optional())))
        relation = translation.view(spec.word, [*names, "value"], [*types, type], [found, nothing])
        value = translation.variable(spec.word)
        made.conditions.append(Atom(relation, (*(v for v, _ in rows.shared), value)))
        return plain(value, type.optional())


def _stored_columns(
    names: Sequence[str], types: Sequence[Type], marked: Sequence[bool]
) -> tuple[list[str], list[Type]]:
    wide: list[tuple[str, Type]] = []
    for name, type, has_mark in zip(names, types, marked, strict=True):
        if has_mark:
            wide += [(f"{name}_is_null", NUMBER), (f"{name}_filled", type)]
        wide.append((name, type))
    return [name for name, _ in wide], [type for _, type in wide]


def marked_branches(branch: Branch, types: Sequence[Type], marked: Sequence[bool]) -> list[Branch]:
    """The branch with three columns for each marked one: whether it is NULL, a value that is not NULL, and the
    value."""
    made = [Branch(branch.parts, ())]
    for value, type, has_mark in zip(branch.values, types, marked, strict=True):
        longer: list[Branch] = []
        for each in made:
            if not has_mark:
                longer.append(Branch(each.parts, (*each.values, value)))
                continue
            for case in value.cases:
                here = (*each.parts, *case.when, is_given(case.term))
                values = (plain(Constant(0), NUMBER), plain(case.term, type), plain(case.term, type))
                longer.append(Branch(here, (*each.values, *values)))
                there = (*each.parts, *case.when, is_null(case.term))
                nothing = (plain(Constant(1), NUMBER), plain(filler(type), type), plain(Constant(None), type))
                longer.append(Branch(there, (*each.values, *nothing)))
        made = longer
    return made


def _spellings() -> list[str]:
    return [*(name for each in AGGREGATES.values() for _, name in each.sql), "string_agg"]


def _result_type(function: str, type: Type) -> Type:
    result = AGGREGATES[function].result(type)
    return replace(result, name="") if function == "sum" else result


def _key_nodes(block: Block, select: exp.Select) -> list[exp.Expression]:
    """The expressions of GROUP BY; a number or a name may refer to a column of the SELECT."""
    group = select.args.get("group")
    if group is None:
        return []
    found: dict[str, exp.Expression] = {}
    for node in group.expressions:
        key = _meant(block, select, node)
        found.setdefault(block.signature(key), key)
    return list(found.values())


def _meant(block: Block, select: exp.Select, node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Literal) and not node.is_string:
        place = int(node.name) if node.name.isdigit() else 0
        if not 1 <= place <= len(select.expressions):
            block.statement.refuse("sql-syntax", f"unknown column {node.name}", node, help="count from 1")
        return unwrapped(select.expressions[place - 1])
    name = node if isinstance(node, exp.Column) and node.args.get("table") is None else None
    if name is not None and block.scope.own(block.statement, name) is None:
        for each in select.expressions:
            if isinstance(each, exp.Alias) and each.alias.lower() == node.name.lower():
                return unwrapped(each)
    return unwrapped(node)
