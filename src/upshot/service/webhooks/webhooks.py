"""The webhooks of a service: stored with the database, each with a courier while it is active."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from upshot.core.errors import UsageError
from upshot.service.feed.standing import Subject
from upshot.service.webhooks.couriers import Courier, RetryPlan, Webhook
from upshot.service.webhooks.deliveries import secret_of
from upshot.service.webhooks.targets import TargetRules
from upshot.service.wire.errors import RequestError

if TYPE_CHECKING:
    from upshot.service.feed.hub import Hub

log = logging.getLogger("upshot.service")

KIND = "webhook"
SAVED_EVERY = 0.5
"""Seconds between two writes of cursors. After a crash, deliveries confirmed since the last write are repeated with the
same ids."""


class Webhooks:
    """`allowed` tests whether the owner of a webhook may still read its view. Everything runs on the event loop."""

    def __init__(self, hub: Hub, allowed: Callable[[str, Subject], bool], retries: RetryPlan | None = None) -> None:
        settings = hub.service.settings
        self.rules = TargetRules(settings.webhook_hosts, settings.webhook_insecure)
        self.retries = retries or RetryPlan()
        self._hub, self._allowed = hub, allowed
        self._database = hub.service.database
        self._records = self._database.records(KIND)
        self._kept: dict[str, Webhook] = {}
        self._couriers: dict[str, Courier] = {}
        self._unsaved: set[str] = set()
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Start couriers for the stored webhooks."""
        known = {each.name for each in fields(Webhook)}
        for record in (await asyncio.to_thread(self._records.all)).values():
            webhook = Webhook(**{name: value for name, value in record.items() if name in known})
            self._kept[webhook.id] = webhook
            if webhook.state == "active":
                self._start_courier(webhook)
        self._saving = asyncio.create_task(self._save_now_and_then())

    async def stop(self) -> None:
        for courier in list(self._couriers.values()):
            await courier.stop()
        self._couriers.clear()
        self._saving.cancel()
        await self._save_all()

    # ---- called by the routes -----------------------------------------------------------------------

    def all(self) -> list[Webhook]:
        return sorted(self._kept.values(), key=lambda webhook: webhook.id)

    def get(self, id: str) -> Webhook | None:
        return self._kept.get(id)

    async def create(self, template: Webhook) -> Webhook:
        """Store a new webhook and start its courier. Raises if target, secret or subject are invalid."""
        self.rules.target(template.url)
        secret_of(template.secret)
        await self._hub.standing.chosen(template.subject)
        most = self._hub.service.settings.bounds.webhooks
        if len(self._kept) >= most:
            hint = "delete one that is not needed any more, or raise `--max-webhooks`"
            raise RequestError(409, "too-many-subscriptions", f"there are {most:,} subscriptions already", help=hint)
        webhook = replace(template, id=secrets.token_hex(8))
        self._kept[webhook.id] = webhook
        try:
            await self._save(webhook)
        except BaseException:
            del self._kept[webhook.id]
            raise
        self._start_courier(webhook)
        return webhook

    async def remove(self, webhook: Webhook) -> None:
        """Remove a webhook. If that cannot be stored, it continues."""
        async with self._writing:
            await asyncio.to_thread(self._write, {webhook.id: None})
            self._kept.pop(webhook.id, None)
            self._unsaved.discard(webhook.id)
        if courier := self._couriers.pop(webhook.id, None):
            await courier.stop()

    async def resume(self, webhook: Webhook, *, skip: bool = False) -> None:
        """Continue from the cursor; with `skip`, after the failed delivery. If that cannot be stored, the webhook stays
        suspended."""
        if courier := self._couriers.pop(webhook.id, None):
            await courier.stop()
        before = replace(webhook)
        if skip and webhook.dead_letters and webhook.state == "suspended":
            webhook.cursor, webhook.pending = webhook.dead_letters[-1]["version"], None
        webhook.state, webhook.reason = "active", ""
        try:
            await self._save(webhook)
        except BaseException:
            for each in fields(before):
                setattr(webhook, each.name, getattr(before, each.name))
            if webhook.state == "active":
                self._start_courier(webhook)
            raise
        self._start_courier(webhook)

    def deliver_now(self, webhook: Webhook) -> None:
        """Deliver waiting changes now, before the end of an interval."""
        if courier := self._couriers.get(webhook.id):
            courier.deliver_now()

    # ---- couriers and records -----------------------------------------------------------------------

    def _start_courier(self, webhook: Webhook) -> None:
        def save(at_once: bool) -> Any:
            if at_once:
                return self._save(webhook)
            self._unsaved.add(webhook.id)
            return None

        self._couriers[webhook.id] = Courier(
            self._hub, webhook, self.rules, self.retries,
            save=save, allowed=lambda: self._allowed(webhook.owner, webhook.subject),
        )  # fmt: skip
        self._hub.service.metrics.subscribers.labels("webhook").set(len(self._couriers))

    async def _save(self, webhook: Webhook) -> None:
        self._unsaved.discard(webhook.id)
        async with self._writing:
            if webhook.id in self._kept:
                await asyncio.to_thread(self._write, {webhook.id: asdict(webhook)})

    async def _save_all(self) -> None:
        unsaved, self._unsaved = self._unsaved, set()
        async with self._writing:
            records = {id: asdict(self._kept[id]) for id in unsaved if id in self._kept}
            try:
                await asyncio.to_thread(self._write, records)
            except Exception as error:  # noqa: BLE001 - a full disk must not end the deliveries
                log.warning("cursors of webhooks were not written: %s", error)
                self._unsaved |= records.keys()

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVED_EVERY)
            await self._save_all()

    def _write(self, records: Mapping[str, dict[str, Any] | None]) -> None:
        """Store or remove webhooks, and set the cursors from which the log keeps their changes."""
        self._records.put_all(records)
        if self._database.is_durable:
            for id, record in records.items():
                cursor = None if record is None else record["cursor"]
                try:
                    self._database.cursors.set_all({f"webhook-{id}": cursor})
                except UsageError as error:
                    # The log no longer has these changes: the next delivery will be a snapshot.
                    if error.code != "history-not-kept":
                        raise
