"""The causes of a firing: the literals of its condition that changed in its window, and the base changes below them.

A condition that is a view fires for its inserted rows: the derivation that such a row gained has the changed literals.
Any other rule has clauses over the tables of its window: the literals over these tables, in the instances of the
clauses, made it fire. The base changes are those of the derivations that the changed rows gained or lost between the
states around the turn.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from upshot.active.firing import Cause
from upshot.active.row_sets import NONE, PythonSets, RowSet, rows_of
from upshot.active.turn_log import BEGIN, RuleTurn, TurnLog
from upshot.check.active.conditions import EVENTS
from upshot.check.active.events import instance_clauses
from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.errors import UsageError
from upshot.core.operations import DELETED, INSERTED, SIGNS, UPDATED
from upshot.core.rows import one_nan, row_set
from upshot.core.schema import Role
from upshot.database.changes import changed_base_rows
from upshot.database.durable.past_states import PastState, PastStates, base_changes, moment_of, refuse_unreachable
from upshot.engine.rule_processor import ChangeWindow, Transition
from upshot.reasons.changed import CAME, WENT, Changed, matching
from upshot.reasons.concrete import ConcreteRule, asked_rows, concrete_rule, instances_question, row_shapes
from upshot.reasons.search import Key
from upshot.reasons.why import Reasons, reasons_in
from upshot.reasons.wording import row_text
from upshot.syntax.ast import ActiveRule, Atom, Not, Variable
from upshot.syntax.printing import print_atom, print_formula

if TYPE_CHECKING:
    from upshot.active.firing import Firing
    from upshot.check.program import CheckedRule, Literal, WindowTable
    from upshot.core.rows import Row
    from upshot.core.schema import Schema
    from upshot.database.state import DatabaseState
    from upshot.reasons.derivation import Derivation
    from upshot.syntax.ast import Term

_SIGNS = {INSERTED: "+", DELETED: "-"}
_CHANGES = {INSERTED: CAME, DELETED: WENT}
AGGREGATED = "±"


@dataclass(slots=True)
class _ChangedLiterals:
    """The changed literals of the instances that users see as one row."""

    differentials: dict[str, None] = field(default_factory=dict)
    literals: dict[str, None] = field(default_factory=dict)
    trees: list[Derivation] = field(default_factory=list)

    def add(self, differential: str, statements: Iterable[str], trees: Iterable[Derivation]) -> None:
        self.differentials[differential] = None
        self.literals |= dict.fromkeys(statements)
        self.trees += trees

    def cause(self) -> Cause:
        return Cause(*changed_base_rows(self.trees), tuple(self.literals), tuple(self.differentials))


def firing_causes(state: DatabaseState, firing: Firing, version: int) -> dict[Row, Cause]:
    """The cause of each row that a rule fired for in the transaction of a version."""
    with state.writing("explain a firing") as engine:
        refuse_unreachable(state, version - 1 if firing.turn is None else firing.turn.log.begun)
        states = PastStates(state, engine)
        try:
            turn = firing.turn or _past_turn(state, states, version)
            around = _Turn(state, states, turn, version)
            found = _FiringSearch(state, state.compiled.rules.rules[firing.rule], around).findings(firing)
            return {row: each.cause() for row, each in found.items()}
        finally:
            states.close()


def _past_turn(state: DatabaseState, states: PastStates, version: int) -> RuleTurn:
    """The turn of a rule that ran after the commit: its window is the whole transaction."""
    log = TurnLog(version - 1, lambda _: None, points=[None], is_open=False)
    return RuleTurn(log, _PastWindow(state, states, version), BEGIN, BEGIN, 0)


class _PastWindow(ChangeWindow[RowSet]):
    """The net changes of a version from the log; of relations that are not logged, the difference of the two states."""

    def __init__(self, state: DatabaseState, states: PastStates, version: int) -> None:
        super().__init__(0, 0, {}, PythonSets())
        self._state, self._states, self._version = state, states, version
        self._logged = base_changes(state, version)

    def of(self, relation: str) -> Transition[RowSet]:
        plan, schema = self._state.compiled.plan, self._state.compiled.checked.schemas[relation]
        if relation in self._logged:
            inserted, deleted = map(row_set, self._logged[relation])
            return Transition(inserted, deleted)
        if schema.role is Role.BASE or plan.reported(relation) == ("plus", "minus"):
            return Transition(NONE, NONE)
        args = tuple(Variable(f"X{place}") for place in range(schema.arity))
        types = {each.name: column.type for each, column in zip(args, schema.columns, strict=True)}
        every = replace(schema, name=f"all_{relation}", role=Role.VIEW, keys=())
        clause = Clause(Atom(every.name, args), (Atom(relation, args),), types)
        worlds = (self._states.world(version) for version in (self._version - 1, self._version))
        old, new = (row_set(world.query(every, clause)) for world in worlds)
        return Transition(new - old, old - new)


class _Turn:
    """The states around a turn of a rule: at its last turn, after its actions then, and now."""

    def __init__(self, state: DatabaseState, states: PastStates, turn: RuleTurn, version: int) -> None:
        self._state, self._states, self._version, self.turn = state, states, version, turn
        self._reasons: dict[int, Reasons] = {}
        self._changed: dict[tuple[int, int], Changed] = {}
        since, acted, now = turn.since, turn.acted, turn.now
        # The rule's own changes in its last turn are in the window even if later changes undo them.
        pairs = dict.fromkeys([(acted, now), (since, now), (since, acted)])
        self._pairs = [(before, after) for before, after in pairs if before != after]

    def world(self, point: int) -> PastState:
        log = self.turn.log
        if point < 0:
            return self._states.world(log.begun)
        if log.is_end(point):
            return self._states.world(self._version)
        if (base := log.points[point]) is None:
            raise UsageError(
                "the state in which the rule fired is not kept",
                code="history-not-kept",
                help="it is kept on the local engine, for transactions of at most 100,000 base rows",
            )
        return self._states.world(log.begun, base)

    def gained(self, key: Key, operation: str) -> tuple[Changed, Derivation] | None:
        """The derivation that a row gained or lost in the window."""
        for pair in self._pairs:
            changed = self._between(*pair)
            if changed.status(key) == _CHANGES[operation]:
                return changed, changed.derivation(key, _CHANGES[operation])
        return None

    def reasons(self, point: int) -> Reasons:
        """Explanations in the state of a point."""
        if point not in self._reasons:
            self._reasons[point] = reasons_in(self.world(point), self._state.compiled.checked)
        return self._reasons[point]

    def _between(self, before: int, after: int) -> Changed:
        if (before, after) not in self._changed:
            program, at = self._state.compiled.checked, moment_of(self._state, self._version)
            states = self.reasons(after), self.reasons(before)
            self._changed[before, after] = Changed(program, *states, at, shown=sys.maxsize)
        return self._changed[before, after]


class _FiringSearch:
    """The search for the changed literals of the instances of one rule."""

    def __init__(self, state: DatabaseState, rule: CheckedRule, around: _Turn) -> None:
        self._program, self._rule, self._around = state.compiled.checked, rule, around
        self._written = next(
            item for item in state.compiled.program.items if isinstance(item, ActiveRule) and item.name == rule.name
        )
        self._windows = {table.schema.name: table for table in rule.windows}
        tables = {name: table.schema for name, table in self._windows.items()}
        self._schemas: Mapping[str, Schema] = {
            **self._program.schemas, **tables, **rule.helpers, rule.name: rule.instance,
        }  # fmt: skip

    def findings(self, firing: Firing) -> dict[Row, _ChangedLiterals]:
        """The changed literals of each row that users see."""
        rule, found = self._rule, {row: _ChangedLiterals() for row in firing.rows}
        homes = {row: found[tuple(row[place] for place in firing.places)] for row in firing.instances}
        if rule.becomes in self._program.hidden:
            for row, home in homes.items():
                self._in_view(row, home)
        elif rule.becomes is not None and not rule.clauses:
            atom = Atom(rule.becomes, tuple(Variable(column.name) for column in rule.instance.columns))
            for row, home in homes.items():
                self._changed_row("+", atom, INSERTED, row, home)
        else:
            self._in_clauses(homes)
        return found

    # ---- a condition that is a view -----------------------------------------------------------------

    def _in_view(self, row: Row, home: _ChangedLiterals) -> None:
        """The changed literals of the derivation that a row of the condition gained."""
        assert self._rule.becomes is not None, "its condition is a view"
        key = self._rule.becomes, one_nan(tuple(row[place] for place in self._rule.identity))
        gained = self._around.gained(key, INSERTED)
        assert gained is not None, "the rule fired for an inserted row"
        changed, tree = gained
        best = changed.after.best(key)
        assert best is not None, "it has a derivation"
        for part, (literal, _) in zip(tree.premises, best[key].instance.rule.literals, strict=True):
            if part.change:
                home.add(_differential(literal), [part.statement], [part])

    # ---- clauses over a window ----------------------------------------------------------------------

    def _in_clauses(self, homes: Mapping[Row, _ChangedLiterals]) -> None:
        for number, clause in enumerate(instance_clauses(self._rule)):
            rule = concrete_rule(number, clause, self._schemas, ())
            for row, binding in self._instances(rule, list(homes)):
                if self._written.event is None:
                    self._in_condition(rule, binding, homes[row])
                else:
                    self._in_event(rule, binding, homes[row])
        for home in homes.values():
            if not home.differentials:
                self._any_change(home)

    def _instances(self, rule: ConcreteRule, rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
        """The bindings of a clause that derive each row, in the state and with the window of the turn."""
        helpers = tuple(clause for clause in self._rule.clauses if clause.head.relation != self._rule.name)
        tables = {name: (table.schema, sorted(self._changes(table), key=repr)) for name, table in self._windows.items()}
        world = self._around.world(self._around.turn.now)
        for (_, nulls), some in row_shapes((self._rule.name, row) for row in rows).items():
            question = instances_question(rule, nulls, self._schemas, f"cause_{self._rule.name}")
            if question is None:
                continue
            inputs = {**question.given(asked_rows(some, nulls)), **tables}
            query = question.schema, (question.clause, *helpers), inputs, self._rule.helpers
            for number, *binding in world.answers([query])[0].sorted():
                yield some[number], one_nan(tuple(binding))

    def _in_event(self, rule: ConcreteRule, binding: Row, home: _ChangedLiterals) -> None:
        """The row of the event, without the condition."""
        event = self._written.event
        assert event is not None, "it has one"
        wanted = EVENTS[event.kind]
        found = [
            (literal, premise, table)
            for literal, premise in rule.literals
            if premise is not None and isinstance(literal, Atom) and (table := self._windows.get(premise.relation))
            if table.relation == event.atom.relation and table.operation in wanted
        ]
        text = print_atom(Atom(event.atom.relation, event.atom.args))
        alike = [each for each in found if print_atom(Atom(each[2].relation, each[0].args)) == text]
        for literal, premise, table in alike or found:
            self._in_table(table, literal.args, premise.row(binding), home)

    def _in_condition(self, rule: ConcreteRule, binding: Row, home: _ChangedLiterals) -> None:
        """The literals over tables of the window, and others that became true in the window."""
        for literal, premise in rule.literals:
            if premise is None:
                self._in_other(rule, literal, binding, home)
                continue
            assert isinstance(literal, Atom), "a premise is a positive literal"
            table = self._windows.get(premise.relation)
            if premise.relation in self._rule.expanded:
                self._in_expansion(literal, premise.row(binding), home)
            elif table is not None:
                self._in_table(table, literal.args, premise.row(binding), home)
            elif premise.relation in self._program.schemas:
                self._changed_row("+", literal, INSERTED, premise.row(binding), home)

    def _in_expansion(self, literal: Atom, row: Row, home: _ChangedLiterals) -> None:
        """A row of a view, derived through changed rows of the relations below it."""
        found = _ChangedLiterals()
        for number, clause in enumerate(self._rule.clauses):
            if clause.head.relation == literal.relation:
                rule = concrete_rule(number, clause, self._schemas, ())
                for _, binding in self._instances(rule, [row]):
                    self._in_condition(rule, binding, found)
        if found.trees:
            view = self._rule.expanded[literal.relation]
            home.add(f"+{print_atom(replace(literal, relation=view))}", found.literals, found.trees)

    def _in_other(self, rule: ConcreteRule, literal: Literal, binding: Row, home: _ChangedLiterals) -> None:
        """A negated literal with rows at the last turn, or an aggregate over relations that changed."""
        if isinstance(literal, Not) and isinstance(literal.body, Atom):
            atom = literal.body
            if atom.relation in self._program.schemas:
                world = self._around.world(self._around.turn.since)
                rows = matching(world, atom, rule.values(binding), rule.types, self._program.schemas)
                for row in rows:
                    self._changed_row("-", atom, DELETED, row, home)
            return
        for relation in dict.fromkeys(atom.relation for atom in atoms(literal)):
            self._changed_relation(_differential(literal), relation, home)

    # ---- changes ------------------------------------------------------------------------------------

    def _any_change(self, home: _ChangedLiterals) -> None:
        """No literal of the instance changed: every change of a relation in the condition is a cause."""
        assert self._written.condition is not None, "the rule has no event"
        for atom in atoms(self._written.condition):
            text = print_atom(replace(atom, state=""))
            for operation in (INSERTED, DELETED):
                if any((atom.relation, each) in self._rule.triggers for each in (operation, UPDATED)):
                    self._changed_relation(f"{_SIGNS[operation]}{text}", atom.relation, home, (operation,))

    def _changed_relation(
        self, differential: str, relation: str, home: _ChangedLiterals, operations: Sequence[str] = (INSERTED, DELETED)
    ) -> None:
        """All rows of a relation that were inserted or deleted in the window."""
        if relation not in self._program.schemas:
            return
        found = self._around.turn.window.of(relation)
        for operation in operations:
            for row in sorted(found.inserted if operation == INSERTED else found.deleted, key=repr):
                self._add(differential, (relation, row), operation, home)

    def _in_table(self, table: WindowTable, args: tuple[Term, ...], row: Row, home: _ChangedLiterals) -> None:
        """A row of a window table; of an update, the deleted row and the inserted one."""
        arity = len(args) // len(SIGNS[table.operation])
        for part, sign in enumerate(SIGNS[table.operation]):
            places = slice(part * arity, (part + 1) * arity)
            self._changed_row(_SIGNS[sign], Atom(table.relation, args[places]), sign, row[places], home)

    def _changed_row(self, sign: str, atom: Atom, operation: str, row: Row, home: _ChangedLiterals) -> None:
        """A row that matches a literal, if it was inserted or deleted in the window."""
        self._add(f"{sign}{print_atom(atom)}", (atom.relation, row), operation, home)

    def _add(self, differential: str, key: Key, operation: str, home: _ChangedLiterals) -> None:
        relation, row = key
        gained = self._around.gained((relation, one_nan(row)), operation)
        if gained is not None:
            home.add(differential, [row_text(self._program, relation, row)], [gained[1]])

    def _changes(self, table: WindowTable) -> Collection[Row]:
        return rows_of(table, self._around.turn.window.of(table.relation))


def _differential(literal: Literal) -> str:
    """The literal as written, after the sign of the changes that make it true."""
    if isinstance(literal, Atom):
        return f"+{print_atom(literal)}"
    if isinstance(literal, Not) and isinstance(literal.body, Atom):
        return f"-{print_atom(literal.body)}"
    return f"{AGGREGATED}{print_formula(literal)}"
