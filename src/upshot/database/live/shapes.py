"""The shape of a query: the query without the values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from upshot.check.clause.query import check_query, check_rules
from upshot.check.functors import Functors
from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.errors import Error, UsageError
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.database.queries.query import is_select, query_formula
from upshot.rewrite.demand.lift_parameters import LiftedQuery, lift_parameters

CANONICAL = "$live"
"""The name of the answers in a shape; no relation of a program can have it."""

_NAME = re.compile(r"\s*[\w?]+\s*")

Checked = tuple[Schema, tuple[Clause, ...], Mapping[str, Schema]]


def shape(
    text: str,
    values: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    functors: Functors,
    name: str = CANONICAL,
) -> tuple[LiftedQuery, Row]:
    """The shape of a query in Datalog or SQL, with `name` for its answers, and the values of its parameters as a row.
    Raises `ProgramError` with all its errors."""
    answer, clauses, helpers = checked_query(text, values, schemas, functors, live=True)
    return lift_parameters(answer, clauses, helpers, name, values)


def query_reads(
    text: str, values: Mapping[str, Any], schemas: Mapping[str, Schema], functors: Functors
) -> frozenset[str]:
    """The existing relations that a query names."""
    _, clauses, helpers = checked_query(text, values, schemas, functors)
    found = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
    return frozenset(found & schemas.keys() - helpers.keys())


def is_name(text: object) -> bool:
    """Test whether the text is the name of a relation or rule rather than a query."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


@contextmanager
def arguments_of(method: str, *names: str) -> Iterator[None]:
    """Name the cause if a parameter of a query has no value because it is named like an argument."""
    try:
        yield
    except Error as error:
        for name in names if error.code == "missing-parameter" else ():
            if f"${name}`" in error.message or f":{name}`" in error.message:
                raise refused_parameter(method, name) from None
        raise


def refused_parameter(method: str, name: str) -> UsageError:
    message = f"parameter `{name}` is named like an argument of `{method}`"
    hint = f"rename it in the query, as in `{name}_value`, and pass {name}_value=…"
    return UsageError(message, code="wrong-argument", help=hint)


def checked_query(
    text: str,
    values: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    functors: Functors,
    *,
    live: bool = False,
) -> Checked:
    """The schema of the answers, the clauses that derive them, and the relations that those define in between. A `live`
    query covers all rows of every version: LIMIT, VERSION AS OF and the current time are refused."""
    if not is_select(text):
        schema, clauses = check_query(query_formula(text, values), schemas, values, functors)
        return schema, clauses, {}
    from upshot.sql.queries.query import sql_query  # noqa: PLC0415 - sqlglot only where there is SQL

    query = sql_query(text, schemas, values, functors, ordered=False, live=live)
    if live and query.version is not None:
        message, hint = "a live query has no `VERSION AS OF`", "use `db.sql`, or remove it"
        raise UsageError(message, code="sql-versions", help=hint)
    if live and (query.limit is not None or query.offset):
        raise UsageError(
            "a live query cannot have LIMIT or OFFSET", code="live-query-limit",
            help="follow all rows, and pass `limit=` for the most rows of one event",
        )  # fmt: skip
    known = {**schemas, **query.helpers, query.answer.name: query.answer}
    return query.answer, check_rules(query.rules, known), query.helpers
