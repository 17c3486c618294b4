"""Commit an open change: propagate it, check constraints, write its record, accept it, queue events.

    statements ─► propagate, rules ─► keys and constraints ─► store ─► accept ─► subscribers ─► tasks of rules
                     │                       │                 │
                     └──── error ────────────┴─────────────────┴──► rollback: the state is unchanged

`commit_transaction` ends a transaction. `commit_change` is the same for any staged change, also of the program
(`program/redefine.py`) and of live queries (`live/follow.py`). The caller holds the write lock and the lock of the
state; subscribers are called when it has released them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from upshot.core.resources import ran_out
from upshot.core.rows import Rows
from upshot.database import live, rules
from upshot.database.changes import Changes, ChangeSet, Commit, reported
from upshot.database.constraints import (
    NOTHING_FOUND,
    ConstraintFindings,
    findings_of,
    rejected_transaction,
    warnings_for,
)
from upshot.database.watch import EVERYTHING, CommitEvent, Event
from upshot.engine.local.kernel.interrupts import uninterrupted

if TYPE_CHECKING:
    from upshot.active.firing import Firing
    from upshot.active.run import RuleRun
    from upshot.active.tasks import Pending
    from upshot.database.engines import Deltas
    from upshot.database.live.live_queries import LiveQuery
    from upshot.database.program.compile import Compiled
    from upshot.database.state import DatabaseState
    from upshot.engine.work import Work


@dataclass(frozen=True, slots=True)
class LiveLayer:
    """The live queries that fit a definition, and the program with those of them that do not fail."""

    queries: Sequence[LiveQuery]
    layer: Compiled


@dataclass(slots=True)
class Proposal:
    """A staged change, and what its commit needs to know. `program` is the program after it; `check` raises if the
    change violates a constraint. `propagate` and `rules` take the place of the usual propagation. `meta` (a JSON
    text), `tasks` and `firings` are written with the commit record."""

    program: Compiled
    check: Callable[[Deltas], ConstraintFindings] = lambda deltas: NOTHING_FOUND
    propagate: Callable[[], Deltas] | None = None
    rules: RuleRun | None = None
    former_views: Deltas = field(default_factory=dict)
    """Changes of views that become base relations; the engine does not report them."""
    reset: Collection[str] = ()
    """Relations whose subscribers get all rows again instead of changes."""
    meta: str | None = None
    tasks: list[Pending] = field(default_factory=list)
    firings: Sequence[Firing] = ()
    completed_task: Pending | None = None
    """The task of an earlier commit that this one completes."""
    live_layer: LiveLayer | None = None
    """The live queries of a definition."""


class CommittedChange(NamedTuple):
    """The result of `commit_change`; `deltas` include hidden relations."""

    changes: ChangeSet
    deltas: Deltas
    findings: ConstraintFindings
    work: Work


def begin_rules(state: DatabaseState) -> RuleRun | None:
    """The rules of a transaction that begins; None in a program without rules."""
    return rules.transaction_rules.transaction_rules(state) if state.compiled.rules.rules else None


def commit_transaction(
    state: DatabaseState,
    run: RuleRun | None,
    *,
    meta: str | None = None,
    completed_task: Pending | None = None,
    expect: Callable[[Deltas], None] | None = None,
) -> Commit:
    """Commit the open change atomically: it becomes the next version, or an error is raised and the state is unchanged.
    `run` has the rules of the transaction, from `begin_rules`; `expect` raises if the change is not the one that its
    sender expects.

    A version is made only if a row changes or if there is `meta` to keep; otherwise the result has the current version.
    """
    compiled = state.compiled

    def check(deltas: Deltas) -> ConstraintFindings:
        findings = findings_of(state.engine, compiled, deltas) if deltas else NOTHING_FOUND
        if rejection := rejected_transaction(findings, compiled):
            raise rejection
        if expect is not None:
            expect(deltas)
        return findings

    proposal = Proposal(compiled, check, rules=run, meta=meta, completed_task=completed_task)
    changes, _, findings, work = commit_change(state, proposal)
    if run is not None:
        rules.transaction_rules.announce_firings(state, run.firings)
    return Commit(
        state.version,
        changes,
        work if run is None else run.work(),
        warnings_for(findings, compiled),
        firings=() if run is None else tuple(run.firings),
        tasks=tuple(proposal.tasks),
        violations=findings.warning(compiled),
        repaired=findings.repaired,
    )


def commit_change(state: DatabaseState, proposal: Proposal) -> CommittedChange:
    """Propagate, check and accept a staged change. It is durable before it is accepted, and its events are queued
    after that. If propagation, a check or the store fails, it is rolled back."""
    engine, new, accepted = state.engine, proposal.program, False
    try:
        all_deltas = {**_propagated(state, proposal), **proposal.former_views}
        findings, work = proposal.check(all_deltas), engine.work
        deltas = reported(new.plan, all_deltas)
        changes = ChangeSet(new.visible, deltas)
        same_program = new is state.compiled or new.program == state.compiled.program
        is_new = bool(changes) or proposal.meta is not None or not same_program or _changes_hidden_rows(new, deltas)
        version = state.version + is_new
        record = state.recorded(version, deltas, proposal)
        layer = proposal.live_layer
        leaves_out = engine.is_narrowed if layer is None else bool(state.live.suspects)
        before = live.faults.answers_before(state) if leaves_out else None
        with uninterrupted():
            with record:
                engine.accept()
                accepted = True
                state.advance(version, new, deltas)
                if layer is not None:
                    state.live.replace(layer.queries, new, layer.layer)
            state.outbox += proposal.tasks
            if proposal.completed_task is not None and is_new:
                state.outbox = [each for each in state.outbox if each is not proposal.completed_task]
            if before is not None:
                narrowed = state.live.narrowed if layer is None else layer.layer
                deltas = {**deltas, **live.faults.resume(state, before, narrowed)}
            if is_new:
                announce(state, changes, proposal.reset, deltas)
            for topic, event in state.live.events(deltas, state.version):
                state.publish(event, topic)
    except BaseException as error:
        if not accepted:
            engine.rollback()
        if named := ran_out(error, "what follows the commit, which is done" if accepted else "the commit"):
            raise named from error
        raise
    return CommittedChange(changes, all_deltas, findings, work)


def _propagated(state: DatabaseState, proposal: Proposal) -> Deltas:
    if proposal.rules is None:
        return (proposal.propagate or state.propagate)()
    deltas = proposal.rules.finish()
    proposal.tasks += rules.transaction_rules.pending_tasks(state, proposal.rules)
    proposal.firings = proposal.rules.firings
    return deltas


def _changes_hidden_rows(compiled: Compiled, deltas: Deltas) -> bool:
    """Test whether rows changed that no visible relation shows: facts of a view that its rules derive too, or values
    for which a rule is active."""
    names = (*compiled.checked.input_part.values(), *(t.name for rule in compiled.checked.rules for t in rule.bindings))
    hidden = (deltas[name] for name in names if name in deltas)
    return any(len(inserted) or len(deleted) for inserted, deleted in hidden)


def announce(state: DatabaseState, changes: ChangeSet, reset: Collection[str], deltas: Deltas) -> None:
    """Queue the events for the subscribers of each changed relation; subscribers of `reset` ones get all rows."""
    feed = state.feed
    for name in sorted(each for each in reset if feed.is_watched(each)):
        rows = state.engine.rows(name)
        state.publish(Event(name, state.version, rows, Rows.of(rows.schema, []), snapshot=True))
    for name in changes:
        if feed.is_watched(name) and name not in reset:
            change = changes[name]
            state.publish(Event(name, state.version, change.inserted, change.deleted))
    if feed.is_watched(EVERYTHING):
        followed = frozenset(name for name, query in state.live.by_answer.items() if query.followers)
        live_changes = {name: Changes(*deltas[name]) for name in deltas.keys() & followed}
        everything = CommitEvent(state.version, changes, frozenset(reset), state.schemas, live=live_changes)
        failed, state.live.failed = state.live.failed, {}
        state.publish(replace(everything, live_queries=followed, failed=failed))
