"""Webhooks of a service: it sends changes to an address, whether or not anybody here is running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from upshot.client.requests import Requests, segment


class Subscriptions:
    """What `client.subscriptions` manages. Each subscription is described by a dict with its `id`."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def add(
        self,
        view: str,
        url: str,
        secret: str,
        *,
        where: str | None = None,
        every: float | str | None = None,
        since: int | None = None,
    ) -> dict[str, Any]:
        """A new subscription. `secret` is the NAME of a secret: the service signs with what stands in its environment
        under `UPSHOT_WEBHOOK_SECRET_<NAME>`. If the answer is lost it is not sent again: look into `list()`."""
        content = {"view": view, "url": url, "secret": secret, "where": where, "every": every, "since": since}
        given = {name: value for name, value in content.items() if value is not None}
        return self._requests.post("/subscriptions", given, repeatable=False)

    def list(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._requests.get("/subscriptions").get("subscriptions") or ())

    def get(self, id: str) -> dict[str, Any]:
        return self._requests.get(self._path(id))

    def remove(self, id: str) -> None:
        self._requests.delete(self._path(id))

    def resume(self, id: str, *, skip: bool = False) -> dict[str, Any]:
        """Goes on with one that was suspended, from its cursor; `skip` leaves out what could not be delivered."""
        return self._requests.post(f"{self._path(id)}/resume", {"skip": skip}, repeatable=not skip)

    def deliver(self, id: str) -> dict[str, Any]:
        """Delivers now what has changed, for a subscription on demand."""
        return self._requests.post(f"{self._path(id)}/deliver", repeatable=True)

    def dead_letters(self, id: str) -> Sequence[Mapping[str, Any]]:
        """What could not be delivered, and why."""
        return tuple(self._requests.get(f"{self._path(id)}/dead-letters").get("dead_letters") or ())

    @staticmethod
    def _path(id: str) -> str:
        return f"/subscriptions/{segment(id)}"
