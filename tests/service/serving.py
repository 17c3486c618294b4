"""A real server for tests: uvicorn on a thread, on a free port of loopback, and clients that read events from it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import uvicorn

from tests.service.served_process import PATIENCE
from upshot.database.database import Database
from upshot.service.app import create_app
from upshot.service.feed.hub import Hub
from upshot.service.feed.streams import RingBounds
from upshot.service.service import Service
from upshot.service.settings import Settings
from upshot.service.wire.wire import BoundedHttp

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""


class Running:
    """A service that listens. `stop` ends it as a signal would; `do` runs something on its event loop."""

    def __init__(
        self,
        database: Database,
        settings: Settings | None = None,
        ring: RingBounds | None = None,
        prepare: Callable[[Service], None] | None = None,
        port: int = 0,
    ) -> None:
        self.database = database
        self.service = Service(database, settings or Settings(heartbeat=0.2))
        if ring is not None:
            self.service.hub = Hub(self.service, ring)
        if prepare is not None:
            prepare(self.service)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            create_app(self.service), log_level="error", timeout_graceful_shutdown=1, access_log=False, loop="asyncio",
            http=BoundedHttp,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        until = time.monotonic() + PATIENCE
        while not self._server.started:
            assert self._thread.is_alive(), "the server has started"
            assert time.monotonic() < until, "the server has started"
            time.sleep(0.005)

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return self.do(called())

    def stop(self) -> None:
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.service.hub.end_all, "shutting-down")
            self._server.should_exit = True
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive(), "the server has ended"

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            given = None if body is None else json.dumps(body)
            sent = {"content-type": "application/json"} if body is not None else {}
            connection.request(method, path, given, {**sent, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None, dict(answer.getheaders())
        finally:
            connection.close()

    def net(self, view: str, since: int | None = None, **options: Any) -> Any:
        """The on-demand answer."""
        status, body, _ = self.request(
            "GET", changes_path(view, since=since, **options), headers={"accept": "application/json"}
        )
        assert status == 200, body
        return body

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def changes_path(view: str, **options: Any) -> str:
    given = "&".join(f"{name}={quote(str(value))}" for name, value in options.items() if value is not None)
    return f"/views/{view}/changes" + (f"?{given}" if given else "")


class EventReader:
    """A client by nothing but a socket: `next` is the next event as (name, id, data)."""

    def __init__(
        self, port: int, path: str, headers: dict[str, str] | None = None, *, buffer: int | None = None
    ) -> None:
        self._connection = socket.socket()
        if buffer is not None:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._connection.settimeout(PATIENCE)
        self._connection.connect(("127.0.0.1", port))
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", *(f"{n}: {v}" for n, v in (headers or {}).items())]
        self._connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._response = http.client.HTTPResponse(self._connection, method="GET")
        self._response.begin()
        self.status = self._response.status
        self.headers = dict(self._response.getheaders())

    def body(self) -> Any:
        return json.loads(self._response.read())

    def next(self, *, progress: bool = False, timeout: float = PATIENCE) -> tuple[str, str, Any] | None:
        """Nothing at the end of the stream; `progress` events are passed over unless they are asked for."""
        self._connection.settimeout(timeout)
        while True:
            name, id, data = "", "", ""
            while True:
                line = self._response.readline().decode()
                if not line:
                    return None
                if line == "\n":
                    break
                field, _, value = line.rstrip("\n").partition(": ")
                name, id, data = (
                    value if field == "event" else name,
                    value if field == "id" else id,
                    value if field == "data" else data,
                )
            if progress or name != "progress":
                return name, id, json.loads(data)

    def expect(self, name: str, **options: Any) -> Any:
        """The data of the next event, which has this name."""
        found = self.next(**options)
        assert found is not None, f"a `{name}`, not the end"
        assert found[0] == name, found
        return found[2]

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        while (event := self.next()) is not None:
            yield event

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Copy:
    """What a client makes of the events: the rows it has, and its cursor. Every event must fit exactly."""

    def __init__(self) -> None:
        self.rows: set[tuple[Any, ...]] | None = None
        self.cursor: int | None = None
        self.snapshots = 0

    def take(self, name: str, data: Any) -> None:
        if name == "snapshot":
            assert self.cursor is None or data.get("reason"), "a snapshot that comes again says why"
            self.rows = {tuple(row) for row in data["rows"]}
            assert len(self.rows) == len(data["rows"])
            self.snapshots += 1
        elif name == "change":
            assert self.cursor is None or data["version"] > self.cursor, "none twice, in order"
            assert data["insert"] or data["delete"], "no idle change"
            self.rows = self.rows if self.rows is not None else set()
            for row in map(tuple, data["delete"]):
                assert row in self.rows, "a row that goes was there"
                self.rows.remove(row)
            for row in map(tuple, data["insert"]):
                assert row not in self.rows, "a row that comes was not there"
                self.rows.add(row)
        elif name == "progress":
            assert self.cursor is None or data["version"] >= self.cursor
        else:
            return
        self.cursor = data["version"]
