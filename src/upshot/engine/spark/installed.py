"""A program with its tables in the engine on Spark, and the answers to queries over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.spark.demand.on_demand import OnDemandViews
from upshot.engine.spark.demand.queries import Query
from upshot.engine.spark.frames.joins import one_task
from upshot.engine.spark.recursion.recursion import Recursion
from upshot.engine.spark.storage.input_rows import InputRows
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_changes import RuleChange
from upshot.rewrite.demand.demand import DemandProgram


@dataclass(slots=True)
class Installed:
    """A program with its tables; replaced whole, so that a failed definition is undone by putting the old one back."""

    plan: ProgramPlan | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    tables: dict[str, FrameTable] = field(default_factory=dict)
    recursions: dict[tuple[str, ...], Recursion] = field(default_factory=dict)
    """The recursive components, with their rows in the driver."""
    on_demand: OnDemandViews | None = None

    # While the definition is open:
    fresh: frozenset[tuple[str, ...]] = frozenset()
    """The components whose views must be computed from nothing."""
    rule_changes: Mapping[tuple[str, ...], RuleChange] = field(default_factory=dict)
    """The components whose views follow a change of their rules."""
    afresh: frozenset[str] = frozenset()
    """Views on demand that are new, or have other rules, or are stored from now on."""
    following: DemandProgram | None = None
    """The program by which views on demand follow a change of their rules."""
    revived: frozenset[str] = frozenset()
    """Views that are stored from now on: their change is reported against the rows they had."""
    restores: bool = False
    """True if the program is that of a store: rows derived from saved rows are no change."""

    @property
    def unstored(self) -> frozenset[str]:
        return self.on_demand.unstored if self.on_demand is not None else frozenset()

    def settled(self) -> None:
        """Note that the definition is accepted."""
        self.fresh, self.rule_changes, self.revived, self.restores = frozenset(), {}, frozenset(), False
        self.afresh, self.following = frozenset(), None

    def folders(self) -> Iterator[str]:
        """The folders of committed rows."""
        for table in self.tables.values():
            yield from table.folders()


def discard(installed: Installed, keep: Installed) -> None:
    """Release the rows in the driver of components that `keep` does not have."""
    kept = {id(each) for each in keep.recursions.values()}
    for each in installed.recursions.values():
        if id(each) not in kept:
            each.release()
    if installed.on_demand is not None and installed.on_demand is not keep.on_demand:
        installed.on_demand.release()


QueryRequest = tuple[Schema, Sequence[Clause], Mapping[str, tuple[Schema, Sequence[Row]]], Mapping[str, Schema]]
"""A query: the head, clauses, `given` and `helpers`."""


def answered(
    queries: Sequence[QueryRequest], installed: Installed, state: str, jobs: Jobs, given: InputRows,
    sending: Callable[[Callable[[], list[Piece]]], list[Piece]],
) -> list[Piece]:  # fmt: skip
    """The answers to queries in a state, `old` or `new`: over stored rows together, over views on demand one by one.
    `sending` repeats work that cannot be broadcast."""
    views = installed.on_demand
    pieces = [
        {name: (known, given.piece(known, rows)) for name, (known, rows) in relations.items()}
        for _, _, relations, _ in queries
    ]

    def steps(number: int) -> Steps[Piece]:
        schema, clauses, _, helpers = queries[number]
        if views is not None and views.reaches(clauses):
            return views.answer(schema, tuple(clauses), state, pieces[number], helpers)
        query = Query(installed.schemas, installed.tables, jobs, state, pieces[number])
        return query.answer(schema, tuple(clauses), helpers)

    def run(numbers: Sequence[int]) -> dict[int, Piece]:
        given_rows = sum(rows.count for number in numbers for _, rows in pieces[number].values())
        with one_task(installed.tables.values(), given_rows):
            found = sending(lambda: jobs.run_all([steps(number) for number in numbers]))
        return dict(zip(numbers, found, strict=True))

    # The copy in the driver follows one query after the other.
    alone = [number for number, each in enumerate(queries) if views is not None and views.reaches(each[1])]
    found = run([number for number in range(len(queries)) if number not in alone])
    for number in alone:
        found |= run([number])
    return [found[number] for number in range(len(queries))]
