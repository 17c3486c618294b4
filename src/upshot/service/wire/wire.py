"""The HTTP protocol with bounds on the size and the time of request heads, which uvicorn does not have. These bounds
apply before authentication. Invalid HTTP gets an error as JSON."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from upshot.service.wire.errors import RequestError, error_body, too_busy

LARGEST_HEAD = 64 << 10
"""The largest head of a request, in bytes."""
PATIENCE = 30.0
"""The time limit for a head, in seconds."""
LINGER = 2.0
"""Seconds in which further input of a rejected client is read and ignored. Closing the connection earlier would reset
it, and the error could be lost."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol with bounds."""

    most_connections: int | None = None
    """Further connections get an error and are closed."""
    _head = 0
    _is_in_head = True
    _is_refused = False
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.most_connections is not None and len(self.connections) > self.most_connections:
            self._is_refused = True
            message = f"the limit of {self.most_connections:,} connections is reached"
            hint = "try again later; `ulimit -n` limits the number of connections"
            transport.write(_written(too_busy(message, hint)))
            transport.close()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_in_head:
            # The parser buffers an endless line without reporting it.
            self._head += len(data)
            if self._head > LARGEST_HEAD and not self._is_refused and not self.transport.is_closing():
                self._refuse(_too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._is_in_head = 0, True
        if self._alarm is None:
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > LARGEST_HEAD:
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head > LARGEST_HEAD:
            self._refuse(_too_large())
        else:
            self._refuse(RequestError(400, "bad-request", "not an HTTP request", help="`GET /docs` lists every route"))

    def _await_head(self) -> None:
        self._alarm = self.loop.call_later(PATIENCE, self._give_up)

    def _stop_waiting(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if not self.transport.is_closing():
            self._refuse(RequestError(408, "timeout", "the request did not arrive in time", retryable=True))

    def _refuse(self, refused: RequestError) -> None:
        """Send an error and close the connection."""
        self._stop_waiting()
        self._is_refused = True
        self.transport.write(_written(refused))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._alarm = self.loop.call_later(LINGER, self.transport.close)
        else:
            self.transport.close()


def bounded_http(most_connections: int) -> type[BoundedHttp]:
    """The protocol with a bound on the number of connections."""
    return type("BoundedHttp", (BoundedHttp,), {"most_connections": most_connections})


def _too_large() -> RequestError:
    message = f"the head of a request may have at most {LARGEST_HEAD:,} bytes"
    return RequestError(431, "too-large", message, help="send long queries in a body: `POST /query`")


def _written(refused: RequestError) -> bytes:
    content: dict[str, Any] = error_body(refused)
    body = json.dumps(content, ensure_ascii=False).encode()
    status = HTTPStatus(refused.status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\ncache-control: no-store\r\n\r\n"
    )
    return head.encode("ascii") + body
