"""The protocol of engines, and the factories of the two engines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from upshot.core.rows import Rows
from upshot.engine import local
from upshot.engine.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from upshot.check.program import Clause
    from upshot.core.schema import Schema
    from upshot.engine.saved import Saved
    from upshot.engine.user_functions import UserFunctions
    from upshot.engine.work import Work
    from upshot.plan import ProgramPlan

Row = tuple[Any, ...]
Deltas = Mapping[str, tuple[Rows, Rows]]
Asked = tuple["Schema", Sequence["Clause"], Mapping[str, tuple["Schema", Sequence[Row]]], Mapping[str, "Schema"]]
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
    def propagate(self, *, several_turns: bool = ...) -> Deltas:
        """The net changes of all relations since the transaction began; `several_turns`: for rules that have or had a
        turn before its end."""

    def reopen(self) -> None:
        """After `propagate`: what is staged stays staged, what it meant is forgotten. More statements may come, and the
        next `propagate` gives the changes since the beginning of the transaction. Not for a definition."""

    def leave_out(self, plan: ProgramPlan) -> None:
        """Go on with a program that lacks some views which no other view reads, after a `propagate` that failed too.
        What is staged stays staged; `rollback` brings the views back. Not for a definition."""

    @property
    def is_narrowed(self) -> bool:
        """True if the open change goes on without some views."""

    def key_conflicts(self, name: str) -> Sequence[tuple[Row, Row]]: ...
    def accept(self) -> None: ...
    def rollback(self) -> None: ...

    @property
    def work(self) -> Work: ...
    @property
    def functions(self) -> UserFunctions:
        """The functions of users that rules call, the same for all engines of a database."""

    def rows(self, name: str) -> Rows: ...
    def size(self, name: str) -> int: ...
    def contains(self, name: str, row: Row) -> bool: ...
    def contains_all(self, name: str, rows: Any) -> bool: ...
    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]:
        """Test for each of some rows of any relations whether it is there."""

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
        given: Mapping[str, tuple[Schema, Sequence[Row] | Rows]],
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


@runtime_checkable
class ReportsProgress(Protocol):
    """An engine that reports rows of views while it computes them in this process."""

    def set_progress(self, progress: Callable[[str, int], None] | None) -> None: ...


class TemporaryFolders(Protocol):
    """Files on their way to Spark, removed with the engine that they are for."""

    def folder(self) -> Path:
        """A new folder of this machine."""

    def readable(self, path: Path) -> list[str]:
        """The paths under which executors read the Parquet file or folder of this machine."""

    def remove(self) -> None: ...


def local_engine(limits: Limits | None = None) -> Engine:
    """A new engine in this process."""
    return local.LocalEngine(limits=limits)


def spark_engine(session: Any, limits: Limits, location: str | None = None) -> Engine:
    """A new engine on the session's cluster."""
    from upshot.engine.spark.engine import SparkEngine  # noqa: PLC0415 - pyspark is an optional package

    return SparkEngine(session, limits=limits, location=location)
