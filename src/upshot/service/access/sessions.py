"""Authenticate requests by a token in the header, or by the cookie of a session."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from upshot.service.access.scopes import ANYTHING, Scopes
from upshot.service.access.tokens import Tokens
from upshot.service.settings import Settings
from upshot.service.wire.errors import RequestError

LIFETIME = 12 * 3600
MOST = 10_000
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_LONGEST_TOKEN = 1_024


@dataclass(slots=True)
class Sessions:
    """Open sessions, by the hash of the cookie's secret; beyond `MOST` the oldest end. All end with the process."""

    now: Callable[[], float] = time.monotonic
    _open: OrderedDict[str, tuple[str, float]] = field(default_factory=OrderedDict)

    def start(self, holder: str) -> str:
        """Open a session and return its secret; `holder` is the hash of its token."""
        while len(self._open) >= MOST:
            self._open.popitem(last=False)
        secret = secrets.token_urlsafe(32)
        self._open[_key(secret)] = holder, self.now() + LIFETIME
        return secret

    def owner(self, secret: str) -> str | None:
        """The hash of the token that opened the session."""
        found = self._open.get(_key(secret))
        if found is None or found[1] <= self.now():
            self._open.pop(_key(secret), None)
            return None
        return found[0]

    def end(self, secret: str) -> None:
        self._open.pop(_key(secret), None)


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Authenticator:
    """Finds the scopes of the sender of a request."""

    def __init__(self, settings: Settings, tokens: Tokens | None) -> None:
        self._settings = settings
        self.tokens = tokens
        self.sessions = Sessions()

    @property
    def cookie(self) -> str:
        """The name of the cookie; with TLS, one that browsers accept from this host and path only."""
        return "__Host-upshot-session" if self._settings.tls else "upshot-session"

    def scopes(self, request: HTTPConnection) -> Scopes:
        """The scopes of the sender. `unauthorized` if it is unknown, `cross-origin` if a page of another origin made
        the browser send the request."""
        header = request.headers.get("authorization")
        if self.tokens is None:
            self._require_same_origin(request)
            return ANYTHING
        if header is not None:
            return self._by_token(header)
        secret = request.cookies.get(self.cookie)
        owner = self.sessions.owner(secret) if secret else None
        # By hash, not by name: replacing a token ends its sessions.
        scopes = self.tokens.hashed(owner) if owner is not None else None
        if scopes is None:
            raise unauthorized()
        self._require_same_origin(request)
        return scopes

    def named(self, name: str) -> Scopes | None:
        """The current scopes of the token of this name."""
        if self.tokens is None:
            return ANYTHING if name == ANYTHING.name else None
        return self.tokens.named(name)

    def _by_token(self, header: str) -> Scopes:
        kind, _, token = header.partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
            raise unauthorized()
        return self.sign_in(token)

    def sign_in(self, token: str) -> Scopes:
        """The scopes of a token; `unauthorized` if there is no such token."""
        found = self.tokens.find(token) if self.tokens is not None else ANYTHING
        if found is None:
            raise unauthorized()
        return found

    def _require_same_origin(self, request: HTTPConnection) -> None:
        """Browsers send cookies, and reach loopback, for any page: only our own page may make them change data."""
        if request.scope.get("method", "GET") in _SAFE:
            return
        self.require_same_origin(request)

    def require_same_origin(self, request: HTTPConnection) -> None:
        origin = request.headers.get("origin")
        if origin is None:
            # Browsers send `Origin` with requests that change data; old ones at least `Sec-Fetch-Site`.
            if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
                return
        elif origin in self._settings.origins or _is_own(origin, request):
            return
        hint = "send the request from this server's own page, or with a token in `Authorization`"
        raise RequestError(403, "cross-origin", "the request was sent by a page of another origin", help=hint)


def _is_own(origin: str, request: HTTPConnection) -> bool:
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc.lower() == request.headers.get("host", "").lower()


def unauthorized() -> RequestError:
    """The same error for every failed authentication."""
    return RequestError(
        401,
        "unauthorized",
        "a token is required",
        help="send `Authorization: Bearer TOKEN`",
        headers={"WWW-Authenticate": "Bearer"},
    )
