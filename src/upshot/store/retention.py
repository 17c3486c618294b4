"""The part of the past that a store keeps, and the slices in which older records are removed."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshot.store.entries import CommitRow
from upshot.store.log import Log

LOOK = 64
"""Commits between two checks for something to drop."""
LOOK_BYTES = 8 << 20
"""The same, in bytes of changes."""
SLICE = 3 * LOOK
"""The most commits that are dropped at a time: more than are made in between, few enough that nobody waits."""
PATIENCE = 4
"""History that a cursor still needs may grow to this many times the bounds."""
RECORD_BYTES = 256
"""The approximate bytes of a commit in the log, without its rows."""
FREE_PAGES = 1_024
"""Free pages that a log may have without being made smaller: they are used again."""
FREE_SHARE = 4
"""The same, as a fraction of all pages: one in this many."""
SHRUNK_PAGES = 128
"""Pages that are given back to the file system at a time."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of the history: commits, bytes of changes, age of changes. Commits beyond a bound are dropped, the oldest
    first; None is no bound. Whatever recovery needs is always kept."""

    commits: int | None = 1_000_000
    bytes: int | None = 4 << 30
    age: dt.timedelta | None = None

    def exceeded(self, commits: int, size: int, time: str, now: dt.datetime, times: int) -> bool:
        """Test whether the oldest of this many commits, made at that time, exceeds the bounds, widened `times`
        times."""
        return (
            (self.commits is not None and commits > self.commits * times)
            or (self.bytes is not None and size > self.bytes * times)
            or (self.age is not None and dt.datetime.fromisoformat(time) < now - self.age * times)
        )


EVERYTHING = Retention(None, None, None)


class Past:
    """The commits that a store keeps, and the cursors of subscribers that have not read all of them. `floor` is the
    version whose snapshot recovery starts from: later commits are needed. Any thread may call."""

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
        """True if, at the last check, a newer snapshot would have released commits."""

    def grow(self, sizes: Sequence[int], sign: int = 1) -> None:
        """Add commits with this many bytes of changes, or subtract them."""
        size = sum(sizes) + RECORD_BYTES * len(sizes)
        with self._guard:
            self._bytes += sign * size
            self._commits_since += len(sizes)
            self._bytes_since += size

    @property
    def is_due(self) -> bool:
        """Test whether enough happened since the last slice that there may be something to drop."""
        return self._commits_since >= LOOK or self._bytes_since >= LOOK_BYTES

    def drop_slice(self) -> list[int] | None:
        """Drops some of the oldest commits that exceed the bounds. The versions among them that have folders, or
        nothing if there is nothing to drop."""
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
                # They may be gone all the same.
                self._bytes = self._kept_bytes()
                raise
            self._bytes -= sum(row.bytes + RECORD_BYTES for row in dropped)
        return folders

    def _kept_bytes(self) -> int:
        commits, size = self._log.kept()
        return size + RECORD_BYTES * commits

    def shrink(self) -> bool:
        """Gives free pages of the log back, some at a time; whether there are more than it should have."""
        free, pages = self._log.free_pages()
        if free <= max(FREE_PAGES, pages // FREE_SHARE):
            return False
        self._log.shrink(SHRUNK_PAGES)
        return True

    def _excess(self, oldest: Sequence[CommitRow], *, floor: bool = True) -> list[CommitRow]:
        """The oldest commits, to be removed. The last commit stays: it holds the version."""
        now, size, last = dt.datetime.now(dt.UTC), self._bytes, self._log.last_version()
        first = oldest[0].version if oldest else 0
        needed = min((version for version in self._cursors.values() if version >= first - 1), default=None)
        found: list[CommitRow] = []
        for row in oldest:
            held = needed is not None and row.version > needed
            commits = last - row.version + 1
            too_much = self._retention.exceeded(commits, size, row.time, now, PATIENCE if held else 1)
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
        """On the disk when this returns, unless it is `lazy`; those without a version are removed."""
        with self._guard:
            self._log.put_cursors(versions, lazy=lazy)
            for name, version in versions.items():
                if version is None:
                    self._cursors.pop(name, None)
                else:
                    self._cursors[name] = version
