"""The entries of the log, and the form of schemas in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.core.rows import Rows
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Kind, Type


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation whose changes are logged. `visible` ones have a name that users may use."""

    schema: Schema
    visible: bool = True


Relations = Mapping[str, Relation]


@dataclass(frozen=True, slots=True)
class NewProgram:
    """A program that takes effect with a commit. `relations` are all whose changes are logged from here on; those in
    `reset` start from nothing with this commit. `hidden` identifies the normal form of the program:
    rows of hidden relations are valid only for the same one."""

    text: str
    relations: Relations
    reset: frozenset[str]
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class OutboxTask:
    """A task for after a commit: `number` identifies it within the commit, `text` is the committer's JSON, `rows` are
    its arguments."""

    version: int
    number: int
    text: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class LoggedFiring:
    """A firing of an active rule in a commit: `text` is the committer's JSON, `count` the number of its `rows`, which
    are None if they are too many for the log."""

    rule: str
    text: str
    count: int
    rows: Rows | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit: inserted and deleted rows by relation; `meta` is the committer's JSON object, as text. `tasks` are
    pending; finished tasks of earlier commits are in `done`, by version and number. `firings` are in the order of the
    turns of their rules."""

    version: int
    changes: Mapping[str, tuple[Rows, Rows]]
    meta: str | None = None
    program: NewProgram | None = None
    tasks: tuple[OutboxTask, ...] = ()
    done: tuple[tuple[int, int], ...] = ()
    firings: tuple[LoggedFiring, ...] = ()


def relations_text(relations: Iterable[Relation]) -> str:
    return json.dumps([_as_dict(relation) for relation in relations], separators=(",", ":"))


def relations_from(text: str) -> dict[str, Relation]:
    """The inverse of `relations_text`."""
    return {found.schema.name: found for found in map(_relation, json.loads(text))}


def _as_dict(relation: Relation) -> dict[str, Any]:
    schema = relation.schema
    return {
        "name": schema.name,
        "role": schema.role.value,
        "visible": relation.visible,
        "columns": [_column_dict(column) for column in schema.columns],
        "keys": schema.keys,
    }


def _column_dict(column: Column) -> dict[str, Any]:
    type = column.type
    found: dict[str, Any] = {"name": column.name, "kind": type.kind.value, "nullable": type.nullable}
    if type.name:
        found["subtype"] = type.name
    if type.precision:
        found |= {"precision": type.precision, "scale": type.scale}
    if type.definition:
        found["definition"] = type.definition
    return found


def _relation(found: dict[str, Any]) -> Relation:
    columns = tuple(_column(column) for column in found["columns"])
    keys = tuple(tuple(key) for key in found["keys"])
    return Relation(Schema(found["name"], columns, Role(found["role"]), keys), found["visible"])


def _column(found: dict[str, Any]) -> Column:
    kind, name = Kind(found["kind"]), found.get("subtype", "")
    precision, scale = found.get("precision", 0), found.get("scale", 0)
    return Column(found["name"], Type(kind, name, found["nullable"], precision, scale, found.get("definition", "")))
