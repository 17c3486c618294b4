"""Call the functions of rules after a commit: on the committing thread, or on one that it waits for with a time limit.

commit ─► call ─► call thread: function returns ─► task completed ─► the next commit
                   └─ late: commits and other functions go on; further calls of the function wait for it, in order
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
"""Calls one function and handles its result; raises nothing."""
MakeCall = Callable[[str, Call], None]
"""Makes a call of the function of this name."""


def at_once(function: str, call: Call) -> None:
    call()


@dataclass(slots=True)
class _PendingCall:
    function: str
    call: Call
    begun: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)


class PatientCaller:
    """Makes calls on a thread of its own, one at a time, and waits at most `seconds` for each. A function that takes
    longer keeps the thread, and `on_late` is called; calls of it that arrive meanwhile are made when it has returned,
    in order. Other functions are called on a new thread. Calls that a called function causes are made on its thread."""

    def __init__(self, seconds: float, on_late: Callable[[], None]) -> None:
        self._seconds, self._on_late = seconds, on_late
        self._one_at_a_time = threading.Lock()
        self._guard = threading.Lock()
        self._thread: _CallThread | None = None
        self._waited_for: _PendingCall | None = None
        self._late: dict[str, deque[Call]] = {}
        """Late functions, with the calls of them that have arrived since."""
        self._closed = False

    def __call__(self, function: str, call: Call) -> None:
        if isinstance(threading.current_thread(), _CallThread):
            call()
            return
        with self._one_at_a_time:
            pending = self._queued(function, call)
            if pending is not None and not pending.done.wait(self._seconds):
                self._abandon(pending)

    def close(self) -> None:
        """Stop waiting, and start no further call: pending ones stay in the outbox."""
        with self._guard:
            self._closed = True
            for calls in self._late.values():
                calls.clear()
            if self._waited_for is not None:
                self._waited_for.done.set()
            if self._thread is not None:
                self._thread.calls.put(None)

    def _queued(self, function: str, call: Call) -> _PendingCall | None:
        """Queue the call for the thread; None if the function is late or the caller is closed."""
        with self._guard:
            if self._closed:
                return None
            if function in self._late:
                self._late[function].append(call)
                return None
            if self._thread is None:
                self._thread = _CallThread(self._returned)
                self._thread.start()
            pending = self._waited_for = _PendingCall(function, call)
            self._thread.calls.put(pending)
            return pending

    def _abandon(self, pending: _PendingCall) -> None:
        with self._guard:
            if pending.done.is_set():
                return
            self._late[pending.function] = deque()
            assert self._thread is not None, "it makes the call"
            self._thread.calls.put(None)
            self._thread = self._waited_for = None
        words = "`%s`, called by a rule, has not returned after %g seconds and is no longer waited for"
        log.error(words + ", and its further calls stay in the outbox until it has", pending.function, self._seconds)
        self._on_late()

    def _returned(self, pending: _PendingCall) -> Call | None:
        """On the thread that made the call: the next waiting call of a late function, if there is one."""
        with self._guard:
            pending.done.set()
            if threading.current_thread() is self._thread:
                return None
            if waiting := self._late[pending.function]:
                return waiting.popleft()
            del self._late[pending.function]
        took = time.monotonic() - pending.begun
        log.warning("`%s`, called by a rule, has returned after %.1f seconds", pending.function, took)
        return None


class _CallThread(threading.Thread):
    """Makes queued calls until it is abandoned with a late one: then the waiting calls of the same function, and
    ends."""

    def __init__(self, returned: Callable[[_PendingCall], Call | None]) -> None:
        super().__init__(name="upshot-calls", daemon=True)
        self.calls: SimpleQueue[_PendingCall | None] = SimpleQueue()
        self._returned = returned

    def run(self) -> None:
        while (pending := self.calls.get()) is not None:
            following: Call | None = pending.call
            while following is not None:
                try:
                    following()
                except BaseException:
                    # For example SystemExit: it ends this call only.
                    log.exception("a call of `%s` was ended", pending.function)
                following = self._returned(pending)
