"""Translate a query in SQL: rules for its answer, and the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from sqlglot import exp

from upshot.check.clause.query import value_constant
from upshot.check.findings import Findings
from upshot.check.names.variables import fresh_name
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import SYMBOL
from upshot.sql.queries.first_rows import first_of_each, has_distinct_on
from upshot.sql.queries.limits import SortColumn, row_count, sort_columns
from upshot.sql.queries.queries import QueryReader
from upshot.sql.reading import read_script
from upshot.sql.spellings import in_one_spelling
from upshot.sql.translation import Translation
from upshot.sql.trees import inner_query, mark_folds
from upshot.sql.trouble import Refused, Statement, understood
from upshot.syntax.ast import Constant, Rule


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """`rules` define the `answer` and its `helpers`. The last `extra` columns of the answer are only for its order."""

    answer: Schema
    helpers: Mapping[str, Schema]
    rules: tuple[Rule, ...]
    order: tuple[SortColumn, ...] = ()
    extra: int = 0
    limit: int | None = None
    offset: int = 0
    version: int | None = None
    """The version of all tables, from `VERSION AS OF`."""
    reads_clock: bool = False
    """The answer depends on the current time."""


def sql_query(
    text: str,
    schemas: Mapping[str, Schema],
    values: Mapping[str, object],
    functors: Mapping[str, str] = MappingProxyType({}),
    *,
    ordered: bool = True,
    live: bool = False,
) -> SqlQuery:
    """Translate a query; `values` bind its parameters `:name`. Unless it is `ordered`, ORDER BY has no effect.
    `functors` are the functions of the user. A `live` query has no current time."""
    script = read_script(text, "<query>")
    if script.mistakes:
        raise ProgramError(script.mistakes)
    whole = Span(script.source, 0, len(text))
    if len(script.statements) != 1 or script.directives:
        help = "write SELECT …" if not script.statements else "run one query at a time"
        raise ProgramError([Diagnostic("sql-one-query", "expected exactly one query", whole, help=help)])
    (statement,) = script.statements
    for node in list(statement.tree.find_all(exp.Parameter)):
        if node.name.isidentifier():
            same = exp.Placeholder(this=node.name)
            same.meta.update(node.meta)
            node.replace(same)
    try:
        with understood(statement):
            constants, now = _constants(statement, values), None if live else datetime.now(UTC)
            return _query(statement, (schemas, functors), constants, now, ordered=ordered)
    except Refused as refused:
        raise ProgramError([refused.diagnostic]) from None


def _query(
    statement: Statement, known: tuple[Mapping[str, Schema], Mapping[str, str]], constants: Mapping[str, Constant],
    now: datetime | None, *, ordered: bool,
) -> SqlQuery:  # fmt: skip
    schemas, functors = known
    if statement.kind != "query":
        statement.refuse("sql-not-a-query", "this is a definition, not a query", help="use `db.define`")
    mark_folds(statement.tree, functors)
    in_one_spelling(statement.tree, functors)
    tree = inner_query(statement.tree)
    version = _version(statement, tree, constants)
    if has_distinct_on(tree):
        tree = first_of_each(tree)
    order, limit, offset = (tree.args.pop(key, None) for key in ("order", "limit", "offset"))
    owner = fresh_name("query", schemas)
    reader = QueryReader()
    translation = Translation(statement, dict(schemas), owner, reader, parameters=constants, functors=functors, now=now)
    extra, sort = sort_columns(statement, tree, order if ordered else None)
    rows = reader.rows(translation, tree)
    width = len(rows.names)
    names = [fresh_name(name, rows.names[:place]) for place, name in enumerate(rows.names)]
    answer = translation.define(owner, names, rows.types(translation), rows.branches)
    rules = tuple(item for item in translation.items if isinstance(item, Rule))
    helpers = {name: each for name, each in translation.schemas.items() if name not in schemas and name != owner}
    return SqlQuery(
        answer,
        helpers,
        rules,
        tuple(replace(each, place=each.place % width) for each in sort),
        extra,
        row_count(statement, limit, constants, "LIMIT"),
        row_count(statement, offset, constants, "OFFSET") or 0,
        version,
        translation.reads_clock,
    )


def _version(statement: Statement, tree: exp.Expression, constants: Mapping[str, Constant]) -> int | None:
    """The version of `FROM r VERSION AS OF 7`, which is removed from the tree; it must be the same for all tables."""
    named = {each.alias for each in tree.find_all(exp.CTE)}
    tables = [each for each in tree.find_all(exp.Table) if each.name not in named]
    found: dict[int | None, exp.Table] = {}
    for table in tables:
        clause = table.args.get("version")
        if clause is not None and (clause.this != "VERSION" or clause.args.get("kind") != "AS OF"):
            statement.unsupported("a version by time", table, help="name a version: `FROM r VERSION AS OF 7`")
        number = row_count(statement, clause, constants, "VERSION AS OF")
        found.setdefault(number, table)
    if len(found) > 1:
        hint = "write the same `VERSION AS OF` behind every table; `db.changes` compares versions"
        statement.refuse("sql-versions", "the tables have different versions", list(found.values())[-1], help=hint)
    for table in tables:
        table.set("version", None)
    return next(iter(found), None)


def _constants(statement: Statement, values: Mapping[str, object]) -> dict[str, Constant]:
    """The constants of the parameters; values of unknown parameters are refused."""
    used = {node.name for node in statement.tree.find_all(exp.Placeholder)}
    findings = Findings()
    found: dict[str, Constant] = {}
    for name, value in values.items():
        if name not in used:
            hint = did_you_mean(name, used) or f"write `:{name}` in the query"
            statement.refuse("unused-parameter", f"parameter `{name}` does not occur in the query", help=hint)
        constant = value_constant(value, f":{name}", statement.span, findings)
        if constant is not None:
            # In SQL a text is a text; in Datalog it may be the name of a branch of a type.
            text = isinstance(constant.value, str) and constant.type is None
            found[name] = replace(constant, type=SYMBOL) if text else constant
    findings.raise_errors()
    return found
