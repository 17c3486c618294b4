"""The conditions of active rules that no view holds, as views for an explanation.

A rule that fires for the rows of a window has no view of what its condition is true for. For a question the program is
checked once more with the condition as one, and every query that reads it brings its clauses along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from upshot.check import check
from upshot.check.active.transitions import map_atoms
from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, CheckedRule, Clause
from upshot.core.errors import ProgramError
from upshot.core.operations import INSERTED
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.syntax.ast import Activation, ActiveRule, And, Formula, Item

if TYPE_CHECKING:
    from upshot.database.durable.past_states import PastState
    from upshot.database.engines import Asked
    from upshot.database.state import State
    from upshot.reasons.concrete import InstanceQuery, Row


def condition_program(state: State, rule: CheckedRule) -> tuple[CheckedProgram, Schema] | None:
    """The program with the condition of a rule as a hidden view, and its schema; None if the condition asks for rows
    that went, which no state has together with the others."""
    items: list[Item] = []
    for item in state.compiled.program.items:
        if isinstance(item, Activation) and item.rule == rule.name:
            continue
        if isinstance(item, ActiveRule) and item.name == rule.name:
            held = _held(item)
            if held is None:
                return None
            items.append(held)
        else:
            items.append(item)
    try:
        program = check(replace(state.compiled.program, items=tuple(items)))
    except ProgramError:
        return None
    (found,) = (each for each in program.rules if each.name == rule.name)
    return None if found.becomes is None else (program, program.schemas[found.becomes])


def _held(rule: ActiveRule) -> ActiveRule | None:
    """The rule as one whose condition is a view: what happened is what is there now."""
    parts: list[Formula] = []
    if rule.event is not None:
        if rule.event.kind != "insert":
            return None
        parts.append(rule.event.atom)
    if rule.condition is not None:
        if any(atom.state not in ("", INSERTED) for atom in atoms(rule.condition)):
            return None
        parts.append(map_atoms(rule.condition, lambda atom: replace(atom, state="")))
    condition = parts[0] if len(parts) == 1 else And(tuple(parts))
    # With a strategy it has a view, whatever it reads.
    return replace(rule, event=None, condition=condition, options=(("strategy", "auto"),))


class ConditionState:
    """A state in which the condition has rows too."""

    def __init__(self, state: PastState, program: CheckedProgram, condition: Schema) -> None:
        self._state, self._condition = state, condition
        self._clauses = tuple(clause for clause in program.clauses if clause.head.relation == condition.name)
        self.tag, self.is_local = state.tag, state.is_local

    def ask(self, question: InstanceQuery, rows: list[Row]) -> Rows:
        return self.answer(question.query(rows))

    def ask_all(self, asked: Sequence[tuple[InstanceQuery, list[Row]]]) -> list[Rows]:
        return [self.ask(question, rows) for question, rows in asked]

    def query(self, schema: Schema, clauses: tuple[Clause, ...]) -> Rows:
        return self.answer((schema, clauses, {}, {}))

    def query_all(self, queries: Sequence[tuple[Schema, tuple[Clause, ...]]]) -> list[Rows]:
        return [self.query(schema, clauses) for schema, clauses in queries]

    def answer(self, asked: Asked) -> Rows:
        """The answer to a query of any kind."""
        schema, clauses, given, helpers = asked
        name = self._condition.name
        if any(atom.relation == name for clause in clauses for literal in clause.body for atom in atoms(literal)):
            asked = (schema, (*clauses, *self._clauses), given, {**helpers, name: self._condition})
        return self._state.answer(asked)
