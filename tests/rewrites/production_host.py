"""Production rules run straight from their definition, on sets of rows: the whole program in one processor, every
window read to the letter. Slow on purpose; what the rules mean, before any engine plans them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.engine.naive import derive, evaluate
from upshot.engine.rule_processor import ChangeWindow, RuleProcessor, ScheduledRule, Transition
from upshot.strategies.production_rules import MATERIALIZE, ProductionProgram, ProductionRule, RulePurpose, production
from upshot.syntax.ast import Atom, Not

Row = tuple[Any, ...]
Rows = frozenset[Row]
Base = Mapping[str, Iterable[Row]]
Action = Callable[[ChangeWindow[Rows]], Iterable[tuple[str, str, Iterable[Row]]]]
"""What a user's rule does: relation, `inserted` or `deleted`, rows."""


class PythonSets:
    def union(self, parts: Sequence[Rows]) -> Rows:
        return frozenset().union(*parts)

    def without(self, rows: Rows, others: Rows) -> Rows:
        return rows - others

    def is_empty(self, rows: Rows) -> bool:
        return not rows


class Host:
    """The relations of a normal-form program, its views kept by nothing but production rules. `turns` are the names of
    the rules that ran, `written` what they changed."""

    def __init__(
        self,
        program: CheckedProgram,
        *,
        made: ProductionProgram | None = None,
        rules: Mapping[ScheduledRule, Action] | None = None,
        processor: type[RuleProcessor[Rows]] = RuleProcessor,
        old_is_current: bool = False,
        idle_actions: bool = False,
        on_demand: bool = False,
    ) -> None:
        self.program = program
        self._rules = {rule.name: rule for rule in (made or production(program)).rules}
        self._actions = {rule.name: action for rule, action in (rules or {}).items()}
        generated = [
            ScheduledRule(rule.name, (rule.trigger,), rank=rule.rank, generated=True) for rule in self._rules.values()
        ]
        self.processor = processor([*generated, *(rules or {})], PythonSets())
        self._old_is_current, self._idle_actions = old_is_current, idle_actions
        self.relations: dict[str, set[Row]] = {name: set() for name in program.schemas}
        self.turns: list[str] = []
        self.windows: list[tuple[str, ChangeWindow[Rows]]] = []
        self.written: list[tuple[str, str, Rows]] = []
        if not on_demand:
            self.materialize()

    @property
    def views(self) -> list[str]:
        return [view for layer in self.program.strata for view in layer]

    def materialize(self) -> None:
        """Compute the views from what the base relations hold."""
        self.processor.changed(MATERIALIZE, INSERTED, frozenset((view,) for view in self.views))
        self.process()

    def change(self, *, delete: Base | None = None, insert: Base | None = None) -> dict[str, tuple[set[Row], set[Row]]]:
        """One transaction with its processing point; the net changes of the views."""
        before = {view: set(self.relations[view]) for view in self.views}
        for name, rows in (delete or {}).items():
            self._write(name, DELETED, rows)
        for name, rows in (insert or {}).items():
            self._write(name, INSERTED, rows)
        self.process()
        return {view: (self.relations[view] - before[view], before[view] - self.relations[view]) for view in self.views}

    def process(self) -> None:
        while (turn := self.processor.next()) is not None:
            assert turn.number < 100, f"{turn.rule.name} does not come to rest"
            self.turns.append(turn.rule.name)
            self.windows.append((turn.rule.name, turn.window))
            if turn.rule.name in self._actions:
                for relation, operation, rows in list(self._actions[turn.rule.name](turn.window)):
                    self._write(relation, operation, rows)
            else:
                rule = self._rules[turn.rule.name]
                self._write(rule.view, rule.clause.head.state, self._derived(rule, turn.window))

    def is_right(self) -> bool:
        """Whether the views hold what their definition says."""
        views = evaluate(self.program, {n: rows for n, rows in self.relations.items() if n not in self.views})
        return all(self.relations[view] == views[view] for view in self.views)

    def _write(self, relation: str, operation: str, rows: Iterable[Row]) -> None:
        held = self.relations[relation]
        changed = frozenset(rows) - held if operation == INSERTED else frozenset(rows) & held
        (held.update if operation == INSERTED else held.difference_update)(changed)
        reported = frozenset(rows) if self._idle_actions else changed
        self.written.append((relation, operation, changed))
        self.processor.changed(relation, operation, reported)

    def _derived(self, rule: ProductionRule, window: ChangeWindow[Rows]) -> set[Row]:
        clause = rule.source if rule.group is RulePurpose.START else _qualified(rule.clause)
        return set(derive(clause, _States(self.relations, window, old_is_current=self._old_is_current)))


class _States(dict[str, set[Row]]):
    """Every state of every relation, by its qualified name, when it is asked for."""

    def __init__(self, relations: dict[str, set[Row]], window: ChangeWindow[Rows], *, old_is_current: bool) -> None:
        super().__init__(relations)
        self._window, self._old_is_current = window, old_is_current

    def __missing__(self, name: str) -> set[Row]:
        state, _, relation = name.partition(" ")
        transition: Transition[Rows] = self._window.of(relation)
        now = self[relation]
        if state == "old":
            return now if self._old_is_current else (now - transition.inserted) | transition.deleted
        return set(transition.inserted if state == INSERTED else transition.deleted)


def _qualified(clause: Clause) -> Clause:
    return replace(clause, body=tuple(map(_named, clause.body)))


def _named(literal: Literal) -> Literal:
    match literal:
        case Atom(relation, state=state) if state:
            return replace(literal, relation=f"{state} {relation}", state="")
        case Not(Atom(relation, state=state) as atom) if state:
            return replace(literal, body=replace(atom, relation=f"{state} {relation}", state=""))
        case _:
            return literal
