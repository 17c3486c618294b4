"""The settings of a service: its address, its access rules, and the bounds of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The most that one request may send, receive and take; what is beyond ends in an error that names the bound."""

    body: int = 8 << 20
    """bytes of a request's body"""
    rows: int = 100_000
    """rows of one answer, or of one page of it"""
    snapshot: int = 1_000_000
    """rows that one who begins to follow a view is sent"""
    seconds: float = 10.0
    """time for one answer"""
    queue: int = 1_000
    """transactions that may wait for the writer"""
    group: int = 100
    """transactions that are made durable together"""
    readers: int = 4
    """threads that answer"""
    waiting: int = 200
    """requests that may wait for one of them"""
    searches: int = 2
    """searches for realizations at a time; others wait for their turn"""
    subscribers: int = 10_000
    """clients that may follow changes at a time"""
    webhooks: int = 1_000
    """subscriptions that are sent to webhooks"""

    @property
    def live_seconds(self) -> float:
        """Time that all followed queries may take of one commit, and one of them to begin: a fifth of that for one
        answer, so that a commit which goes on without one of them has the rest."""
        return self.seconds / 5


@dataclass(frozen=True, slots=True)
class Settings:
    """`files` is the only folder that `.input` and `.output` of the served program touch; without it they are refused.
    `hosts` are the names a request may call this server by, beside those of loopback."""

    host: str = "127.0.0.1"
    port: int = 8000
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    files: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    """other origins whose pages may send transactions with a session's cookie"""
    webhook_hosts: tuple[str, ...] = ()
    """hosts that webhooks may be sent to; `*.example.org` are all below it"""
    webhook_insecure: bool = False
    """whether those may be reached without TLS, and on loopback or in private networks"""
    heartbeat: float = 15.0
    """seconds between two `progress` events of a stream on which nothing happens"""
    grace: float = 10.0
    """seconds that requests under way have to end in when the service stops"""
    bounds: RequestBounds = field(default_factory=RequestBounds)

    @property
    def tls(self) -> bool:
        return self.tls_certificate is not None
