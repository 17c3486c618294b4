"""Subscriptions to relations, firings and queries. The parameters of a query are a row in the engine while it has
followers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from upshot.check.program import Clause
from upshot.core.errors import DataError, EngineError, Error, UsageError
from upshot.core.rows import Row, Rows, one_nan, row_set
from upshot.database.commit import Proposal, commit_change
from upshot.database.durable.history import past_events, past_firings, refuse_dropped
from upshot.database.durable.past_states import PastStates, refuse_unreachable
from upshot.database.engines import Deltas
from upshot.database.live.layer import layered
from upshot.database.live.live_queries import LiveQuery, followed_error
from upshot.database.live.shapes import shape
from upshot.database.program.compile import difference
from upshot.database.queries.query import refuse_undecided
from upshot.database.state import DatabaseState
from upshot.database.watch import Callback, Event, Subscription
from upshot.engine.time_limit import time_limit
from upshot.syntax.ast import Atom, Constant, Variable

if TYPE_CHECKING:
    from upshot.database.live.event_filter import EventFilter


def watch_relation(
    state: DatabaseState, view: str, callback: Callback, since: int | None, event_filter: EventFilter | None = None
) -> Subscription:
    """Call back with all rows first, or with the changes after `since`, then with those of each commit."""
    with state.reading() as engine:
        state.refuse_group()
        schema = state.watchable(view)
        subscription = Subscription(view, callback, state.feed, event_filter=event_filter)
        is_rule = state.compiled.rule(view) is not None
        if since is None:
            rows = Rows.of(schema, []) if is_rule else engine.rows(view)
            first = Event(view, state.version, rows, Rows.of(schema, []), snapshot=True)
            state.feed.add(subscription, [first])
        elif state.journal is not None:
            store = state.journal.store
            refuse_dropped(store, since, state.version)
            past = past_events(store, view, since, state.version)
            if is_rule:
                # Raise now if firings are not kept.
                past = iter(list(past_firings(store, view, since, state.version)))
            state.feed.add(subscription, past)
        elif since == state.version:
            state.feed.add(subscription)
        else:
            what = "firings" if is_rule else "changes"
            message = f"{what} since version {since} are not kept; the current version is {state.version}"
            hint = "watch without `since` to start from all rows"
            raise UsageError(message, code="history-not-kept", help=hint)
    state.feed.deliver()
    return subscription


def follow(
    state: DatabaseState,
    text: str,
    callback: Callback,
    values: Mapping[str, Any],
    since: int | None = None,
    event_filter: EventFilter | None = None,
) -> Subscription:
    """Call back with the answers of the query first, then with the exact changes of each commit that affects them. With
    `since` a version, start with the net change of the answers since then."""
    if state.in_consistent_read:
        raise UsageError(
            "cannot follow a query inside `with db.reading()`",
            code="transaction-open",
            help="follow it after the block",
        )
    with state.writing("follow a query"):
        state.refuse_group()
        query, row, rows = _followed(state, text, values)
        try:
            first = _first(state, query, row, rows, since)
        except BaseException:
            release(state, query, row)
            raise
        subscription = Subscription(text, callback, state.feed, topic=query.topic(row), event_filter=event_filter)
        subscription.on_close = lambda _: release(state, query, row)
        state.feed.add(subscription, first)
    return subscription


def _first(state: DatabaseState, query: LiveQuery, row: Row, rows: Rows, since: int | None) -> list[Event]:
    if since is None:
        return [Event(query.text, state.version, rows, Rows.of(query.schema, []), snapshot=True)]
    refuse_unreachable(state, since)
    states = PastStates(state, state.engine)
    try:
        before = row_set(states.world(since).query(query.schema, _lookup(query, row)))
    finally:
        states.close()
    now = row_set(rows)
    inserted, deleted = (Rows.of(query.schema, list(each)) for each in (now - before, before - now))
    return [Event(query.text, state.version, inserted, deleted)] if len(inserted) or len(deleted) else []


class LiveHandle:
    """A live query without a callback, kept current while the handle is open; its changes are in `CommitEvent.live`.
    `relation` is the name of its answers there, whose first columns are the `parameters`."""

    def __init__(self, state: DatabaseState, query: LiveQuery, row: Row) -> None:
        self._state, self._query = state, query
        self.relation, self.parameters, self.schema = query.name, row, query.schema
        self._open = True
        self.failure: Error | None = None
        """The error that ended the query."""

    def rows(self) -> tuple[int, Rows]:
        """The version, and the answers in it."""
        with self._state.reading():
            self._require()
            return self._state.version, answers(self._state, self._query, self.parameters)

    def changes(self, since: int, until: int) -> tuple[Rows, Rows]:
        """The net change of the answers between two versions; `history-not-kept` if they are not kept."""
        state = self._state
        with state.writing("read a past version"):
            self._require()
            for version in (since, until):
                refuse_unreachable(state, version)
            states = PastStates(state, state.engine)
            try:
                lookup = _lookup(self._query, self.parameters)
                old, new = (row_set(states.world(each).query(self.schema, lookup)) for each in (since, until))
            finally:
                states.close()
        return Rows.of(self.schema, list(new - old)), Rows.of(self.schema, list(old - new))

    @property
    def is_current(self) -> bool:
        """Test whether the query fits the program and has not failed."""
        return self._open and self.failure is None and self.relation in self._state.live.by_answer

    def _require(self) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.is_current:
            hint = "follow the query again, as the program is now"
            raise UsageError("the query does not fit the program any more", code="query-ended", help=hint)

    def close(self) -> None:
        """Release the query; closing twice is allowed."""
        if self._open:
            self._open = False
            if self.failure is None:
                self._query.handles.get(self.parameters, []).remove(self)
                release(self._state, self._query, self.parameters)


def hold(state: DatabaseState, text: str, values: Mapping[str, Any]) -> LiveHandle:
    with state.writing("follow a query"):
        state.refuse_group()
        query, row, _ = _followed(state, text, values)
        handle = LiveHandle(state, query, row)
        query.handles.setdefault(row, []).append(handle)
        return handle


def _followed(state: DatabaseState, text: str, values: Mapping[str, Any]) -> tuple[LiveQuery, Row, Rows]:
    """The query with one more follower for these parameters, the parameters as a row, and the answers."""
    query, row = live_query(state, text, values)
    try:
        if query.name not in state.live.by_answer:
            install(state, [*state.live.by_answer.values(), query])
        rows = answers(state, query, row) if query.has(row) else _open(state, query, row)
    except (DataError, EngineError) as error:
        remove_released(state)
        raise followed_error(error, text) from error
    query.followers[row] = query.followers.get(row, 0) + 1
    return query, row, rows


def keep(state: DatabaseState, query: LiveQuery, row: Row) -> None:
    """Keep the answers of an installed query for these parameters current, without a follower."""
    if not query.has(row):
        # Within the bound on kept rows: a query that exceeds it is answered on demand.
        with time_limit(state.live.seconds, state.kept.bound):
            _open(state, query, row)
    query.kept.add(row)


def release(state: DatabaseState, query: LiveQuery, row: Row) -> None:
    """Remove a follower of the query for these parameters."""
    count = query.followers.get(row, 0) - 1
    if count > 0:
        query.followers[row] = count
        return
    query.followers.pop(row, None)
    state.live.released.append((query, row))
    if not state.closed and state.writer.acquire_if_free():
        try:
            with state.lock:
                if not state.closed and state.open_group is None:
                    remove_released(state)
        finally:
            state.writer.release()


def remove_released(state: DatabaseState) -> None:
    """Remove the queries without followers, and the released parameters of others. The caller holds the write lock."""
    live = state.live
    released, live.released = live.released, []
    try:
        _remove(state, released)
    except BaseException:
        # The rows are still in the engine; they are removed before the next change.
        live.released = released + live.released
        raise


def _remove(state: DatabaseState, released: list[tuple[LiveQuery, Row]]) -> None:
    live, unused = state.live, dict[str, list[Row]]()
    followed = [each for each in live.by_answer.values() if each.followers or each.kept]
    if len(followed) < len(live.by_answer):
        install(state, followed)
    for query, row in released:
        if not query.has(row) and query.name in live.by_answer and query.shape.parameters.columns:
            unused.setdefault(query.shape.parameters.name, []).append(row)
    if not unused:
        return
    for name, rows in unused.items():
        state.engine.delete(name, rows)
    commit_change(state, Proposal(state.compiled))


def answers(state: DatabaseState, query: LiveQuery, row: Row) -> Rows:
    """The answers of the query for parameters that are kept current."""
    found = state.engine.query(query.schema, (_lookup(query, row),))
    return Rows.of(query.schema, list(found))


def _lookup(query: LiveQuery, row: Row) -> Clause:
    columns = query.schema.columns
    variables = tuple(Variable(f"V{place}") for place in range(len(columns)))
    types = {variable.name: column.type for variable, column in zip(variables, columns, strict=True)}
    parameters = zip(row, query.shape.parameters.columns, strict=True)
    constants = tuple(Constant(value, column.type) for value, column in parameters)
    body = Atom(query.shape.answer.name, (*constants, *variables))
    return Clause(Atom("query", variables), (body,), types)


def live_query(state: DatabaseState, text: str, values: Mapping[str, Any]) -> tuple[LiveQuery, Row]:
    """The live query of this shape, not yet installed if it is new, and the parameters as a row."""
    functors = state.compiled.checked.functors
    lifted, row = shape(text, values, state.schemas_with_undecided, functors)
    for literal in (each for clause in lifted.clauses for each in clause.body):
        refuse_undecided(literal, state)
    key = (lifted.answer.columns, lifted.parameters.columns, tuple(lifted.helpers.items()), lifted.clauses)
    found = state.live.by_key.get(key)
    if found is None:
        live = state.live
        live.made += 1
        name = f"$live{live.made}"
        found = LiveQuery(name, text, shape(text, values, state.schemas, functors, name)[0], key)
    return found, one_nan(row)


def install(state: DatabaseState, queries: list[LiveQuery]) -> None:
    """Install these live queries beside the current program, in place of the former ones."""
    live, engine, compiled = state.live, state.engine, state.compiled
    before, after = live.installed(compiled), layered(compiled, queries)
    try:
        engine.install(after.plan, recompute=difference(before, after).changed)
    except BaseException:
        engine.rollback()
        raise
    _commit_live(state)
    live.replace(queries, compiled, after)


def _open(state: DatabaseState, query: LiveQuery, row: Row) -> Rows:
    """Follow the query for new parameters; the answers."""
    if not query.shape.parameters.columns:
        return answers(state, query, row)
    deltas = admit(state, query, [row])
    width = len(row)
    inserted = deltas[query.name][0] if query.name in deltas else ()
    return Rows.of(query.schema, [each[width:] for each in inserted])


def admit(state: DatabaseState, query: LiveQuery, rows: Sequence[Row]) -> Deltas:
    """Follow the query for these parameters; the changes of its answers. If it fails, the state is unchanged."""
    state.engine.insert(query.shape.parameters.name, rows)
    return _commit_live(state)


def _commit_live(state: DatabaseState) -> Deltas:
    """Commit the staged change of live queries. It makes no version, since no relation of the user changes."""
    return commit_change(state, Proposal(state.compiled, propagate=state.engine.propagate)).deltas
