"""The rules of one transaction: turn by turn, until none is triggered any more.

    statements ─► propagate ─► the next rule in order ─► its instances ─► its actions ─┐
                      ▲                                                                │
                      └───────────── reopen: what they change is staged too ◄──────────┘

The engine keeps one open change all along, so everything is undone together; each propagation tells what changed since
the transaction began, and the difference to the one before is what the rules hear of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from upshot.active.cascade import Cascade
from upshot.active.firing import Firing, arguments, shown
from upshot.active.row_sets import NONE, PythonSets, RowSet, changed_rows, given_rows, same_rows
from upshot.active.rules import AFTER, DEFERRED, IMMEDIATE, ActiveRules
from upshot.active.transition_tables import has_updates, rows_of
from upshot.active.turn_log import RuleTurn, TurnLog
from upshot.check.program import CheckedRule, Clause, RuleAction
from upshot.core.errors import DataError
from upshot.core.operations import DELETED, INSERTED
from upshot.core.rows import Row, Rows, row_set
from upshot.core.schema import Schema
from upshot.engine.rule_processor import ChangeWindow, RuleProcessor
from upshot.engine.work import ViewWork, Work

Deltas = Mapping[str, tuple[Rows, Rows]]
Net = tuple[RowSet, RowSet]
NOTHING: Net = (NONE, NONE)
SETS = PythonSets()


class OpenChange(Protocol):
    """The part of an engine that rules use; see `database.engines`."""

    def insert(self, name: str, rows: Any) -> None: ...
    def delete(self, name: str, rows: Any) -> None: ...
    def reopen(self) -> None: ...
    def query_open(
        self,
        schema: Schema,
        clauses: Sequence[Clause],
        given: Mapping[str, tuple[Schema, Sequence[Row] | Rows]],
        helpers: Mapping[str, Schema] = ...,
    ) -> Rows: ...

    @property
    def work(self) -> Work: ...


@dataclass(frozen=True, slots=True)
class RunState:
    """The progress of the rules of a transaction: the changes they have read, and their firings."""

    processor: RuleProcessor[RowSet]
    heard: Mapping[str, Net]
    cascade: Cascade
    firings: Sequence[Firing]
    turns: tuple[dict[str, int], dict[str, int]] | None


class RuleRun:
    """`propagate` computes the deltas of the open change, given whether rules take several turns; `call` runs the
    function of an action while the transaction is open; `most` bounds the firings; `log` makes the log of the states
    around them, once a rule has a turn."""

    def __init__(
        self,
        rules: ActiveRules,
        change: OpenChange,
        propagate: Callable[[bool], Deltas],
        call: Callable[[Firing, RuleAction], None],
        most: int,
        log: Callable[[], TurnLog],
    ) -> None:
        self._rules, self._change, self._call, self._make_log = rules, change, call, log
        self._work_out = propagate
        self._log: TurnLog | None = None
        self._processor: RuleProcessor[RowSet] = RuleProcessor(rules.scheduled, SETS, has_updates(rules.keys))
        self._immediate, self._after = rules.coupled(IMMEDIATE), rules.coupled(AFTER)
        self._before_commit = rules.coupled(IMMEDIATE, DEFERRED)
        self._heard: dict[str, Net] = {}
        self._deltas: Deltas | None = None
        self._several_turns = False
        self._cascade = Cascade(most)
        self._earlier = Work()
        self.firings: list[Firing] = []

    # ---- processing points --------------------------------------------------------------------------

    def statement(self, stage: Callable[[], None]) -> None:
        """Stages a statement, and lets immediate rules answer it."""
        self._reopen()
        stage()
        if self._immediate:
            self._propagate()
            self._process(self._immediate)

    def finish(self) -> Deltas:
        """The check phase: what the whole transaction means, once the rules are quiet. Rules that run after the commit
        have their turns at the end, on the state that is to be committed; `pending` then has what they found."""
        deltas = self._propagate()
        if self._before_commit:
            deltas = self._process(self._before_commit)
        for rule, rows, turn in self._turns(self._after):
            self.firings.append(_firing(rule, rows, turn))
        return deltas

    @property
    def pending(self) -> list[Firing]:
        """The firings that are to be carried out after the commit."""
        return [firing for firing in self.firings if firing.coupling == AFTER]

    def work(self) -> Work:
        """The counters of all propagations, and who fired how often; `skipped` and `screened` are those of the last."""
        total = self._change.work
        _join(total, self._earlier)
        for firing in self.firings:
            total.firings[firing.rule] = total.firings.get(firing.rule, 0) + 1
        return total

    # ---- points of a transaction --------------------------------------------------------------------

    @property
    def before_commit(self) -> frozenset[str]:
        """The rules that have their turns before the commit."""
        return self._before_commit

    def propagated(self) -> Deltas:
        """The changes of the statements so far; no rule runs."""
        return self._propagate()

    def process(self, names: frozenset[str]) -> Deltas:
        """A processing point: these rules have their turns, until none is triggered."""
        if not self._several_turns:
            # The opposite of what rules listen to matters from now on: see `check/active/events.py`.
            self._several_turns = True
            self._reopen()
        self._propagate()
        return self._process(names)

    def reopen(self) -> None:
        """Statements may come that no rule answers."""
        self._reopen()

    def remember(self) -> RunState:
        """The progress of the rules, for `restore`."""
        processor, cascade = deepcopy(self._processor), deepcopy(self._cascade)
        turns = None if self._log is None else self._log.remember()
        return RunState(processor, dict(self._heard), cascade, list(self.firings), turns)

    def restore(self, known: RunState) -> None:
        """Takes the rules back to where they were; the engine has been taken back already."""
        self._processor, self._cascade = deepcopy(known.processor), deepcopy(known.cascade)
        self._heard, self.firings = dict(known.heard), list(known.firings)
        if self._log is not None:
            self._log.restore(known.turns or ({}, {}))

    # ---- propagation --------------------------------------------------------------------------------

    def _reopen(self) -> None:
        if self._deltas is not None:
            _join(self._earlier, self._change.work)
            self._deltas = None
            if self._log is not None:
                self._log.is_open = True
            self._change.reopen()

    def _propagate(self) -> Deltas:
        if self._deltas is None:
            try:
                self._deltas = self._work_out(self._several_turns)
            except BaseException:
                # Half a propagation must not be the start of the next one.
                self._change.reopen()
                raise
            self._hear(self._deltas)
        return self._deltas

    def _hear(self, deltas: Deltas) -> None:
        """Tells the processor what changed since the last time."""
        for relation in sorted(self._rules.followed):
            now = _net(deltas.get(relation))
            before = self._heard.get(relation, NOTHING)
            if all(map(same_rows, now, before)):
                continue
            self._heard[relation] = now
            (came_now, went_now), (came, went) = now, before
            deleted = SETS.union((SETS.without(went_now, went), SETS.without(came, came_now)))
            inserted = SETS.union((SETS.without(came_now, came), SETS.without(went, went_now)))
            self._processor.changed(relation, DELETED, deleted)
            self._processor.changed(relation, INSERTED, inserted)

    # ---- turns --------------------------------------------------------------------------------------

    def _process(self, names: frozenset[str]) -> Deltas:
        for rule, rows, turn in self._turns(names):
            self._fire(rule, rows, turn)
        return self._propagate()

    def _turns(self, names: frozenset[str]) -> Iterable[tuple[CheckedRule, Rows, RuleTurn]]:
        """Rules with instances, as their turns come; what they change counts for the next."""
        while (turn := self._processor.next(names)) is not None:
            rule = self._rules.rules[turn.rule.name]
            self._log = self._log or self._make_log()
            logged = self._log.turn(rule.name, turn.window, self._propagate())
            try:
                rows = self._instances(rule, turn.window)
            except DataError as error:
                raise _of_rule(error, rule) from None
            if rows:
                yield rule, Rows.of(rule.instance, list(rows)), logged

    def _instances(self, rule: CheckedRule, window: ChangeWindow[RowSet]) -> RowSet:
        if rule.becomes is not None and not rule.clauses:
            found = window.of(rule.becomes).inserted
        else:
            given = {
                each.schema.name: (each.schema, given_rows(rows_of(each, window.of(each.relation))))
                for each in rule.windows
            }
            found = row_set(self._change.query_open(rule.instance, rule.clauses, given, rule.helpers))
            if found and rule.before_schema is not None:
                held = row_set(self._change.query_open(rule.before_schema, rule.before, given, rule.helpers))
                found = frozenset(row for row in found if tuple(row[place] for place in rule.identity) not in held)
        return found

    def _fire(self, rule: CheckedRule, rows: Rows, turn: RuleTurn) -> None:
        firing = _firing(rule, rows, turn)
        self.firings.append(firing)
        self._cascade.enter(rule, rows)
        for action in rule.actions:
            if action.kind == "call":
                self._call(firing, action)
        changing = [action for action in rule.actions if action.kind != "call"]
        if not changing:
            return
        self._reopen()
        for action in changing:
            stage = self._change.insert if action.kind == "insert" else self._change.delete
            stage(action.target, arguments(rows, action))
        turn.log.acted(rule.name, self._propagate())
        self._processor.acted(rule.name)


def _of_rule(error: DataError, rule: CheckedRule) -> DataError:
    """The error of a rule's condition or of a value that its actions compute. The engine names the clause it ran, which
    is none that users know."""
    what, _, _ = error.message.partition(" in the rule for `")
    hint = f"{error.help}; nothing was committed" if error.help else "nothing was committed"
    return type(error)(f"{what} in rule `{rule.name}`", code=error.code, span=rule.span, help=hint)


def _join(total: Work, more: Work) -> None:
    """Adds the counters of another propagation, view by view too. What was out of reach, and the rows that are stored,
    are as the total has them."""
    total.add(more)
    total.components += more.components
    for name, work in more.views.items():
        total.views.setdefault(name, ViewWork()).add(work)


def _firing(rule: CheckedRule, rows: Rows, turn: RuleTurn) -> Firing:
    return Firing(rule.name, shown(rule.name, rows, rule.shown), rows, rule.coupling, rule.shown, turn=turn)


def _net(delta: tuple[Rows, Rows] | None) -> Net:
    return NOTHING if delta is None else (changed_rows(delta[0]), changed_rows(delta[1]))
