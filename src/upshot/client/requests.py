"""Requests that are repeated after temporary failures, with growing pauses."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from upshot.client.errors import error_of, unexpected
from upshot.client.transport import OpenReply, Reply, Transport, Unreachable
from upshot.core.errors import EngineError, Error

FIRST, LONGEST = 0.1, 10.0
_GROWTH = 2.0


class Patience:
    """The pauses after consecutive failures. They are random, so that many clients of a restarted service spread out.

    >>> patience = Patience(random.Random(1))
    >>> waits = [patience.next() for _ in range(20)]
    >>> max(waits) <= LONGEST, waits[0] <= FIRST
    (True, True)
    """

    def __init__(self, dice: random.Random | None = None, *, first: float | None = None) -> None:
        self._dice = dice or random.Random()
        self._first = FIRST if first is None else first
        self._bound = self._first

    def next(self, least: float = 0.0) -> float:
        """Seconds to wait now; `least` is the minimum that the service set."""
        wait = self._dice.uniform(self._bound / 2, self._bound)
        self._bound = min(self._bound * _GROWTH, LONGEST)
        return max(wait, min(least, LONGEST))

    def reset(self) -> None:
        """Start again after a success."""
        self._bound = self._first


log = logging.getLogger("upshot.client")

_JSON = "application/json"


class Requests:
    """Sends requests with a token. `retry_for`: seconds for which a failed request is repeated."""

    def __init__(self, transport: Transport, token: str | None, retry_for: float) -> None:
        self._transport, self._token, self._retry_for = transport, token, retry_for

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._answer("GET", target(path, parameters), None, {}, repeatable=True)

    def get_text(self, path: str, parameters: Mapping[str, Any]) -> str:
        """An answer that is not JSON."""
        return self._reply("GET", target(path, parameters), None, {"Accept": "*/*"}, repeatable=True).body.decode()

    def post(
        self, path: str, content: Any = None, headers: Mapping[str, str] | None = None, *, repeatable: bool
    ) -> dict[str, Any]:
        """`repeatable`: sending the request twice has the same effect as sending it once."""
        return self._answer("POST", path, content, headers or {}, repeatable=repeatable)

    def delete(self, path: str) -> None:
        self._answer("DELETE", path, None, {}, repeatable=True)

    def stream(self, path: str, parameters: Mapping[str, Any], headers: Mapping[str, str], silence: float) -> OpenReply:
        """Start to receive a stream; `silence`: seconds without a byte after which reading fails."""
        sent = {**self._headers(), "Accept": "text/event-stream", "Cache-Control": "no-store", **headers}
        return self._transport.start("GET", target(path, parameters), sent, timeout=silence)

    def _answer(
        self, method: str, where: str, content: Any, headers: Mapping[str, str], *, repeatable: bool
    ) -> dict[str, Any]:
        return _content(self._reply(method, where, content, {"Accept": _JSON, **headers}, repeatable=repeatable))

    def _reply(self, method: str, where: str, content: Any, headers: Mapping[str, str], *, repeatable: bool) -> Reply:
        sent = {**self._headers(), **headers}
        body = None
        if content is not None:
            body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            sent["Content-Type"] = _JSON
        return self._repeated(
            lambda fresh: self._transport.exchange(method, where, sent, body, fresh=fresh), repeatable=repeatable
        )

    def _repeated(self, attempt: Callable[[bool], Reply], *, repeatable: bool) -> Reply:
        """Repeat a request after retryable errors; return its answer. An attempt that may have reached the service is
        repeated only if `repeatable`. The final error says whether an unanswered attempt may have reached the service
        (`Unreachable.sent`)."""
        patience, deadline = Patience(), time.monotonic() + self._retry_for
        fresh, unanswered = not repeatable, False
        while True:
            least = 0.0
            try:
                reply = attempt(fresh)
                if reply.status < 400:
                    return reply
                error = error_of(reply)
                least = retry_after(reply.headers)
                again = error.retryable
            except Unreachable as unreachable:
                error, again = unreachable, repeatable or not unreachable.sent
                unanswered = unanswered or unreachable.sent
                if not fresh:
                    fresh = True
                    continue  # an idle connection had ended: try a new one
            wait = patience.next(least)
            if not again:
                raise error
            if time.monotonic() + wait > deadline:
                raise Unreachable(self._transport.address, error.message, sent=True) if unanswered else error
            log.info("trying again in %.1f seconds: %s", wait, error.message)
            time.sleep(wait)

    def _headers(self) -> dict[str, str]:
        found = {"User-Agent": "upshot"}
        if self._token is not None:
            found["Authorization"] = f"Bearer {self._token}"
        return found


def target(path: str, parameters: Mapping[str, Any] | None = None) -> str:
    """The path with query parameters, without those that are None."""
    present = {name: value for name, value in (parameters or {}).items() if value is not None}
    return f"{path}?{urlencode(present, quote_via=quote)}" if present else path


def segment(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="")


def _content(reply: Reply) -> dict[str, Any]:
    if not reply.body:
        return {}
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise unexpected(f"status {reply.status} and no JSON") from None
    if not isinstance(content, dict):
        raise unexpected("no object")
    return content


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds in `Retry-After`, or 0."""
    text = headers.get("retry-after", "")
    return float(text) if text.isdigit() and len(text) < 6 else 0.0


def in_doubt(error: Error, key: str) -> EngineError:
    """The error for a transaction that may have been committed."""
    unknown = EngineError(
        f"it is unknown whether the transaction was committed: {error.message}",
        code="outcome-unknown",
        help=f"send it again with `key={key!r}`: it is committed at most once",
    )
    unknown.retryable = True
    return unknown
