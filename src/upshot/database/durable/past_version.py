"""Past versions: queries, explanations and view updates as if a version were the last one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upshot.core.errors import UsageError
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Role
from upshot.database.changes import Changes, NetChange
from upshot.database.durable.history import moment, past_events
from upshot.database.durable.past_states import PastStates, refuse_unreachable, version_number
from upshot.database.engines import local_engine
from upshot.database.live.shapes import checked_query, is_name, query_reads
from upshot.database.placement import placement_of
from upshot.database.program.compile import Compiled
from upshot.database.queries.query import all_rows, is_select
from upshot.database.queries.sql_answers import sql
from upshot.database.rules.actions import Actions
from upshot.database.state import DatabaseState
from upshot.engine.saved import Saved

if TYPE_CHECKING:
    import pyarrow as pa

    from upshot.database.database import Database
    from upshot.database.engines import Engine


class PastVersion:
    """A past version, from `db.at(version)`. `query`, `sql` and `rows` undo the changes since then in an open change
    that is rolled back; everything else uses a copy in memory (`database`), made once."""

    def __init__(self, state: DatabaseState, version: int, opened: Callable[[DatabaseState], Database]) -> None:
        refuse_unreachable(state, version, ())
        self.version = version
        self._state, self._opened = state, opened
        self._database: Database | None = None

    @property
    def time(self) -> dt.datetime | None:
        """The time of its commit (UTC); None if it is not in the log."""
        journal = self._state.journal
        if journal is None or self.version <= journal.store.oldest:
            return None
        return moment(journal.store, self.version).time

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body or SELECT in this version."""
        if is_select(text):
            return self.sql(text, **parameters)

        def answer(engine: Engine, is_open: bool) -> Rows:
            schema, clauses, helpers = checked_query(
                text, parameters, self._state.schemas, self._state.compiled.checked.functors
            )
            ask = engine.query_open if is_open else engine.query
            return ask(schema, clauses, {}, helpers)

        return self._answer(answer, self._read_by(text, parameters))

    def sql(self, text: str, /, **parameters: Any) -> Rows:
        """The answer to a query in SQL in this version."""
        names = self._read_by(text, parameters) if is_select(text) else None
        return self._answer(
            lambda _, is_open: sql(self._state, text, parameters, is_open=is_open, at=self.version), names
        )

    def _read_by(self, text: str, parameters: dict[str, Any]) -> Collection[str]:
        state = self._state
        return query_reads(text, parameters, state.schemas_with_undecided, state.compiled.checked.functors)

    def rows(self, name: str) -> Rows:
        schema = self._state.schema(name)
        return self._answer(lambda engine, is_open: all_rows(engine, schema, is_open=is_open), (schema.name,))

    def _answer(self, answer: Callable[[Engine, bool], Rows], names: Collection[str] | None = None) -> Rows:
        state = self._state
        with state.writing("read a past version") as engine:
            state.refuse_group()
            refuse_unreachable(state, self.version, names)
            if self.version == state.version:
                return answer(engine, False)
            states = PastStates(state, engine)
            try:
                states.stage(self.version)
                found = answer(engine, True)
                return Rows.of(found.schema, list(found))
            finally:
                states.close()

    # ---- a copy -------------------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        """A database in memory with the rows of this version; changes of it do not affect the original."""
        if self._database is None:
            state = self._state
            refuse_unreachable(state, self.version)
            base = [name for name, each in state.compiled.checked.schemas.items() if each.role is Role.BASE]
            rows = {name: self._base_rows(name) for name in base}
            frozen = FrozenVersion(self.version, state.compiled, state.actions, state.max_firings, rows)
            self._database = self._opened(frozen.opened())
        return self._database

    def _base_rows(self, name: str) -> Rows:
        schema = self._state.compiled.checked.schemas[name]
        return self._answer(lambda engine, is_open: all_rows(engine, schema, is_open=is_open))

    def why(self, view: str, row: Any, **options: Any) -> Any:
        return self.database.why(view, row, **options)

    def why_not(self, view: str, row: Any, **options: Any) -> Any:
        return self.database.why_not(view, row, **options)

    def realize(self, *args: Any, **options: Any) -> Any:
        """As `db.realize`, in this version."""
        return self.database.realize(*args, **options)

    def what_if(self, *args: Any, **options: Any) -> Any:
        return self.database.what_if(*args, **options)

    def __repr__(self) -> str:
        return f"<version {self.version}>"


def past_sql(state: DatabaseState, version: int, text: object, values: Mapping[str, Any]) -> Rows:
    def no_copy(_: DatabaseState) -> Database:
        raise AssertionError("a query needs no copy")

    assert isinstance(text, str), "it was parsed"
    return PastVersion(state, version, no_copy).sql(text, **values)


def net_changes(
    state: DatabaseState, at: Callable[[int], PastVersion], what: str, between: tuple[int, int], values: dict[str, Any]
) -> Changes:
    """The net change of a relation, or of the answers to a query, between two versions."""
    since, until = (version_number(each, 'db.changes("closure", since=7)') for each in between)
    if until < since:
        raise UsageError("`until` must not be before `since`", code="wrong-argument", help=f"as in until={since}")
    journal, logged = state.journal, is_name(what) and not values
    if logged and journal is not None and state.compiled.plan.reported(state.schema(what).name) == ("plus", "minus"):
        for version in (since, until):
            refuse_unreachable(state, version, (what.strip(),))
        events = list(past_events(journal.store, what, since, until))
        if not any(event.snapshot for event in events):
            net = NetChange()
            for event in events:
                net.add(event.inserted, event.deleted)
            return Changes(*net.rows(state.schema(what)))
    before, after = (_answers(at(version), what, values) for version in (since, until))
    old, new = row_set(before), row_set(after)
    return Changes(Rows.of(after.schema, list(new - old)), Rows.of(after.schema, list(old - new)))


def _answers(version: PastVersion, what: str, values: dict[str, Any]) -> Rows:
    return version.rows(what) if is_name(what) and not values else version.query(what, **values)


@dataclass(frozen=True, slots=True)
class FrozenVersion:
    """The rows of a version, which later commits do not change; they are read when it is opened."""

    version: int
    compiled: Compiled
    actions: Actions
    max_firings: int
    rows: Mapping[str, Rows]

    def opened(self) -> DatabaseState:
        """The state of a database with these rows."""
        engine = local_engine()
        engine.restore(self.compiled.plan, {name: Saved(changes=_as_changes(rows)) for name, rows in self.rows.items()})
        return DatabaseState(
            local_engine, engine, self.compiled, self.version, actions=self.actions, max_firings=self.max_firings
        )


def frozen_version(state: DatabaseState, most: int) -> FrozenVersion | None:
    """The current version, unless it has more than `most` rows, is on Spark, or its transactions call functions, which
    expect one thread. The caller reads the state."""
    plan, engine = state.compiled.plan, state.engine
    if placement_of(engine).engine != "local" or _calls_in_transactions(state.compiled):
        return None
    stored = [name for name in plan.normal.schemas if name not in plan.on_demand.unstored]
    if sum(map(engine.size, stored)) > most:
        return None
    rows = {name: engine.rows(name) for name in stored}
    return FrozenVersion(state.version, state.compiled, state.actions, state.max_firings, rows)


def _calls_in_transactions(compiled: Compiled) -> bool:
    rules = (rule for rule in compiled.checked.rules if rule.coupling != "after")
    return any(action.kind == "call" for rule in rules for action in rule.actions)


def _as_changes(rows: Rows) -> tuple[tuple[pa.Table, pa.Table], ...]:
    """The rows as an insertion into an empty relation."""
    if not len(rows):
        return ()
    import pyarrow as pa  # noqa: PLC0415 - only when needed

    # Arrow does not count the rows of a table without columns.
    table = rows.to_arrow() if rows.schema.columns else pa.table({"c0": [True]})
    return ((table, table.slice(0, 0)),)
