"""Two states of a program's relations, given to generated rules as the relations they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.rewrites.pairs import Rows
from upshot.check import CheckedProgram
from upshot.engine.naive import evaluate
from upshot.strategies.maintenance_rules import MaintenanceProgram, StateOf

CHANGES = ("ins", "del", "plus", "minus", "new", "old")


@dataclass(frozen=True, slots=True)
class Transition:
    """The contents of all relations, views included, before and after."""

    old: Rows
    new: Rows

    def rows(self, meaning: StateOf) -> set[tuple[object, ...]]:
        old, new = self.old[meaning.relation], self.new[meaning.relation]
        match meaning.state:
            case "old":
                return old
            case "new":
                return new
            case "ins" | "plus":
                return new - old
            case "del" | "minus":
                return old - new
            case _:
                raise AssertionError(meaning)


def transition(program: CheckedProgram, before: Mapping[str, set], after: Mapping[str, set]) -> Transition:
    def everything(base: Mapping[str, set]) -> Rows:
        facts = {name: set(rows) for name, rows in program.facts.items()}
        empty = {name: set() for name in program.schemas}
        full = {name: set(base.get(name, ())) | facts.get(name, set()) for name in empty}
        return {**full, **evaluate(program, base)}

    return Transition(everything(before), everything(after))


def given(made: MaintenanceProgram, transition: Transition) -> Rows:
    """The relations that the generated program has no rules for: its input."""
    defined = {clause.head.relation for clause in made.program.clauses}
    return {
        name: transition.rows(meaning)
        for name, meaning in made.states.items()
        if name not in defined and meaning.state in CHANGES and not _is_own(made, meaning)
    }


def _is_own(made: MaintenanceProgram, meaning: StateOf) -> bool:
    """Whether the relation belongs to a view that is maintained: a state without rules is empty then, not an input."""
    maintained = {made.states[rule.clause.head.relation].relation for rule in made.rules if rule.source is not None}
    return meaning.state != "old" and meaning.relation in maintained
