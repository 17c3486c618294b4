"""From staged changes to a new version, or back to the old one.

    statements ─► propagate, rules ─► keys and constraints ─► store ─► accept ─► watchers ─► rules that run after it
                     │                       │                 │
                     └──── error ────────────┴─────────────────┴──► rollback: nothing happened

`commit` ends a transaction; `redefine` (in its own file) changes the program by the same steps. Both run while the
caller holds the right to write; watchers are told after it was given back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from upshot.active.firing import Firing
from upshot.active.run import RuleRun
from upshot.active.tasks import Pending, pending_of
from upshot.check.program import RuleAction
from upshot.core.errors import UsageError
from upshot.core.row_sets import row_set
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet, Commit, reported
from upshot.database.engines import Deltas, Engine
from upshot.database.program.compile import Compiled
from upshot.database.program.constraints import (
    Findings,
    added_violations,
    key_violations,
    rejected_transaction,
    repaired_violations,
    warnings_for,
)
from upshot.database.queries.query import query_open
from upshot.database.rules.actions import failed_call
from upshot.database.state import State
from upshot.database.watch import EVERYTHING, CommitEvent, Event
from upshot.engine.local.kernel.interrupts import uninterrupted


def begin_rules(state: State) -> RuleRun:
    """The rules of a transaction that begins."""

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

    return RuleRun(state.compiled.rules, state.engine, call, state.max_firings)


def _while_called(firing: Firing, state: State) -> Callable[..., Rows]:
    """Queries of the state that a rule sees, until its function has ended: then there is another state, or another's
    transaction."""

    def query(text: object, /, **values: Any) -> Rows:
        if firing.query is None:
            hint = "query while the function runs, or use `db.query`"
            raise UsageError("the function of this firing has returned", code="transaction-ended", help=hint)
        return query_open(state, text, **values)

    return query


def commit(
    state: State,
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
    compiled = state.compiled

    def examine(engine: Engine, deltas: Deltas) -> Findings:
        findings = Findings(
            key_violations(engine, compiled, deltas),
            added_violations(compiled, deltas),
            repaired_violations(compiled, deltas),
        )
        if rejection := rejected_transaction(findings, compiled):
            raise rejection
        if require is not None:
            require(deltas)
        return findings

    run = run or begin_rules(state)
    left: list[Pending] = []

    def propagate() -> Deltas:
        deltas = run.finish()
        left.extend(_left(state, run))
        return deltas

    changes, findings = settle(state, compiled, examine, propagate=propagate, meta=meta, left=left, settles=settles)
    announce_firings(state, run.firings)
    return Commit(
        state.version,
        changes,
        run.work(),
        warnings_for(findings, compiled),
        firings=tuple(run.firings),
        left=tuple(left),
        violations=findings.warning(compiled),
        repaired=findings.repaired,
    )


def _left(state: State, run: RuleRun) -> list[Pending]:
    """What the rules have to do once this is the next version. A function that is not there is missed now, not then."""
    left: list[Pending] = []
    for firing in run.pending:
        rule = state.compiled.rules.rules[firing.rule]
        state.actions.require(rule)
        firing.version = state.version + 1
        firing.key = f"{state.identity}-{firing.version}-{len(left)}"
        left += pending_of(rule, firing, len(left))
    return left


def settle(
    state: State,
    new: Compiled,
    examine: Callable[[Engine, Deltas], Findings],
    *,
    propagate: Callable[[], Deltas] | None = None,
    corrected: Callable[[Deltas], Deltas] | None = None,
    afresh: Collection[str] = (),
    meta: str | None = None,
    left: Sequence[Pending] = (),
    settles: Pending | None = None,
) -> tuple[ChangeSet, Findings]:
    """What the staged change means, under the program `new`. It is durable before it is accepted, and announced after;
    if propagation fails, `examine` raises or the store cannot write, it is undone.

    `propagate` is the engine's own unless rules take part; `corrected` puts right what the engine cannot know of;
    relations `afresh` are shown whole to watchers. What is `left` to be done, and what it `settles`, is written with
    it.
    """
    engine, accepted = state.engine, False
    try:
        deltas = (propagate or engine.propagate)()
        if corrected is not None:
            deltas = {**deltas, **corrected(deltas)}
        findings = examine(engine, deltas)
        deltas = reported(new.plan, deltas)
        changes = ChangeSet(new.visible, deltas)
        is_new = bool(changes) or meta is not None or new.program != state.compiled.program or _hidden(new, deltas)
        version = state.version + is_new
        record = state.prepared(version, new, deltas, meta, left, settles)
        with uninterrupted():
            with record:
                engine.accept()
                accepted = True
                state.became(version, new, deltas)
            state.outbox += left
            if settles is not None and is_new:
                state.outbox = [each for each in state.outbox if each is not settles]
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
        state.tell(Event(name, state.version, rows, Rows.of(rows.schema, []), snapshot=True))
    for name, change in changes.items():
        if name in watched and name not in afresh:
            state.tell(Event(name, state.version, change.inserted, change.deleted))
    if EVERYTHING in watched:
        state.tell(CommitEvent(state.version, changes, frozenset(afresh), state.schemas))


def announce_firings(state: State, firings: Iterable[Firing]) -> None:
    """Queues what the watchers of each rule are to hear: all instances it fired for, at once."""
    found: dict[str, set[Row]] = {}
    schemas: dict[str, Schema] = {}
    watched = state.feed.watched()
    for firing in firings:
        if firing.rule in watched:
            found.setdefault(firing.rule, set()).update(row_set(firing.rows))
            schemas[firing.rule] = firing.rows.schema
    for rule, rows in found.items():
        schema = schemas[rule]
        state.tell(Event(rule, state.version, Rows.of(schema, list(rows)), Rows.of(schema, [])))
