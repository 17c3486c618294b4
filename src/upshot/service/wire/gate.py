"""The outermost layer of the application: gives each request an id, checks `Host` and size, logs the outcome."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from upshot.core.resources import exhausted
from upshot.service import logs
from upshot.service.access.hosts import allowed_hosts, host_name
from upshot.service.wire.errors import RequestError, error_body, too_busy

if TYPE_CHECKING:
    from upshot.service.service import Service

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Gate:
    """ASGI middleware. Streams are not buffered."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = allowed_hosts(service.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self._service, scope, receive, send)
        try:
            self._require_own_name(exchange.headers)
            exchange.require_size()
            await self._app(scope, exchange.receive, exchange.send)
        except RequestError as refused:
            await exchange.refuse(refused)
        except asyncio.CancelledError:
            exchange.status = exchange.status or 499
            raise
        except Exception as error:  # noqa: BLE001 - every error is answered as JSON
            if resource := exhausted(error):
                logs.service.error("no %s are left", resource, extra={"fields": {"request": exchange.id}})
                hint = "try again later; the server needs fewer clients, or a higher limit"
                await exchange.refuse(too_busy(f"the server has no {resource} left", hint))
            else:
                logs.service.exception("a request failed", extra={"fields": {"request": exchange.id}})
                await exchange.refuse(_internal(exchange.id))
        finally:
            exchange.log()

    def _require_own_name(self, headers: Headers) -> None:
        if len(headers.getlist("host")) > 1:
            # A proxy may have read the other one.
            raise RequestError(400, "bad-request", "the request has two `Host` headers", help="send one `Host`")
        if self._hosts is not None and host_name(headers.get("host", "")) not in self._hosts:
            hint = "use the name the server listens on, or allow the name with `--allow-host`"
            raise RequestError(421, "wrong-host", "this server does not accept that `Host`", help=hint)


def _internal(request: str) -> RequestError:
    hint = "this is a bug in Upshot; the server log has details under the request id"
    return RequestError(500, "internal-error", "the server failed", help=hint, details={"request": request})


class _Exchange:
    """A request and its answer."""

    def __init__(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        self._service, self._scope, self._receive, self._send = service, scope, receive, send
        self.headers = Headers(scope=scope)
        id = self.headers.get("x-request-id", "")
        self.id = id if _REQUEST_ID.fullmatch(id) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = self.id
        self.status = 0
        self._began = time.perf_counter()
        self._head: float | None = None
        self._body = 0
        self._sent = 0

    def require_size(self) -> None:
        """`too-large`, before the body is read, if `Content-Length` exceeds the limit."""
        length = self.headers.get("content-length")
        if length is not None and (not length.isdigit() or int(length) > self._service.settings.bounds.body):
            raise self._too_large()

    def _too_large(self) -> RequestError:
        most = self._service.settings.bounds.body
        hint = "send it in several transactions, or raise `--max-body`"
        return RequestError(
            413, "too-large", f"a request may have at most {most:,} bytes", help=hint, headers={"Connection": "close"}
        )

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._body += len(message.get("body", b""))
            if self._body > self._service.settings.bounds.body:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._head = time.perf_counter()
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        elif message["type"] == "http.response.body":
            self._sent += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, refused: RequestError) -> None:
        """Send an error, unless the answer has begun. Then the connection is cut, so that no client takes the answer
        for complete."""
        if self._head is not None:
            return
        body = json.dumps(error_body(refused), ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": refused.status, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})

    def log(self) -> None:
        """Write the log line and the metrics. They contain the route, not the path, which may have secret names."""
        ended = time.perf_counter()
        route = getattr(self._scope.get("route"), "path", "other")
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        metrics = self._service.metrics
        metrics.requests.labels(route, method, str(self.status)).inc()
        metrics.request_seconds.labels(route).observe((self._head or ended) - self._began)
        metrics.sent.labels("answers").inc(self._sent)
        fields: dict[str, Any] = {
            "request": self.id,
            "method": method,
            "route": route,
            "status": self.status,
            "seconds": round(ended - self._began, 6),
            "token": self._scope["state"].get("token"),
            "received": self._body,
            "sent": self._sent,
        }
        logs.access.info("%s %s", method, route, extra={"fields": fields})


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
