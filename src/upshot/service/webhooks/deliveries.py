"""One delivery of a webhook: signed, and sent to a checked address."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass

from upshot.core.errors import DataError
from upshot.service.webhooks.targets import IPAddress, TargetRules, WebhookTarget

PATIENCE = 10.0
"""Time limit of a delivery, in seconds."""
_LONGEST_ANSWER = 16 << 10
"""The longest line of an answer, and the longest part before its final status, in bytes."""

SECRET_PREFIX = "UPSHOT_WEBHOOK_SECRET_"
_NAME = re.compile(r"[A-Z0-9_]{1,64}")


class FailedDelivery(Exception):
    """The delivery was not confirmed. The message does not contain the body of the answer."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone
        """True if the receiver rejects all further deliveries (status 410)."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A JSON body, with an id that is the same for every attempt."""

    id: str
    body: bytes


def secret_of(name: str) -> bytes:
    """The secret with this name, from the environment; `webhook-secret` if there is none."""
    value = os.environ.get(SECRET_PREFIX + name, "") if _NAME.fullmatch(name) else ""
    if not value:
        hint = f"set `{SECRET_PREFIX}{name}` where the service runs; names have the characters A-Z, 0-9 and `_`"
        raise DataError("there is no webhook secret of this name", code="webhook-secret", help=hint)
    return value.encode()


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """The signature, with which the receiver verifies the sender and the time.

    >>> signature(b"secret", "1700000000", b"{}")
    'sha256=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163'
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


async def deliver(delivery: Delivery, target: WebhookTarget, rules: TargetRules, secret: bytes) -> None:
    """Send the delivery. `FailedDelivery` unless the receiver confirms it (2xx). Redirects are not followed."""
    try:
        async with asyncio.timeout(PATIENCE):
            status = await _post(delivery, target, await rules.addresses(target), secret)
    except TimeoutError:
        raise FailedDelivery(f"no answer within {PATIENCE:.0f} seconds") from None
    except (OSError, ssl.SSLError, EOFError, ValueError) as error:
        raise FailedDelivery(str(error) or type(error).__name__) from None
    if not 200 <= status < 300:
        raise FailedDelivery(f"the answer was {status}", gone=status == 410)


async def _post(delivery: Delivery, target: WebhookTarget, addresses: Iterable[IPAddress], secret: bytes) -> int:
    reader, writer = await _connected(target, addresses)
    try:
        timestamp = str(int(time.time()))
        head = "\r\n".join(
            (
                f"POST {target.path} HTTP/1.1",
                f"Host: {target.authority}",
                "Content-Type: application/json",
                f"Content-Length: {len(delivery.body)}",
                "User-Agent: upshot",
                "Connection: close",
                f"Upshot-Delivery: {delivery.id}",
                f"Upshot-Timestamp: {timestamp}",
                f"Upshot-Signature: {signature(secret, timestamp, delivery.body)}",
                "",
                "",
            )
        )
        writer.write(head.encode("ascii") + delivery.body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.transport.abort()


async def _connected(
    target: WebhookTarget, addresses: Iterable[IPAddress]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that accepts; the certificate must match the host name."""
    context = ssl.create_default_context() if target.scheme == "https" else None
    failure: OSError = ConnectionError("no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(
                str(address), target.port, ssl=context, server_hostname=target.host if context else None,
                limit=_LONGEST_ANSWER,
            )  # fmt: skip
        except OSError as error:
            failure = error
    raise failure


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of the answer. Interim answers are skipped; headers and body are not read."""
    remaining = _LONGEST_ANSWER
    while True:
        line = await reader.readline()
        found = re.match(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?\r?\n", line)
        if found is None:
            raise ValueError("the answer is not HTTP")
        status = int(found[1])
        if status >= 200:
            return status
        while line.strip():
            remaining -= len(line)
            if remaining < 0:
                raise ValueError(f"the answer does not begin within {_LONGEST_ANSWER:,} bytes")
            line = await reader.readline()
