"""From staged changes to a new version, or back to the old one.

    statements ─► propagate, rules ─► keys and constraints ─► store ─► accept ─► watchers ─► rules that run after it
                     │                       │                 │
                     └──── error ────────────┴─────────────────┴──► rollback: nothing happened

`commit` ends a transaction; `redefine` (in its own file) changes the program by the same steps. Both run while the
caller holds the right to write; watchers are told after it was given back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

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
    from upshot.database.engines import Deltas, Engine
    from upshot.database.live.live_queries import LiveQuery
    from upshot.database.program.compile import Compiled
    from upshot.database.state import DatabaseState


@dataclass(frozen=True, slots=True)
class LiveLayer:
    """The live queries that fit a definition, and the program with them; those that fail are not in it."""

    queries: Sequence[LiveQuery]
    layer: Compiled


@dataclass(slots=True)
class Proposal:
    """A staged change on its way to a version, under the `program` that is to hold then. `examine` raises if it must
    not be; `propagate` is the engine's own unless rules take part; `corrected` puts right what the engine cannot know
    of; relations `afresh` are shown whole to watchers. What is `left` to be done, and what it `settles`, is written
    with it, and so are its `firings` and its `meta`, a JSON text."""

    program: Compiled
    examine: Callable[[Engine, Deltas], ConstraintFindings]
    propagate: Callable[[], Deltas] | None = None
    corrected: Callable[[Deltas], Deltas] | None = None
    afresh: Collection[str] = ()
    meta: str | None = None
    left: list[Pending] = field(default_factory=list)
    firings: Sequence[Firing] = ()
    settles: Pending | None = None
    followed: LiveLayer | None = None
    """The live queries of a definition."""


def begin_rules(state: DatabaseState) -> RuleRun | None:
    """The rules of a transaction that begins; None in a program without rules."""
    return rules.transaction_rules.transaction_rules(state) if state.compiled.rules.rules else None


def commit(
    state: DatabaseState,
    meta: str | None = None,
    run: RuleRun | None = None,
    settles: Pending | None = None,
    require: Callable[[Deltas], None] | None = None,
) -> Commit:
    """Ends the open change: it becomes the next version whole, or an error is raised and nothing happened. `run` are
    the rules that have followed it so far; `settles` is the task of an earlier commit that it carries out; `require`
    raises if what it comes to is not what its sender expects.

    A version is made only if a row came or went, or if there is something to keep with it (`meta`, a JSON text);
    otherwise the result carries the version that already was.
    """
    compiled, work = state.compiled, None

    def examine(engine: Engine, deltas: Deltas) -> ConstraintFindings:
        nonlocal work
        work = engine.work
        findings = findings_of(engine, compiled, deltas) if deltas else NOTHING_FOUND
        if rejection := rejected_transaction(findings, compiled):
            raise rejection
        if require is not None:
            require(deltas)
        return findings

    proposal = Proposal(compiled, examine, meta=meta, settles=settles)
    run = run or begin_rules(state)
    if run is not None:
        proposal.propagate = _with_rules(state, run, proposal)
    changes, findings = settle(state, proposal)
    assert work is not None, "propagated"
    if run is not None:
        rules.transaction_rules.announce_firings(state, run.firings)
    return Commit(
        state.version,
        changes,
        work if run is None else run.work(),
        warnings_for(findings, compiled),
        firings=() if run is None else tuple(run.firings),
        left=tuple(proposal.left),
        violations=findings.warning(compiled),
        repaired=findings.repaired,
    )


def _with_rules(state: DatabaseState, run: RuleRun, proposal: Proposal) -> Callable[[], Deltas]:
    def propagate() -> Deltas:
        deltas = run.finish()
        proposal.left += rules.transaction_rules.tasks_left(state, run)
        proposal.firings = run.firings
        return deltas

    return propagate


def settle(state: DatabaseState, proposal: Proposal) -> tuple[ChangeSet, ConstraintFindings]:
    """The meaning of a staged change. It is durable before it is accepted, and announced after; if propagation fails,
    the examination raises or the store cannot write, it is undone."""
    engine, new, accepted = state.engine, proposal.program, False
    try:
        deltas = (proposal.propagate or state.propagate)()
        if proposal.corrected is not None:
            deltas = {**deltas, **proposal.corrected(deltas)}
        findings = proposal.examine(engine, deltas)
        deltas = reported(new.plan, deltas)
        changes = ChangeSet(new.visible, deltas)
        same_program = new is state.compiled or new.program == state.compiled.program
        is_new = bool(changes) or proposal.meta is not None or not same_program or _hidden(new, deltas)
        version = state.version + is_new
        record = state.prepared(version, deltas, proposal)
        leaves_out = bool(state.live.suspects) if proposal.followed is not None else engine.is_narrowed
        before = live.faults.answers_before(state) if leaves_out else None
        with uninterrupted():
            with record:
                engine.accept()
                accepted = True
                state.became(version, new, deltas)
                if proposal.followed is not None:
                    state.live.replace(proposal.followed.queries, new, proposal.followed.layer)
            state.outbox += proposal.left
            if proposal.settles is not None and is_new:
                state.outbox = [each for each in state.outbox if each is not proposal.settles]
            if before is not None:
                layer = state.live.narrowed if proposal.followed is None else proposal.followed.layer
                deltas = {**deltas, **live.faults.resume(state, before, layer)}
            if is_new:
                announce(state, changes, proposal.afresh, deltas)
            for topic, event in state.live.events(deltas, state.version):
                state.tell(event, topic)
    except BaseException as error:
        if not accepted:
            engine.rollback()
        if named := ran_out(error, "what follows the commit, which is done" if accepted else "the commit"):
            raise named from error
        raise
    return changes, findings


def _hidden(compiled: Compiled, deltas: Deltas) -> bool:
    """Test whether rows changed that no visible relation shows: facts of a view that its rules derive too, or values
    that a rule is active for."""
    names = (*compiled.checked.input_part.values(), *(t.name for rule in compiled.checked.rules for t in rule.bindings))
    hidden = (deltas[name] for name in names if name in deltas)
    return any(len(inserted) or len(deleted) for inserted, deleted in hidden)


def announce(state: DatabaseState, changes: ChangeSet, afresh: Collection[str], deltas: Deltas) -> None:
    """Queues what the watchers of each changed relation are to hear; relations `afresh` are shown whole."""
    feed = state.feed
    for name in sorted(each for each in afresh if feed.is_watched(each)):
        rows = state.engine.rows(name)
        state.tell(Event(name, state.version, rows, Rows.of(rows.schema, []), snapshot=True))
    for name in changes:
        if feed.is_watched(name) and name not in afresh:
            change = changes[name]
            state.tell(Event(name, state.version, change.inserted, change.deleted))
    if feed.is_watched(EVERYTHING):
        heard = frozenset(name for name, query in state.live.by_answer.items() if query.followers)
        followed = {name: Changes(*deltas[name]) for name in deltas.keys() & heard}
        everything = CommitEvent(state.version, changes, frozenset(afresh), state.schemas, live=followed)
        failed, state.live.failed = state.live.failed, {}
        state.tell(replace(everything, live_queries=heard, failed=failed))
