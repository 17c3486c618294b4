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
EngineQuery = tuple["Schema", Sequence["Clause"], Mapping[str, tuple["Schema", Sequence[Row]]], Mapping[str, "Schema"]]
"""A query: the head, the clauses, `given` rows and `helpers`, as in `Engine.query_open`."""


class Engine(Protocol):
    """Relations, and one open change at a time.

    `install` and the four statements stage a change; `propagate` computes its effects; `accept` or `rollback` ends it.
    Until `propagate`, the reading methods (`rows size contains query`) answer from the state before the change. Rows
    that were returned stay valid when the state changes.

    Rows are tuples or an Arrow table with the relation's columns and natural types; engines with a Spark session also
    take a DataFrame with the types of `upshot.spark.types`, under the columns' own names.
    """

    def install(self, plan: ProgramPlan, recompute: Collection[str] = ...) -> frozenset[str]:
        """Install the relations of a program. The next `propagate` computes views that are new or in `recompute`; the
        result names those that are computed from scratch, the others follow the change of the rules."""

    def insert(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def delete(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def upsert(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def replace(self, name: str, rows: Sequence[Row] | pa.Table) -> None: ...
    def propagate(self, *, several_turns: bool = ...) -> Deltas:
        """The net changes of all relations since the transaction began; `several_turns`: rules have turns before its
        end."""

    def reopen(self) -> None:
        """After `propagate`: keep the staged statements, forget their effects. More statements may follow, and the next
        `propagate` returns the changes since the beginning of the transaction. Not for a definition."""

    def leave_out(self, plan: ProgramPlan) -> None:
        """Continue with a program without some views that no other view reads, also after a `propagate` that failed.
        Statements stay staged; `rollback` restores the views. Not for a definition."""

    @property
    def is_narrowed(self) -> bool:
        """True if `leave_out` was called for the open change."""

    def key_conflicts(self, name: str) -> Sequence[tuple[Row, Row]]: ...
    def accept(self) -> None: ...
    def rollback(self) -> None: ...

    @property
    def work(self) -> Work: ...
    @property
    def functions(self) -> UserFunctions:
        """The user functions of the database, the same for all its engines."""

    def rows(self, name: str) -> Rows: ...
    def size(self, name: str) -> int: ...
    def contains(self, name: str, row: Row) -> bool: ...
    def contains_all(self, name: str, rows: Any) -> bool: ...
    def contains_many(self, keys: Sequence[tuple[str, Row]]) -> list[bool]: ...

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
        """The answer to clauses in the state after the last `propagate`. `given` relations have these few rows;
        `helpers` are relations that the clauses themselves define."""

    def query_many(self, asked: Sequence[EngineQuery], *, is_open: bool) -> list[Rows]:
        """The answers to independent queries, as `query_open` or `query` gives them."""

    def describe(self, view: str) -> str: ...
    def close(self) -> None: ...

    def restore(self, plan: ProgramPlan, saved: Mapping[str, Saved]) -> None:
        """Install with these saved rows, accepted. Saved views are adopted where possible, others are computed; the
        folders must exist while the engine is open."""

    def save(self, name: str, folder: Path) -> int:
        """Write the committed rows as a Parquet folder of natural types; return their number."""


@runtime_checkable
class ReportsProgress(Protocol):
    def set_progress(self, progress: Callable[[str, int], None] | None) -> None: ...


def local_engine(limits: Limits | None = None) -> Engine:
    return local.LocalEngine(limits=limits)


def spark_engine(session: Any, limits: Limits, location: str | None = None) -> Engine:
    from upshot.engine.spark.engine import SparkEngine  # noqa: PLC0415 - pyspark is an optional package

    return SparkEngine(session, limits=limits, location=location)
