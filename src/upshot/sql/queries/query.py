"""A question in SQL: rules for its answer, and the order in which the rows are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from upshot.check.clause.query import value_constant
from upshot.check.findings import Findings
from upshot.check.names.variables import fresh_name
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.sql.names import matches
from upshot.sql.queries.queries import QueryReader
from upshot.sql.queries.row_sets import RowSet
from upshot.sql.reading import read_script
from upshot.sql.translation import Translation
from upshot.sql.trees import inner_query, unwrapped
from upshot.sql.trouble import Refused, Statement, understood
from upshot.syntax.ast import Constant, Rule


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column, by its place, and which way it is sorted."""

    place: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """`rules` define the `answer` and the `helpers` it needs."""

    answer: Schema
    helpers: Mapping[str, Schema]
    rules: tuple[Rule, ...]
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0


def sql_query(text: str, schemas: Mapping[str, Schema], values: Mapping[str, object]) -> SqlQuery:
    """The query of a text; `:name` takes the value of that name, as a constant, never as text."""
    script = read_script(text, "<query>")
    if script.mistakes:
        raise ProgramError(script.mistakes)
    whole = Span(script.source, 0, len(text))
    if len(script.statements) != 1 or script.directives:
        help = "write SELECT …" if not script.statements else "run one query at a time"
        raise ProgramError([Diagnostic("sql-one-query", "expected exactly one query", whole, help=help)])
    (statement,) = script.statements
    try:
        with understood(statement):
            return _query(statement, schemas, _constants(statement, values))
    except Refused as refused:
        raise ProgramError([refused.diagnostic]) from None


def _query(statement: Statement, schemas: Mapping[str, Schema], constants: Mapping[str, Constant]) -> SqlQuery:
    if statement.kind != "query":
        statement.refuse("sql-not-a-query", "this is a definition, not a query", help="use `db.define`")
    tree = inner_query(statement.tree)
    order, limit, offset = (tree.args.pop(key, None) for key in ("order", "limit", "offset"))
    fetch = limit if isinstance(limit, exp.Fetch) else None
    owner = fresh_name("query", schemas)
    reader = QueryReader()
    translation = Translation(statement, dict(schemas), owner, reader, parameters=constants)
    rows = reader.rows(translation, tree)
    names = [fresh_name(name, rows.names[:place]) for place, name in enumerate(rows.names)]
    answer = translation.define(owner, names, rows.types(translation), rows.branches)
    rules = tuple(item for item in translation.items if isinstance(item, Rule))
    helpers = {name: each for name, each in translation.schemas.items() if name not in schemas and name != owner}
    most = fetch.args.get("count") if fetch is not None else limit.expression if limit is not None else None
    return SqlQuery(
        answer,
        helpers,
        rules,
        _order(statement, tree, rows, order),
        None if most is None else _count(statement, most, constants, "LIMIT"),
        0 if offset is None else _count(statement, offset.expression, constants, "OFFSET"),
    )


def _constants(statement: Statement, values: Mapping[str, object]) -> dict[str, Constant]:
    """The values that the query uses; those it does not use are refused."""
    used = {node.name for node in statement.tree.find_all(exp.Placeholder)}
    findings = Findings()
    found: dict[str, Constant] = {}
    for name, value in values.items():
        if name not in used:
            hint = did_you_mean(name, used) or f"write `:{name}` in the query"
            statement.refuse("unused-parameter", f"parameter `{name}` does not occur in the query", help=hint)
        constant = value_constant(value, f":{name}", statement.span, findings)
        if constant is not None:
            found[name] = constant
    findings.raise_errors()
    return found


def _count(statement: Statement, node: exp.Expression, constants: Mapping[str, Constant], word: str) -> int:
    constant = constants.get(node.name) if isinstance(node, exp.Placeholder) else None
    value = constant.value if constant is not None else None
    if isinstance(node, exp.Literal) and node.name.isdigit():
        value = int(node.name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        statement.refuse("sql-syntax", f"{word} needs a non-negative integer", node, help=f"write {word} 10")
    return value


def _order(
    statement: Statement, tree: exp.Expression, rows: RowSet, order: exp.Expression | None
) -> tuple[SortKey, ...]:
    if order is None:
        return ()
    found = []
    for node in order.expressions:
        descending = bool(node.args.get("desc"))
        nulls_first = node.args.get("nulls_first")
        first = descending if nulls_first is None else bool(nulls_first)
        found.append(SortKey(_place(statement, tree, rows, node.this), descending, first))
    return tuple(found)


def _place(statement: Statement, tree: exp.Expression, rows: RowSet, node: exp.Expression) -> int:
    """The column that a part of ORDER BY means: by its number, its name, or as it is written."""
    node = unwrapped(node)
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(rows.names):
        return int(node.name) - 1
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        named = [place for place, name in enumerate(rows.names) if matches(node.this, name)]
        if len(named) == 1:
            return named[0]
    selected = tree.expressions if isinstance(tree, exp.Select) else []
    alike = [place for place, each in enumerate(selected) if unwrapped(each) == node]
    if alike and not any(each.is_star for each in selected):
        return alike[0]
    statement.refuse(
        "sql-order",
        f"`{node.sql()}` is not a column of the result",
        node,
        help="order by a selected column, its name or its number",
    )
