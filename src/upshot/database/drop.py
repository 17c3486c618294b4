"""Taking a relation out of the program, when nothing is lost by it."""

from __future__ import annotations

from upshot.core.errors import UsageError
from upshot.database.changes import Definition
from upshot.database.compile import compile_without
from upshot.database.definitions import constraint_names
from upshot.database.dependencies import dependencies
from upshot.database.redefine import redefine
from upshot.database.state import State
from upshot.syntax.ast import Declaration, Program


def drop(state: State, name: str) -> Definition:
    """Removes the relation with its rules and settings; refused while something uses it, watches it or is in it."""
    name = state.schema(name).name
    checked = state.compiled.checked
    own = _declared_with(state.compiled.program, name)
    users = sorted({edge.view for edge in dependencies(checked) if edge.relation == name} - {name, *own})
    if users:
        listed = ", ".join(f"`{user}`" for user in users)
        raise UsageError(f"`{name}` is used by {listed}", code="relation-in-use", help="drop or redefine those first")
    watched = next((each for each in (name, *own) if state.feed.watching(each)), name)
    if watchers := state.feed.watching(watched):
        message = f"`{watched}` is watched by {len(watchers)} subscription{'s' * (len(watchers) > 1)}"
        raise UsageError(message, code="relation-in-use", help="close the subscriptions first")
    home = state.compiled.home(name)
    if home is not None and (size := state.engine.size(home)):
        message = f"`{name}` holds {size} row{'s' * (size > 1)}"
        raise UsageError(message, code="relation-not-empty", help="delete the rows first")
    return redefine(state, compile_without(name, state.compiled))


def _declared_with(program: Program, name: str) -> list[str]:
    """The constraints that stand with the declaration of a relation; refuses to drop one of them alone."""
    own: list[str] = []
    for item in program.items:
        if isinstance(item, Declaration):
            if item.name == name:
                own = constraint_names(item)
            elif name in constraint_names(item):
                raise UsageError(
                    f"constraint `{name}` stands with the declaration of `{item.name}`", code="relation-in-use",
                    span=item.span, help=f"declare `{item.name}` again without it",
                )  # fmt: skip
    return own
