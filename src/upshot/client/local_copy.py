"""A copy of a view, kept exactly current by a thread; and iterators over its changes."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from upshot.client.events import Change, Progress, Snapshot
from upshot.client.relations import Row
from upshot.client.saved_copy import SavedCopy
from upshot.client.stream import RowsAt, ViewStream
from upshot.core.errors import EngineError, Error, UsageError
from upshot.core.schema import Schema

log = logging.getLogger("upshot.client")

Callback = Callable[[Change], object]

MOST_WAITING = 10_000
"""The number of changes that wait in a feed. When it is full the copy waits, the service ends the connection, and the
copy resumes later from its cursor: no change is lost."""


class ChangeFeed(Iterator[Change]):
    """An iterator that returns each change once, in order. `close` it, or leave its `with` block, to stop."""

    def __init__(self, guard: threading.Condition, first: Iterable[Change], at_end: Callable[[], None]) -> None:
        self._guard = guard
        self._waiting = deque(first)
        self._at_end = at_end
        self._finished = False
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    def __iter__(self) -> ChangeFeed:
        return self

    def __next__(self) -> Change:
        change = self.next()
        assert change is not None, "without a timeout"
        return change

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change, or None after `timeout` seconds."""
        with self._guard:
            if not self._guard.wait_for(lambda: self._waiting or self._finished or not self._open, timeout):
                return None
            if self._waiting:
                self._guard.notify_all()
                return self._waiting.popleft()
        self._at_end()
        raise StopIteration

    def offer(self, change: Change) -> bool:
        """Add a change, unless the feed is closed; return false if it is full. Called by the copy, which has the
        guard."""
        if self._open and len(self._waiting) >= MOST_WAITING:
            return False
        if self._open:
            self._waiting.append(change)
            self._guard.notify_all()
        return True

    def finish(self) -> None:
        """End the feed. Called by the copy, which has the guard."""
        self._finished = True

    def close(self) -> None:
        with self._guard:
            self._open = False
            self._waiting.clear()
            self._guard.notify_all()

    def __enter__(self) -> ChangeFeed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Copy:
    """The rows of a view and their version, which increases while the service has the history.

    Rows and version change together: `state()` returns both. `on_change` is called on the thread of the copy, in order;
    its exceptions are collected in `errors`. A saved copy is written after the callback: after a crash, the last step
    may be reported again, but none is skipped.
    """

    def __init__(
        self, view: str, stream: ViewStream, saved: SavedCopy | None = None, on_change: Callback | None = None
    ) -> None:
        self.view = view
        self.errors: list[Exception] = []
        self._stream = stream
        self._saved = saved
        self._on_change = on_change
        self._changed = threading.Condition()
        self._rows: set[Row] = set()
        self._frozen: frozenset[Row] | None = None
        self._schema: Schema | None = None
        self._version: int | None = None
        self._feeds = list[weakref.ref[ChangeFeed]]()
        self._closing = self._ended = False
        self._failure: Error | None = None
        self._thread = threading.Thread(target=self._follow, name=f"upshot-follow-{view}", daemon=True)

    def start(self, begin: RowsAt | None = None) -> None:
        """Start to follow, from these rows or a snapshot."""
        if begin is not None:
            self._version, self._rows, self._frozen = begin.version, set(begin.rows), begin.rows
            self._schema = self._stream.schema = begin.schema
        self._thread.start()

    # ---- reading ------------------------------------------------------------------------------

    @property
    def rows(self) -> frozenset[Row]:
        return self.state()[1]

    @property
    def version(self) -> int:
        return self.state()[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        with self._changed:
            self._known_version()
            return tuple(column.name for column in self._schema.columns) if self._schema is not None else ()

    def state(self) -> tuple[int, frozenset[Row]]:
        """A version and the rows at it."""
        with self._changed:
            version = self._known_version()
            if self._frozen is None:
                self._frozen = frozenset(self._rows)
            return version, self._frozen

    def __len__(self) -> int:
        with self._changed:
            return len(self._rows)

    def __contains__(self, row: object) -> bool:
        with self._changed:
            return row in self._rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def is_open(self) -> bool:
        return not self._ended

    def wait(self, version: int | None = None, timeout: float | None = None) -> bool:
        """Wait until the copy is at `version` or later, by default until it has rows. False after `timeout` seconds.
        Raises the error that ended the copy."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._has(version) or self._ended, timeout)
            if reached and not self._has(version):
                self._raise_failure()
                raise _closed(self.view)
            return reached

    def changes(self, *, snapshot: bool = False) -> ChangeFeed:
        """An iterator over the changes from now on; with `snapshot` the first has all current rows. It ends when the
        copy is closed, or raises the error that ended the copy. A full iterator that is not read blocks the copy."""
        with self._changed:
            first = (
                [Change(self._version, frozenset(self._rows), frozenset(), snapshot=True)]
                if snapshot and self._version is not None
                else []
            )
            feed = ChangeFeed(self._changed, first, self._raise_failure)
            if self._ended:
                feed.finish()
            else:
                self._feeds.append(weakref.ref(feed))
            return feed

    def close(self) -> None:
        """Stop following. The rows can still be read."""
        self._closing = True
        self._stream.close()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._ended else "following"
        return f"<copy of {self.view} at version {self._version}, {len(self._rows)} rows, {state}>"

    # ---- following ----------------------------------------------------------------------------

    def _follow(self) -> None:
        failure: Error | None = None
        try:
            for step in self._stream.steps():
                self._apply(step)
        except Error as error:
            failure = error
            log.error("following `%s` has ended: %s", self.view, error.message)
        except BaseException as error:
            failure = UsageError(f"subscription to `{self.view}` failed: {error!r}", code="internal-error")
            raise
        finally:
            if self._saved is not None:
                try:
                    self._saved.close()
                except Error as error:
                    # It contains all reported changes already.
                    log.warning("the file of the copy of `%s` could not be closed: %s", self.view, error.message)
            with self._changed:
                self._failure, self._ended = failure, True
                for each in self._feeds:
                    if (feed := each()) is not None:
                        feed.finish()
                self._changed.notify_all()

    def _apply(self, step: Snapshot | Change | Progress) -> None:
        if isinstance(step, Progress):
            self._set_version(step.version)
            return
        change = self._difference(step) if isinstance(step, Snapshot) else step
        if not isinstance(step, Snapshot) and self._contradicts(step):
            self._stream.start_over(f"version {step.version} does not match the earlier changes")
            return
        with self._changed:
            self._rows -= change.deleted
            self._rows |= change.inserted
            self._frozen = None
            self._version, self._schema = change.version, self._stream.schema
            self._feeds = [each for each in self._feeds if (feed := each()) is not None and feed.is_open]
            feeds = list(self._feeds)
            self._changed.notify_all()
        for each in feeds:
            self._offer(change, each)
        self._notify(change)
        self._save(change, whole=isinstance(step, Snapshot))

    def _offer(self, change: Change, each: weakref.ref[ChangeFeed]) -> None:
        """Wait while the feed is full, unless it is closed or no longer referenced."""
        with self._changed:
            while not self._closing and (feed := each()) is not None and not feed.offer(change):
                del feed
                self._changed.wait(1.0)

    def _difference(self, snapshot: Snapshot) -> Change:
        """The net difference between the rows of the copy and a snapshot."""
        with self._changed:
            rows, first = frozenset(self._rows), self._version is None
        inserted, deleted = snapshot.rows - rows, rows - snapshot.rows
        return Change(snapshot.version, inserted, deleted, snapshot=first, renewed=not first, reason=snapshot.reason)

    def _contradicts(self, change: Change) -> bool:
        """Test whether a change was lost: this one deletes absent rows, inserts present rows, or has other columns.
        Only this thread changes the rows."""
        now, before = self._stream.schema, self._schema
        if now is not None and before is not None and now.columns != before.columns:
            return True
        return not (change.deleted <= self._rows and self._rows.isdisjoint(change.inserted - change.deleted))

    def _set_version(self, version: int) -> None:
        with self._changed:
            self._version = version
            self._changed.notify_all()
        self._save(Change(version, frozenset(), frozenset()))

    def _notify(self, change: Change) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(change)
        except Exception as error:
            self.errors.append(error)
            log.exception("a callback following `%s` failed at version %d", self.view, change.version)

    def _save(self, change: Change, *, whole: bool = False) -> None:
        if self._saved is None or self._stream.schema is None:
            return
        rows = self._rows if whole else change.inserted
        epoch, schema = self._stream.epoch, self._stream.schema
        self._saved.save(change.version, epoch, schema, rows, change.deleted, whole=whole)

    def _has(self, version: int | None) -> bool:
        return self._version is not None and (version is None or self._version >= version)

    def _known_version(self) -> int:
        if self._version is None:
            self._raise_failure()
            raise UsageError(f"the copy of `{self.view}` has no data yet", code="no-answer-yet", help="call `wait()`")
        return self._version

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _closed(view: str) -> UsageError:
    return UsageError(f"the copy of `{view}` is closed", code="closed", help="follow the view again")


def wait_for_answer(copy: Copy, patience: float, last_error: Callable[[], Error | None]) -> Copy:
    """The copy, once it has rows. After `patience` seconds it is closed, and the last connection error is raised."""
    try:
        if copy.wait(timeout=patience):
            return copy
    except BaseException:
        copy.close()
        raise
    copy.close()
    message = f"no response for `{copy.view}` after {patience:g} seconds"
    raise last_error() or EngineError(message, code="no-answer-yet", help="check that the service is running")
