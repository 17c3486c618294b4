"""A service that says what a test tells it to, byte by byte: torn events, wrong orders, silence, restarts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

EDGE_COLUMNS = [{"name": "x", "type": "number"}, {"name": "y", "type": "number"}]
PROGRAM = {
    "program": ".decl edge(x: number, y: number)",
    "version": 0,
    "relations": [{"name": "edge", "role": "base", "columns": EDGE_COLUMNS}],
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def cursor(self) -> int | None:
        found = self.headers.get("last-event-id") or self.parameters.get("since")
        return None if found is None else int(found)

    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Request], Iterable[bytes]]


class ScriptedService:
    """Answers each request with the bytes that the script yields, and closes the connection after the last."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self._script = script
        self.requests: list[Request] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ScriptedService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            request = _read(connection)
            if request is not None:
                self.requests.append(request)
                for piece in self._script(request):
                    connection.sendall(piece)
        except OSError:
            pass
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, target, _ = first.split(" ")
    parts = urlsplit(target)
    parameters = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    return Request(method, unquote(parts.path), parameters, headers, body)


# ---- answers ---------------------------------------------------------------------------------------


def answer(content: Any, status: int = 200, **headers: str) -> Iterator[bytes]:
    body = json.dumps(content).encode() if not isinstance(content, bytes) else content
    listed = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    yield (
        f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"connection: close\r\n{listed}\r\n"
    ).encode() + body


def refused(status: int, code: str, *, retryable: bool = False, **more: Any) -> Iterator[bytes]:
    error = {"code": code, "message": f"this is {code}", "help": "do something", "retryable": retryable, **more}
    return answer({"error": error}, status)


def stream_head(**headers: str) -> bytes:
    listed = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n{listed}\r\n".encode()


def event(name: str, content: dict[str, Any], id: int | str | None = None) -> bytes:
    identified = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{identified}data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


def snapshot(version: int, rows: Iterable[Any], **more: Any) -> bytes:
    content = {"version": version, "rows": list(rows), "columns": EDGE_COLUMNS, **more}
    return event("snapshot", content, version)


def change(version: int, insert: Iterable[Any] = (), delete: Iterable[Any] = (), **more: Any) -> bytes:
    return event("change", {"version": version, "insert": list(insert), "delete": list(delete), **more}, version)


def progress(version: int) -> bytes:
    return event("progress", {"version": version}, version)


def end(reason: str, cursor: int | None = None) -> bytes:
    return event("end", {"reason": reason, "cursor": cursor})
