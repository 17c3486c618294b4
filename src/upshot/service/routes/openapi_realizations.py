"""The OpenAPI description of realizations."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from upshot.service.routes.openapi import FACTS, Firing, Json, RelationChange, Values


class RequestedRows(BaseModel):
    model_config = ConfigDict(extra="forbid")
    insert: dict[str, list[Values]]
    delete: dict[str, list[Values]]


class ByTrial(BaseModel):
    """A fact that is known only for the new values that were tried."""

    model_config = ConfigDict(extra="forbid")
    relations: list[str] = Field(description="may differ for other fresh values")
    values: dict[str, Any] = Field(description="the fresh values that were tried, by placeholder")


class RealizationEntry(BaseModel):
    """Base changes, and all that they bring about. A value `{"placeholder": "?1"}` stands for some new value, and
    `{"formula": "?1 - 19"}` for one that follows from it."""

    model_config = ConfigDict(extra="forbid")
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


_EXAMPLE: Json = {
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

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})
    version: int
    status: str = Field(description="`all`, `more`, `none exists`, `only through frozen` or `bounds reached`")
    reason: str = Field(description="the status in words")
    unbounded: list[str] | None = Field(
        default=None, description="views whose rows can need any number of fresh values, if there are any"
    )
    request: RequestedRows = Field(description="the request: the `expect` of the transaction that commits one")
    realizations: list[RealizationEntry]


def _number(kind: str, low: float, high: float | None, words: str) -> Json:
    found: dict[str, Any] = {"type": kind, "minimum": low, "description": words}
    return found if high is None else {**found, "maximum": high}


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
        "limit": _number("integer", 1, MOST_GIVEN, "at most this many; default 10"),
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
                "rounds": _number("integer", 1, MOST_ROUNDS, "maximum nested rules or repairs; default 40"),
                "new_constants": _number("integer", 0, MOST_NEW, "maximum fresh values per realization; default 2"),
                "constants": {
                    "type": "array",
                    "items": {"type": ["string", "number", "boolean"]},
                    "maxItems": 1000,
                    "description": "more values to try where any value is allowed",
                },
            },
        },
        "at": _number("integer", 0, 2**62, "an earlier version, in which they are looked for"),
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
