"""Prepared queries with input relations: the rules are made once, and run again with other input rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.engine.local.queries.demand_run import DemandRun
from upshot.engine.local.storage.storage import Storage, Table
from upshot.engine.work import ViewWork

Codes = NDArray[np.int64]
QueryInputs = Mapping[str, tuple[Schema, Codes]]
"""The input relations of a query, with their rows."""

MOST_ROOM = 1 << 18
"""A prepared query whose tables have room for more rows is dropped after use."""


def fill(table: Table, codes: Codes) -> None:
    table.stage(codes, insert=True)
    table.settle()
    table.accept()


@dataclass(slots=True)
class PreparedQuery:
    """The rules of a prepared query, and the tables of its inputs; all tables are empty between two answers."""

    clauses: tuple[Clause, ...]
    run: DemandRun
    inputs: Mapping[str, Table]
    head: str

    def answer(self, inputs: QueryInputs) -> tuple[Codes, ViewWork]:
        try:
            for name, table in self.inputs.items():
                fill(table, inputs[name][1])
            work = self.run.run({})
            return self.run.rows(self.head), work
        finally:
            self.run.clear()
            for table in self.inputs.values():
                table.retract_all(as_view=False)
                table.settle()
                table.accept()

    @property
    def room(self) -> int:
        return self.run.capacity + sum(table.capacity for table in self.inputs.values())

    def release(self, storage: Storage) -> None:
        self.run.release()
        for table in self.inputs.values():
            storage.drop(table)


@dataclass(slots=True)
class PreparedQueries:
    """The prepared queries of one program, by the name of the head."""

    storage: Storage
    _made: dict[str, PreparedQuery] = field(default_factory=dict)

    def answer(
        self,
        head: str,
        clauses: tuple[Clause, ...],
        inputs: QueryInputs,
        make: Callable[[Mapping[str, Table]], PreparedQuery],
    ) -> tuple[Codes, ViewWork]:
        """The answer to a query; `make` prepares it over tables for its inputs, if it is not prepared yet."""
        query = self._made.get(head)
        if query is None or query.clauses != clauses:
            self._forget(head)
            tables = {name: self.storage.create(schema.arity) for name, (schema, _) in inputs.items()}
            try:
                query = self._made[head] = make(tables)
            except BaseException:
                for table in tables.values():
                    self.storage.drop(table)
                raise
        try:
            return query.answer(inputs)
        except BaseException:
            self._forget(head)
            raise
        finally:
            if head in self._made and query.room > MOST_ROOM:
                self._forget(head)

    def _forget(self, head: str) -> None:
        query = self._made.pop(head, None)
        if query is not None:
            query.release(self.storage)

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the rules."""
        for query in self._made.values():
            yield from query.run.texts()

    def release(self) -> None:
        for head in list(self._made):
            self._forget(head)
