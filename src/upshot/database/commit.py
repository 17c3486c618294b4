"""From staged changes to a new version, or back to the old one.

    statements ─► propagate ─► keys and constraints ─► accept ─► watchers
                     │                 │
                     └──── error ──────┴──► rollback: nothing happened

`commit` ends a transaction; `redefine` (in its own file) changes the program by the same steps. Both run while the
caller holds the right to write; watchers are told after it was given back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from upshot.core.rows import Rows
from upshot.database.changes import ChangeSet, Commit
from upshot.database.constraints import (
    Findings,
    added_violations,
    key_violations,
    rejected_transaction,
    warnings_for,
)
from upshot.database.engines import Deltas, Engine
from upshot.database.state import State
from upshot.database.watch import Event


def commit(state: State) -> Commit:
    """Ends the open change: it becomes the next version whole, or an error is raised and nothing happened.

    A version is made only if a row came or went; otherwise the result carries the version that already was.
    """
    compiled = state.compiled

    def examine(engine: Engine, deltas: Deltas) -> Findings:
        findings = Findings(key_violations(engine, compiled, deltas), added_violations(compiled, deltas))
        if rejection := rejected_transaction(findings, compiled):
            raise rejection
        return findings

    deltas, findings = settle(state.engine, examine)
    changes = ChangeSet(state.schemas, deltas)
    if changes:
        state.version += 1
        announce(state, changes)
    return Commit(state.version, changes, state.engine.work, warnings_for(findings, compiled))


def settle(engine: Engine, examine: Callable[[Engine, Deltas], Findings]) -> tuple[Deltas, Findings]:
    """What the staged change means, accepted; if propagation fails or `examine` raises, it is undone."""
    try:
        deltas = engine.propagate()
        findings = examine(engine, deltas)
        engine.accept()
    except BaseException:
        engine.rollback()
        raise
    return deltas, findings


def announce(state: State, changes: ChangeSet, afresh: Collection[str] = ()) -> None:
    """Queues what the watchers of each changed relation are to hear; relations `afresh` are shown whole."""
    watched = state.feed.watched()
    for name in sorted(watched & set(afresh)):
        rows = state.engine.rows(name)
        state.feed.announce(Event(name, state.version, rows, Rows.of(rows.schema, []), snapshot=True))
    for name, change in changes.items():
        if name in watched and name not in afresh:
            state.feed.announce(Event(name, state.version, change.inserted, change.deleted))
