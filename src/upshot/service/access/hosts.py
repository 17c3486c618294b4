"""The allowed values of `Host`. The name of another origin can resolve to loopback (DNS rebinding); the browser then
lets the page of that origin read our answers. So every request must use one of our names."""

from __future__ import annotations

import ipaddress

from upshot.core.errors import UsageError
from upshot.service.settings import Settings

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Test whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(settings: Settings) -> frozenset[str] | None:
    """The names allowed in `Host`, without the port; None if any name is."""
    if settings.hosts:
        own = (*settings.hosts, *(_LOOPBACK if is_loopback(settings.host) else ()))
    elif is_loopback(settings.host):
        own = (*_LOOPBACK, settings.host)
    else:
        return None
    return frozenset(name.lower() for name in own)


def host_name(header: str) -> str:
    """The name in a `Host` header.

    >>> host_name("Example.org:8000"), host_name("[::1]:8000"), host_name("[::1]")
    ('example.org', '[::1]', '[::1]')
    """
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdigit() else header).lower()


def refuse_unsafe(settings: Settings, *, has_tokens: bool) -> None:
    """`UsageError` for a public address without tokens or without TLS."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        hint = "give both `--tls-cert` and `--tls-key`"
        raise UsageError("TLS needs a certificate and its key", code="wrong-argument", help=hint)
    if is_loopback(settings.host) or settings.insecure:
        return
    missing = [name for name, present in (("no tokens", has_tokens), ("no TLS", settings.tls)) if not present]
    if missing:
        raise UsageError(
            f"`{settings.host}` is a public address, with {' and '.join(missing)}",
            code="unsafe-address",
            help="give `--tokens FILE`, `--tls-cert` and `--tls-key`; use `--insecure` if a proxy protects it",
        )
