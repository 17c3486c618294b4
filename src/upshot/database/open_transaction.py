"""Reading and undoing inside a transaction: its own writes and what they mean, processing points, savepoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.rows import row_set
from upshot.core.schema import Role
from upshot.database import queries
from upshot.database.changes import ChangeSet, reported

if TYPE_CHECKING:
    from upshot.active.run import RuleRun, RunState
    from upshot.core.rows import Row, Rows
    from upshot.database.engines import Deltas
    from upshot.database.state import DatabaseState

BaseChanges = dict[str, tuple[frozenset["Row"], frozenset["Row"]]]


def open_query(state: DatabaseState, run: RuleRun, text: object, values: dict[str, Any]) -> Rows:
    """The answers to a rule body or SELECT in the state that the statements so far lead to."""
    run.propagated()
    if isinstance(text, str) and queries.query.is_select(text):
        return queries.sql_answers.sql(state, text, values, is_open=True)
    return queries.query.query_open(state, text, **values)


def open_rows(state: DatabaseState, run: RuleRun, name: str) -> Rows:
    """All rows of a relation in that state."""
    schema = state.schema(name)
    run.propagated()
    return queries.query.all_rows(state.engine, schema, is_open=True)


def changes_so_far(state: DatabaseState, run: RuleRun) -> ChangeSet:
    """The net changes of all relations by the statements so far, and by the rules that have had their turn."""
    return ChangeSet(state.schemas, reported(state.compiled.plan, run.propagated()))


def rules_to_process(state: DatabaseState, run: RuleRun, names: object) -> frozenset[str]:
    """The rules that a processing point is for: all that run before the commit, unless some are named."""
    if names is None:
        return run.before_commit
    asked = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    known = {rule.name: rule for rule in state.compiled.checked.rules}
    for name in asked:
        if not isinstance(name, str):
            message = f"a rule must be given by its name, not by {type(name).__name__}"
            raise UsageError(message, code="wrong-argument", help='as in tx.process(rules=["audit"])')
        if name not in known:
            hint = did_you_mean(name, known) or f"the rules are {', '.join(f'`{each}`' for each in known) or 'none'}"
            raise UsageError(f"unknown rule `{name}`", code="unknown-rule", help=hint)
        if known[name].coupling == "after":
            hint = "name rules with `coupling=immediate` or `coupling=deferred`"
            raise UsageError(f"rule `{name}` runs after the commit", code="wrong-argument", help=hint)
    return frozenset(asked) & run.before_commit


class Savepoint:
    """A point of a transaction to go back to, for a `with` block: an error that leaves the block undoes what was done
    in it, and goes on; `rollback()` undoes without an error. Rules have seen what they had seen then.

    The savepoints of a transaction are a stack: one ends with its block, with the transaction, and when one below it
    ends or is rolled back."""

    def __init__(
        self, state: DatabaseState, reading: Callable[[], AbstractContextManager[RuleRun]], stack: list[Savepoint]
    ) -> None:
        """`reading` refuses a transaction that is over; `stack` are its savepoints so far."""
        self._state, self._reading, self._stack = state, reading, stack
        with reading() as run:
            self._base = _base_changes(state, run.propagated())
            self._rules: RunState = run.remember()
        stack.append(self)

    def __enter__(self) -> Savepoint:
        with self._reading():
            self._above()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self not in self._stack:
            return
        if kind is not None:
            self.rollback()
        del self._stack[self._stack.index(self) :]

    def rollback(self) -> None:
        """Undoes all statements since the savepoint, and what rules did about them."""
        engine = self._state.engine
        with self._reading() as run:
            above = self._above()
            run.reopen()
            # The engine starts over from the committed state: what is undone may be a state that has no meaning.
            engine.rollback()
            for name, (inserted, deleted) in self._base.items():
                if inserted:
                    engine.insert(name, list(inserted))
                if deleted:
                    engine.delete(name, list(deleted))
            run.restore(self._rules)
            del self._stack[above:]

    def _above(self) -> int:
        """The place in the stack of the savepoints made after this one."""
        if self not in self._stack:
            hint = "roll back inside its `with` block, and inner savepoints before outer ones"
            raise UsageError("the savepoint has ended", code="savepoint-ended", help=hint)
        return self._stack.index(self) + 1


def _base_changes(state: DatabaseState, deltas: Deltas) -> BaseChanges:
    schemas = state.compiled.checked.schemas
    return {
        name: (row_set(inserted), row_set(deleted))
        for name, (inserted, deleted) in deltas.items()
        if name in schemas and schemas[name].role is Role.BASE
    }
