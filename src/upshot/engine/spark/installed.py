"""A program as the engine on Spark holds it, and the queries that it jobs: those to stored rows together, those to
views on demand one by one."""

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
    """The recursive components, with what the driver holds of them."""
    on_demand: OnDemandViews | None = None

    # While the definition is open:
    fresh: frozenset[tuple[str, ...]] = frozenset()
    """The components whose views are still to be computed from nothing."""
    rule_changes: Mapping[tuple[str, ...], RuleChange] = field(default_factory=dict)
    """The components whose rows are to follow from other rules to the present ones."""
    afresh: frozenset[str] = frozenset()
    """Views on demand that it made, or defined otherwise, or stores from now on."""
    following: DemandProgram | None = None
    """The rules by which views on demand follow from the rules they had."""
    revived: frozenset[str] = frozenset()
    """Views that are stored from now on and were not: their change is reported against the rows they had."""
    restores: bool = False
    """True if the program is that of a store: rows derived from saved rows are no change."""

    @property
    def unstored(self) -> frozenset[str]:
        return self.on_demand.unstored if self.on_demand is not None else frozenset()

    def settled(self) -> None:
        """The definition is accepted: nothing is left to be computed."""
        self.fresh, self.rule_changes, self.revived, self.restores = frozenset(), {}, frozenset(), False
        self.afresh, self.following = frozenset(), None

    def folders(self) -> Iterator[str]:
        """The folders of committed rows."""
        for table in self.tables.values():
            yield from table.folders()


def discard(installed: Installed, keep: Installed) -> None:
    """Let go of what the driver holds of components that are gone."""
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
    """The jobs to queries in a state, `old` or `new`, in as few jobs as they take; `sending` repeats what cannot be
    broadcast."""
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
