"""Demand programs as one job: all their rounds on the local engine of one worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.engine.limits import Limits, in_bytes
from upshot.engine.spark.asks import Answers, Ask, Steps
from upshot.engine.spark.demand_shard import Asked, DemandTask, NetChanges, Queried
from upshot.engine.spark.part_work import add_counters
from upshot.engine.spark.pieces import LocalPiece, Piece
from upshot.engine.spark.queries import Given
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_files import LISTED, gathered
from upshot.engine.spark.shard_plan import ShardPlan, framed_program
from upshot.engine.spark.sharing import MOST_SHARED, Sharing, bytes_of, new_key
from upshot.engine.spark.tables import Table
from upshot.engine.work import ViewWork
from upshot.plan.on_demand import OnDemand
from upshot.plan.program_plan import ProgramPlan
from upshot.rewrite.demand import DemandProgram
from upshot.spark.failures import place
from upshot.spark.types import spark_schema
from upshot.spark.worker_memory import worker_memory

Types = tuple[Type, ...]


class DemandJob:
    """The views on demand of a plan as a worker computes them; kept as long as the plan is, from commit to commit.
    What a worker cannot hold is answered by None, and rounds must do."""

    def __init__(
        self, plan: ProgramPlan, tables: Mapping[str, Table], reads: Iterable[str], answers: Answers, scratch: Scratch,
        limits: Limits, *, most_shared: int = MOST_SHARED,
    ) -> None:  # fmt: skip
        self._plan, self._tables, self._shared = plan, tables, set(reads)
        self._session, self._small, self._scratch = answers.session, answers.small, scratch
        self._sharing, self._most_shared, self._outgrown = Sharing(scratch), most_shared, False
        parts = max(1, int(self._session.conf.get("spark.sql.shuffle.partitions") or 2))
        held = worker_memory(self._session, parts)
        source, program = _programs(plan)
        components = tuple(c for c in plan.components if c.views[0] in plan.on_demand.strategies)
        on_demand = OnDemand(plan.on_demand.strategies, nervous=plan.on_demand.nervous)
        whole = ProgramPlan(source, program, components, plan.strategies, on_demand)
        places = {clause.origin: place(clause.origin) for clause in program.clauses if clause.origin is not None}
        self._shard = ShardPlan(
            new_key(), (), {}, (), tuple(self._shared), {}, whole, whole, places, replace(limits, memory=held)
        )

    def files(self) -> Iterator[Path]:
        return self._sharing.files()

    def release(self) -> None:
        self._sharing.release()

    def holds(self, names: Iterable[str] = ()) -> bool:
        """Whether a worker holds what the views rest on, and these relations besides."""
        wanted = self._shared | set(names)
        return not self._outgrown and bytes_of(self._tables[name] for name in wanted) <= self._most_shared

    def describe(self) -> str:
        if self._outgrown:
            return "rounds of joins on Spark, since they need more memory than a worker may take"
        if not self.holds():
            needed, most = in_bytes(bytes_of(self._tables[n] for n in self._shared)), in_bytes(self._most_shared)
            return f"rounds of joins on Spark, since what the views rest on needs {needed}, more than {most}"
        return "all rounds in one job, on a worker that holds what the views rest on"

    # ---- questions -----------------------------------------------------------------------------------------------

    def changes(
        self, views: tuple[str, ...], afresh: Collection[str], following: DemandProgram | None, work: ViewWork,
        reads: Iterable[str] = (),
    ) -> Steps[dict[str, tuple[Piece, Piece]] | None]:  # fmt: skip
        """What comes into the views, and what goes, by the changes of the tables; and of the rules, if there are some
        for `following` them, which read these stored relations besides."""
        names = sorted(self._shared.union(reads))
        changed = {name: self._tables[name] for name in names if self._tables[name].matters}
        inserted, deleted = self._sharing.changes(changed)
        types = tuple(self._tables[view].types for view in views)
        wanted = NetChanges(views, frozenset(afresh), inserted, deleted, following)
        pieces = yield from self._run(wanted, (*types, *types), "old", work, names)
        if pieces is None:
            return None
        return {view: (pieces[i], pieces[i + len(views)]) for i, view in enumerate(views)}

    def asked(
        self, adornments: Mapping[str, str], bindings: Mapping[str, Piece], state: str, work: ViewWork
    ) -> Steps[dict[str, Piece] | None]:
        """The rows of views that have one of the bindings, and others that were found on the way."""
        bound = {view: rows for view, rows in bindings.items() if "b" in adornments[view]}
        wanted = Asked(adornments, self._sharing.rows(bound))
        pieces = yield from self._run(wanted, tuple(self._tables[view].types for view in adornments), state, work)
        return None if pieces is None else dict(zip(adornments, pieces, strict=True))

    def answer(
        self, schema: Schema, clauses: tuple[Clause, ...], reads: Iterable[str], state: str, given: Given,
        helpers: Mapping[str, Schema],
    ) -> Steps[Piece | None]:  # fmt: skip
        """The rows that a query's clauses, which read these stored relations besides, derive for its head."""
        self._shared |= set(reads)
        shapes = {name: _framed(known) for name, (known, _) in given.items()}
        rows = self._sharing.rows({name: piece for name, (_, piece) in given.items()})
        wanted = Queried(schema, clauses, shapes, rows, dict(helpers))
        pieces = yield from self._run(wanted, (schema.types,), state, ViewWork())
        return None if pieces is None else pieces[0]

    def _run(
        self, wanted: NetChanges | Asked | Queried, made: tuple[Types, ...], state: str, work: ViewWork,
        names: Sequence[str] | None = None,
    ) -> Steps[list[Piece] | None]:  # fmt: skip
        tables = {name: self._tables[name] for name in names or sorted(self._shared)}
        shared = self._sharing.relations({n: t.new if state == "new" else t.committed for n, t in tables.items()})
        folders = tuple(self._scratch.folder() for _ in made)
        task = DemandTask(self._shard, shared, folders, made, wanted)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        start = self._session.range(0, 1, 1, 1)
        (listed,) = yield [Ask(start.mapInArrow(run, spark_schema(LISTED)), LISTED, here=True)]
        assert isinstance(listed, LocalPiece)
        add_counters(listed.rows, work)
        pieces = gathered(folders, made, listed.rows, self._small)
        self._outgrown = self._outgrown or pieces is None
        return pieces


def _framed(schema: Schema) -> Schema:
    """The relation with its columns called as in frames."""
    return Schema(schema.name, tuple(Column(f"c{i}", type) for i, type in enumerate(schema.types)))


def _programs(plan: ProgramPlan) -> tuple[CheckedProgram, CheckedProgram]:
    """The views on demand over all that is stored: what is known of those that users see, and what runs. No copy is
    stored on workers, and of a view that has one all changes are wanted."""
    normal, strategies = plan.normal, plan.on_demand.strategies
    schemas = {n: s if n in strategies else replace(s, role=Role.BASE) for n, s in normal.schemas.items()}
    clauses = tuple(clause for clause in normal.clauses if clause.head.relation in strategies)
    strata = tuple(layer for layer in normal.strata if layer[0] in strategies)
    program = framed_program(CheckedProgram(schemas, clauses, {}, strata))
    seen = {name: schema for name, schema in program.schemas.items() if name in plan.source.schemas}
    options = {view: each for view, each in plan.source.options.items() if view not in plan.on_demand.kept}
    return replace(program, schemas=seen, options=options), program
