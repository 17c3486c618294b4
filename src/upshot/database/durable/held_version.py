"""A version that stays what it is while others commit: its rows, for a database of their own in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upshot.core.rows import Rows
from upshot.database.engines import local_engine
from upshot.database.placement import placement_of
from upshot.database.program.compile import Compiled
from upshot.database.rules.actions import Actions
from upshot.database.state import DatabaseState
from upshot.engine.saved import Saved

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class HeldVersion:
    """Rows that were handed out stay as they were; they are read when the version is opened."""

    version: int
    compiled: Compiled
    actions: Actions
    max_firings: int
    rows: Mapping[str, Rows]

    def opened(self) -> DatabaseState:
        """A database with these rows, which nothing changes."""
        engine = local_engine()
        engine.restore(self.compiled.plan, {name: Saved(changes=_as_changes(rows)) for name, rows in self.rows.items()})
        return DatabaseState(
            local_engine, engine, self.compiled, self.version, actions=self.actions, max_firings=self.max_firings
        )


def held_version(state: DatabaseState, most: int) -> HeldVersion | None:
    """The version there is, if it can be held: of at most so many rows, in this process, and no function is called in
    its transactions, which may not be made for two threads. The caller reads the state."""
    plan, engine = state.compiled.plan, state.engine
    if placement_of(engine).engine != "local" or _calls_in_transactions(state.compiled):
        return None
    stored = [name for name in plan.normal.schemas if name not in plan.on_demand.unstored]
    if sum(map(engine.size, stored)) > most:
        return None
    rows = {name: engine.rows(name) for name in stored}
    return HeldVersion(state.version, state.compiled, state.actions, state.max_firings, rows)


def _calls_in_transactions(compiled: Compiled) -> bool:
    rules = (rule for rule in compiled.checked.rules if rule.coupling != "after")
    return any(action.kind == "call" for rule in rules for action in rule.actions)


def _as_changes(rows: Rows) -> tuple[tuple[pa.Table, pa.Table], ...]:
    """The rows as what came to a relation that was empty."""
    if not len(rows):
        return ()
    import pyarrow as pa  # noqa: PLC0415 - only when needed

    # Arrow does not count the rows of a table without columns.
    table = rows.to_arrow() if rows.schema.columns else pa.table({"c0": [True]})
    return ((table, table.slice(0, 0)),)
