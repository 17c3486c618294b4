"""Sources without a change log: a copy is kept until it is consumed, so that a replay reads the same rows.

Copied rows have been checked: rows that fit have their types, the others their reasons.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import EngineError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, SnapshotPosition
from upshot.pipeline.lock import writing
from upshot.pipeline.sources.reading.fitting import SourceBatch, bad_rows, good_rows
from upshot.pipeline.sources.reading.journal import data_files, other_source, require_files, torn_state
from upshot.spark.lake_path import AnyPath, LakePath, delete_path
from upshot.spark.location import exact_path, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig

_ATTEMPTS = 3
_READING = ("header", "separator", "quote", "escape", "null", "encoding", "extra_columns", "table", "query")
"""The options that determine the rows."""
_CONTENT = "_content.json"
_DIGITS = 8
"""Of the number that the name of a copy begins with."""


class SnapshotTable:
    """A table that is read whole."""

    steady = False
    """True if one read sees one state; otherwise changes made during the read are read again."""

    def content(self, spark: SparkSession, before: str | None) -> str:
        """A text that changes with the rows; `before` is the text of the last copy."""
        raise NotImplementedError

    def content_after(self, spark: SparkSession, before: str) -> str | None:
        """The content after the rows were copied, without a cache; None while the table is being written."""
        return self.content(spark, before)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows, as `fitting.fitted` returns them, with `_row` and `_place`."""
        raise NotImplementedError

    def described(self, spark: SparkSession) -> str:
        raise NotImplementedError


class SnapshotSource:
    """A new copy whenever the content changes, which replaces the relation."""

    def __init__(self, table: SnapshotTable, config: SourceConfig, schema: Schema, staging: AnyPath) -> None:
        self.relation = schema.name
        self._table, self._schema, self._staging = table, schema, staging
        self._reading = _reading_digest(config, schema)

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        if start is not None and not isinstance(start, SnapshotPosition):
            raise other_source(self.relation)
        staged = self._staged()
        known = staged[-1] if staged else start
        content = self._content(spark, known.content if known else None)
        if known is not None and known.content == content:
            return known
        known_ones = [position for position in (start, *staged) if position is not None]
        number = 1 + max((int(position.snapshot[:_DIGITS]) for position in known_ones), default=0)
        # On a lake, a previous driver may still be writing: every folder has one writer.
        token = f"-{uuid.uuid4().hex[:8]}" if isinstance(self._staging, LakePath) else ""
        copied = self._copied(spark, f"{number:0{_DIGITS}}{token}", content)
        if copied is not None:
            return copied
        if known is not None:
            return known
        raise self._busy()

    def _content(self, spark: SparkSession, before: str | None) -> str:
        """The digest of the source's options and content: the same files read in another way hold other rows."""
        return f"{self._reading}/{self._table.content(spark, None if before is None else _table_content(before))}"

    def _copied(self, spark: SparkSession, name: str, content: str) -> SnapshotPosition | None:
        """Copy until nothing changes meanwhile; one copy of a steady table is enough. None if it is being written."""
        draft = self._staging / (name if isinstance(self._staging, LakePath) else f".{name}")
        for attempt in range(1, _ATTEMPTS + 1):
            delete_path(draft)
            failure = self._failure_of_copy(spark, draft)
            found = self._table.content_after(spark, _table_content(content))
            if found is None:
                delete_path(draft)
                return None
            after = f"{self._reading}/{found}"
            if failure is not None and after == content:
                raise failure
            if failure is None and (after == content or (self._table.steady and attempt == _ATTEMPTS)):
                break
            content = after
        else:
            raise self._busy()
        # If it changed meanwhile, the next `latest` makes a new copy, since it finds another content.
        with writing(self._staging):
            (draft / _CONTENT).write_bytes(json.dumps({"content": content, "files": data_files(draft)}).encode())
            if not isinstance(draft, LakePath):
                os.replace(draft, self._staging / name)
        return SnapshotPosition(name, content)

    def _failure_of_copy(self, spark: SparkSession, draft: AnyPath) -> Exception | None:
        """None on success. Files that are deleted while they are read are a change like any other."""
        try:
            self._table.rows(spark).write.parquet(spark_path(draft))
        except Exception as error:  # noqa: BLE001 - the caller raises it, unless the source has changed
            return error
        return None

    def _busy(self) -> EngineError:
        return EngineError(
            f"the source of `{self.relation}` changes while it is read",
            code="source-busy",
            help="write it elsewhere and move it into place; remove a `_temporary` left by a failed job",
        )

    def _staged(self) -> list[SnapshotPosition]:
        if not self._staging.exists():
            return []
        found = {path.name: path for path in self._staging.iterdir() if path.name[:_DIGITS].isdigit()}
        # On a lake the content is written last: a copy without it is unfinished.
        return [
            SnapshotPosition(name, self._staged_content(path))
            for name, path in sorted(found.items())
            if isinstance(path, Path) or (path / _CONTENT).exists()
        ]

    def _staged_content(self, folder: AnyPath) -> str:
        return str(self._note(folder)["content"])

    def _note(self, folder: AnyPath) -> dict[str, Any]:
        """The note beside a copy, written last."""
        try:
            note: dict[str, Any] = json.loads((folder / _CONTENT).read_bytes())
            return {**note, "content": note["content"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise torn_state(f"the staged snapshot `{folder.name}` of `{self.relation}` is damaged") from None

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        if not isinstance(end, SnapshotPosition):
            raise other_source(self.relation)
        folder = self._staging / end.snapshot
        if not folder.exists():
            raise torn_state(f"the staged snapshot `{end.snapshot}` of `{self.relation}` is missing")
        require_files(folder, self._note(folder).get("files"), self.relation)
        rows = spark.read.parquet(exact_path(folder))
        return SourceBatch(self._schema, replaced=good_rows(rows, self._schema), bad=bad_rows(rows), shared=rows)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        self._table.rows(spark)
        return (self._table.described(spark),)

    def trim(self, committed: Position) -> None:
        if not isinstance(committed, SnapshotPosition) or not self._staging.exists():
            return
        for path in self._staging.iterdir():
            if path.name.lstrip(".") <= committed.snapshot:
                delete_path(path)


def _table_content(content: str) -> str:
    """The content of the table, without the digest of the options."""
    return content.partition("/")[2]


def _reading_digest(config: SourceConfig, schema: Schema) -> str:
    options = {name: config.options[name] for name in _READING if name in config.options}
    text = json.dumps([str(schema), options], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
