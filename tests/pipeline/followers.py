"""Sources followed as a pipeline follows them, with everything they say as plain rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.pipeline.batch.positions import Position, as_json, read_position
from upshot.pipeline.config.config import SourceConfig
from upshot.pipeline.sources import SourceBatch, open_source
from upshot.spark.types import rows_from_spark

Row = tuple[Any, ...]

EDGE = Schema("edge", (Column("x", NUMBER), Column("y", NUMBER)))
STOCK = Schema("stock", (Column("item", SYMBOL), Column("n", NUMBER), Column("note", SYMBOL.optional())), keys=((0,),))
PRICE = Type(Kind.DECIMAL, precision=10, scale=2)
EVERY = Schema(
    "every",
    (
        Column("i", NUMBER.optional()),
        Column("u", UNSIGNED.optional()),
        Column("f", FLOAT.optional()),
        Column("s", SYMBOL),
        Column("b", BOOLEAN.optional()),
        Column("d", DATE.optional()),
        Column("t", TIMESTAMP.optional()),
        Column("p", PRICE.optional()),
    ),
)
"""A column of every type."""


@dataclass
class Step:
    """One range of a source."""

    inserted: set[Row] = field(default_factory=set)
    deleted: set[Row] = field(default_factory=set)
    upserted: set[Row] = field(default_factory=set)
    removed: set[Row] = field(default_factory=set)
    replaced: set[Row] | None = None
    bad: list[tuple[str, str, str]] = field(default_factory=list)
    """row, reason, place"""
    notes: tuple[str, ...] = ()

    @property
    def reasons(self) -> dict[str, str]:
        """By place."""
        return {place: reason for _, reason, place in self.bad}


class Follower:
    """A source, how far it was read, and the rows its relation has by now."""

    def __init__(
        self, spark: Any, staging: Path, schema: Schema, format: str, path: Path | str = "", **more: Any
    ) -> None:
        self.spark, self.schema, self._staging = spark, schema, staging
        self._support = more.pop("support", "deltalake")
        self.config = SourceConfig(schema.name, format, str(path), options=more)
        self.position: Position | None = None
        self.rows: set[Row] = set()
        self.reopen()

    def reopen(self) -> None:
        """As after a restart."""
        self.source = open_source(self.config, self.schema, self._staging, self._support)

    def look(self) -> Position:
        """Where the source has moved to, as it comes back from the offset of the stream."""
        found = self.source.latest(self.spark, self.position)
        assert read_position(json.dumps(as_json(found))) == found
        return found

    def step(self) -> Step | None:
        """Reads what is new, applies it, and lets go of it; None if nothing is new."""
        end = self.look()
        if end == self.position:
            return None
        step = self.read(end)
        self.take(end, step)
        return step

    def read(self, end: Position) -> Step:
        return read_step(self.source.changes(self.spark, self.position, end), self.schema)

    def take(self, end: Position, step: Step) -> None:
        self.rows = applied(self.rows, step, self.schema)
        self.source.trim(end)
        self.position = end


def read_step(batch: SourceBatch, schema: Schema) -> Step:
    step = Step(notes=batch.notes)
    if batch.replaced is not None:
        step.replaced = set(_tuples(batch.replaced, schema))
    if batch.net is not None:
        for row in batch.net.toArrow().to_pylist():
            kind, values = row.pop("_class"), row
            getattr(step, _PARTS[kind]).add(_row(values, schema, kind))
    if batch.bad is not None:
        step.bad = sorted((r["row"], r["reason"], r["place"]) for r in batch.bad.toArrow().to_pylist())
    return step


_PARTS = {"insert": "inserted", "delete": "deleted", "upsert": "upserted", "remove": "removed"}


def _row(values: dict[str, Any], schema: Schema, kind: str) -> Row:
    row = tuple(values[f"c{i}"] for i in range(schema.arity))
    return tuple(row[i] for i in schema.keys[0]) if kind == "remove" else row


def applied(rows: set[Row], step: Step, schema: Schema) -> set[Row]:
    """The rows after the step."""
    if step.replaced is not None:
        return step.replaced
    key = (lambda row: tuple(row[i] for i in schema.keys[0])) if schema.keys else (lambda row: row)
    gone = step.removed | {key(row) for row in step.upserted}
    kept = {row for row in rows if key(row) not in gone} if schema.keys else rows
    return (kept - step.deleted) | step.inserted | step.upserted


def _tuples(frame: Any, schema: Schema) -> list[Row]:
    assert frame.columns == [column.name for column in schema.columns]
    return rows_from_spark(frame.toArrow(), schema.types)


def lines(*contents: Any) -> str:
    """NDJSON; texts stand for themselves."""
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in contents)
