"""Several answers of one version."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.queries.query import query
from upshot.database.state import DatabaseState


class ConsistentRead:
    """For a `with` block, on one thread: whatever is asked of it, the answers are those of `version`. Commits of other
    threads wait meanwhile, so what it is for should be short; rows that were handed out may be read after it."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._open = False
        self._outer: int | None = None

    def __enter__(self) -> ConsistentRead:
        self._state.lock.acquire()
        try:
            self._state.open()
        except BaseException:
            self._state.lock.release()
            raise
        self._open = True
        self._outer, self._state.reader = self._state.reader, threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._state.reader = self._outer
        self._state.lock.release()

    @property
    def version(self) -> int:
        """The version that every answer is of."""
        return self._of_state().version

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The relations by name, with their columns and roles."""
        return self._of_state().schemas

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body, as `db.query` gives them."""
        return query(self._of_state(), text, parameters)

    def rows(self, name: str) -> Rows:
        """All rows of a relation."""
        state = self._of_state()
        return state.engine.rows(state.schema(name).name)

    def _of_state(self) -> DatabaseState:
        if not self._open:
            hint = "query inside `with db.reading() as at:`"
            raise UsageError("this cannot be used outside of its `with` block", code="transaction-ended", help=hint)
        return self._state
