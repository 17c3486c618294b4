"""The allowed targets of webhooks: listed hosts, by https, at addresses of the public internet.

The name is resolved once, every address it has is looked at, and the connection is made to one of those: the name
server cannot substitute another address in between.
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
"""Names that are resolved at the same time."""


class RefusedTarget(DataError):
    """The webhook may not go there; `code` is `webhook-target`."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message, code="webhook-target", help=help)


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A URL that may be sent to, in its parts."""

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
    """`hosts` are names, or addresses, that may be sent to; `*.example.org` are all names below it. `insecure` admits
    http, and loopback and private addresses, for those hosts."""

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
                message = "the host of the webhook has an address that is not of the public internet"
                raise RefusedTarget(message, "`--webhook-insecure` admits loopback and private networks")
            if any(each.is_multicast or each.is_unspecified for each in meanings(address)):
                raise RefusedTarget("the host of the webhook has an address of no host")

    async def addresses(self, target: WebhookTarget) -> list[IPAddress]:
        """The addresses of the target, all of them looked at. One of these is connected to, and no other."""
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
"""The lookups under way, by name."""


async def _resolved(host: str) -> _Found:
    """The answer of the resolver, or its error. A lookup has its own thread, shared by all requests for the name: a
    hanging name server blocks neither other background tasks nor lookups of other names."""
    loop = asyncio.get_running_loop()
    under_way = _lookups.setdefault(loop, {})
    if host not in under_way:
        if len(under_way) >= MOST_LOOKUPS:
            return ConnectionError(f"{MOST_LOOKUPS} names are being resolved already")
        future = under_way[host] = loop.create_future()
        future.add_done_callback(lambda _: under_way.pop(host))
        threading.Thread(target=_look_up, args=(host, loop, future.set_result), daemon=True, name="lookup").start()
    return await asyncio.shield(under_way[host])


def _look_up(host: str, loop: asyncio.AbstractEventLoop, settle: Callable[[_Found], None]) -> None:
    found: _Found
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle, found)


def _split(url: str) -> tuple[SplitResult, int | None]:
    """The URL in parts; nothing in it may end a line, or be read differently by somebody else."""
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
    """The address that a host is written as. Spellings that only some resolvers know, as `127.1`, are names here, and
    their address is looked at when it has been found."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def meanings(address: IPAddress) -> list[IPAddress]:
    """The address, and the version 4 addresses that it embeds, which a translator would connect to."""
    found: list[IPAddress] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inner is not None:
                found.append(inner)
        if address in _NAT64 or address in _V4_COMPATIBLE:
            found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def is_public(address: IPAddress) -> bool:
    """Test whether an address is of the public internet, in any notation.

    >>> [is_public(ipaddress.ip_address(each)) for each in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1", "fe80::1")]
    [True, False, False, False]
    """
    every = meanings(address)
    if address.version == 6 and address in _NAT64_LOCAL:
        # Where in it the address of version 4 stands is a matter of the network.
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
