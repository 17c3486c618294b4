"""Recursion in which everything may meet everything: by one worker, in parts that exchange rows, or by rounds of joins.

Which it is follows from what a worker may hold, and from what the ways are expected to take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import CheckedProgram
from upshot.core.schema import Schema
from upshot.engine.limits import Limits, in_bytes
from upshot.engine.spark.asks import Steps
from upshot.engine.spark.exchange import Exchange
from upshot.engine.spark.exchange_plan import Place
from upshot.engine.spark.one_worker import OneWorker
from upshot.engine.spark.pieces import SMALL, Piece
from upshot.engine.spark.rule_frames import heads
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.sharing import MOST_SHARED, bytes_of, new_key
from upshot.engine.spark.tables import Table, TableStatistics
from upshot.engine.spark.whole_shard import whole_plan
from upshot.engine.work import ViewWork
from upshot.plan.component_plans import stage_plans
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Change, State
from upshot.spark.failures import place
from upshot.spark.worker_memory import worker_memory

READ_A_SECOND = 1_000_000
"""Rows that a worker takes into its tables."""

SCANNED_A_SECOND = 10_000_000
"""Rows that a task of a join looks at."""

JOB_SECONDS = 0.3
"""What a job takes, however few rows there are."""

FIRST_ROUNDS = 8.0
"""So many rounds a change is taken to need before anything is known."""

_TRUST = 0.2
"""How much the newest change counts against all before it."""

_EXCHANGE_JOBS = 4
"""Jobs of a change in parts: what may go and what comes, each handed out and then computed."""


class WithoutPivot:
    """A recursive component without a pivot; kept as long as the component is, from commit to commit.

    `load` and `maintain` are steps of a propagation: the tables of what the component reads are settled, its own are
    settled by the caller from what comes back.
    """

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, reason: str, session: SparkSession, scratch: Scratch,
        limits: Limits, *, small: int = SMALL, most_shared: int = MOST_SHARED, most_held: int | None = None,
    ) -> None:  # fmt: skip
        self.component, self.reason = component, reason
        self._schemas: Mapping[str, Schema] = normal.schemas
        self._session, self._scratch, self._small, self._most_shared = session, scratch, small, most_shared
        self._parts = max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 2))
        held = worker_memory(session, self._parts) if most_held is None else most_held
        places = {clause.origin: place(clause.origin) for clause in component.clauses if clause.origin is not None}
        self._plan = whole_plan(new_key(), component, normal.schemas, places, replace(limits, memory=held))
        self._alone = OneWorker(self._plan, session, scratch, small=small)
        self._exchange = Exchange(self._plan, self._parts, session, scratch, small=small)
        self._rounds = FIRST_ROUNDS
        """That a change takes, by those before it; by the load, if there was none."""

    # ---- when ----------------------------------------------------------------------------------------------------

    def loads(self, tables: Mapping[str, Table]) -> bool:
        """Whether `load` can be used."""
        return self._is_shared(tables) and not (self._alone.is_crowded and self._exchange.refusal)

    def maintains(self, tables: Mapping[str, Table]) -> bool:
        """Whether `maintain` can be used, and is expected to be faster than rounds."""
        return self._is_shared(tables) and self._alone.holds(tables) and self._saved(tables, parts=False) > 0

    def exchange(self, tables: Mapping[str, Table]) -> Exchange | None:
        """What a change runs on if one worker cannot hold all; none if that cannot be used, or is expected to be slower
        than rounds."""
        usable = self._is_shared(tables) and not self._exchange.refusal and not self._alone.holds(tables)
        # A search for other proofs goes from one row to the next: it has no seeds.
        usable = usable and self.component.strategy == "maintenance"
        return self._exchange if usable and self._saved(tables, parts=True) > 0 else None

    def took(self, rounds: int) -> None:
        """Learn how many rounds a change took, whoever ran them."""
        self._rounds += _TRUST * (rounds - self._rounds)

    def _is_shared(self, tables: Mapping[str, Table]) -> bool:
        return self._needed(tables) <= self._most_shared

    def _needed(self, tables: Mapping[str, Table]) -> int:
        return bytes_of(tables[name] for name in self.component.reads)

    def _saved(self, tables: Mapping[str, Table], *, parts: bool) -> float:
        """The seconds that one worker, or parts, are expected to save against rounds of joins, if no worker holds any
        rows yet."""
        rows = self._rows(tables)
        by_rounds = self._rounds * (JOB_SECONDS + rows / SCANNED_A_SECOND / self._parts)
        if not parts:
            return by_rounds - (JOB_SECONDS + rows / READ_A_SECOND)
        # Handing out is reading and writing.
        passes = 1 if self._exchange.has_copies(tables) else 3
        return by_rounds - (_EXCHANGE_JOBS * JOB_SECONDS + passes * rows / READ_A_SECOND / self._parts)

    def _rows(self, tables: Mapping[str, Table]) -> int:
        return sum(tables[name].size for name in (*self.component.reads, *self.component.views))

    # ---- explained -----------------------------------------------------------------------------------------------

    def describe(self, tables: Mapping[str, Table]) -> str:
        """How the component runs, and why."""
        lines = [f"not decomposed: {self.reason}"]
        if not self._is_shared(tables):
            needed, most = in_bytes(self._needed(tables)), in_bytes(self._most_shared)
            lines.append(f"load and change by rounds of joins on Spark: what is read needs {needed}, more than {most}")
            return "\n  ".join(lines)
        alone, refusal = self._alone, self._exchange.refusal
        crowded = f"since one worker {'could' if alone.is_crowded else 'can'} not hold all"
        if not alone.is_crowded:
            lines.append("load by one worker in one job")
        else:
            lines.append(f"load {self._described_parts()}, {crowded}" if not refusal else self._refused("load"))
        took = f"about {self._rounds:.0f} rounds, {self._rows(tables):,} rows for workers to read"
        if self.maintains(tables):
            lines.append(f"change by one worker in one job: {took}")
        elif self.exchange(tables) is not None:
            lines.append(f"change {self._described_parts()}, {crowded}: {took}")
        elif alone.holds(tables) or not refusal:
            lines.append(f"change by rounds of joins on Spark: {took}")
        else:
            lines.append(self._refused("change"))
        return "\n  ".join(lines)

    def _refused(self, what: str) -> str:
        return f"{what} by rounds of joins on Spark, since one worker cannot hold all and {self._exchange.refusal}"

    def _described_parts(self) -> str:
        plan = self._exchange.plan
        named = [f"`{view}` by {' and '.join(self._place(view, p) for p in plan.places[view])}" for view in plan.views]
        return f"in {plan.count} parts, {', '.join(named)}: rounds inside each, what crosses is exchanged"

    def _place(self, view: str, place: Place) -> str:
        if place is None:
            return "all rows everywhere"
        return ", ".join(self._schemas[view].columns[column].name for column in place) or "nothing"

    def files(self) -> Iterator[Path]:
        """What workers were given, beside the files of the tables; it is removed here."""
        yield from self._alone.files()
        yield from self._exchange.files()

    def release(self) -> None:
        """Remove the files that workers were given."""
        self._alone.release()
        self._exchange.release()

    # ---- load and change -----------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, Table]) -> Steps[dict[str, Piece] | None]:
        """The rows of the views in the new state; None if they outgrow what a worker may hold, and rounds must do."""
        work = ViewWork()
        found = None if self._alone.is_crowded else (yield from self._alone.load(tables, work))
        if found is not None:
            self._rounds = max(FIRST_ROUNDS, work.rounds)
            return found
        before = self._exchange.rounds
        found = yield from self._exchange.load(self._exits(tables), tables)
        self._rounds = max(FIRST_ROUNDS, self._exchange.rounds - before)
        return found

    def maintain(self, tables: Mapping[str, Table], work: ViewWork) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """What comes into each view and what goes, by the component's own strategy; None if a worker cannot hold what
        that takes. What was done is added to the work."""
        done = ViewWork()
        found = yield from self._alone.maintain(tables, done)
        if found is not None:
            self.took(done.rounds)
            # All rounds inside the worker are one to the driver.
            done.rounds = 0
            work.add(done)
        return found

    def _exits(self, tables: Mapping[str, Table]) -> dict[str, list[DataFrame]]:
        """What the rules without recursion give for each view."""

        def read(name: str, _: State) -> DataFrame:
            return tables[name].new_frame()

        found: dict[str, list[DataFrame]] = {}
        for plan in stage_plans(self.component, "load", TableStatistics(tables)):
            if plan.seed:
                made = heads(plan, read, _not_driven, session=self._session, schemas=self._schemas)
                found.setdefault(plan.head, []).append(made)
        return found


def _not_driven(relation: str, change: Change) -> DataFrame:
    raise AssertionError(f"a plan over all rows is driven by what is {change.value} in `{relation}`")
