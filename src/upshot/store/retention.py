"""The retention of a store: bounds on its history, and the slices in which older commits are removed."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshot.store.entries import CommitRow
from upshot.store.log import Log

LOOK = 64
"""Commits between two checks for commits to drop."""
LOOK_BYTES = 8 << 20
"""The same, in bytes of changes."""
SLICE = 3 * LOOK
"""The most commits that are dropped at a time: more than are made in between, but few enough to block no one."""
PATIENCE = 4
"""History that a cursor still needs may grow to this many times the bounds."""
RECORD_BYTES = 256
"""The approximate bytes of a commit in the log, without its rows."""
FREE_PAGES = 1_024
"""A log with at most this many free pages is not made smaller: they are reused."""
FREE_SHARE = 4
"""The same, as a fraction of all pages: one in this many."""
SHRUNK_PAGES = 128
"""Pages that are returned to the file system at a time."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of the history: commits, bytes of changes, age of changes. Commits beyond a bound are dropped, oldest
    first; None is no bound. Commits that recovery needs are always kept."""

    commits: int | None = 1_000_000
    bytes: int | None = 4 << 30
    age: dt.timedelta | None = None

    def exceeded(self, commits: int, size: int, time: str, now: dt.datetime, times: int) -> bool:
        """Test whether the oldest of this many commits exceeds the bounds, widened `times` times."""
        return (
            (self.commits is not None and commits > self.commits * times)
            or (self.bytes is not None and size > self.bytes * times)
            or (self.age is not None and dt.datetime.fromisoformat(time) < now - self.age * times)
        )


EVERYTHING = Retention(None, None, None)


class Past:
    """The commits in a store, and the cursors of subscribers that have not read all of them. `floor` is the version of
    the snapshot that recovery starts from: later commits are needed. Thread-safe."""

    def __init__(self, log: Log, retention: Retention, floor: int) -> None:
        self._log = log
        self._retention = retention
        self._guard = threading.Lock()
        self._bytes = self._kept_bytes()
        self._cursors = log.cursors()
        self._commits_since = LOOK
        self._bytes_since = 0
        self.floor = floor
        self.is_blocked = False
        """True if, at the last check, a newer snapshot would have allowed dropping commits."""

    def grow(self, sizes: Sequence[int], sign: int = 1) -> None:
        """Add commits with this many bytes of changes, or subtract them."""
        size = sum(sizes) + RECORD_BYTES * len(sizes)
        with self._guard:
            self._bytes += sign * size
            self._commits_since += len(sizes)
            self._bytes_since += size

    @property
    def is_due(self) -> bool:
        """Test whether there may be commits to drop since the last slice."""
        return self._commits_since >= LOOK or self._bytes_since >= LOOK_BYTES

    def drop_slice(self) -> list[int] | None:
        """Drop some of the oldest commits beyond the bounds. The dropped versions with folders; None if there was
        nothing to drop."""
        with self._guard:
            self._commits_since = self._bytes_since = 0
            oldest = self._log.past(1)
            self.is_blocked = bool(oldest and oldest[0].version > self.floor and self._excess(oldest, floor=False))
            dropped = self._excess(oldest) and self._excess(self._log.past(SLICE))
            if not dropped:
                return None
            try:
                folders = self._log.drop(dropped[-1].version)
            except BaseException:
                # They may be dropped despite the error.
                self._bytes = self._kept_bytes()
                raise
            self._bytes -= sum(row.bytes + RECORD_BYTES for row in dropped)
        return folders

    def _kept_bytes(self) -> int:
        commits, size = self._log.kept()
        return size + RECORD_BYTES * commits

    def shrink(self) -> bool:
        """Return some free pages of the log; True if it still has more than it should."""
        free, pages = self._log.free_pages()
        if free <= max(FREE_PAGES, pages // FREE_SHARE):
            return False
        self._log.shrink(SHRUNK_PAGES)
        return True

    def _excess(self, oldest: Sequence[CommitRow], *, floor: bool = True) -> list[CommitRow]:
        """The oldest commits beyond the bounds. The last commit stays: it has the version."""
        now, size, last = dt.datetime.now(dt.UTC), self._bytes, self._log.last_version()
        first = oldest[0].version if oldest else 0
        needed = min((version for version in self._cursors.values() if version >= first - 1), default=None)
        found: list[CommitRow] = []
        for row in oldest:
            needed_by_cursor = needed is not None and row.version > needed
            commits = last - row.version + 1
            too_much = self._retention.exceeded(commits, size, row.time, now, PATIENCE if needed_by_cursor else 1)
            if not too_much or row.version == last or (floor and row.version > self.floor):
                break
            found.append(row)
            size -= row.bytes + RECORD_BYTES
        return found

    # ---- cursors ------------------------------------------------------------------------------------

    def cursors(self) -> dict[str, int]:
        with self._guard:
            return dict(self._cursors)

    def put_cursors(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Write cursors to disk, with the next commit if `lazy`; None removes a cursor."""
        with self._guard:
            self._log.put_cursors(versions, lazy=lazy)
            for name, version in versions.items():
                if version is None:
                    self._cursors.pop(name, None)
                else:
                    self._cursors[name] = version
