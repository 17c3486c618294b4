"""Requests that are repeated, with growing pauses, while that is safe and useful."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from upshot.client.transport import OpenReply, Reply, Transport, Unreachable
from upshot.client.trouble import error_of, unexpected
from upshot.core.errors import EngineError, Error

FIRST, LONGEST = 0.1, 10.0
_GROWTH = 2.0


class Patience:
    """The waits of one row of failures. Each is random, so that clients a restart has cut off come back spread out.

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
        """Something worked."""
        self._bound = self._first


log = logging.getLogger("upshot.client")

_JSON = "application/json"


class Requests:
    """Sends a token's requests. `retry_for` is how many seconds one is repeated before its error is raised."""

    def __init__(self, transport: Transport, token: str | None, retry_for: float) -> None:
        self._transport, self._token, self._retry_for = transport, token, retry_for

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._answer("GET", target(path, parameters), None, {}, repeatable=True)

    def get_text(self, path: str, parameters: Mapping[str, Any]) -> str:
        """An answer that is no JSON."""
        return self._reply("GET", target(path, parameters), None, {"Accept": "*/*"}, repeatable=True).body.decode()

    def post(
        self, path: str, content: Any = None, headers: Mapping[str, str] | None = None, *, repeatable: bool
    ) -> dict[str, Any]:
        """`repeatable`: sending it twice does no more than sending it once."""
        return self._answer("POST", path, content, headers or {}, repeatable=repeatable)

    def delete(self, path: str) -> None:
        self._answer("DELETE", path, None, {}, repeatable=True)

    def stream(self, path: str, parameters: Mapping[str, Any], headers: Mapping[str, str], silence: float) -> OpenReply:
        """An answer that goes on; `silence` is how many seconds may pass without a byte."""
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
        """The first answer that is not an invitation to try again. An attempt that may have reached the service is
        repeated only if that does no harm. What is raised in the end says whether any attempt may have reached it and
        was never answered (`Unreachable.sent`)."""
        patience, deadline = Patience(), time.monotonic() + self._retry_for
        fresh, unanswered = not repeatable, False
        while True:
            least = 0.0
            try:
                reply = attempt(fresh)
                if reply.status < 400:
                    return reply
                error = error_of(reply)
                least = _retry_after(reply)
                again = error.retryable
            except Unreachable as unreachable:
                error, again = unreachable, repeatable or not unreachable.sent
                unanswered = unanswered or unreachable.sent
                if not fresh:
                    fresh = True
                    continue  # an idle connection had ended: nothing is wrong yet
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
    """The path with its query; parameters that are None are left out."""
    given = {name: value for name, value in (parameters or {}).items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


def segment(name: str) -> str:
    """A name as one part of a path."""
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


def _retry_after(reply: Reply) -> float:
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isdigit() and len(text) < 6 else 0.0


def in_doubt(error: Error, key: str) -> EngineError:
    """A transaction of which nobody knows whether it was committed."""
    unknown = EngineError(
        f"it is unknown whether the transaction was committed: {error.message}",
        code="outcome-unknown",
        help=f"send it again with `key={key!r}`: it is committed at most once",
    )
    unknown.retryable = True
    return unknown
