"""From staged changes to a new version, or back to the old one.

    statements ─► propagate ─► keys and constraints ─► store ─► accept ─► watchers
                     │                 │                 │
                     └──── error ──────┴─────────────────┴──► rollback: nothing happened

`commit` ends a transaction; `redefine` (in its own file) changes the program by the same steps. Both run while the
caller holds the right to write; watchers are told after it was given back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from upshot.core.rows import Rows
from upshot.database.changes import ChangeSet, Commit
from upshot.database.compile import Compiled
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
from upshot.engine.local.interrupts import uninterrupted


def commit(state: State, meta: str | None = None) -> Commit:
    """Ends the open change: it becomes the next version whole, or an error is raised and nothing happened.

    A version is made only if a row came or went, or if there is something to keep with it (`meta`, a JSON text);
    otherwise the result carries the version that already was.
    """
    compiled = state.compiled

    def examine(engine: Engine, deltas: Deltas) -> Findings:
        findings = Findings(key_violations(engine, compiled, deltas), added_violations(compiled, deltas))
        if rejection := rejected_transaction(findings, compiled):
            raise rejection
        return findings

    changes, findings = settle(state, compiled, examine, meta=meta)
    return Commit(state.version, changes, state.engine.work, warnings_for(findings, compiled))


def settle(
    state: State,
    new: Compiled,
    examine: Callable[[Engine, Deltas], Findings],
    *,
    corrected: Callable[[Deltas], Deltas] | None = None,
    afresh: Collection[str] = (),
    meta: str | None = None,
) -> tuple[ChangeSet, Findings]:
    """What the staged change means, under the program `new`. It is durable before it is accepted, and announced after;
    if propagation fails, `examine` raises or the store cannot write, it is undone.

    `corrected` puts right what the engine cannot know of; relations `afresh` are shown whole to watchers.
    """
    engine, accepted = state.engine, False
    try:
        deltas = engine.propagate()
        if corrected is not None:
            deltas = {**deltas, **corrected(deltas)}
        findings = examine(engine, deltas)
        changes = ChangeSet(new.visible, deltas)
        is_new = bool(changes) or meta is not None or new.program != state.compiled.program or _hidden(new, deltas)
        version = state.version + is_new
        record = state.prepared(version, new, deltas, meta)
        with uninterrupted():
            with record:
                engine.accept()
                accepted, state.version, state.compiled = True, version, new
            if is_new:
                announce(state, changes, afresh)
    except BaseException:
        if not accepted:
            engine.rollback()
        raise
    return changes, findings


def _hidden(compiled: Compiled, deltas: Deltas) -> bool:
    """Whether rows came or went that no visible relation shows: given for a view that has them by its rules too."""
    hidden = (deltas[name] for name in compiled.checked.input_part.values() if name in deltas)
    return any(len(inserted) or len(deleted) for inserted, deleted in hidden)


def announce(state: State, changes: ChangeSet, afresh: Collection[str] = ()) -> None:
    """Queues what the watchers of each changed relation are to hear; relations `afresh` are shown whole."""
    watched = state.feed.watched()
    for name in sorted(watched & set(afresh)):
        rows = state.engine.rows(name)
        state.feed.announce(Event(name, state.version, rows, Rows.of(rows.schema, []), snapshot=True))
    for name, change in changes.items():
        if name in watched and name not in afresh:
            state.feed.announce(Event(name, state.version, change.inserted, change.deleted))
