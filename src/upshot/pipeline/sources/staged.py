"""Sources that only show how things are: a copy is kept until it is consumed, so that a replay reads the same rows.

What is copied has been checked: rows that fit have their types, the others their reasons.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from upshot.core.errors import EngineError
from upshot.core.schema import Schema
from upshot.pipeline.positions import Position, SnapshotPosition
from upshot.pipeline.sources.batch import SourceBatch
from upshot.pipeline.sources.fitting import bad_rows, good_rows
from upshot.pipeline.sources.journal import other_source, torn_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 3
_CONTENT = "_content.json"


class Shown(Protocol):
    """Something that can be looked at whole."""

    relation: str
    steady: bool
    """Whether one reading is of one moment; otherwise what changes meanwhile is read again."""

    def content(self, spark: SparkSession, before: str | None) -> str:
        """The same text as long as the rows are the same; `before` is what it was when last consumed."""
        ...

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows, as `fitting.fitted` gives them, with `_row` and `_place`."""
        ...

    def described(self, spark: SparkSession) -> str: ...


class SnapshotSource:
    """A new copy whenever the content is another one; the relation is replaced by it."""

    def __init__(self, shown: Shown, schema: Schema, staging: Path) -> None:
        self.relation = schema.name
        self._shown, self._schema, self._staging = shown, schema, staging

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        if start is not None and not isinstance(start, SnapshotPosition):
            raise other_source(self.relation)
        staged = self._staged()
        known = staged[-1] if staged else start
        content = self._shown.content(spark, known.content if known else None)
        if known is not None and known.content == content:
            return known
        number = 1 + max([int(position.snapshot) for position in (start, *staged) if position is not None], default=0)
        return self._copied(spark, f"{number:08}", content)

    def _copied(self, spark: SparkSession, name: str, content: str) -> SnapshotPosition:
        """Copies until nothing changed meanwhile; what is steady is whole in any case."""
        draft = self._staging / f".{name}"
        for attempt in range(1, _ATTEMPTS + 1):
            shutil.rmtree(draft, ignore_errors=True)
            self._shown.rows(spark).write.parquet(str(draft))
            after = self._shown.content(spark, content)
            if after == content or (self._shown.steady and attempt == _ATTEMPTS):
                break
            content = after
        else:
            raise EngineError(
                f"the source of `{self.relation}` changes while it is read",
                code="source-busy",
                help="write it elsewhere and move it into place at once",
            )
        # If it changed meanwhile, the older content makes the next look take a new copy.
        (draft / _CONTENT).write_text(json.dumps({"content": content}), encoding="utf-8")
        os.replace(draft, self._staging / name)
        return SnapshotPosition(name, content)

    def _staged(self) -> list[SnapshotPosition]:
        if not self._staging.exists():
            return []
        folders = sorted(path for path in self._staging.iterdir() if path.name.isdigit())
        return [
            SnapshotPosition(path.name, json.loads((path / _CONTENT).read_text(encoding="utf-8"))["content"])
            for path in folders
        ]

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        if not isinstance(end, SnapshotPosition):
            raise other_source(self.relation)
        folder = self._staging / end.snapshot
        if not folder.exists():
            raise torn_state(f"the staged snapshot `{end.snapshot}` of `{self.relation}` is not there")
        rows = spark.read.parquet(str(folder))
        return SourceBatch(self._schema, replaced=good_rows(rows, self._schema), bad=bad_rows(rows), shared=rows)

    def check(self, spark: SparkSession) -> tuple[str, ...]:
        self._shown.rows(spark)
        return (self._shown.described(spark),)

    def trim(self, committed: Position) -> None:
        if not isinstance(committed, SnapshotPosition) or not self._staging.exists():
            return
        for path in self._staging.iterdir():
            if path.name.lstrip(".") <= committed.snapshot:
                shutil.rmtree(path, ignore_errors=True)
