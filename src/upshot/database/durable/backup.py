"""A copy of a durable database, made while commits go on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from upshot.database.state import State
from upshot.store import Store, back_up, pinned_log
from upshot.store.trouble import not_durable


def backup(state: State, target: str | os.PathLike[str]) -> int:
    """Copies the database into a new or empty folder; the version it has there."""
    state.open()
    if state.journal is None:
        raise not_durable("has nothing to back up")
    store = state.journal.store
    return back_up(store.root, target, _held(state, store))


@contextmanager
def _held(state: State, store: Store) -> Iterator[sqlite3.Connection]:
    """The log between two commits: what is written and could still be taken back is not in it."""
    with store.keeping_folders():
        with state.reading():
            store.fetch_all()
            log = pinned_log(store.root)
        with closing(log):
            yield log
