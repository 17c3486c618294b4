"""WITH RECURSIVE beyond UNION: the least or greatest value of each group, UNION ALL in bags, CYCLE and SEARCH.

`SELECT a, min(b) FROM (… UNION …) AS q GROUP BY a` has one row for each `a`, with the least `b`: a view with a `min`
column, which the checker accepts if the recursion is monotone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from upshot.core.types import SYMBOL
from upshot.sql.expressions.expressions import SORT_KEY
from upshot.sql.expressions.values import Case, Value, combined, is_nothing, plain
from upshot.sql.names import matches, new_name
from upshot.sql.queries.row_sets import RowSet
from upshot.sql.reading import JOINED
from upshot.sql.translation import Branch, Translation
from upshot.sql.trees import aggregates_in, column_name, inner_query, unwrapped
from upshot.sql.trouble import Statement
from upshot.syntax.ast import Call, Constant, Not, Test, Variable

_DEPTH_DIGITS = 10


@dataclass(frozen=True, slots=True)
class BestValues:
    """A recursive union of which the best rows are kept: `columns` of the union in the order of the SELECT, with these
    `names`; the column at `place` has the least or greatest value."""

    union: exp.Union
    columns: tuple[exp.Identifier, ...]
    given: tuple[exp.Identifier, ...]
    names: tuple[exp.Identifier | None, ...]
    place: int
    word: str

    def arranged(self, statement: Statement, rows: RowSet, names: Sequence[str]) -> RowSet:
        """The rows of a side of the union with the columns of the SELECT; `names` are those of its first side."""
        known = [new_name(statement, each) for each in self.given] + list(names[len(self.given) :])
        places = []
        for column in self.columns:
            found = [place for place, name in enumerate(known) if matches(column, name)]
            if not found:
                statement.refuse(
                    "unknown-column", f"unknown column `{column.name}`", column,
                    help=f"the columns are {', '.join(known)}",
                )  # fmt: skip
            places.append(found[0])
        own = tuple(new_name(statement, name) if name is not None else self.word for name in self.names)
        branches = tuple(replace(b, values=tuple(b.values[place] for place in places)) for b in rows.branches)
        return RowSet(own, branches)


def best_values(query: exp.Expression) -> BestValues | None:
    """The best values of a union, if the query only groups it; None for any other query."""
    if not isinstance(query, exp.Select) or query.args.get("group") is None:
        return None
    if any(part and key not in ("expressions", "from_", "group") for key, part in query.args.items()):
        return None
    start = query.args.get("from_")
    if start is None or not isinstance(start.this, exp.Subquery) or not isinstance(inner_query(start.this), exp.Union):
        return None
    alias = start.this.args.get("alias")
    source = alias.name.lower() if alias is not None else ""
    if any(each.table and each.table.lower() != source for each in _own_columns(query)):
        return None
    columns: list[exp.Identifier] = []
    places: list[int] = []
    for place, each in enumerate(query.expressions):
        node = unwrapped(each)
        if isinstance(node, exp.Min | exp.Max):
            places.append(place)
            node = unwrapped(node.this)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        columns.append(node.this)
    keys = [unwrapped(each) for each in query.args["group"].expressions]
    expected = [columns[place].name.lower() for place in range(len(columns)) if place not in places]
    named = [key.name.lower() if isinstance(key, exp.Column) else _numbered(key, columns) for key in keys]
    if len(places) != 1 or sorted(expected) != sorted(named):
        return None
    word = "min" if isinstance(unwrapped(query.expressions[places[0]]), exp.Min) else "max"
    union = inner_query(start.this)
    assert isinstance(union, exp.Union)
    return BestValues(
        union, tuple(columns), tuple(alias.args.get("columns") or []) if alias is not None else (),
        tuple(column_name(each) for each in query.expressions), places[0], word,
    )  # fmt: skip


def _own_columns(query: exp.Select) -> Iterator[exp.Column]:
    """The columns that the query names itself, outside the union."""
    for part in (*query.expressions, query.args["group"]):
        yield from part.find_all(exp.Column)


def _numbered(key: exp.Expression, columns: Sequence[exp.Identifier]) -> str:
    is_place = isinstance(key, exp.Literal) and key.name.isdigit() and 0 < int(key.name) <= len(columns)
    return columns[int(key.name) - 1].name.lower() if is_place else ""


def refuse_extremes_of_steps(statement: Statement, common: exp.CTE) -> None:
    """Refuse `min` and `max` over the rows of one step of a recursion: only those over all rows have a fixpoint."""
    name = common.args["alias"].this.name.lower()
    for select in common.this.find_all(exp.Select):
        sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
        tables = [each.this for each in sources if each is not None and isinstance(each.this, exp.Table)]
        best = next((each for each in aggregates_in(select) if isinstance(each, exp.Min | exp.Max)), None)
        if best is not None and any(table.name.lower() == name for table in tables):
            word = best.key
            statement.refuse(
                "unstratified", f"`{name}` depends on itself through `{word}` of one of its steps", best,
                label="must range over all rows",
                help=f"group the whole union: {word}(v) over `FROM (… UNION ALL …) AS q GROUP BY k`",
            )  # fmt: skip


# ---- UNION ALL -----------------------------------------------------------------------------------


def with_derivations(translation: Translation, view: str, branches: Sequence[Branch]) -> list[Branch]:
    """The branches of a recursive view with one more value: the path of the derivation, from the rows of the first
    query to those of the last step. Equal rows of different derivations have different paths."""
    made = []
    for number, branch in enumerate(branches):
        before = [each for each in branch.identity if _is_path(translation, view, each)]
        own = [each for each in branch.identity if not _is_step(translation, view, each)]
        parts = [*before, plain(Constant(f"/{number}:", SYMBOL), SYMBOL), *map(_key_text, own)]
        value = parts[0] if len(parts) == 1 else combined(parts, lambda terms: Call("cat", tuple(terms)), SYMBOL)
        made.append(replace(branch, values=(*branch.values, value), identity=()))
    return made


def _is_step(translation: Translation, view: str, value: Value) -> bool:
    """Test whether the value is a column of the row that the step continues."""
    return isinstance(value.term, Variable) and translation.homes[value.term.name].relation == view


def _is_path(translation: Translation, view: str, value: Value) -> bool:
    return _is_step(translation, view, value) and value.term in translation.homes[value.term.name].hidden  # type: ignore[union-attr]


def _key_text(value: Value) -> Value:
    """The sort key of the value, which marks its end; NULL has a key too."""
    cases: list[Case] = []
    for case in value.cases:
        null, key = Constant("~", SYMBOL), Call("sort_key", (case.term,))
        is_null = Test("is_null", (case.term,))
        if is_nothing(case.term):
            cases.append(Case(case.when, null))
        elif value.nullable and not isinstance(case.term, Constant):
            cases += [Case((*case.when, Not(is_null)), key), Case((*case.when, is_null), null)]
        else:
            cases.append(Case(case.when, key))
    return Value(tuple(cases), SYMBOL)


# ---- CYCLE and SEARCH ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sides:
    """A recursion: its name, its first query, its recursive query, and the names of their columns."""

    name: str
    start: exp.Expression
    step: exp.Select
    names: tuple[str, ...]
    distinct: bool


def with_path(
    statement: Statement, common: exp.CTE, clause: exp.RecursiveWithSearch
) -> tuple[exp.Expression, list[str]]:
    """The query of WITH with the columns that CYCLE or SEARCH adds, and their names."""
    sides = _sides(statement, common, clause)
    table = next(each for each in sides.step.find_all(exp.Table) if each.name.lower() == sides.name.lower())
    for own in _columns(clause):
        if new_name(statement, own) not in sides.names:
            statement.refuse(
                "unknown-column", f"unknown column `{own.name}`", clause, help=f"use {', '.join(sides.names)}"
            )
    if str(clause.args.get("kind")) == "CYCLE":
        return _with_cycle(statement, clause, sides, table.alias_or_name)
    return _with_order(statement, clause, sides, table.alias_or_name)


def _sides(statement: Statement, common: exp.CTE, clause: exp.RecursiveWithSearch) -> _Sides:
    union, alias = inner_query(common.this), common.args["alias"]
    word = str(clause.args.get("kind"))
    step = inner_query(union.expression) if isinstance(union, exp.Union) else None
    simple = isinstance(step, exp.Select) and not any(step.args.get(key) for key in ("group", "distinct", "limit"))
    uses = [each for each in common.this.find_all(exp.Table) if each.name.lower() == alias.this.name.lower()]
    if not simple or len(uses) != 1:
        statement.unsupported(f"{word} of this recursion", clause, help="use one SELECT behind UNION that uses it once")
    assert isinstance(step, exp.Select)
    assert isinstance(union, exp.Union)
    given = [new_name(statement, each) for each in alias.args.get("columns") or []]
    first = union.this
    while isinstance(first, exp.Union | exp.Subquery):
        first = first.this
    names = [column_name(each) for each in first.expressions]
    if not given and any(name is None for name in names):
        statement.unsupported(f"{word} without names of columns", clause, help="name them: WITH RECURSIVE w(a, b) AS …")
    found = given or [new_name(statement, name) for name in names if name is not None]
    return _Sides(alias.this.name, union.this, step, tuple(found), bool(union.args.get("distinct")))


def _with_cycle(
    statement: Statement, clause: exp.RecursiveWithSearch, sides: _Sides, table: str
) -> tuple[exp.Expression, list[str]]:
    """A row whose value is on its path already is marked, and is not continued."""
    mark, path = (new_name(statement, clause.args[key]) for key in ("expression", "using"))
    yes, no = clause.args.get("to") or exp.true(), clause.args.get("default") or exp.false()
    key = _key(clause, "/")
    start = _around(sides.start, sides.names, [(no, mark), (_joined(_text("/"), key), path)])
    step = sides.step.copy()
    step.append("expressions", exp.column(path, table))
    step = step.where(exp.column(mark, table).eq(no))
    here = exp.column(path)
    found = exp.StrPosition(this=here, substr=_joined(_text("/"), key)) > 0
    value = exp.case().when(found, yes).else_(no)
    further = _around(step, (*sides.names, path), [(value, mark), (_joined(here, key), path)], len(sides.names))
    return exp.Union(this=start, expression=further, distinct=sides.distinct), [mark, path]


def _with_order(
    statement: Statement, clause: exp.RecursiveWithSearch, sides: _Sides, table: str
) -> tuple[exp.Expression, list[str]]:
    """A text that sorts the rows in the order of the search: the path to a row, or its depth and its value."""
    order = new_name(statement, clause.args["expression"])
    here, key = exp.column(order), _key(clause, "")
    before: exp.Expression = here
    first: exp.Expression = key
    if str(clause.args.get("kind")) == "BREADTH":
        depth = exp.Substring(this=here, start=exp.Literal.number(1), length=exp.Literal.number(_DEPTH_DIGITS))
        deeper = exp.cast(depth, "bigint") + 1
        before = exp.Pad(
            this=exp.cast(deeper, "text"), expression=exp.Literal.number(_DEPTH_DIGITS), fill_pattern=_text("0"),
            is_left=True,
        )  # fmt: skip
        first = _joined(_text("0" * _DEPTH_DIGITS), key)
    step = sides.step.copy()
    step.append("expressions", exp.column(order, table))
    start = _around(sides.start, sides.names, [(first, order)])
    further = _around(step, (*sides.names, order), [(_joined(before, key), order)], len(sides.names))
    return exp.Union(this=start, expression=further, distinct=sides.distinct), [order]


def _columns(clause: exp.RecursiveWithSearch) -> list[exp.Identifier]:
    """The columns of SEARCH BY, or those that identify a row of CYCLE."""
    column = clause.this
    names = column.name.split(JOINED)
    return [exp.to_identifier(name, quoted=True) for name in names] if len(names) > 1 else [column]


def _key(clause: exp.RecursiveWithSearch, end: str) -> exp.Expression:
    """The sort keys of the columns, joined; NULL is last."""
    found: list[exp.Expression] = [
        exp.Coalesce(
            this=exp.Anonymous(this=SORT_KEY, expressions=[exp.Column(this=column.copy())]), expressions=[_text("~")]
        )
        for column in _columns(clause)
    ]
    return reduce(_joined, [*found, *([_text(end)] if end else [])])


def _text(value: str) -> exp.Expression:
    return exp.Literal.string(value)


def _joined(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    return exp.DPipe(this=left.copy(), expression=right.copy())


def _around(
    query: exp.Expression, names: Sequence[str], added: Sequence[tuple[exp.Expression, str]], kept: int | None = None
) -> exp.Expression:
    """A query over the first columns of a query with these names, and columns computed from them."""
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    table = exp.Subquery(
        this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("rows_so_far"), columns=columns)
    )
    shown = [exp.Column(this=column.copy()) for column in columns[:kept]]
    return exp.select(*shown, *(exp.alias_(value.copy(), name, quoted=True) for value, name in added)).from_(table)
