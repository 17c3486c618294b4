"""The active rules of a transaction: the functions they call while it is open, their tasks for after it, the events of
their firings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from upshot.active.run import RuleRun
from upshot.active.tasks import Pending, pending_of
from upshot.active.turn_log import TurnLog
from upshot.core.errors import UsageError
from upshot.core.rows import Row, Rows, row_set
from upshot.core.schema import Role, Schema
from upshot.database.placement import placement_of
from upshot.database.queries.query import query_open
from upshot.database.rules.actions import failed_call
from upshot.database.state import MOST_REMEMBERED
from upshot.database.watch import Event

if TYPE_CHECKING:
    from upshot.active.firing import Cause, Firing
    from upshot.check.program import RuleAction
    from upshot.database.engines import Deltas
    from upshot.database.state import DatabaseState


def transaction_rules(state: DatabaseState) -> RuleRun:
    def call(firing: Firing, action: RuleAction) -> None:
        rule = state.compiled.rules.rules[firing.rule]
        state.actions.require(rule)
        firing.query = _while_called(firing, state)
        try:
            state.actions.call(firing, action, rule.per)
        except Exception as error:
            raise failed_call(rule.name, action, error) from error
        finally:
            firing.query = None

    def log() -> TurnLog:
        return TurnLog(state.version, _kept_base_changes(state))

    return RuleRun(state.compiled.rules, state.engine, state.propagate, call, state.max_firings, log)


def _kept_base_changes(state: DatabaseState) -> Callable[[Deltas], Deltas | None]:
    """A filter for the base changes of propagations, up to a bound for the whole transaction. Rows on Spark are not
    kept."""
    remaining = MOST_REMEMBERED

    def base(deltas: Deltas) -> Deltas | None:
        nonlocal remaining
        if placement_of(state.engine).engine != "local":
            return None
        known = state.compiled.checked.schemas
        found = {name: each for name, each in deltas.items() if name in known and known[name].role is Role.BASE}
        rows = sum(len(inserted) + len(deleted) for inserted, deleted in found.values())
        remaining -= min(rows, remaining + 1)
        return found if remaining >= 0 else None

    return base


def _while_called(firing: Firing, state: DatabaseState) -> Callable[..., Rows]:
    """Queries of the state that a rule sees; refused when its function has returned, since the state changes."""

    def query(text: object, /, **values: Any) -> Rows:
        if firing.query is None:
            hint = "query while the function runs, or use `db.query`"
            raise UsageError("the function of this firing has returned", code="transaction-ended", help=hint)
        return query_open(state, text, **values)

    return query


def pending_tasks(state: DatabaseState, run: RuleRun) -> list[Pending]:
    """The tasks that the rules leave for after this version. A missing function is an error now."""
    tasks: list[Pending] = []
    for firing in run.pending:
        rule = state.compiled.rules.rules[firing.rule]
        state.actions.require(rule)
        firing.version = state.version + 1
        firing.key = f"{state.identity}-{firing.version}-{len(tasks)}"
        tasks += pending_of(rule, firing, len(tasks))
    return tasks


def announce_firings(state: DatabaseState, firings: Iterable[Firing]) -> None:
    """Queue one event for the subscribers of each rule, with all rows that it fired for."""
    found: dict[str, set[Row]] = {}
    schemas: dict[str, Schema] = {}
    for firing in firings:
        if state.feed.is_watched(firing.rule):
            found.setdefault(firing.rule, set()).update(row_set(firing.rows))
            schemas[firing.rule] = firing.rows.schema
    for rule, rows in found.items():
        schema = schemas[rule]
        state.publish(Event(rule, state.version, Rows.of(schema, list(rows)), Rows.of(schema, [])))


def find_cause(state: DatabaseState, version: int, firing: Firing) -> Mapping[Row, Cause]:
    """The cause of a firing in the transaction of a version."""
    from upshot.database.rules.firing_causes import firing_causes  # noqa: PLC0415 - rarely used

    return firing_causes(state, firing, version)
