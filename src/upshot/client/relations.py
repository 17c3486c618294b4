"""Programs, schemas and rows in the answers of a service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.client.errors import unexpected
from upshot.core.json_values import JsonMisfit, row_reader, type_from_json
from upshot.core.rows import Rows
from upshot.core.schema import Column, Role, Schema

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a service: the text and the relations that the token may read."""

    text: str
    version: int
    relations: Mapping[str, Schema]


@dataclass(frozen=True, slots=True)
class RowChangeAt:
    """A commit that inserted or deleted a row: `change` is `inserted` or `deleted`."""

    version: int
    change: str
    time: dt.datetime


def read_history(content: Mapping[str, Any]) -> tuple[RowChangeAt, ...]:
    """Read the answer of `GET /views/{name}/history`."""
    try:
        return tuple(
            RowChangeAt(int(each["version"]), str(each["change"]), dt.datetime.fromisoformat(each["time"]))
            for each in content["changes"]
        )
    except (KeyError, TypeError, ValueError):
        raise unexpected("a history without versions") from None


def read_program(content: Mapping[str, Any]) -> Program:
    """Read the answer of `GET /program`."""
    relations = content.get("relations")
    if not isinstance(relations, list):
        raise unexpected("a program without relations")
    schemas = [read_relation(each) for each in relations]
    text = content.get("program")
    return Program(
        text if isinstance(text, str) else "", read_version(content), {schema.name: schema for schema in schemas}
    )


def read_relation(content: Any) -> Schema:
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise unexpected("a relation without a name")
    roles = {role.value: role for role in Role}
    return read_schema(content["name"], content.get("columns"), roles.get(content.get("role", ""), Role.VIEW))


def read_schema(name: str, columns: Any, role: Role = Role.VIEW) -> Schema:
    """The schema with columns such as `[{"name": "x", "type": "number"}]`."""
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        raise unexpected(f"`{name}` has no columns")
    try:
        return Schema(name, tuple(Column(str(c["name"]), type_from_json(str(c["type"]))) for c in columns), role)
    except (KeyError, JsonMisfit) as misfit:
        raise unexpected(f"a column of `{name}`: {misfit}") from None


def read_version(content: Mapping[str, Any]) -> int:
    version = content.get("version")
    if version.__class__ is not int or version < 0:
        raise unexpected("it names no version")
    return version


def read_rows(schema: Schema, rows: Any) -> Rows:
    """The rows as Python values; `JsonMisfit` if they do not fit the schema."""
    return Rows.of(schema, listed_rows(row_reader(schema), rows))


def listed_rows(read: Callable[[Any], Row], rows: Any) -> list[Row]:
    if not isinstance(rows, list):
        raise JsonMisfit("rows are a list", "wrong-row")
    return [read(row) for row in rows]
