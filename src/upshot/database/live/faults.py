"""Live queries that fail: the commit goes on without them, and their followers get the error.

propagate ─► error in a live query ─► leave it out ─► propagate again ─► accept ─► resume for parameters not at fault

The error of a live query never reaches the committing caller. A change that is rolled back ends no subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from upshot.core.errors import ConstraintError, Error, LimitError, ProgramError, UsageError
from upshot.core.rows import Row, Rows, row_set
from upshot.database.live import follow
from upshot.database.live.layer import layered
from upshot.database.live.live_queries import LiveQuery, Suspect, followed_error
from upshot.database.watch import QueryFailure
from upshot.engine.time_limit import Interruption, live_time_limit, time_limit
from upshot.rewrite.shapes import relations_below

if TYPE_CHECKING:
    from upshot.database.engines import Deltas
    from upshot.database.program.compile import Compiled
    from upshot.database.state import DatabaseState

_KEPT_SECONDS = 2.0
"""The bound on the time of kept answers in one commit; beyond it they are computed on demand."""

Answers = Mapping[str, frozenset[Row]]


def propagate(state: DatabaseState, several_turns: bool = False) -> Deltas:
    """Propagate the open change, without the live queries that fail."""
    engine, live = state.engine, state.live
    if not engine.is_narrowed:
        live.suspects = {}
    while True:
        try:
            with live_time_limit(live.seconds if live.is_followed else live.seconds or _KEPT_SECONDS):
                return engine.propagate(several_turns=several_turns)
        except Error as error:
            others = [each for each in live.by_answer.values() if each.name not in live.suspects]
            layer = live.narrowed if engine.is_narrowed else live.installed(state.compiled)
            assert layer is not None, "queries were left out, so there is a layer"
            found = suspects(layer, others, error)
            if not found:
                raise
            live.suspects |= found
            live.narrowed = layered(state.compiled, [each for each in others if each.name not in found])
            engine.leave_out(live.narrowed.plan)


def suspects(layer: Compiled, queries: Iterable[LiveQuery], error: Error) -> dict[str, Suspect]:
    """The queries that may have caused the error: those whose rules were running, or all if that is unknown."""
    if isinstance(error, Interruption | ConstraintError | UsageError | ProgramError):
        return {}
    beside, views = layer.plan.live_queries, error.views
    own = {each: relations_below(layer.plan.normal.clauses, [each.name]) & beside for each in queries}
    found = [each for each in own if not views or not views.isdisjoint(own[each])]
    # A change may be followed through rows that never existed together: only computing the query shows a real failure.
    is_certain = bool(views) and views <= beside and isinstance(error, LimitError)
    return {each.name: Suspect(each, error, is_certain=is_certain) for each in found}


def answers_before(state: DatabaseState) -> Answers:
    """The committed answers of the queries that are left out."""
    found = {}
    for name, suspect in state.live.suspects.items():
        try:
            found[name] = row_set(state.engine.rows(name))
        except Error as error:
            state.live.suspects[name] = Suspect(suspect.query, error, is_certain=True)
    return found


def resume(state: DatabaseState, before: Answers, layer: Compiled) -> Deltas:
    """Compute the omitted queries for the new state; those that fail end. The changes of the others."""
    live, compiled = state.live, state.compiled
    left_out, live.suspects = live.suspects, {}
    live.replace([each for each in live.by_answer.values() if each.name not in left_out], compiled, layer)
    found = {}
    for name, suspect in left_out.items():
        query = suspect.query
        # Without followers meanwhile: the rows that the installation inserts are no changes.
        followers = dict(query.followers)
        query.followers.clear()
        query.kept.clear()
        state.kept.refuse(name)
        if not followers:
            continue
        failures = _failures(state, suspect, list(followers), is_known=name in before)
        query.followers.update((row, count) for row, count in followers.items() if row not in failures)
        for row, error in failures.items():
            _end(state, query, row, error)
        if name in live.by_answer and query.followers:
            answer, width = query.shape.answer, query.shape.parameters.arity
            now = row_set(state.engine.rows(name))
            old = {row for row in before[name] if row[:width] in query.followers}
            found[name] = (Rows.of(answer, list(now - old)), Rows.of(answer, list(old - now)))
    return found


def _failures(state: DatabaseState, suspect: Suspect, rows: list[Row], *, is_known: bool) -> dict[Row, Error]:
    """Install the query again for these parameters; the error of each for which it fails."""
    query = suspect.query
    if suspect.is_certain or not is_known:
        return dict.fromkeys(rows, suspect.error)
    others = list(state.live.by_answer.values())
    try:
        with time_limit(state.live.seconds):
            follow.install(state, [*others, query])
    except Error as failure:
        return dict.fromkeys(rows, failure)
    found: dict[Row, Error] = {}
    if query.shape.parameters.columns:
        _admit(state, query, rows, found)
    if len(found) == len(rows):
        follow.install(state, others)
    return found


def _admit(state: DatabaseState, query: LiveQuery, rows: list[Row], failures: dict[Row, Error]) -> None:
    """Follow the query for these parameters; failing ones are found by bisection."""
    try:
        with time_limit(state.live.seconds):
            follow.admit(state, query, rows)
    except Error as error:
        if len(rows) == 1:
            failures[rows[0]] = error
            return
        half = len(rows) // 2
        _admit(state, query, rows[:half], failures)
        _admit(state, query, rows[half:], failures)


def _end(state: DatabaseState, query: LiveQuery, row: Row, error: Error) -> None:
    """End the subscriptions to a query with these parameters."""
    failure = followed_error(error, query.text)
    for handle in query.handles.pop(row, ()):
        handle.failure = failure
    state.live.failed.setdefault(query.name, set()).add(row)
    for subscription in state.feed.watching(query.topic(row)):
        subscription.on_close = None
    state.publish(QueryFailure(query.text, state.version, failure), query.topic(row))
