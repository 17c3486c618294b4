"""HTTP requests over reused connections, from any thread."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from upshot.client.address import Address
from upshot.core.errors import EngineError, LimitError

IDLE = 3.0
"""Seconds after which an idle connection is not reused: servers close idle connections after five."""
_MOST_IDLE = 8
_STEP = 1 << 16


class Unreachable(EngineError):
    """No answer arrived. `sent`: true if the service may have received the request."""

    retryable = True

    def __init__(self, address: Address, reason: str, *, sent: bool) -> None:
        super().__init__(
            f"no response from {address}: {reason}",
            code="unreachable",
            help="check that the service (`upshot serve`) is running at this address",
        )
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class _WholeHead(http.client.HTTPResponse):
    """Rejects a truncated head, which the library would accept as complete."""

    def begin(self) -> None:
        whole = self.fp
        recorder: Any = _LastLine(whole)
        self.fp = recorder
        super().begin()
        if not recorder.line:
            raise http.client.IncompleteRead(b"")
        if self.fp is recorder:
            self.fp = whole


class _LastLine:
    """A file that remembers the last line read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.line = b""

    def readline(self, limit: int = -1) -> bytes:
        self.line = self._file.readline(limit)
        return self.line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class OpenReply:
    """An answer whose body is read in pieces. `close` may be called from another thread, and ends a waiting `read`."""

    def __init__(self, address: Address, connection: http.client.HTTPConnection, sock: socket.socket) -> None:
        self._address, self._connection, self._socket = address, connection, sock
        self._response: http.client.HTTPResponse | None = None

    def receive(self) -> None:
        """Wait for status and headers."""
        try:
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Unreachable(self._address, reason_of(error), sent=True) from None

    @property
    def status(self) -> int:
        assert self._response is not None, "received"
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        assert self._response is not None, "received"
        return {name.lower(): value for name, value in self._response.getheaders()}

    def read(self) -> bytes:
        """Return the bytes that have arrived, at least one; none at the end."""
        assert self._response is not None, "received"
        try:
            return self._response.read1(_STEP)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # ValueError and AttributeError: another thread called `close`.
            raise Unreachable(self._address, reason_of(error), sent=True) from None

    def read_all(self, most: int) -> bytes:
        """The whole body, or a `LimitError` if it has more than `most` bytes."""
        pieces, size = [], 0
        while piece := self.read():
            size += len(piece)
            if size > most:
                message = f"the response of {self._address} has more than {most:,} bytes"
                raise LimitError(message, code="answer-too-large", help="select fewer rows, or raise `largest`")
            pieces.append(piece)
        if self._response is not None and self._response.length:
            raise Unreachable(self._address, "the response was cut off", sent=True)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the connection, and end any waiting `read`."""
        with suppress(OSError):
            # Shut down the plain socket, also under TLS: a reader in another thread wakes up at the end of the stream.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._connection.close()

    @property
    def is_complete(self) -> bool:
        """Test whether the body was read to its end, so that another request can follow."""
        response = self._response
        return response is not None and response.isclosed() and not response.will_close


class Transport:
    """Sends requests to an address. Idle connections are reused; each is used by one thread at a time."""

    def __init__(self, address: Address, context: ssl.SSLContext | None, timeout: float, largest: int) -> None:
        self.address, self.timeout = address, timeout
        self._context, self._largest = context, largest
        self._guard = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection, socket.socket]] = []

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None, *, fresh: bool = False
    ) -> Reply:
        """The answer to a request. With `fresh`, it uses a new connection; if that cannot connect, the service has not
        received the request."""
        reply = self.start(method, target, headers, body, fresh=fresh)
        try:
            reply.receive()
            content = reply.read_all(self._largest)
        except BaseException:
            reply.close()
            raise
        self._keep(reply)
        return Reply(reply.status, reply.headers, content)

    def start(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        fresh: bool = True,
        timeout: float | None = None,
    ) -> OpenReply:
        """Send the request; the caller reads and closes the answer."""
        connection, sock = (None if fresh else self._used()) or self._connected(timeout or self.timeout)
        try:
            connection.request(method, self.address.path + target, body, dict(headers))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(self.address, reason_of(error), sent=True) from None
        return OpenReply(self.address, connection, sock)

    def close(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for _, connection, _ in idle:
            connection.close()

    def _connected(self, timeout: float) -> tuple[http.client.HTTPConnection, socket.socket]:
        host, port = self.address.host, self.address.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context)
            if self._context is not None
            else http.client.HTTPConnection(host, port, timeout=timeout)
        )
        connection.response_class = _WholeHead
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise EngineError(
                f"the certificate of {self.address} is not trusted: {error.verify_message.lower()}",
                code="untrusted-certificate",
                help="name the CA certificate file with `ca=` (`--ca`)",
            ) from None
        except (OSError, UnicodeError) as error:
            raise Unreachable(self.address, reason_of(error), sent=False) from None
        sock: socket.socket = connection.sock
        return connection, sock

    def _used(self) -> tuple[http.client.HTTPConnection, socket.socket] | None:
        now = time.monotonic()
        with self._guard:
            old = [connection for since, connection, _ in self._idle if now - since > IDLE]
            self._idle = [kept for kept in self._idle if now - kept[0] <= IDLE]
            found = self._idle.pop() if self._idle else None
        for connection in old:
            connection.close()
        return (found[1], found[2]) if found else None

    def _keep(self, reply: OpenReply) -> None:
        if not reply.is_complete:
            reply.close()
            return
        with self._guard:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append((time.monotonic(), reply._connection, reply._socket))
                return
        reply.close()


def reason_of(error: Exception) -> str:
    """A short description of a transport error."""
    match error:
        case socket.gaierror():
            return "the host has no address"
        case ConnectionRefusedError():
            return "the connection was refused"
        case TimeoutError():
            return "it took too long"
        case http.client.IncompleteRead() | http.client.RemoteDisconnected() | ConnectionError():
            return "the connection ended early"
        case http.client.HTTPException():
            return "not an HTTP response"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return str(error).lower() or type(error).__name__
