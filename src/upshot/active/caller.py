"""Make the calls that rules leave for after a commit: on the committing thread, or on one that it waits for a bounded
time.

commit ─► call ─► thread of the calls: function returns ─► struck off the outbox ─► the next commit
                   └─ not in time: commits and other functions go on without it; its further calls wait for it, in order
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

log = logging.getLogger("upshot.rules")

Call = Callable[[], object]
"""One call of a function, with all that comes of it. It raises nothing."""
MakeCall = Callable[[str, Call], None]
"""Makes a call of the function of this name."""


def at_once(function: str, call: Call) -> None:
    """Makes the call on this thread, however long it takes."""
    call()


@dataclass(slots=True)
class _Given:
    """A call that a thread was given to make."""

    function: str
    call: Call
    begun: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)


class PatientCaller:
    """Makes calls on a thread of its own, one at a time, and waits for each, but no longer than so many seconds. A
    function that takes longer is left to its thread, and `on_late` is called; nobody waits for it any more, and calls
    of it that come meanwhile are made once it has returned, in order. Other functions are called on another thread
    from then on. What a function that is called brings about in turn is called on its own thread.
    """

    def __init__(self, seconds: float, on_late: Callable[[], None]) -> None:
        self._seconds, self._on_late = seconds, on_late
        self._one_at_a_time = threading.Lock()
        self._guard = threading.Lock()
        """Of the rest."""
        self._thread: _CallThread | None = None
        self._waited_for: _Given | None = None
        self._late: dict[str, deque[Call]] = {}
        """Functions that have not returned in time, with the calls of them that have come since."""
        self._closed = False

    def __call__(self, function: str, call: Call) -> None:
        if isinstance(threading.current_thread(), _CallThread):
            call()
            return
        with self._one_at_a_time:
            given = self._given(function, call)
            if given is not None and not given.done.wait(self._seconds):
                self._left_alone(given)

    def close(self) -> None:
        """Nobody waits any more, and no further call is begun: those that are left stay in the outbox."""
        with self._guard:
            self._closed = True
            for calls in self._late.values():
                calls.clear()
            if self._waited_for is not None:
                self._waited_for.done.set()
            if self._thread is not None:
                self._thread.given.put(None)

    def _given(self, function: str, call: Call) -> _Given | None:
        """The call, given to the thread; nothing if its function is late, or all is over."""
        with self._guard:
            if self._closed:
                return None
            if function in self._late:
                self._late[function].append(call)
                return None
            if self._thread is None:
                self._thread = _CallThread(self._returned)
                self._thread.start()
            given = self._waited_for = _Given(function, call)
            self._thread.given.put(given)
            return given

    def _left_alone(self, given: _Given) -> None:
        with self._guard:
            if given.done.is_set():
                return
            self._late[given.function] = deque()
            assert self._thread is not None, "it makes the call"
            self._thread.given.put(None)
            self._thread = self._waited_for = None
        words = "`%s`, called by a rule, has not returned after %g seconds and is no longer waited for"
        log.error(words + ", and its further calls stay in the outbox until it has", given.function, self._seconds)
        self._on_late()

    def _returned(self, given: _Given) -> Call | None:
        """On the thread that made the call: what it has to do next, if it was left alone with the function."""
        with self._guard:
            given.done.set()
            if threading.current_thread() is self._thread:
                return None
            if waiting := self._late[given.function]:
                return waiting.popleft()
            del self._late[given.function]
        took = time.monotonic() - given.begun
        log.warning("`%s`, called by a rule, has returned after %.1f seconds", given.function, took)
        return None


class _CallThread(threading.Thread):
    """Makes the calls it is given, until it is left alone with one: then those of the same function that have come
    since, and ends."""

    def __init__(self, returned: Callable[[_Given], Call | None]) -> None:
        super().__init__(name="upshot-calls", daemon=True)
        self.given: SimpleQueue[_Given | None] = SimpleQueue()
        self._returned = returned

    def run(self) -> None:
        while (given := self.given.get()) is not None:
            following: Call | None = given.call
            while following is not None:
                try:
                    following()
                except BaseException:
                    # Such as SystemExit: it ends the function, and nothing else.
                    log.exception("a call of `%s` was ended", given.function)
                following = self._returned(given)
