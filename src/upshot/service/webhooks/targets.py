"""The allowed targets of webhooks: listed hosts, by https, at public addresses.

A name is resolved once, all its addresses are checked, and the connection uses one of these: the name server cannot
substitute another address after the check.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit
from weakref import WeakKeyDictionary

from upshot.core.errors import DataError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
_V4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
LONGEST_URL = 2_048
_NAME = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?")
MOST_LOOKUPS = 32
"""The number of names that are resolved concurrently."""


class RefusedTarget(DataError):
    """The target of a webhook is not allowed; `code` is `webhook-target`."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message, code="webhook-target", help=help)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The parts of an allowed URL."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """For the `Host` header."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == (443 if self.scheme == "https" else 80) else f"{shown}:{self.port}"


@dataclass(frozen=True, slots=True)
class TargetRules:
    """`hosts` are allowed names or addresses; `*.example.org` allows all names below it. `insecure` allows http,
    loopback and private addresses for these hosts."""

    hosts: tuple[str, ...] = ()
    insecure: bool = False

    def target(self, url: str) -> WebhookTarget:
        """The parts of the URL, or `RefusedTarget`.

        >>> TargetRules(("hooks.example.org",)).target("https://hooks.example.org/upshot?x=1")
        WebhookTarget(scheme='https', host='hooks.example.org', port=443, path='/upshot?x=1')
        """
        parts, port = _split(url)
        host = (parts.hostname or "").rstrip(".").lower()
        if parts.scheme != "https" and not (self.insecure and parts.scheme == "http"):
            raise RefusedTarget("webhooks are sent by https only", "`--webhook-insecure` admits http as well")
        if parts.username is not None or parts.password is not None:
            raise RefusedTarget("the URL of a webhook has no user or password", "deliveries are signed: see the secret")
        if not host or not self._is_allowed(host):
            raise RefusedTarget(
                "webhooks may not be sent to this host", "start the service with `--webhook-allow HOST` for it"
            )
        literal = _literal(host)
        if literal is not None:
            self.check([literal])
        elif _NAME.fullmatch(host) is None or port == 0:
            raise _no_url()
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return WebhookTarget(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)

    def _is_allowed(self, host: str) -> bool:
        for known in self.hosts:
            known = known.rstrip(".").lower().strip("[]")
            if host == known or (known.startswith("*.") and host.endswith(known[1:])):
                return True
        return False

    def check(self, addresses: Iterable[IPAddress]) -> None:
        """`RefusedTarget` if one of the addresses is not allowed."""
        for address in addresses:
            if not self.insecure and not is_public(address):
                message = "the host of the webhook has an address outside the public internet"
                raise RefusedTarget(message, "`--webhook-insecure` admits loopback and private networks")
            if any(each.is_multicast or each.is_unspecified for each in embedded_addresses(address)):
                raise RefusedTarget("the host of the webhook has an address of no host")

    async def addresses(self, target: WebhookTarget) -> list[IPAddress]:
        """The checked addresses of the target. The connection uses one of these only."""
        found = await _resolved(target.host)
        if isinstance(found, Exception):
            raise ConnectionError(f"the name of the host cannot be resolved: {found}")
        addresses = [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in found]
        if not addresses:
            raise ConnectionError("the name of the host has no address")
        self.check(addresses)
        return list(dict.fromkeys(addresses))


_Found = list[Any] | Exception
_lookups: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Future[_Found]]] = WeakKeyDictionary()
"""The running lookups, by name."""


async def _resolved(host: str) -> _Found:
    """The answer of the resolver, or its error. A lookup has its own thread, shared by all requests for the name, so
    that a hanging name server does not block other tasks or lookups."""
    loop = asyncio.get_running_loop()
    running = _lookups.setdefault(loop, {})
    if host not in running:
        if len(running) >= MOST_LOOKUPS:
            return ConnectionError(f"{MOST_LOOKUPS} names are being resolved already")
        future = running[host] = loop.create_future()
        future.add_done_callback(lambda _: running.pop(host))
        threading.Thread(target=_look_up, args=(host, loop, future.set_result), daemon=True, name="lookup").start()
    return await asyncio.shield(running[host])


def _look_up(host: str, loop: asyncio.AbstractEventLoop, settle: Callable[[_Found], None]) -> None:
    found: _Found
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed: nothing waits for the answer
        loop.call_soon_threadsafe(settle, found)


def _split(url: str) -> tuple[SplitResult, int | None]:
    """The URL in parts. Characters that end a line, or that other parsers read differently, are not allowed."""
    plain = url.isascii() and url.isprintable() and not set(url) & set(' \\"<>^`{|}')
    try:
        if not plain or len(url) > LONGEST_URL:
            raise ValueError
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        raise _no_url() from None


def _no_url() -> RefusedTarget:
    return RefusedTarget("this is not the URL of a webhook", "as in `https://hooks.example.org/upshot`")


def _literal(host: str) -> IPAddress | None:
    """The address, if the host is one. Spellings such as `127.1`, which only some resolvers accept, count as names;
    their addresses are checked after the lookup."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def embedded_addresses(address: IPAddress) -> list[IPAddress]:
    """The address, and the IPv4 addresses in it, to which a translator would connect."""
    found: list[IPAddress] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inner is not None:
                found.append(inner)
        if address in _NAT64 or address in _V4_COMPATIBLE:
            found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def is_public(address: IPAddress) -> bool:
    """Test whether an address is public, in any notation.

    >>> [is_public(ipaddress.ip_address(each)) for each in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1", "fe80::1")]
    [True, False, False, False]
    """
    every = embedded_addresses(address)
    if address.version == 6 and address in _NAT64_LOCAL:
        # The position of the IPv4 address in it depends on the network.
        return False
    if len(every) > 1:
        every = every[1:]
    elif address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    return all(
        each.is_global
        and not (
            each.is_private
            or each.is_loopback
            or each.is_link_local
            or each.is_multicast
            or each.is_reserved
            or each.is_unspecified
        )
        for each in every
    )
