"""The address of a service, and the TLS context that checks its certificate."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from upshot.core.errors import UsageError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """`path` is the prefix of all paths of the service, without a slash at its end."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def parse_address(url: str) -> Address:
    """The address in a URL, or a `UsageError`. A user, a query or a fragment is an error: secrets do not belong there,
    and the rest would be ignored.

    >>> str(parse_address("http://127.0.0.1:8000/"))
    'http://127.0.0.1:8000'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong("is not a URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _wrong("must begin with `http://` or `https://` and name a host")
    if parts.username is not None or parts.password is not None:
        raise _wrong("must not contain a user or a password", "set the token in `UPSHOT_TOKEN`")
    if parts.query or parts.fragment:
        raise _wrong("must not have a query or a fragment", "pass views and selections as arguments")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise _wrong("must not contain blanks")
    try:
        host = parts.hostname.encode("idna").decode() if ":" not in parts.hostname else parts.hostname
    except UnicodeError:
        raise _wrong("has an invalid host") from None
    path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    return Address(parts.scheme == "https", host, port or _PORTS[parts.scheme], path)


def _wrong(fault: str, help: str = "write it as in `http://127.0.0.1:8000`") -> UsageError:
    # The URL is not repeated: it may contain a password.
    return UsageError(f"the address of the service {fault}", code="wrong-url", help=help)


def tls_context(address: Address, ca: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    """The TLS context that checks the certificate of the service against the CAs of the system or of the file `ca`."""
    if not address.secure:
        if ca is not None:
            raise UsageError("`ca` needs `https://`", code="wrong-argument", help="correct the URL")
        return None
    if ca is None:
        return ssl.create_default_context()
    path = Path(ca)
    try:
        return ssl.create_default_context(cafile=str(path))
    except OSError as error:
        fault = "has no certificate" if isinstance(error, ssl.SSLError) else (error.strerror or "unreadable").lower()
        raise UsageError(f"`{path}`: {fault}", code="wrong-certificates", help="`ca` must be a PEM file") from None


def checked_token(token: str | None, address: Address, *, insecure: bool) -> str | None:
    """The token. `UsageError` if it is invalid, or would be sent unencrypted over a network."""
    if token is None:
        return None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            "the token is empty or has invalid characters",
            code="wrong-token",
            help="`upshot token` prints tokens; check for a line break at the end",
        )
    if not address.secure and not address.is_loopback and not insecure:
        raise UsageError(
            f"the token would be sent to `{address.host}` unencrypted",
            code="token-in-the-clear",
            help="use `https://`, or allow it with `insecure=True` (`--insecure`)",
        )
    return token
