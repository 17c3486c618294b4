"""Answer SQL queries over the current state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from upshot.check.clause.query import check_rules
from upshot.check.names.variables import atoms
from upshot.core.errors import UsageError
from upshot.core.rows import Row, Rows
from upshot.database import live
from upshot.database.explain.dependencies import everything_below
from upshot.database.placement import placement_of
from upshot.database.queries.query import refuse_undecided
from upshot.database.state import DatabaseState
from upshot.syntax.ast import Rule


def sql(
    state: DatabaseState, text: object, values: Mapping[str, Any], *, is_open: bool = False, at: int | None = None
) -> Rows:
    """The answer, each row once, in the order of the query, in the state before an open change or, if `is_open`, in the
    open one. Values are bound, never spliced into the text. `at` is the version that the caller has staged; `VERSION AS
    OF` may name no other."""
    found = _answered(state, text, values, is_open=is_open, at=at)
    if isinstance(found, Rows):
        return found
    if is_open or at is not None:
        message = f"`VERSION AS OF {found}` names another version than the one that is queried"
        raise UsageError(message, code="sql-versions", help="remove it, or query the database itself")
    from upshot.database.durable.past_version import past_sql  # noqa: PLC0415 - it imports this module

    return past_sql(state, found, text, values)


def as_of(state: DatabaseState, text: str, values: Mapping[str, Any]) -> int | None:
    """The version that a query names with `VERSION AS OF`; None for the last one."""
    from upshot.sql.queries.query import sql_query  # noqa: PLC0415 - sqlglot only where there is SQL

    return sql_query(text, state.schemas_with_undecided, values, state.compiled.checked.functors).version


def _answered(
    state: DatabaseState, text: object, values: Mapping[str, Any], *, is_open: bool, at: int | None
) -> Rows | int:
    """The answer, or the other version that the query names."""
    from upshot.sql.queries.query import sql_query  # noqa: PLC0415 - sqlglot only where there is SQL

    if not isinstance(text, str):
        message = f"a query must be text, not {type(text).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in db.sql("select * from closure where x = :x", x=1)')
    with state.reading() as engine:
        is_current = not is_open and at is None
        known = live.kept.answer(state, text, values) if is_current and state.kept.notes else None
        if known is not None:
            return known
        query = sql_query(text, state.schemas_with_undecided, values, state.compiled.checked.functors)
        if query.version is not None and query.version != at:
            return query.version
        for rule in query.rules:
            if rule.body is not None:
                refuse_undecided(rule.body, state)
        schemas = {**state.schemas, **query.helpers, query.answer.name: query.answer}
        clauses = check_rules(query.rules, schemas)
        if placement_of(engine).engine == "spark":
            _refuse_recursion(query.rules)
        found = (engine.query_open if is_open else engine.query)(query.answer, clauses, {}, query.helpers)
        if not query.order and query.limit is None and not query.offset:
            if is_current and values and state.keeps_answers and not query.reads_clock:
                live.kept.note(state, text, values)
            return found
        rows = found.sorted()
    # From the last key to the first: sorting is stable.
    for key in reversed(query.order):
        rows.sort(key=lambda row, place=key.place: _sort_key(row, place), reverse=key.descending)  # type: ignore[misc]
        nulls = [row for row in rows if row[key.place] is None]
        others = [row for row in rows if row[key.place] is not None]
        rows = nulls + others if key.nulls_first else others + nulls
    answer = query.answer
    if query.extra:
        # Each row once, at its first occurrence.
        answer = replace(answer, columns=answer.columns[: -query.extra])
        rows = list(dict.fromkeys(row[: -query.extra] for row in rows))
    last = None if query.limit is None else query.offset + query.limit
    return Rows.of(answer, rows[query.offset : last])


def _refuse_recursion(rules: Sequence[Rule]) -> None:
    """Raise if an answer on Spark would need rounds of jobs."""
    reads: dict[str, set[str]] = {}
    for rule in rules:
        below = {atom.relation for atom in atoms(rule.body)} if rule.body is not None else set()
        reads.setdefault(rule.heads[0].relation, set()).update(below)
    for name, below in reads.items():
        if name in everything_below(below, reads):
            raise UsageError(
                "recursive queries are not supported on Spark", code="recursive-query", span=rules[0].span,
                help="create a view: CREATE VIEW name AS WITH RECURSIVE …, and query it",
            )  # fmt: skip


def _sort_key(row: Row, place: int) -> tuple[int, Any]:
    """NaN is the largest value."""
    value = row[place]
    return (0, 0) if value is None else (2, 0) if value != value else (1, value)
