"""Kept answers: answers to repeated queries on unstored views are kept current, others are computed on demand.

query ─► computed on demand, noted ─► repeated: its parameters become a row of the live query ─► looked up
                                                     ▲                                              │
              commits keep the answers current ──────┘      over the bound, or unused ─► on demand again

Kept parameters are rows of a live query without a follower: a commit costs what it changes in those rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any

from upshot.core.errors import Error, UsageError
from upshot.core.fact_text import spelled
from upshot.core.rows import Row, Rows
from upshot.database.live import follow
from upshot.database.live.live_queries import MOST_KEPT, KeptQuery, LiveQuery, Note, Place, Question, reads_of
from upshot.database.placement import placement_of
from upshot.engine.time_limit import Interruption
from upshot.rewrite.shapes import relations_below

if TYPE_CHECKING:
    from upshot.database.program.compile import Compiled
    from upshot.database.state import DatabaseState

MOST_NOTED = 10_000
"""The most queries that are remembered, to recognize a repetition."""
LONGEST_NOTED = 4_096
"""The most characters of such a query."""
IDLE_COMMITS = 1_000
"""Unused parameters are evicted after this many commits."""
RULES_A_REPEAT = 100
"""A query must be repeated once for each of this many rules before its first answers are kept: planning for them takes
longer in a larger program."""


@dataclass(frozen=True, slots=True)
class KeptUse:
    """The use of kept answers: current `parameters` and `rows`, at most `bound` rows; how often an answer was looked up
    (`hits`) or computed (`on_demand`), and parameters `admitted` and `evicted`."""

    parameters: int
    rows: int
    bound: int
    hits: int
    on_demand: int
    admitted: int
    evicted: int


def question_of(text: object, values: Mapping[str, Any]) -> Question | None:
    """The query with its values as a key that distinguishes types; None if it is too long."""
    if not isinstance(text, str) or not values:
        return None
    keys = tuple((name, _key(value)) for name, value in sorted(values.items()))
    if any(key is None for _, key in keys):
        return None
    return (text, keys) if len(text) + sum(len(key[1]) for _, key in keys if key) <= LONGEST_NOTED else None


_TYPES = frozenset({bool, int, float, str, Decimal, date, datetime, NoneType})


def _key(value: object) -> tuple[type, str] | None:
    """The value as part of a key; None if its text does not identify it, as for a subclass."""
    if type(value) in (list, tuple):
        return (type(value), repr(value)) if all(map(_key, value)) else None  # type: ignore[call-overload]
    if type(value) not in _TYPES or (isinstance(value, int) and value.bit_length() > _WIDEST):
        return None
    if isinstance(value, str) and len(value) > LONGEST_NOTED:
        return None
    return type(value), repr(value)


_WIDEST = 128
"""Bits of the largest integer in a key; no column has larger ones."""


def note(state: DatabaseState, text: object, values: Mapping[str, Any]) -> None:
    """Remember that the query was answered on demand. The caller holds the lock."""
    kept = state.kept
    question = question_of(text, values)
    if question is None:
        return
    kept.on_demand += 1
    if question not in kept.notes:
        kept.notes[question] = Note(kept.program_number(state.compiled))
    kept.notes.move_to_end(question)
    if len(kept.notes) > MOST_NOTED:
        kept.notes.popitem(last=False)


def answer(state: DatabaseState, text: object, values: Mapping[str, Any]) -> Rows | None:
    """The answer to a repeated query that is kept, from now on if it was not; None if it must be computed. The caller
    holds the lock."""
    kept = state.kept
    question = question_of(text, values)
    found = None if question is None else kept.notes.get(question)
    if found is None:
        return None
    if found.program != (program := kept.program_number(state.compiled)):
        found.program, found.place, found.refused = program, None, False
    if found.refused:
        return None
    if found.place is None or not _is_kept(state, found.place):
        _keep(state, str(text), values, found)
        if found.place is None:
            return None
    name, row = found.place
    kept.hits += 1
    kept.places[found.place] = state.version
    kept.places.move_to_end(found.place)
    return follow.answers(state, state.live.by_answer[name], row)


def _is_kept(state: DatabaseState, place: Place) -> bool:
    query = state.live.by_answer.get(place[0])
    return query is not None and place[1] in query.kept


def _keep(state: DatabaseState, text: str, values: Mapping[str, Any], found: Note) -> None:
    """Keep the answer, if this thread can get the write lock now."""
    found.place = None
    if not _pays(state, text) or state.open_group is not None or placement_of(state.engine).engine == "spark":
        return
    if not state.writer.acquire_if_free():
        return
    try:
        follow.remove_released(state)
        try:
            query, row = follow.live_query(state, text, values)
            if not _is_selective(query, state):
                found.refused = True
                follow.remove_released(state)
                return
            follow.keep(state, query, row)
        except Interruption:
            follow.remove_released(state)
            raise
        except Error:
            # If there is an error, the computation on demand reports it.
            found.refused = True
            follow.remove_released(state)
            return
        place = query.name, row
        found.place = place
        state.kept.admitted += place not in state.kept.places
        state.kept.places[place] = state.version
        state.kept.places.move_to_end(place)
        trim(state)
        if not _is_kept(state, place):
            found.place, found.refused = None, True
    finally:
        state.writer.release()


def _pays(state: DatabaseState, text: str) -> bool:
    """Test whether the query was repeated often enough, whatever its parameters, for a program of this size."""
    repeats = state.kept.repeats
    if len(repeats) >= MOST_NOTED and text not in repeats:
        repeats.clear()
    repeats[text] = repeats.get(text, 0) + 1
    return repeats[text] * RULES_A_REPEAT >= len(state.compiled.checked.clauses)


def _is_selective(query: LiveQuery, state: DatabaseState) -> bool:
    """Test whether the query has parameters, and reads only a part of an unstored view."""
    compiled = state.compiled
    unstored = compiled.plan.on_demand.unstored
    if not query.shape.parameters.columns or unstored.isdisjoint(_below(query, compiled)):
        return False
    if query.name not in state.live.by_answer:
        follow.install(state, [*state.live.by_answer.values(), query])
    return query.name not in state.live.installed(compiled).plan.on_demand.unstored


def _below(query: LiveQuery, compiled: Compiled) -> set[str]:
    return relations_below(compiled.checked.clauses, reads_of(query.shape))


def trim(state: DatabaseState) -> None:
    """Evict the parameters that were unused for long, then the least recently used until the others fit the bound. The
    caller holds the write lock."""
    kept, live = state.kept, state.live
    if not kept.places:
        return
    # Queries are left out, and views become stored, only with another layer.
    if kept.examined is not live.layer:
        _examine(state)
    bound = 0 if placement_of(state.engine).engine == "spark" else kept.bound
    while kept.places:
        place, last_use = next(iter(kept.places.items()))
        kept.rows = rows_kept(state)
        if state.version - last_use <= IDLE_COMMITS and 0 < bound >= kept.rows:
            return
        del kept.places[place]
        kept.evicted += 1
        query, row = live.by_answer[place[0]], place[1]
        query.kept.discard(row)
        live.released.append((query, row))
        follow.remove_released(state)
    kept.rows = 0


def _examine(state: DatabaseState) -> None:
    """Forget the parameters of queries that were removed, and release those of queries whose views are stored now."""
    kept, live = state.kept, state.live
    unstored = state.compiled.plan.on_demand.unstored
    useful = {name for name, query in live.by_answer.items() if not unstored.isdisjoint(_below(query, state.compiled))}
    for place in [each for each in kept.places if each[0] not in useful or not _is_kept(state, each)]:
        del kept.places[place]
        if _is_kept(state, place):
            query = live.by_answer[place[0]]
            query.kept.discard(place[1])
            live.released.append((query, place[1]))
            kept.evicted += 1
    if live.released:
        follow.remove_released(state)
    kept.examined = live.layer


def rows_kept(state: DatabaseState) -> int:
    """The rows of kept answers, with the rows they are derived from."""
    return sum(_rows(state, query) for query in state.live.by_answer.values() if query.kept)


def _rows(state: DatabaseState, query: LiveQuery) -> int:
    """The rows of one query; of a query that is also followed, the share of the kept parameters."""
    rows = sum(map(state.engine.size, _stored(state, query)))
    return rows * len(query.kept) // len(query.kept | query.followers.keys())


def _stored(state: DatabaseState, query: LiveQuery) -> tuple[str, ...]:
    """The relations of the query in the engine."""
    layer = state.live.installed(state.compiled)
    known = state.kept.stored.get(query.name)
    if known is None or known[0] is not layer:
        plan = layer.plan
        own = relations_below(plan.normal.clauses, [query.name]) & plan.live_queries - plan.on_demand.unstored
        state.kept.stored = {name: each for name, each in state.kept.stored.items() if each[0] is layer}
        known = state.kept.stored[query.name] = layer, tuple(sorted(own))
    return known[1]


def use(state: DatabaseState) -> KeptUse:
    """The counters; needs no lock."""
    kept = state.kept
    counts = (kept.hits, kept.on_demand, kept.admitted, kept.evicted)
    return KeptUse(len(kept.places), kept.rows, kept.bound, *counts)


def limit(state: DatabaseState, rows: int) -> None:
    """Bound the rows of kept answers; 0 switches them off. The caller holds the write lock."""
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        hint = f"pass a non-negative number of rows, such as {MOST_KEPT:_}; 0 keeps none"
        raise UsageError(f"invalid `keep_answers`: {rows!r}", code="wrong-argument", help=hint)
    state.kept.bound = rows
    if not rows:
        state.kept.notes.clear()
    trim(state)


def kept_queries(state: DatabaseState, view: str) -> Iterator[KeptQuery]:
    """The queries that depend on a view and are kept current for some parameters."""
    last: dict[str, list[Row]] = {}
    for name, row in reversed(state.kept.places):
        if len(rows := last.setdefault(name, [])) < _SHOWN:
            rows.append(row)
    for query in state.live.by_answer.values():
        if query.kept and view in _below(query, state.compiled):
            shown = tuple(_parameters_text(query, row) for row in last.get(query.name, ()))
            yield KeptQuery(query.text, len(query.kept), shown, _rows(state, query))


_SHOWN = 3
"""The most parameters of a query in an explanation."""


def _parameters_text(query: LiveQuery, row: Row) -> str:
    names = (column.name for column in query.shape.parameters.columns)
    return ", ".join(f"{name} = {spelled(value)}" for name, value in zip(names, row, strict=True))
