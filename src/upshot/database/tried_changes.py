"""Changes tried by searches for realizations: staged, propagated, queried, rolled back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from upshot.check.program import Clause
from upshot.core.rows import Rows, one_nan, row_set
from upshot.core.schema import Column, Role, Schema
from upshot.database.changes import reported
from upshot.database.constraints import added_violations
from upshot.database.engines import Deltas, Engine, EngineQuery
from upshot.database.placement import placement_of
from upshot.database.queries.what_if import WhatIf
from upshot.database.state import DatabaseState
from upshot.engine.time_limit import check_time
from upshot.engine.work import Work
from upshot.reasons.concrete import ASKED, InstanceQuery, asked_rows, instances_question, row_rule
from upshot.revise.built_ins import is_value_of
from upshot.revise.request import Key, Row
from upshot.syntax.ast import Atom, Variable, Wildcard

MANY = 200
"""Larger changes are queried instead of made into sets."""
FEW = 20
"""At most this many rows are looked up one by one."""
REMEMBERED = 64
"""The most changes whose effects and answers are kept."""
SMALL = 10_000
"""The most rows of a change that is kept, and of a column of values."""

Update = tuple[frozenset[Key], frozenset[Key]]
NOTHING: Update = (frozenset(), frozenset())


@dataclass(slots=True)
class Tried:
    """The effects of a tried change, and the answers to queries about it."""

    deltas: Deltas
    work: Work
    answers: dict[tuple[int, tuple[Row, ...]], tuple[InstanceQuery, Rows]] = field(default_factory=dict)
    """By the identity of the query, since queries of different programs may be equal."""
    conflicts: list[tuple[Key, Key]] | None = None


class TriedChanges:
    """The engine of a database with at most one staged change; the caller holds the write lock. A change is staged
    again only for a query without a kept answer. Stored rows are kept too, so an instance is for one version only."""

    tag = "tried"

    def __init__(self, state: DatabaseState, deltas: Deltas | None = None) -> None:
        """`deltas` are those of an open change that is staged and propagated already."""
        self._state = state
        self._requested: Update | None = None
        self._staged: Update | None = None
        self._tried: dict[Update, Tried] = {}
        self._deltas: Deltas = {} if deltas is None else deltas
        self._sets: dict[tuple[str, int], frozenset[Row]] = {}
        self._stored: dict[Key, bool] = {}
        self._columns: dict[tuple[str, int], Rows | list[Row]] = {}
        self._occurring: dict[tuple[tuple[str, int], Any], bool] = {}
        self._soon: dict[tuple[str, int], None] = {}
        """Columns to read with the next queries."""
        self._answered: dict[tuple[int, tuple[Row, ...]], tuple[InstanceQuery, Rows]] = {}
        """The answers without a staged change."""
        self._occurrences: Counter[tuple[str, int]] = Counter()
        self._value_sets: dict[tuple[str, int], frozenset[Any]] = {}
        """The values of columns that are looked up often."""
        self._value_questions: dict[tuple[str, int], InstanceQuery] = {}
        self._row_questions: dict[tuple[str, tuple[bool, ...], str], InstanceQuery] = {}
        self.is_local = placement_of(state.engine).engine == "local"
        self.propagations = 0

    @property
    def _engine(self) -> Engine:
        return self._state.engine

    # ---- changes ------------------------------------------------------------------------------------------------

    def stage(self, insert: Iterable[Key], delete: Iterable[Key]) -> None:
        requested = frozenset(insert), frozenset(delete)
        if self._requested == requested:
            return
        self._requested = requested
        self._sets.clear()
        if requested not in self._tried:
            try:
                self._remember(requested, self._propagated())
            except BaseException:
                self.undo()
                raise
        self._deltas = self._tried[requested].deltas

    def _propagated(self) -> Tried:
        """Stage the requested change and return its effects; the engine then answers queries about it."""
        requested = self._requested
        assert requested is not None, "a change is staged"
        self._roll_back()
        check_time()
        if not any(requested):
            return Tried({}, Work())
        self._staged = requested
        for keys, stage in ((requested[1], self._engine.delete), (requested[0], self._engine.insert)):
            for name, rows in by_relation(keys).items():
                stage(name, rows)
        deltas = self._state.propagate()
        self.propagations += 1
        return Tried(deltas, self._engine.work)

    def _remember(self, update: Update, tried: Tried) -> None:
        """Keep the effects of the last changes, as far as they are small."""
        last = next(reversed(self._tried), None)
        if last is not None and sum(map(len, chain.from_iterable(self._tried[last].deltas.values()))) > SMALL:
            del self._tried[last]
        if len(self._tried) >= REMEMBERED:
            del self._tried[next(iter(self._tried))]
        self._tried[update] = tried

    def _stage_requested(self) -> None:
        requested = self._requested
        if requested is not None and requested != (self._staged or NOTHING):
            self._propagated()

    def effects(self, insert: Iterable[Key], delete: Iterable[Key]) -> WhatIf | None:
        """The effects of a tried change, if they are kept."""
        requested = frozenset(insert), frozenset(delete)
        state = self._state
        if not any(requested):
            return WhatIf(state.schemas, {}, violations={}, stats=Work())
        if requested not in self._tried:
            return None
        deltas, work = self._tried[requested].deltas, self._tried[requested].work
        return WhatIf(
            state.schemas,
            reported(state.compiled.plan, deltas),
            violations=added_violations(state.compiled, deltas),
            stats=work,
        )

    def undo(self) -> None:
        self._requested, self._deltas = None, {}
        self._sets.clear()
        self._roll_back()

    def _roll_back(self) -> None:
        if self._staged is not None:
            self._staged = None
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

    def affected(self) -> frozenset[Key]:
        views = (name for name in self._deltas if name in self._state.schemas)
        return frozenset(
            (name, row)
            for name in views
            if self._state.schemas[name].role is not Role.BASE
            for which in (0, 1)
            for row in self._changed(name, which)
        )

    def key_conflicts(self) -> Sequence[tuple[Key, Key]]:
        assert self._requested is not None, "a change is staged"
        tried = self._tried[self._requested]
        if tried.conflicts is None:
            schemas = self._state.compiled.checked.schemas
            keyed = [name for name in sorted(self._deltas) if name in schemas and schemas[name].keys]
            if keyed:
                self._stage_requested()
            pairs = [(name, *pair) for name in keyed for pair in self._engine.key_conflicts(name)]
            tried.conflicts = [((name, first), (name, second)) for name, first, second in pairs]
        return tried.conflicts

    # ---- queries ----------------------------------------------------------------------------------------------

    def holds(self, key: Key) -> bool:
        relation, row = key
        change = self._deltas.get(relation, ())
        unstored = relation in self._state.compiled.plan.on_demand.unstored
        if unstored or sum(map(len, change)) > MANY:
            nulls = tuple(value is None for value in row)
            return bool(len(self.ask(self._row_question(relation, nulls), asked_rows([row], nulls))))
        if row in self._changed(relation, 0):
            return True
        return self.stored(key) and row not in self._changed(relation, 1)

    def holding(self, keys: Sequence[Key]) -> list[bool]:
        """Test for each row whether it is present; for many rows, by sets of the changes."""
        if len(keys) <= FEW:
            return [self.holds(key) for key in keys]
        unstored = self._state.compiled.plan.on_demand.unstored
        self.look_up(key for key in keys if key[0] not in unstored)
        found = []
        for key in keys:
            if key[0] in unstored:
                found.append(self.holds(key))
            else:
                inserted, deleted = self._changed(key[0], 0), self._changed(key[0], 1)
                found.append(key[1] in inserted or (self._stored[key] and key[1] not in deleted))
        return found

    def _row_question(self, relation: str, nulls: tuple[bool, ...], name: str = "is_there") -> InstanceQuery:
        """The query for rows of a relation that are NULL in these positions, by their other values. Engines keep
        prepared queries by state, so each state has its own name."""
        if (relation, nulls, name) not in self._row_questions:
            schemas = self._state.compiled.plan.normal.schemas
            rule = row_rule(list(schemas).index(relation), relation, schemas)
            question = instances_question(rule, nulls, schemas, name)
            assert question is not None, "its arguments are variables"
            self._row_questions[relation, nulls, name] = question
        return self._row_questions[relation, nulls, name]

    def stored(self, key: Key) -> bool:
        self.look_up([key])
        return self._stored[key]

    def look_up(self, keys: Iterable[Key]) -> None:
        new = [key for key in dict.fromkeys(keys) if key not in self._stored]
        unstored = self._state.compiled.plan.on_demand.unstored
        plain = [key for key in new if key[0] not in unstored]
        if plain:
            self._stored |= zip(plain, self._engine.contains_many(plain), strict=True)
        for key in new if len(plain) < len(new) else ():
            if key[0] in unstored:
                # From the committed state, whatever is staged.
                nulls = tuple(value is None for value in key[1])
                query = self._row_question(key[0], nulls, "was_there").query(asked_rows([key[1]], nulls))
                (answer,) = self._engine.query_many([query], is_open=False)
                self._stored[key] = len(answer) > 0

    def ask(self, question: InstanceQuery, rows: list[Row]) -> Rows:
        (answer,) = self.ask_all([(question, rows)])
        return answer

    def ask_all(self, questions: Sequence[tuple[InstanceQuery, list[Row]]]) -> list[Rows]:
        # Locally a query costs little, so looking for a kept answer does not pay.
        if self.is_local:
            return self._answers([question.query(rows) for question, rows in questions])
        known = self._answered if self._requested is None else self._tried[self._requested].answers
        names = [(id(question), tuple(rows)) for question, rows in questions]
        new = {name: each for name, each in zip(names, questions, strict=True) if name not in known}
        columns = [] if self._requested is not None else [each for each in self._soon if each not in self._columns]
        queries = [question.query(rows) for question, rows in new.values()]
        answers = self._answers([*queries, *map(self._column_query, columns)]) if new else []
        if new and self._requested is None:
            self._soon.clear()
            self._keep_columns(columns, answers[len(queries) :])
        for (name, (question, _)), rows_found in zip(new.items(), answers[: len(queries)], strict=True):
            known[name] = question, rows_found
        return [known[name][1] for name in names]

    def _answers(self, queries: Sequence[EngineQuery]) -> list[Rows]:
        check_time()
        self._stage_requested()
        # Always from the open state, even if nothing is staged: engines keep prepared queries by state.
        return self._engine.query_many(queries, is_open=True)

    def size(self, relation: str) -> int:
        return self._engine.size(relation)

    def look_up_columns(self, columns: Iterable[tuple[str, int]]) -> None:
        if not self.is_local:
            self._soon |= dict.fromkeys(columns)

    def _column_query(self, column: tuple[str, int]) -> EngineQuery:
        relation, place = column
        schema = self._state.compiled.checked.schemas[relation]
        type = schema.columns[place].type
        args = tuple(Variable("V") if at == place else Wildcard() for at in range(schema.arity))
        name = f"values_{relation}_{place}"
        clause = Clause(Atom(name, (Variable("V"),)), (Atom(relation, args),), {"V": type})
        return Schema(name, (Column("v", type),), Role.VIEW), (clause,), {}, {}

    def _keep_columns(self, columns: Iterable[tuple[str, int]], answers: Iterable[Rows]) -> None:
        for column, rows in zip(columns, answers, strict=True):
            self._columns[column] = rows.sorted() if len(rows) <= SMALL else rows

    def column(self, relation: str, place: int) -> Iterable[Any]:
        if (relation, place) not in self._columns:
            columns = list(
                dict.fromkeys(((relation, place), *(each for each in self._soon if each not in self._columns)))
            )
            self._soon.clear()
            self._keep_columns(columns, self._engine.query_many(list(map(self._column_query, columns)), is_open=False))
        found = self._columns[relation, place]
        return (value for (value,) in (found.gradually() if isinstance(found, Rows) else found) if value is not None)

    def occurs(self, value: Any, columns: Iterable[tuple[str, int]]) -> bool:
        schemas = self._state.compiled.checked.schemas
        could = (each for each in columns if is_value_of(value, schemas[each[0]].columns[each[1]].type))
        lookups = [(column, value) for column in could]
        for column in (each for each, _ in lookups if each not in self._value_sets):
            self._occurrences[column] += 1
            is_often = self.is_local and self._occurrences[column] > FEW and self._engine.size(column[0]) <= SMALL
            if is_often or isinstance(self._columns.get(column), list):
                self._value_sets[column] = frozenset(one_nan(tuple(self.column(*column))))
        if lookups and all(column in self._value_sets for column, _ in lookups):
            return any(one_nan((value,))[0] in self._value_sets[column] for column, _ in lookups)
        new = [each for each in lookups if each not in self._occurring]
        answers = self._engine.query_many([self._value_question(*each) for each in new], is_open=False) if new else []
        self._occurring |= {each: len(rows) > 0 for each, rows in zip(new, answers, strict=True)}
        return any(self._occurring[each] for each in lookups)

    def _value_question(self, column: tuple[str, int], value: Any) -> EngineQuery:
        relation, place = column
        if column not in self._value_questions:
            schema = self._state.compiled.checked.schemas[relation]
            type = schema.columns[place].type.required()
            args = tuple(Variable("V") if at == place else Wildcard() for at in range(schema.arity))
            name = f"occurs_{relation}_{place}"
            body = Atom(ASKED, (Variable("V"),)), Atom(relation, args)
            clause = Clause(Atom(name, (Variable("V"),)), body, {"V": type})
            answer = Schema(name, (Column("v", type),), Role.VIEW)
            self._value_questions[column] = InstanceQuery(answer, clause, Schema(ASKED, (Column("v", type),)))
        return self._value_questions[column].query([(value,)])


def by_relation(keys: Iterable[Key]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for name, row in sorted(keys, key=repr):
        found.setdefault(name, []).append(one_nan(row))
    return found
