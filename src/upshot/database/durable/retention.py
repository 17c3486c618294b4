"""The retention of a durable database: its bounds, the cursors of readers, compaction on request."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.database.budget import byte_count
from upshot.database.state import DatabaseState
from upshot.store.errors import not_durable
from upshot.store.retention import EVERYTHING, Retention
from upshot.store.store import Store

_PAUSE = 0.001
"""Seconds between two slices, so that commits can run."""
_BOUNDS = ("commits", "bytes", "age")


def retention_of(keep: Any) -> Retention:
    """Parse `connect(keep=…)`: None for the default bounds, "all", a number of commits, or bounds by name.

    >>> retention_of({"commits": 1000, "bytes": "1GiB"})
    Retention(commits=1000, bytes=1073741824, age=None)
    """
    if keep is None:
        return Retention()
    if keep == "all":
        return EVERYTHING
    bounds = keep if isinstance(keep, Mapping) else {"commits": keep}
    for name in bounds:
        if name not in _BOUNDS:
            hint = did_you_mean(str(name), _BOUNDS) or "the bounds are `commits`, `bytes` and `age`"
            raise UsageError(f"unknown bound `{name}` in `keep`", code="wrong-argument", help=hint)
    commits, size, age = (bounds.get(name) for name in _BOUNDS)
    if commits is not None and (not isinstance(commits, int) or isinstance(commits, bool) or commits < 1):
        hint = 'pass a number of commits, "all", or bounds such as {"commits": 100_000, "bytes": "1GiB"}'
        raise UsageError(f"invalid `keep`: {commits!r}", code="wrong-argument", help=hint)
    if age is not None and (not isinstance(age, dt.timedelta) or age <= dt.timedelta(0)):
        hint = "pass a timedelta, as in datetime.timedelta(days=7)"
        raise UsageError(f"invalid `age` in `keep`: {age!r}", code="wrong-argument", help=hint)
    return Retention(commits, None if size is None else byte_count("bytes", size), age)


class Cursors:
    """The positions of readers of the change log, by name. The changes after a cursor are kept for it beyond the
    default bounds, up to four times these; reading from before that raises `history-not-kept`. A cursor is on disk when
    `set` returns. Thread-safe."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state

    def set(self, name: str, version: int) -> None:
        """Note that the reader has all changes up to this version."""
        self.set_all({name: version})

    def set_all(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Write several cursors atomically; None removes one. A `lazy` write is on disk with the next commit."""
        store = self._store()
        current, oldest = self._state.visible_version, store.oldest
        for name, version in versions.items():
            if version is not None and not oldest <= version <= current:
                raise UsageError(
                    f"changes since version {version}, the position of cursor `{name}`, are not kept; those since "
                    f"{oldest} are, until {current}",
                    code="history-not-kept",
                    help="start again from all rows, and set the cursor to their version",
                )
        if versions:
            store.put_cursors(versions, lazy=lazy)

    def remove(self, name: str) -> None:
        self._store().put_cursors({name: None})

    def all(self) -> dict[str, int]:
        """Every cursor with its version, also those whose changes were dropped."""
        return self._store().cursors()

    def _store(self) -> Store:
        self._state.open()
        if self._state.journal is None:
            raise not_durable("has no past that could be kept")
        return self._state.journal.store


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction: changes since version `oldest` are kept, `dropped` commits were removed."""

    oldest: int
    dropped: int


def compact(state: DatabaseState) -> Compacted:
    """Drop the history beyond the bounds, in slices between which others commit; write a snapshot first if commits are
    kept only because recovery needs them."""
    state.open()
    if state.journal is None:
        raise not_durable("has nothing to compact")
    journal, store = state.journal, state.journal.store
    before = store.oldest
    _trim(state, store)
    if store.wants_snapshot:
        with state.writing("compact the database") as engine:
            journal.snapshot(engine, state.version, state.compiled)
        _trim(state, store)
    return Compacted(store.oldest, store.oldest - before)


def _trim(state: DatabaseState, store: Store) -> None:
    while store.trim():
        time.sleep(_PAUSE)
        state.open()
