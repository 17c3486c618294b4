"""What the database asks of an engine, and the engines there are."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from upshot.check.program import Clause
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.local import LocalEngine
from upshot.engine.saved import Saved
from upshot.engine.work import Work
from upshot.plan import ProgramPlan
from upshot.spark.catalog_workspace import workspace_at
from upshot.spark.location import local_path, location_of, spark_path
from upshot.spark.workspace import Workspace, shares_disk

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
Deltas = Mapping[str, tuple[Rows, Rows]]
Asked = tuple[Schema, Sequence[Clause], Mapping[str, tuple[Schema, Sequence[Row]]], Mapping[str, Schema]]
"""A query: the head, clauses, `given` and `helpers`, as in `query_open`."""


class Engine(Protocol):
    """Relations, and one open change at a time.

    `install` and the four statements stage a change; `propagate` works out what it means; `accept` or `rollback` ends
    it. Until `propagate`, everything that reads (`rows size contains query`) answers from the state before the change.
    Rows that were handed out stay as they were when the state moves on.

    Rows come as tuples or as an Arrow table of the relation's columns and natural types; engines with a Spark session
    also take a DataFrame of the types of `upshot.spark.types`, under the columns' own names.
    """

    def install(self, plan: ProgramPlan, recompute: Collection[str] = ...) -> frozenset[str]:
        """Make the program's relations. Views that are new or named in `recompute` are brought up to date by the next
        `propagate`; the answer is which of them are computed anew, the others follow the change of the rules."""

    def insert(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def delete(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def upsert(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def replace(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def propagate(self) -> Deltas: ...
    def reopen(self) -> None:
        """After `propagate`: what is staged stays staged, what it meant is forgotten. More statements may come, and the
        next `propagate` gives the changes since the beginning of the transaction. Not for a definition."""

    def key_conflicts(self, name: str) -> Sequence[tuple[Row, Row]]: ...
    def accept(self) -> None: ...
    def rollback(self) -> None: ...

    @property
    def work(self) -> Work: ...
    def rows(self, name: str) -> Rows: ...
    def size(self, name: str) -> int: ...
    def contains(self, name: str, row: Row) -> bool: ...
    def contains_all(self, name: str, rows: Any) -> bool: ...
    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]:
        """Which of some rows of any relations are there."""

    def query(
        self,
        schema: Schema,
        clauses: Sequence[Clause],
        given: Mapping[str, tuple[Schema, Sequence[Row]]] = ...,
        helpers: Mapping[str, Schema] = ...,
    ) -> Rows:
        """The answer to clauses in the state before any open change; `given` and `helpers` as in `query_open`."""

    def query_open(
        self,
        schema: Schema,
        clauses: Sequence[Clause],
        given: Mapping[str, tuple[Schema, Sequence[Row]]],
        helpers: Mapping[str, Schema] = ...,
    ) -> Rows:
        """The answer to clauses in the state that `propagate` has reached. `given` relations have these rows, and are
        small; `helpers` are relations that the clauses themselves define."""

    def query_many(self, asked: Sequence[Asked], *, is_open: bool) -> list[Rows]:
        """The answers to queries that have nothing to do with each other, as `query_open` or `query` gives them."""

    def describe(self, view: str) -> str: ...
    def close(self) -> None: ...

    def restore(self, plan: ProgramPlan, saved: Mapping[str, Saved]) -> None:
        """Install with these rows, accepted. Views given are adopted where that is possible, others are computed; the
        folders stay in place as long as the engine is open."""

    def save(self, name: str, folder: Path) -> int:
        """Write the committed rows as a Parquet folder of natural types; how many there are."""


class Folders(Protocol):
    """Files on their way to Spark, removed with the engine that they are for."""

    def folder(self) -> Path:
        """A new folder of this machine."""

    def readable(self, path: Path) -> list[str]:
        """The paths under which executors read the Parquet file or folder of this machine."""

    def remove(self) -> None: ...


def local_engine(limits: Limits = Limits()) -> Engine:  # noqa: B008 - immutable
    """A new engine in this process."""
    return LocalEngine(limits=limits)


def spark_engine(session: Any, limits: Limits, location: str | None = None) -> Engine:
    """A new engine on the session's cluster."""
    from upshot.engine.spark.engine import SparkEngine  # noqa: PLC0415 - pyspark is an optional package

    return SparkEngine(session, limits=limits, location=location)


class SparkFolders:
    """Folders in the temporary directory of this machine; what executors read is copied to the location unless they
    see this machine's disk."""

    def __init__(self, session: Any, location: str | None = None) -> None:
        self._session, self._location = session, location
        self._here = Workspace(tempfile.gettempdir())
        self._there: Workspace | None = None

    def folder(self) -> Path:
        path = local_path(self._here.new("folder"))
        assert path is not None
        return path

    def readable(self, path: Path) -> list[str]:
        if shares_disk(self._session):
            return [str(path.absolute())]
        if self._there is None:
            self._there = workspace_at(location_of(self._session, self._location), self._session)
        return [spark_path(file) for file in self._there.adopted(path).files]

    def remove(self) -> None:
        self._here.remove()
        if self._there is not None:
            self._there.remove()
