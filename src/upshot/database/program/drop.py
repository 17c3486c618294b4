"""Taking a relation out of the program, when nothing is lost by it."""

from __future__ import annotations

from collections.abc import Sequence

from upshot.check.names.variables import atoms
from upshot.core.errors import UsageError
from upshot.database.changes import Definition
from upshot.database.explain.dependencies import dependencies
from upshot.database.program.compile import compile_without
from upshot.database.program.definitions import constraint_names
from upshot.database.program.redefine import redefine
from upshot.database.state import DatabaseState
from upshot.syntax.ast import ActiveRule, Declaration, Program


def drop(state: DatabaseState, name: str) -> Definition:
    """Removes the relation with its rules and settings, or the active rule; refused while something uses it, watches
    it or is in it."""
    checked = state.compiled.checked
    if any(rule.name == name for rule in checked.rules):
        _refuse_used(name, [rule.name for rule in checked.rules if name in (*rule.precedes, *rule.follows)])
        _refuse_watched(state, [name])
        return redefine(state, compile_without(name, state.compiled))
    name = state.schema(name).name
    own = _declared_with(state.compiled.program, name)
    views = {edge.view for edge in dependencies(checked) if edge.relation == name} - {name, *own} - checked.hidden
    users = {checked.parts.get(view, view) for view in views} - {name}
    _refuse_used(name, [*sorted(users), *_rules_using(state.compiled.program, name)])
    _refuse_watched(state, [name, *own])
    home = state.compiled.home(name)
    if home is not None and (size := state.engine.size(home)):
        message = f"`{name}` has {size} row{'s' * (size > 1)}"
        raise UsageError(message, code="relation-not-empty", help="delete the rows first")
    return redefine(state, compile_without(name, state.compiled))


def _rules_using(program: Program, relation: str) -> list[str]:
    """The active rules that read or change a relation."""
    return [item.name for item in program.items if isinstance(item, ActiveRule) and relation in _relations(item)]


def _relations(rule: ActiveRule) -> set[str]:
    found = {action.atom.relation for action in rule.actions if action.kind != "call"}
    found |= {atom.relation for atom in atoms(rule.condition)} if rule.condition is not None else set()
    return found | ({rule.event.atom.relation} if rule.event is not None else set())


def _refuse_used(name: str, users: Sequence[str]) -> None:
    if users:
        listed = ", ".join(f"`{user}`" for user in users)
        raise UsageError(f"`{name}` is used by {listed}", code="relation-in-use", help="drop or redefine those first")


def _refuse_watched(state: DatabaseState, names: Sequence[str]) -> None:
    for name in names:
        if watchers := len(state.feed.watching(name)) + state.live.reading(name):
            message = f"`{name}` is watched by {watchers} subscription{'s' * (watchers > 1)}"
            raise UsageError(message, code="relation-in-use", help="close the subscriptions first")


def _declared_with(program: Program, name: str) -> list[str]:
    """The constraints that stand with the declaration of a relation; refuses to drop one of them alone."""
    own: list[str] = []
    for item in program.items:
        if isinstance(item, Declaration):
            if item.name == name:
                own = constraint_names(item)
            elif name in constraint_names(item):
                raise UsageError(
                    f"constraint `{name}` is part of the declaration of `{item.name}`", code="relation-in-use",
                    span=item.span, help=f"declare `{item.name}` again without it",
                )  # fmt: skip
    return own
