"""The steps of a view in order, each exactly once, over several connections."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from upshot.client.errors import error_of, unexpected
from upshot.client.event_stream import BrokenStream, EventParser, ServerEvent, TooLarge
from upshot.client.events import Change, End, Progress, Snapshot, fields_of, read_step
from upshot.client.relations import Row, read_schema
from upshot.client.requests import Patience, retry_after
from upshot.client.transport import OpenReply, Reply, Unreachable
from upshot.core.errors import EngineError, Error, LimitError
from upshot.core.schema import Schema

log = logging.getLogger("upshot.client")

SILENCE = 45.0
"""Seconds without a byte after which a connection is closed: three heartbeats of the service."""
_ERROR_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamSource:
    """The functions of a client that a stream of `view` uses. `connect` requests the events after a cursor of an epoch
    (None: a snapshot first); `schema` fetches the columns; `trouble` is called when a connection ended with an
    error."""

    view: str
    connect: Callable[[int | None, str], OpenReply]
    schema: Callable[[], Schema]
    largest: int
    trouble: Callable[[Error], None] = field(default=lambda _: None)


class ViewStream:
    """Iterated by one thread; `close` may be called by any.

    A connection that breaks, even inside an event or a character, falls silent, or contradicts earlier events is
    closed, and the next one continues after the last complete step. A permanent refusal is raised.
    """

    def __init__(
        self, source: StreamSource, cursor: int | None, epoch: str = "", patience: Patience | None = None
    ) -> None:
        self.cursor = cursor
        self.epoch = epoch
        """The service's identifier of the database whose commits the versions count."""
        self.schema: Schema | None = None
        self._source = source
        self._patience = patience or Patience()
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._reply: OpenReply | None = None
        self._least_pause = 0.0
        self._fault = ""

    def close(self) -> None:
        self._closed.set()
        self._hang_up()

    def start_over(self, reason: str) -> None:
        """Drop the cursor: the next step is a snapshot. Called by the iterating thread, between two steps."""
        self.cursor = None
        self._fault = reason

    def steps(self) -> Iterator[Snapshot | Change | Progress]:
        """Iterate over all steps, until the stream is closed."""
        while not self._closed.is_set():
            try:
                yield from self._connection()
                broken: Error = _interrupted("the service ended the stream")
            except TooLarge as error:
                raise LimitError(str(error), code="event-too-large", help="raise `largest`, or select rows") from None
            except BrokenStream as error:
                self.schema = None
                broken = _interrupted(str(error))
            except Unreachable as error:
                broken = error
            except Error as error:
                if not error.retryable:
                    raise
                broken = error
            finally:
                self._hang_up()
            if not self._closed.is_set():
                self._pause(broken)

    def _pause(self, broken: Error) -> None:
        log.info("following is interrupted: %s", broken.message)
        self._source.trouble(broken)
        self._closed.wait(self._patience.next(self._least_pause))
        self._least_pause = 0.0

    def _connection(self) -> Iterator[Snapshot | Change | Progress]:
        """The steps of one connection, up to its end."""
        reply = self._source.connect(self.cursor, self.epoch)
        with self._guard:
            self._reply = reply
        if self._closed.is_set():
            return
        reply.receive()
        self._accepted(reply)
        parser, first = EventParser(self._source.largest), True
        while piece := reply.read():
            for event in parser.feed(piece):
                step = self._step(event, first=first)
                if isinstance(step, End):
                    raise _interrupted(f"the service ended the stream: {step.reason or 'no reason given'}")
                if step is not None:
                    first = False
                    self.cursor = step.version
                    self._patience.reset()
                    yield step
                    if self.cursor is None:
                        raise BrokenStream(self._fault)
            self._least_pause = parser.retry or 0.0

    def _accepted(self, reply: OpenReply) -> None:
        if reply.status != 200:
            headers = reply.headers
            self._least_pause = retry_after(headers)
            raise error_of(Reply(reply.status, headers, reply.read_all(_ERROR_SIZE)))
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            raise unexpected("it is no event stream")

    def _step(self, event: ServerEvent, *, first: bool) -> Snapshot | Change | Progress | End | None:
        """The step of an event, None if it has none; `BrokenStream` if it does not continue the stream."""
        if event.name not in ("snapshot", "change", "progress", "end"):
            return None
        content = fields_of(event)
        if event.name == "snapshot":
            columns, self.epoch = content.get("columns"), str(content.get("epoch") or self.epoch)
            self.schema = read_schema(self._source.view, columns) if columns is not None else self._source.schema()
        elif self.schema is None:
            self.schema = self._source.schema()
        step = read_step(event.name, content, self.schema)
        if step is None or isinstance(step, End):
            return step
        if event.id and event.id != str(step.version):
            raise BrokenStream(f"version {step.version} is called {event.id[:40]}")
        if isinstance(step, Snapshot):
            return step if first or self.cursor is None or step.version > self.cursor else None
        if self.cursor is None:
            raise BrokenStream(f"`{event.name}` arrived before a snapshot")
        if step.version <= self.cursor:
            return None  # already reported
        since = content.get("since")
        if isinstance(step, Change) and isinstance(since, int) and since > self.cursor:
            raise BrokenStream(f"the changes between {self.cursor} and {since} are missing")
        return step

    def _hang_up(self) -> None:
        with self._guard:
            reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()


def _interrupted(message: str) -> EngineError:
    error = EngineError(message, code="stream-interrupted", help="the client resumes automatically")
    error.retryable = True
    return error


# ---- earlier rows ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowsAt:
    """All rows of a view at a version of an epoch."""

    version: int
    epoch: str
    schema: Schema
    rows: frozenset[Row]


def rows_at(version: int, stream: ViewStream, rows_now: Callable[[], RowsAt]) -> RowsAt | None:
    """The rows at `version`: the current rows, with every later change undone. None if the service no longer has these
    changes. `stream` begins at `version` and reports every commit."""
    later: list[Change] = []
    now: RowsAt | None = None
    try:
        for step in stream.steps():
            if isinstance(step, Snapshot):
                return None
            if isinstance(step, Change):
                later.append(step)
            # Fetched after the stream has begun, so that the stream reaches its version.
            now = now or rows_now()
            if step.version >= now.version:
                break
    finally:
        stream.close()
    if now is None:
        return None
    rows = set(now.rows)
    for change in reversed(later):
        if change.version <= now.version:
            rows -= change.inserted
            rows |= change.deleted
    return replace(now, version=version, rows=frozenset(rows))
