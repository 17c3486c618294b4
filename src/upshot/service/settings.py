"""The settings of a service: its address, its access rules, and the bounds of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The limits of a request. A request beyond a limit ends in an error that names it."""

    body: int = 8 << 20
    """bytes of a request's body"""
    rows: int = 100_000
    """rows of one answer, or of one page of it"""
    snapshot: int = 1_000_000
    """rows of the first event of a stream"""
    seconds: float = 10.0
    """time limit of one answer"""
    queue: int = 1_000
    """transactions in the write queue"""
    group: int = 100
    """transactions that are written together"""
    readers: int = 4
    """threads that compute answers"""
    waiting: int = 200
    """requests that wait for such a thread"""
    searches: int = 2
    """concurrent searches for realizations; others wait"""
    subscribers: int = 10_000
    """concurrent followers"""
    webhooks: int = 1_000
    """webhook subscriptions"""

    @property
    def live_seconds(self) -> float:
        """The time limit of a commit for all live queries, and of the first evaluation of one: a fifth of `seconds`, so
        that a commit still has time after a live query fails."""
        return self.seconds / 5


@dataclass(frozen=True, slots=True)
class Settings:
    """`files` is the only directory that `.input` and `.output` of the served program use; without it they are errors.
    `hosts` are the allowed values of `Host`, beside those of loopback."""

    host: str = "127.0.0.1"
    port: int = 8000
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    files: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    """other origins whose pages may send transactions with a session cookie"""
    webhook_hosts: tuple[str, ...] = ()
    """allowed hosts of webhooks; `*.example.org` allows all hosts below it"""
    webhook_insecure: bool = False
    """allow webhooks without TLS, to loopback and to private networks"""
    heartbeat: float = 15.0
    """seconds between two `progress` events of an idle stream"""
    grace: float = 10.0
    """seconds for running requests when the service stops"""
    bounds: RequestBounds = field(default_factory=RequestBounds)

    @property
    def tls(self) -> bool:
        return self.tls_certificate is not None
