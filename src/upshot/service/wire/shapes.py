"""The shapes of bodies and answers in OpenAPI, with examples and descriptions."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from upshot.core.search_bounds import Bounds
from upshot.service.wire.errors import error_body, not_found

Json = dict[str, Any]
Values = list[Any]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class ErrorFields(BaseModel):
    code: str = Field(description="a stable code; the reference of diagnostics lists them all")
    message: str
    help: str
    retryable: bool = Field(description="whether the same request may succeed later")
    kind: str | None = Field(None, description="the class that Python raises for it, where there is one")
    details: Json | None = Field(None, description="witnesses by constraint, diagnostics of a query, …")


class ErrorAnswer(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [error_body(not_found())]})
    error: ErrorFields


class Column(_Shape):
    name: str
    type: str


class RelationChange(_Shape):
    insert: list[Values]
    delete: list[Values]


class FiringCause(_Shape):
    """The base changes behind a row that a rule fired for, and the literals that made its condition true."""

    insert: dict[str, list[Values]]
    delete: dict[str, list[Values]]
    literals: list[str] = Field(description="empty unless the token may read everything")
    differentials: list[str] = Field(description="the literals as they are written, with the sign of their change")


class Firing(_Shape):
    rule: str
    rows: list[Values]
    causes: list[FiringCause] | None = Field(None, description="for each row, with `causes=true`; null if not kept")
    rows_not_kept: int | None = Field(None, description="of a repeated request: their number, if the log lacks them")


class Outcome(BaseModel):
    """The outcome of a transaction: the version it made and every exact change of relations that the token may read."""

    model_config = _example(
        version=8,
        changes={"closure": {"insert": [[1, 3]], "delete": []}, "edge": {"insert": [[2, 3]], "delete": []}},
        firings=[{"rule": "reorder", "rows": [["item1", 72]]}],
        violations={},
        repaired={},
    )
    version: int
    changes: dict[str, RelationChange]
    firings: list[Firing]
    violations: dict[str, list[Values]] = Field(description="new witnesses of constraints that only warn")
    repaired: dict[str, list[Values]] = Field(description="deleted witnesses")
    repeated: bool = Field(
        False, description="a repeated request with the same `Idempotency-Key`; nothing was committed again"
    )


class WhatIfAnswer(BaseModel):
    """The effects of a transaction. Nothing is committed."""

    model_config = _example(
        version=8,
        changes={"closure": {"insert": [[1, 3]], "delete": []}},
        violations={"acyclic": [[1]]},
        firings=[],
    )
    version: int
    changes: dict[str, RelationChange]
    violations: dict[str, list[Values]]
    firings: list[Firing]


class ViewAnswer(BaseModel):
    """Rows of a relation, in order, at one version."""

    model_config = _example(
        view="closure",
        version=8,
        columns=[{"name": "x", "type": "number"}, {"name": "y", "type": "number"}],
        count=4,
        rows=[[1, 2], [1, 3]],
        next="WyJ4IiwyXQ",
    )
    view: str
    version: int
    columns: list[Column]
    count: int = Field(description="the rows of all pages")
    time: str | None = Field(None, description="with `at`: when that version was committed, if the log has it")
    rows: list[Values]
    next: str | None = Field(None, description="the value of `after` for the next page, if there is one")


class QueryAnswer(BaseModel):
    """The answers to a query, in order, at one version; a column for each variable."""

    model_config = _example(version=8, columns=[{"name": "Y", "type": "number"}], rows=[[2], [3]])
    version: int
    columns: list[Column]
    rows: list[Values]
    next: str | None = Field(None, description="the value of `after` for the next page, if there is one")


class Relation(_Shape):
    name: str
    role: str = Field(description="`base`, `view` or `constraint`")
    columns: list[Column]
    keys: list[list[str]]
    writable: bool


class ProgramAnswer(BaseModel):
    """The program as far as the token may read it."""

    model_config = _example(
        program=".decl edge(x: number, y: number)\n",
        version=8,
        epoch="5c1b2e0f",
        relations=[
            {
                "name": "edge",
                "role": "base",
                "columns": [{"name": "x", "type": "number"}, {"name": "y", "type": "number"}],
                "keys": [],
                "writable": True,
            }
        ],
        rules=["reorder"],
    )
    program: str
    version: int
    epoch: str = Field(description="identifies the store; versions of different epochs cannot be compared")
    relations: list[Relation]
    rules: list[str]


class ExplanationAnswer(BaseModel):
    """The maintenance of a view; with `row`, its derivation or what it lacks."""

    model_config = ConfigDict(extra="allow")
    version: int


class Count(_Shape):
    inserted: int
    deleted: int


class CommitEntry(_Shape):
    version: int
    time: str
    seconds: float | None = Field(description="null if a rule made it after another commit")
    changes: dict[str, Count]


class CommitsAnswer(BaseModel):
    """The last commits since the service started, newest first."""

    model_config = _example(
        version=8,
        commits=[
            {
                "version": 8,
                "time": "2026-01-31T12:00:00+00:00",
                "seconds": 0.0004,
                "changes": {"edge": {"inserted": 1, "deleted": 0}},
            }
        ],
    )
    version: int
    commits: list[CommitEntry]


class ConstraintEntry(_Shape):
    name: str
    policy: str = Field(description="`reject` or `warn`")
    columns: list[Column]
    count: int
    witnesses: list[Values]


class ConstraintsAnswer(BaseModel):
    """The constraints, each with the first of its witnesses."""

    model_config = _example(
        version=8,
        constraints=[
            {
                "name": "acyclic",
                "policy": "warn",
                "columns": [{"name": "x", "type": "number"}],
                "count": 1,
                "witnesses": [[1]],
            }
        ],
    )
    version: int
    constraints: list[ConstraintEntry]


class RuleEntry(_Shape):
    name: str
    coupling: str
    active: bool
    text: str = Field(description="empty if it names relations that the token may not read")


class FiringEntry(_Shape):
    version: int
    rule: str
    count: int
    rows: list[Values]
    causes: list[FiringCause] | None = Field(None, description="for each row, with `causes=true`; null if not kept")


class RulesAnswer(BaseModel):
    """The active rules, and their last firings since the service started, newest first."""

    model_config = _example(
        version=8,
        rules=[{"name": "reorder", "coupling": "deferred", "active": True, "text": ".rule reorder(I, N) …"}],
        firings=[{"version": 8, "rule": "reorder", "count": 1, "rows": [["item1", 72]]}],
    )
    version: int
    rules: list[RuleEntry]
    firings: list[FiringEntry]


class RequestedRows(_Shape):
    insert: dict[str, list[Values]]
    delete: dict[str, list[Values]]


class ByTrial(_Shape):
    """The effects that are known only for the fresh values that were tried."""

    relations: list[str] = Field(description="may differ for other fresh values")
    values: dict[str, Any] = Field(description="the fresh values that were tried, by placeholder")


class RealizationEntry(_Shape):
    """Base changes and their effects. `{"placeholder": "?1"}` stands for a fresh value, `{"formula": "?1 - 19"}` for a
    value that is computed from one."""

    insert: dict[str, list[Values]] = Field(description="rows by base relation")
    delete: dict[str, list[Values]]
    cost: float
    side_effects: int = Field(description="side effects: changed rows of readable views that were not requested")
    placeholders: dict[str, str] = Field(description="the types of fresh values, by placeholder")
    conditions: list[str] = Field(description="conditions on the placeholders")
    changes: dict[str, RelationChange] = Field(description="of every relation that the token may read")
    violations: dict[str, list[Values]] = Field(description="new witnesses of constraints that only warn")
    firings: list[Firing]
    by_trial: ByTrial | None = Field(default=None, description="if there are such relations")


_REALIZATIONS_EXAMPLE: Json = {
    "version": 8,
    "status": "all",
    "reason": "this is the only one",
    "request": {"insert": {}, "delete": {"access": [["ann", "deploy"]]}},
    "realizations": [
        {
            "insert": {},
            "delete": {"member": [["ann", "ops"]]},
            "cost": 1,
            "side_effects": 0,
            "placeholders": {},
            "conditions": [],
            "changes": {
                "access": {"insert": [], "delete": [["ann", "deploy"]]},
                "member": {"insert": [], "delete": [["ann", "ops"]]},
            },
            "violations": {},
            "firings": [],
        }
    ],
}


class RealizationsAnswer(BaseModel):
    """The minimal realizations of a request at one version, the cheapest first. Nothing is committed."""

    model_config = _example(**_REALIZATIONS_EXAMPLE)
    version: int
    status: str = Field(description="`all`, `more`, `none exists`, `only through frozen` or `bounds reached`")
    reason: str = Field(description="the status in words")
    unbounded: list[str] | None = Field(
        default=None, description="views whose rows can need any number of fresh values, if there are any"
    )
    request: RequestedRows = Field(description="the request: the `expect` of the transaction that commits one")
    realizations: list[RealizationEntry]


class SessionAnswer(BaseModel):
    """The user of the session."""

    model_config = _example(token="dashboard", subscribe=True, admin=False)
    token: str
    subscribe: bool
    admin: bool


class StatusAnswer(BaseModel):
    model_config = _example(status="ok")
    status: str


# ---- bodies of requests ---------------------------------------------------------------------------------

FACTS: Json = {
    "type": "object",
    "additionalProperties": {
        "type": "array",
        "items": {"anyOf": [{"type": "array", "items": {}}, {"type": "object", "additionalProperties": True}]},
    },
    "description": "rows by relation; a row is a list of values, or an object of them by column",
}
GOAL: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"insert": FACTS, "delete": FACTS},
}
_STATEMENTS: Json = dict.fromkeys(("insert", "delete", "upsert", "replace"), FACTS)
_TRANSACTION_EXAMPLE: Json = {"insert": {"edge": [[2, 3]]}, "delete": {"edge": [[3, 4]]}}

TRANSACTION: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **_STATEMENTS,
        "meta": {"type": "object", "additionalProperties": True, "description": "metadata stored with the commit"},
        "expect": {
            **GOAL,
            "description": "rows, also of views, that must be true or false after the transaction",
        },
    },
    "examples": [_TRANSACTION_EXAMPLE],
}
WHAT_IF: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": _STATEMENTS,
    "examples": [_TRANSACTION_EXAMPLE],
}
QUERY: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["query"],
    "properties": {
        "query": {"type": "string", "description": "the body of a rule; `$x` takes the value of the parameter `x`"},
        "parameters": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "at": {"type": "integer", "minimum": 0, "description": "the answers at this earlier version"},
        "limit": {"type": "integer", "minimum": 1, "description": "rows of a page"},
        "order": {"type": "string", "description": "columns to sort by: `-Y,X`"},
        "after": {"type": "string", "description": "`next` of the page before"},
        "consistent": {"type": "boolean", "description": "only pages of the version of the first; default true"},
    },
    "examples": [{"query": "closure($x, Y), !edge($x, Y)", "parameters": {"x": 1}}],
}


def _number(kind: str, low: float, high: float | None, words: str) -> Json:
    found: dict[str, Any] = {"type": kind, "minimum": low, "description": words}
    return found if high is None else {**found, "maximum": high}


_BOUNDS = Bounds()
USUAL_LIMIT = 10
MOST_GIVEN = 1_000
MOST_ROUNDS = 1_000
MOST_NEW = 10
MOST_CHANGES = 10**9

_ROWS_OR_PATTERNS: Json = {
    "type": "array",
    "items": {
        "anyOf": [{"type": "array", "items": {}}, {"type": "object", "additionalProperties": True}, {"type": "string"}]
    },
}

REALIZATIONS: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "insert": {**FACTS, "description": "rows of views or base relations to insert"},
        "delete": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, _ROWS_OR_PATTERNS]},
            "description": 'rows to delete, or patterns such as `access("ann", _)`: all rows that match now',
        },
        "repair": {"type": "string", "description": "a constraint to repair, or `*` for all"},
        "limit": _number("integer", 1, MOST_GIVEN, f"at most this many; default {USUAL_LIMIT}"),
        "frozen": {
            "type": "array",
            "items": {"type": "string"},
            "description": "base relations that must not change; `+r` forbids inserts only, `-r` deletes only",
        },
        "cost": {
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": 10**15},
            "description": "the cost of one change, by base relation, or by `+r` and `-r`; default 1",
        },
        "bounds": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "seconds": {"type": "number", "exclusiveMinimum": 0, "description": "never more than the server's"},
                "size": _number("integer", 1, MOST_CHANGES, "maximum base changes per realization"),
                "rounds": _number(
                    "integer", 1, MOST_ROUNDS, f"maximum nested rules or repairs; default {_BOUNDS.rounds}"
                ),
                "new_constants": _number(
                    "integer", 0, MOST_NEW, f"maximum fresh values per realization; default {_BOUNDS.new_constants}"
                ),
                "constants": {
                    "type": "array",
                    "items": {"type": ["string", "number", "boolean"]},
                    "maxItems": 1000,
                    "description": "more values to try where any value is allowed",
                },
            },
        },
        "at": _number("integer", 0, 2**62, "search in this earlier version"),
        "side_effect_free_first": {
            "type": "boolean",
            "description": "find all, and return those with the fewest side effects first",
        },
        "prefer": {
            "type": "string",
            "enum": ["least_side_effects"],
            "description": "return those first that change the fewest other rows of views",
        },
    },
    "examples": [{"delete": {"access": [["ann", "deploy"]]}, "frozen": ["granted"], "limit": 5}],
}
SESSION: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["token"],
    "properties": {"token": {"type": "string"}},
    "examples": [{"token": "upshot_…"}],
}


def body_of(schema: Json) -> Json:
    """Describe the body of a route."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answer_of(model: type[BaseModel], description: str) -> dict[int | str, Json]:
    """Describe the answer of a route."""
    return {200: {"model": model, "description": description}}


_MEANINGS = {
    400: "Invalid request.",
    401: "A valid token is missing.",
    403: "The token may not do this.",
    404: "Not found, or the token may not read it.",
    405: "Method not allowed.",
    408: "The body did not arrive in time.",
    409: "Rejected by the data, a constraint or a rule; nothing was committed.",
    410: "No longer kept.",
    413: "The request is too large.",
    415: "The body is not JSON.",
    421: "The server does not accept this `Host`.",
    422: "The response exceeds a limit on time or rows.",
    500: "Internal server error.",
    503: "The server is busy or stopping; try again.",
}

ERRORS: dict[int | str, Json] = {
    status: {"model": ErrorAnswer, "description": words} for status, words in _MEANINGS.items()
}

DESCRIPTION = """Views that are exactly current, over HTTP.

Commit with `POST /transactions`, read with `GET /views/{name}`, and follow every exact change of a view with
`GET /views/{name}/changes`. Every answer names the version it was read at, and every error has one shape.
"""
