"""A database: a program, the rows of its base relations, and views that follow them exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import Commit, Definition
from upshot.database.compile import compile_text, nothing
from upshot.database.drop import drop
from upshot.database.engines import Engine, local_engine
from upshot.database.explain import Explanation, explain
from upshot.database.query import query
from upshot.database.redefine import redefine
from upshot.database.register import register
from upshot.database.state import State
from upshot.database.transaction import Transaction
from upshot.database.verify import Verified, verify
from upshot.database.watch import Callback, Event, Subscription
from upshot.database.what_if import WhatIf, what_if
from upshot.syntax.ast import Directive


class Database:
    """Safe to share between threads: one writer at a time, readers see the last commit.

    >>> db = Database()
    >>> _ = db.define('''
    ...     .decl edge(x: number, y: number)
    ...     .decl path(x: number, y: number)
    ...     path(X, Y) :- edge(X, Y).
    ...     path(X, Z) :- path(X, Y), edge(Y, Z).
    ... ''')
    >>> with db.transaction() as tx:
    ...     tx.insert("edge", [(1, 2), (2, 3)])
    >>> tx.changes["path"].inserted.sorted()
    [(1, 2), (1, 3), (2, 3)]
    """

    def __init__(self, make_engine: Callable[[], Engine] = local_engine) -> None:
        engine, compiled = make_engine(), nothing()
        engine.install(compiled.plan)
        engine.propagate()
        engine.accept()
        self._state = State(make_engine, engine, compiled)

    # ---- the program ----------------------------------------------------------------------------

    def define(self, program: str | os.PathLike[str], *, name: str | None = None) -> Definition:
        """Adds a program text or file. Relations it declares or gives rules for are replaced by what it says, all
        others stay; views whose definition did not change keep their rows. On any error everything is as before."""
        with self._state.writing("define a program"):
            return redefine(self._state, compile_text(program, self._state.compiled, name))

    def drop(self, name: str) -> Definition:
        """Removes a view or constraint that nothing uses, or a base relation that is empty too."""
        with self._state.writing("drop a relation"):
            return drop(self._state, name)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations by name, with their columns and roles."""
        self._state.open()
        return self._state.schemas

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The `.input`, `.output` and `.printsize` of the program, in order."""
        self._state.open()
        return self._state.compiled.checked.directives

    @property
    def version(self) -> int:
        """The number of the last commit; 0 before the first."""
        self._state.open()
        return self._state.version

    # ---- changes --------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A transaction for a `with` block."""
        self._state.open()
        return Transaction(self._state)

    def register(self, name: str, table: Any) -> Commit:
        """Makes a whole table (pandas, Arrow, Polars, or a Parquet or CSV path) the contents of a base relation, which
        is declared from the table if nobody declared it."""
        self._state.open()
        return register(self._state, name, table)

    def what_if(self, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> WhatIf:
        """The changes these insertions and deletions would make, and what they would violate; nothing is committed."""
        self._state.open()
        return what_if(self._state, insert or {}, delete or {})

    # ---- answers --------------------------------------------------------------------------------

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body; `$x` takes the value of the parameter `x`. Inside an open transaction the answer
        comes from the state before it."""
        self._state.open()
        return query(self._state, text, parameters)

    def rows(self, name: str) -> Rows:
        """All rows of a relation."""
        with self._state.reading() as engine:
            return engine.rows(self._state.schema(name).name)

    def watch(self, view: str, callback: Callback, since: int | None = None) -> Subscription:
        """Calls back with all rows of the relation first, then with each commit's exact changes to it, in order, once.
        `since` the current version leaves out the first."""
        if not callable(callback):
            raise UsageError(
                "the callback cannot be called", code="wrong-argument", help="pass a function of one event"
            )
        state = self._state
        with state.reading() as engine:
            schema = state.schema(view)
            subscription = Subscription(view, callback, state.feed)
            if since is None:
                first = Event(view, state.version, engine.rows(view), Rows.of(schema, []), snapshot=True)
                state.feed.add(subscription, first)
            elif since == state.version:
                state.feed.add(subscription, None)
            else:
                message = f"changes since version {since} are not kept; the current version is {state.version}"
                hint = "watch without `since` to start from all rows"
                raise UsageError(message, code="history-not-kept", help=hint)
        state.feed.hand_over()
        return subscription

    # ---- insight --------------------------------------------------------------------------------

    def explain(self, view: str | None = None) -> Explanation:
        """How one view, or every view, is maintained and why so; `.svg()` draws the network."""
        return explain(self._state, view)

    def verify(self) -> Verified:
        """Recomputes every view from the base rows and compares; raises `VerifyError` on any difference."""
        return verify(self._state)

    # ---- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all watches and lets go of the data; closing twice is fine."""
        state = self._state
        if state.closed:
            return
        state.writer.acquire("close the database")
        try:
            with state.lock:
                state.closed = True
                state.feed.close()
                state.engine.close()
        finally:
            state.writer.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._state.closed:
            return "<upshot database, closed>"
        return f"<upshot database, {len(self._state.schemas)} relations, version {self._state.version}>"
