"""User functions of a database: registered; replaced or refreshed as a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.database import live
from upshot.database.changes import Definition
from upshot.database.program.compile import compile_items, difference
from upshot.database.program.redefine import redefine
from upshot.database.state import DatabaseState
from upshot.engine.user_functions import Fold, UserFunction
from upshot.syntax.ast import FunctorDeclaration
from upshot.values.functors import MARK


def register(state: DatabaseState, name: str, code: Callable[..., Any] | Fold, *, arrow: bool) -> Definition | None:
    """Register the code; views that call a function with other code are recomputed."""
    if not (callable(code) or isinstance(code, Fold)) or not isinstance(name, str) or not name.isidentifier():
        message = f"`{name}` must be a name, and its code callable"
        raise UsageError(message, code="wrong-argument", help='as in db.function("f", lambda x: x + 1)')
    functions, function = state.functions, UserFunction(code, arrow)
    declared, old = _declared(state).get(name), functions.registered.get(name)
    if declared is not None and (declared.stateful or old not in (None, function)):
        return _next_revision(state, declared, function)
    functions.registered[name] = function
    return None


def refresh(state: DatabaseState, name: str) -> Definition:
    """Recompute the values of a stateful function."""
    known = _declared(state)
    if name not in known:
        hint = did_you_mean(name, known) or f"declare it: `.functor {name}(x: number): number stateful`"
        raise UsageError(f"function `{name}` is not declared", code="unknown-functor", help=hint)
    if not known[name].stateful:
        raise UsageError(
            f"function `{name}` is pure: its values do not change",
            code="pure-function",
            help=f"declare it `stateful`: `.functor {name}(…): … stateful`",
        )
    found = _next_revision(state, known[name], None)
    assert found is not None
    return found


def _next_revision(state: DatabaseState, declared: FunctorDeclaration, code: UserFunction | None) -> Definition | None:
    """The next revision of a function, with other code or the same; None for a pure one that no rule calls."""
    with state.writing("refresh a function"):
        renewed = compile_items((replace(declared, revision=declared.revision + 1),), state.compiled)
        old = state.compiled.checked.functors[f"{MARK}{declared.name}"]
        with state.functions.replacing(old, code):
            in_use = declared.stateful or _is_followed(state, old) or difference(state.compiled, renewed).changed
            return redefine(state, renewed) if in_use else None


def _is_followed(state: DatabaseState, functor: str) -> bool:
    """Test whether a followed query calls the function."""
    return bool(state.live) and live.layer.calls(state.live.by_answer.values(), functor)


def _declared(state: DatabaseState) -> dict[str, FunctorDeclaration]:
    return {each.name: each for each in state.compiled.program.items if isinstance(each, FunctorDeclaration)}
