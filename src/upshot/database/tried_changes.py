"""Changes tried out for the search for realisations: staged, propagated, asked about, rolled back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from upshot.check.program import Clause
from upshot.core.row_sets import row_set
from upshot.core.rows import Rows
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER
from upshot.database.constraints import added_violations
from upshot.database.engines import Deltas, Engine
from upshot.database.placement import placement_of
from upshot.database.state import State
from upshot.database.what_if import WhatIf
from upshot.engine.work import Work
from upshot.reasons.concrete import ASKED, Question
from upshot.reasons.search import one_nan
from upshot.revise.request import Key, Row
from upshot.syntax.ast import Atom, Variable, Wildcard

MANY = 200
"""Rows of a change that are not made a set of to find one among them."""


class TriedChanges:
    """The engine of a database with at most one change staged, for as long as the caller has the right to write. What
    is stored is remembered, so that a version other than the one it was made for must not be asked about."""

    tag = "tried"

    def __init__(self, state: State) -> None:
        self._state = state
        self._staged: tuple[frozenset[Key], frozenset[Key]] | None = None
        self._deltas: Deltas = {}
        self._sets: dict[tuple[str, int], frozenset[Row]] = {}
        self._stored: dict[Key, bool] = {}
        self._columns: dict[tuple[str, int], list[Any]] = {}
        self.is_local = placement_of(state.engine).engine == "local"
        self.propagations = 0
        self._last: tuple[tuple[frozenset[Key], frozenset[Key]], Deltas, Work] | None = None

    @property
    def _engine(self) -> Engine:
        return self._state.engine

    # ---- changes ------------------------------------------------------------------------------------------------

    def stage(self, insert: Iterable[Key], delete: Iterable[Key]) -> None:
        wanted = frozenset(insert), frozenset(delete)
        if self._staged == wanted:
            return
        self.undo()
        self._staged = wanted
        if not any(wanted):
            return
        for keys, deed in ((wanted[1], self._engine.delete), (wanted[0], self._engine.insert)):
            for name, rows in by_relation(keys).items():
                deed(name, rows)
        self._deltas = self._engine.propagate()
        self._last = wanted, self._deltas, self._engine.work
        self.propagations += 1

    def effects(self, insert: Iterable[Key], delete: Iterable[Key]) -> WhatIf | None:
        """What the change that was tried last came to, if it was this one."""
        wanted = frozenset(insert), frozenset(delete)
        state = self._state
        if not any(wanted):
            return WhatIf(state.schemas, {}, violations={}, stats=Work())
        if self._last is None or self._last[0] != wanted:
            return None
        _, deltas, work = self._last
        return WhatIf(state.schemas, deltas, violations=added_violations(state.compiled, deltas), stats=work)

    def undo(self) -> None:
        if self._staged is not None:
            changed = any(self._staged)
            self._staged, self._deltas = None, {}
            self._sets.clear()
            if changed:
                self._engine.rollback()

    def added(self, relation: str) -> Collection[Row]:
        return self._changed(relation, 0)

    def _changed(self, relation: str, which: int) -> frozenset[Row]:
        if relation not in self._deltas:
            return frozenset()
        place = relation, which
        if place not in self._sets:
            self._sets[place] = row_set(self._deltas[relation][which])
        return self._sets[place]

    def key_conflicts(self) -> Sequence[tuple[Key, Key]]:
        found: list[tuple[Key, Key]] = []
        for name in sorted(self._deltas):
            schema = self._state.compiled.checked.schemas.get(name)
            if schema is not None and schema.keys:
                found += [((name, first), (name, second)) for first, second in self._engine.key_conflicts(name)]
        return found

    # ---- questions ----------------------------------------------------------------------------------------------

    def holds(self, key: Key) -> bool:
        relation, row = key
        change = self._deltas.get(relation, ())
        unstored = relation in self._state.compiled.plan.on_demand.unstored
        # A join never finds NULL.
        if None not in row and (unstored or sum(map(len, change)) > MANY):
            return bool(len(self.ask(_row_question(self._state, relation), [(0, *row)])))
        if row in self._changed(relation, 0):
            return True
        return self.stored(key) and row not in self._changed(relation, 1)

    def stored(self, key: Key) -> bool:
        if key not in self._stored:
            self._stored[key] = self._engine.contains(*key)
        return self._stored[key]

    def ask(self, question: Question, rows: list[Row]) -> Rows:
        # Always of the open state, even if nothing is staged: an engine keeps a question for the state it is about.
        return self._engine.query_open(question.schema, question.clauses, question.given(rows), question.helper_schemas)

    def query(self, schema: Schema, clauses: tuple[Clause, ...]) -> Rows:
        return self._engine.query_open(schema, clauses, {})

    def column(self, relation: str, place: int) -> Sequence[Any]:
        if (relation, place) not in self._columns:
            schema = self._state.compiled.checked.schemas[relation]
            type = schema.columns[place].type
            args = tuple(Variable("V") if at == place else Wildcard() for at in range(schema.arity))
            name = f"values_{relation}_{place}"
            clause = Clause(Atom(name, (Variable("V"),)), (Atom(relation, args),), {"V": type})
            rows = self._engine.query(Schema(name, (Column("v", type),), Role.VIEW), (clause,))
            self._columns[relation, place] = [value for (value,) in rows.sorted() if value is not None]
        return self._columns[relation, place]


def by_relation(keys: Iterable[Key]) -> dict[str, list[Row]]:
    """The rows by relation, in order."""
    found: dict[str, list[Row]] = {}
    for name, row in sorted(keys, key=repr):
        found.setdefault(name, []).append(one_nan(row))
    return found


def _row_question(state: State, relation: str) -> Question:
    """Whether a row is in a view that is not stored."""
    columns = state.compiled.plan.normal.schemas[relation].columns
    names = [f"X{place}" for place in range(len(columns))]
    types = {"N": NUMBER, **{name: column.type.required() for name, column in zip(names, columns, strict=True)}}
    args = tuple(map(Variable, names))
    asked = Schema(ASKED, (Column("n", NUMBER), *(Column(f"c{i}", types[n]) for i, n in enumerate(names))))
    head = Atom(f"is_there_{relation}", (Variable("N"),))
    clause = Clause(head, (Atom(ASKED, (Variable("N"), *args)), Atom(relation, args)), types)
    return Question(Schema(head.relation, (Column("n", NUMBER),), Role.VIEW), clause, asked)
