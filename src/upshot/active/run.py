"""Run the rules of one transaction, turn by turn, until none is triggered.

    statements ─► propagate ─► the next rule in order ─► its instances ─► its actions ─┐
                      ▲                                                                │
                      └───────────── reopen: their changes are staged too ◄────────────┘

The engine keeps one open change, so everything is rolled back together. Each propagation returns the changes since the
transaction began; rules read the difference to the propagation before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from upshot.active.cascade import Cascade
from upshot.active.firing import Firing, arguments, shown
from upshot.active.row_sets import NONE, PythonSets, RowSet, changed_rows, has_updates, query_rows, rows_of, same_rows
from upshot.active.rules import AFTER, DEFERRED, IMMEDIATE, ActiveRules
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
    """The part of `database.engines.Engine` that rules use."""

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
    """The state of the rules of a transaction: the changes they have read, and their firings."""

    processor: RuleProcessor[RowSet]
    read_changes: Mapping[str, Net]
    cascade: Cascade
    firings: Sequence[Firing]
    turns: tuple[dict[str, int], dict[str, int]] | None


class RuleRun:
    """`propagate` computes the deltas of the open change (its argument: whether rules take several turns); `call` calls
    the function of an action while the transaction is open; `most` bounds the firings; `log` makes the turn log when a
    rule has its first turn."""

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
        self.before_commit = rules.coupled(IMMEDIATE, DEFERRED)
        self._read_changes: dict[str, Net] = {}
        self._deltas: Deltas | None = None
        self._several_turns = False
        self._cascade = Cascade(most)
        self._earlier = Work()
        self.firings: list[Firing] = []

    # ---- processing points --------------------------------------------------------------------------

    def run_immediate(self) -> None:
        """After a statement: run the triggered immediate rules."""
        if self._immediate:
            self.propagated()
            self._process(self._immediate)

    def finish(self) -> Deltas:
        """Run the triggered rules at the end of the transaction; its deltas. Rules that run after the commit find their
        instances in the state that will be committed: `pending` has their firings."""
        deltas = self.propagated()
        if self.before_commit:
            deltas = self._process(self.before_commit)
        for rule, rows, turn in self._turns(self._after):
            self.firings.append(_firing(rule, rows, turn))
        return deltas

    @property
    def pending(self) -> list[Firing]:
        """The firings whose actions run after the commit."""
        return [firing for firing in self.firings if firing.coupling == AFTER]

    def work(self) -> Work:
        """The counters of all propagations and the firings of each rule; `skipped` and `screened` are those of the last
        propagation."""
        total = self._change.work
        _join(total, self._earlier)
        for firing in self.firings:
            total.firings[firing.rule] = total.firings.get(firing.rule, 0) + 1
        return total

    # ---- points of a transaction --------------------------------------------------------------------

    def process(self, names: frozenset[str]) -> Deltas:
        """A processing point: run these rules until none of them is triggered."""
        if not self._several_turns:
            # From now on changes opposite to the triggers are needed too: see `check/active/events.py`.
            self._several_turns = True
            self.reopen()
        self.propagated()
        return self._process(names)

    def remember(self) -> RunState:
        """The state of the rules, for `restore`."""
        processor, cascade = deepcopy(self._processor), deepcopy(self._cascade)
        turns = None if self._log is None else self._log.remember()
        return RunState(processor, dict(self._read_changes), cascade, list(self.firings), turns)

    def restore(self, known: RunState) -> None:
        """Return the rules to a state; the engine has been returned to it already."""
        self._processor, self._cascade = deepcopy(known.processor), deepcopy(known.cascade)
        self._read_changes, self.firings = dict(known.read_changes), list(known.firings)
        if self._log is not None:
            self._log.restore(known.turns or ({}, {}))

    # ---- propagation --------------------------------------------------------------------------------

    def reopen(self) -> None:
        """Continue with statements after a propagation."""
        if self._deltas is not None:
            _join(self._earlier, self._change.work)
            self._deltas = None
            if self._log is not None:
                self._log.is_open = True
            self._change.reopen()

    def propagated(self) -> Deltas:
        """The changes of the statements so far; no rule runs."""
        if self._deltas is None:
            try:
                self._deltas = self._work_out(self._several_turns)
            except BaseException:
                # The next propagation must not start from a half of this one.
                self._change.reopen()
                raise
            self._pass_on_changes(self._deltas)
        return self._deltas

    def _pass_on_changes(self, deltas: Deltas) -> None:
        """Give the processor the changes since the last propagation."""
        for relation in sorted(self._rules.followed):
            now = _net(deltas.get(relation))
            before = self._read_changes.get(relation, NOTHING)
            if all(map(same_rows, now, before)):
                continue
            self._read_changes[relation] = now
            (inserted_now, deleted_now), (inserted, deleted) = now, before
            newly_deleted = SETS.union((SETS.without(deleted_now, deleted), SETS.without(inserted, inserted_now)))
            newly_inserted = SETS.union((SETS.without(inserted_now, inserted), SETS.without(deleted, deleted_now)))
            self._processor.changed(relation, DELETED, newly_deleted)
            self._processor.changed(relation, INSERTED, newly_inserted)

    # ---- turns --------------------------------------------------------------------------------------

    def _process(self, names: frozenset[str]) -> Deltas:
        for rule, rows, turn in self._turns(names):
            self._fire(rule, rows, turn)
        return self.propagated()

    def _turns(self, names: frozenset[str]) -> Iterable[tuple[CheckedRule, Rows, RuleTurn]]:
        """Triggered rules with instances, in order; their changes count for the next turn."""
        while (turn := self._processor.next(names)) is not None:
            rule = self._rules.rules[turn.rule.name]
            self._log = self._log or self._make_log()
            logged = self._log.turn(rule.name, turn.window, self.propagated())
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
            tables = {
                each.schema.name: (each.schema, query_rows(rows_of(each, window.of(each.relation))))
                for each in rule.windows
            }
            found = row_set(self._change.query_open(rule.instance, rule.clauses, tables, rule.helpers))
            if found and rule.before_schema is not None:
                true_before = row_set(self._change.query_open(rule.before_schema, rule.before, tables, rule.helpers))
                found = frozenset(
                    row for row in found if tuple(row[place] for place in rule.identity) not in true_before
                )
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
        self.reopen()
        for action in changing:
            stage = self._change.insert if action.kind == "insert" else self._change.delete
            stage(action.target, arguments(rows, action))
        turn.log.acted(rule.name, self.propagated())
        self._processor.acted(rule.name)


def _of_rule(error: DataError, rule: CheckedRule) -> DataError:
    """The error of a rule's condition or action, which names the rule instead of the generated clause."""
    what, _, _ = error.message.partition(" in the rule for `")
    hint = f"{error.help}; nothing was committed" if error.help else "nothing was committed"
    return type(error)(f"{what} in rule `{rule.name}`", code=error.code, span=rule.span, help=hint)


def _join(total: Work, more: Work) -> None:
    """Add the counters of another propagation, also by view; the other counters stay those of the total."""
    total.add(more)
    total.components += more.components
    for name, work in more.views.items():
        total.views.setdefault(name, ViewWork()).add(work)


def _firing(rule: CheckedRule, rows: Rows, turn: RuleTurn) -> Firing:
    return Firing(rule.name, shown(rule.name, rows, rule.shown), rows, rule.coupling, rule.shown, turn=turn)


def _net(delta: tuple[Rows, Rows] | None) -> Net:
    return NOTHING if delta is None else (changed_rows(delta[0]), changed_rows(delta[1]))
