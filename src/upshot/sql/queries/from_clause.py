"""FROM: its sources, with a view for each outer join and each LATERAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from upshot.core.types import NUMBER, Type
from upshot.sql.expressions.coercion import coerced, common_type
from upshot.sql.expressions.values import Value, plain
from upshot.sql.names import new_name
from upshot.sql.queries.block import Block
from upshot.sql.queries.row_sets import identity_types
from upshot.sql.queries.sources import FromItem, Scope, SourceColumn
from upshot.sql.queries.subqueries import present
from upshot.sql.reading import is_unconditional
from upshot.sql.translation import Branch
from upshot.sql.trees import conjoined, inner_query, unwrapped
from upshot.syntax.ast import Constant

_BOTH, _LEFT_ONLY, _RIGHT_ONLY = 0, 1, 2


@dataclass(slots=True)
class _Joined:
    """Joined sources, and the conditions of the joins."""

    sources: list[FromItem]
    conditions: list[exp.Expression] = field(default_factory=list)

    def scope(self, parent: Scope | None) -> Scope:
        return Scope(parent, self.sources)


def read_from(block: Block, select: exp.Select, *, bag: bool) -> list[exp.Expression]:
    """Add the sources of the SELECT to its scope, and return the conditions of its joins. With `bag`, equal rows are
    distinguished."""
    start = select.args.get("from_")
    if start is None:
        return []
    reading = _FromClause(block, bag)
    groups = [reading.table(start.this)]
    for join in select.args.get("joins") or []:
        if _is_comma(join) and isinstance(join.this, exp.Lateral):
            # LATERAL can use all sources before it, also those before a comma.
            groups = [reading.joined(_together(groups), join)]
        elif _is_comma(join):
            groups.append(reading.table(join.this))
        else:
            groups[-1] = reading.joined(groups[-1], join)
    sources = [source for group in groups for source in group.sources]
    _refuse_twice(block, sources, start)
    block.scope.sources = sources
    return [condition for group in groups for condition in group.conditions]


def _together(groups: Sequence[_Joined]) -> _Joined:
    return _Joined([s for group in groups for s in group.sources], [c for group in groups for c in group.conditions])


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(key) for key in ("side", "kind", "method", "on", "using"))


def _refuse_twice(block: Block, sources: Sequence[FromItem], node: exp.Expression) -> None:
    seen: dict[str, FromItem] = {}
    for source in sources:
        for table in {column.table for column in source.columns if column.table}:
            if seen.setdefault(table, source) is not source:
                block.statement.refuse(
                    "sql-ambiguous", f"duplicate table name `{table}` in FROM", node, help="give one of them an alias"
                )


class _FromClause:
    def __init__(self, block: Block, bag: bool) -> None:
        self._block, self._bag = block, bag
        self._translation, self._statement = block.translation, block.statement

    def table(self, node: exp.Expression) -> _Joined:
        """A table, a query, or joins in parentheses."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.args.get("alias"):
            node = node.this
        around = self._block.scope.parent
        joins = node.args.get("joins") or [] if isinstance(node, exp.Table) else []
        found = _Joined([self._translation.reader.table(self._translation, node, around, bag=self._bag)])
        for join in joins:
            found = self.joined(found, join)
        return found

    def joined(self, left: _Joined, join: exp.Join) -> _Joined:
        kind, side = str(join.args.get("kind") or ""), str(join.args.get("side") or "")
        if isinstance(join.this, exp.Lateral):
            return self._lateral(left, join, side)
        right = self.table(join.this)
        if kind not in ("", "INNER", "CROSS", "OUTER") or join.args.get("method") not in (None, "NATURAL"):
            what = " ".join(filter(None, (join.args.get("method"), side, kind, "JOIN")))
            self._statement.unsupported(what, join, help="use EXISTS or NOT EXISTS")
        names = self._merged_names(left, right, join)
        on = [*conjoined(join.args.get("on")), *(_equal(a, b) for a, b in names)]
        if kind == "CROSS" and (join.args.get("on") is not None or join.args.get("using")):
            self._statement.refuse("sql-syntax", "CROSS JOIN has no condition", join, help="use JOIN with ON or USING")
        if kind != "CROSS" and not join.args.get("method") and not names and is_unconditional(join):
            words = " ".join(filter(None, (side, "JOIN")))
            self._statement.refuse(
                "sql-syntax",
                f"{words} needs ON or USING",
                join,
                help="add the join condition; CROSS JOIN pairs all rows",
            )
        if not side:
            _refuse_twice(self._block, [*left.sources, *right.sources], join)
            _shadow([b for _, b in names], [a for a, _ in names])
            return _Joined([*left.sources, *right.sources], [*left.conditions, *right.conditions, *on])
        _refuse_twice(self._block, [*left.sources, *right.sources], join)
        return _Joined([self._outer(left, right, on, side, names)])

    def _merged_names(self, left: _Joined, right: _Joined, join: exp.Join) -> list[tuple[SourceColumn, SourceColumn]]:
        """The pairs of columns that USING or NATURAL merges."""
        ours, theirs = left.scope(None), right.scope(None)
        expected: list[exp.Identifier] = list(join.args.get("using") or [])
        if join.args.get("method") == "NATURAL":
            shared = [c.name for c in ours.star() if any(c.name == d.name for d in theirs.star())]
            expected = [exp.to_identifier(name, quoted=True) for name in dict.fromkeys(shared)]
        found = []
        for name in expected:
            name = name.this if isinstance(name, exp.Column) else name
            pair = [scope.own(self._statement, exp.Column(this=name)) for scope in (ours, theirs)]
            if pair[0] is None or pair[1] is None:
                self._statement.refuse(
                    "unknown-column",
                    f"`{name.name}` is not a column on both sides",
                    join,
                    help="USING needs a column of both",
                )
            found.append((pair[0], pair[1]))
        return found

    # ---- LATERAL --------------------------------------------------------------------------------

    def _lateral(self, left: _Joined, join: exp.Join, side: str) -> _Joined:
        """A view of the rows before LATERAL, each joined with the rows that the query has for it."""
        on = conjoined(join.args.get("on"))
        if side not in ("", "LEFT") or join.args.get("using") or join.args.get("method"):
            self._statement.unsupported(f"{side or 'this'} JOIN LATERAL", join, help="use JOIN or LEFT JOIN … ON TRUE")
        if side and any(not _is_true(each) for each in on):
            self._statement.unsupported(
                "LEFT JOIN LATERAL with a condition", join, help="move it to WHERE of the query, and write ON TRUE"
            )
        block = self._with([left])
        block.require(left.conditions)
        rows = self._translation.reader.rows(self._translation, inner_query(join.this.this), block.scope, bag=self._bag)
        kept = [plain(c.term, c.type) for c in block.scope.columns()]
        hidden = _hidden(block.scope.sources)
        branches = [
            Branch((*block.parts, *b.parts), (*kept, *b.values, *hidden, *b.identity), span=b.span)
            for b in rows.branches
        ]
        types, extra = rows.types(self._translation), identity_types(rows)
        if side:
            _, missing = present(block, "matched", [Branch(b.parts, ()) for b in rows.branches])
            nulls = [_null(type) for type in (*types, *extra)]
            values = (*kept, *nulls[: len(types)], *hidden, *nulls[len(types) :])
            branches.append(Branch((*block.parts, missing), values))
        columns = [c for source in left.sources for c in source.columns]
        named = [*(c.name for c in columns), *rows.names, *(["hidden"] * (len(hidden) + len(extra)))]
        made = self._relation(
            [self._translation.variable(name).name for name in named],
            [value.type or NUMBER for value in kept] + types + [value.type or NUMBER for value in hidden] + extra,
            branches, len(hidden) + len(extra),
        )  # fmt: skip
        new = self._lateral_columns(join.this, rows.names, made.columns[len(columns) :])
        made.columns = [
            *(replace(c, term=m.term, type=m.type) for c, m in zip(columns, made.columns, strict=False)),
            *new,
        ]
        return _Joined([made], [] if side else on)

    def _lateral_columns(
        self, node: exp.Lateral, names: Sequence[str], found: Sequence[SourceColumn]
    ) -> list[SourceColumn]:
        """The columns of the query with the alias of LATERAL."""
        alias = node.args.get("alias")
        table = new_name(self._statement, alias.this) if alias is not None and alias.this is not None else ""
        given = (
            [new_name(self._statement, each) for each in alias.args.get("columns") or []] if alias is not None else []
        )
        if len(given) > len(names):
            self._statement.refuse(
                "wrong-arity", f"there are only {len(names)} columns to rename", node, help="give fewer names"
            )
        every = [*given, *names[len(given) :]]
        return [replace(column, table=table, name=name) for column, name in zip(found, every, strict=True)]

    # ---- outer joins ----------------------------------------------------------------------------

    def _outer(
        self, left: _Joined, right: _Joined, on: list[exp.Expression], side: str,
        names: list[tuple[SourceColumn, SourceColumn]],
    ) -> FromItem:  # fmt: skip
        """A view of the join: matching rows, and rows without a match with NULL for the other side."""
        pairs = [(_place(left.sources, a), _place(right.sources, b)) for a, b in names]
        width = sum(len(source.columns) for source in left.sources)
        full = side == "FULL"
        branches = [self._matched(left, right, on, pairs if full else [])]
        if side in ("LEFT", "FULL"):
            branches.append(self._unmatched(left, right, on, [p[0] for p in pairs] if full else [], is_left=True))
        if side in ("RIGHT", "FULL"):
            branches.append(self._unmatched(right, left, on, [p[1] for p in pairs] if full else [], is_left=False))
        columns = [c for group in (left, right) for source in group.sources for c in source.columns]
        hidden = [
            (v, t)
            for group in (left, right)
            for source in group.sources
            for v, t in zip(source.hidden, source.hidden_types, strict=True)
        ]
        stored = [self._translation.variable(c.name).name for c in columns]
        stored += [self._translation.variable(a.name).name for a, _ in names] if full else []
        types = [c.type for c in columns]
        if full:
            merged = [self._merged_type(a, b) for a, b in names]
            branches = [self._with_merged(branch, len(columns), merged) for branch in branches]
            types += merged
        stored += [self._translation.variable(v.name).name for v, _ in hidden]
        types += [t for _, t in hidden]
        if self._bag:
            stored.append(self._translation.variable("side").name)
            types.append(NUMBER)
        made = self._relation(stored, types, branches, len(hidden) + self._bag)
        shown = [replace(c, term=m.term, type=m.type) for c, m in zip(columns, made.columns, strict=False)]
        extra = [
            SourceColumn("", a.name, m.term, m.type)
            for (a, _), m in zip(names, made.columns[len(columns) :], strict=False)
        ]
        made.columns = [*shown, *extra] if full else shown
        for position, (ours, theirs) in enumerate(pairs):
            one, other = made.columns[ours], made.columns[width + theirs]
            if full:
                one.shadowed = other.shadowed = True
                extra[position].merged = True
            else:
                keep, drop = (one, other) if side == "LEFT" else (other, one)
                keep.merged, drop.shadowed = True, True
        return made

    def _merged_type(self, one: SourceColumn, other: SourceColumn) -> Type:
        """The type of a merged column, which has the values of both."""
        found = common_type(
            self._statement, [plain(c.term, c.type) for c in (one, other)], [one.reference(), other.reference()]
        )
        return (found or one.type).optional()

    def _with_merged(self, branch: Branch, first: int, types: Sequence[Type]) -> Branch:
        """The branch with its merged columns, from place `first` on, converted to these types."""
        values = list(branch.values)
        for place, type in enumerate(types, start=first):
            values[place] = coerced(self._statement, values[place], type, exp.Null())
        return replace(branch, values=tuple(values))

    def _relation(self, names: list[str], types: list[Type], branches: list[Branch], hidden: int) -> FromItem:
        what = "an outer join with columns of the outer query"
        self._translation.refuse_correlated(self._block.scope, branches, what, help="move the condition to WHERE")
        relation = self._translation.view("join", names, types, branches)
        return self._translation.source(relation, "", hidden=hidden)

    def _matched(self, left: _Joined, right: _Joined, on: list[exp.Expression], pairs: list[tuple[int, int]]) -> Branch:
        block = self._with([left, right])
        block.require([*left.conditions, *right.conditions, *on])
        columns = list(block.scope.columns())
        merged = [columns[ours] for ours, _ in pairs]
        values = [plain(c.term, c.type) for c in (*columns, *merged)]
        return Branch(block.parts, (*values, *_hidden(block.scope.sources), *self._tag(_BOTH)))

    def _unmatched(
        self, kept: _Joined, other: _Joined, on: list[exp.Expression], merged: list[int], *, is_left: bool
    ) -> Branch:
        """The rows of one side without a match on the other."""
        block = self._with([kept])
        block.require(kept.conditions)
        inner = Block(self._translation, Scope(block.scope, [self._translation.renewed(s) for s in other.sources]))
        inner.require([*other.conditions, *on])
        _, missing = present(block, "matched", [Branch(inner.parts, ())])
        block.add(missing)
        own = [plain(c.term, c.type) for c in block.scope.columns()]
        nulls = [_null(c.type) for source in other.sources for c in source.columns]
        hidden = _hidden(block.scope.sources)
        no_hidden = [_null(type) for source in other.sources for type in source.hidden_types]
        pair = [(own, hidden), (nulls, no_hidden)] if is_left else [(nulls, no_hidden), (own, hidden)]
        shown = [value for values, _ in pair for value in values] + [own[place] for place in merged]
        tag = self._tag(_LEFT_ONLY if is_left else _RIGHT_ONLY)
        return Branch(block.parts, (*shown, *(value for _, values in pair for value in values), *tag))

    def _with(self, groups: list[_Joined]) -> Block:
        sources = [self._translation.renewed(source) for group in groups for source in group.sources]
        return Block(self._translation, Scope(self._block.scope.parent, sources))

    def _tag(self, side: int) -> list[Value]:
        return [plain(Constant(side), NUMBER)] * self._bag


def _is_true(node: exp.Expression) -> bool:
    node = unwrapped(node)
    return isinstance(node, exp.Boolean) and bool(node.this)


def _equal(left: SourceColumn, right: SourceColumn) -> exp.Expression:
    return exp.EQ(this=left.reference(), expression=right.reference())


def _shadow(hidden: Sequence[SourceColumn], merged: Sequence[SourceColumn]) -> None:
    for column in hidden:
        column.shadowed = True
    for column in merged:
        column.merged = True


def _place(sources: Sequence[FromItem], column: SourceColumn) -> int:
    columns = [each for source in sources for each in source.columns]
    return next(place for place, each in enumerate(columns) if each is column)


def _hidden(sources: Sequence[FromItem]) -> list[Value]:
    return [plain(v, t) for source in sources for v, t in zip(source.hidden, source.hidden_types, strict=True)]


def _null(type: Type) -> Value:
    return plain(Constant(None), type.optional())
