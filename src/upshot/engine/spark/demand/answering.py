"""Queries to what is installed: those to stored rows together, those to views on demand one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.spark.demand.queries import Query
from upshot.engine.spark.frames.one_task import one_task
from upshot.engine.spark.installed import Installed
from upshot.engine.spark.jobs.requests import Jobs, Steps
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.tables.input_rows import InputRows

Asked = tuple[Schema, Sequence[Clause], Mapping[str, tuple[Schema, Sequence[Row]]], Mapping[str, Schema]]
"""A query: the head, clauses, `given` and `helpers`."""


def answered(
    asked: Sequence[Asked], installed: Installed, state: str, answers: Jobs, given: InputRows,
    sending: Callable[[Callable[[], list[Piece]]], list[Piece]],
) -> list[Piece]:  # fmt: skip
    """The answers to queries in a state, `old` or `new`, in as few jobs as they take; `sending` repeats what cannot be
    broadcast."""
    views = installed.on_demand
    pieces = [
        {name: (known, given.piece(known, rows)) for name, (known, rows) in relations.items()}
        for _, _, relations, _ in asked
    ]

    def steps(number: int) -> Steps[Piece]:
        schema, clauses, _, helpers = asked[number]
        if views is not None and views.reaches(clauses):
            return views.answer(schema, tuple(clauses), state, pieces[number], helpers)
        query = Query(installed.schemas, installed.tables, answers, state, pieces[number])
        return query.answer(schema, tuple(clauses), helpers)

    def run(numbers: Sequence[int]) -> dict[int, Piece]:
        given_rows = sum(rows.count for number in numbers for _, rows in pieces[number].values())
        with one_task(installed.tables.values(), given_rows):
            found = sending(lambda: answers.run_all([steps(number) for number in numbers]))
        return dict(zip(numbers, found, strict=True))

    # The copy in the driver follows one query after the other.
    alone = [number for number, each in enumerate(asked) if views is not None and views.reaches(each[1])]
    found = run([number for number in range(len(asked)) if number not in alone])
    for number in alone:
        found |= run([number])
    return [found[number] for number in range(len(asked))]
