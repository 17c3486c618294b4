"""Taking a relation out of the program, when nothing is lost by it."""

from __future__ import annotations

from upshot.core.errors import UsageError
from upshot.database.changes import Definition
from upshot.database.compile import compile_without
from upshot.database.dependencies import dependencies
from upshot.database.redefine import redefine
from upshot.database.state import State


def drop(state: State, name: str) -> Definition:
    """Removes the relation with its rules and settings; refused while something uses it, watches it or is in it."""
    name = state.schema(name).name
    checked = state.compiled.checked
    users = sorted({edge.view for edge in dependencies(checked) if edge.relation == name} - {name})
    if users:
        listed = ", ".join(f"`{user}`" for user in users)
        raise UsageError(f"`{name}` is used by {listed}", code="relation-in-use", help="drop or redefine those first")
    if watchers := state.feed.watching(name):
        message = f"`{name}` is watched by {len(watchers)} subscription{'s' * (len(watchers) > 1)}"
        raise UsageError(message, code="relation-in-use", help="close the subscriptions first")
    home = state.compiled.home(name)
    if home is not None and (size := state.engine.size(home)):
        message = f"`{name}` holds {size} row{'s' * (size > 1)}"
        raise UsageError(message, code="relation-not-empty", help="delete the rows first")
    return redefine(state, compile_without(name, state.compiled))
