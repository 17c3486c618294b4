"""A courier delivers the changes of a view to one webhook: in order, each repeated until it is confirmed.

The content of a delivery is fixed, and its version range stored, before it is sent for the first time: a repetition, by
this process or the next one, has the same content and id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from upshot.core.errors import EngineError, Error
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Row
from upshot.service.feed.past import Forgotten, VersionChange, read_net, read_past, read_snapshot
from upshot.service.feed.selections import Selection
from upshot.service.feed.sse import net_change
from upshot.service.feed.standing import Subject
from upshot.service.feed.streams import ChangeStream, requested_rows
from upshot.service.webhooks.deliveries import Delivery, FailedDelivery, deliver, secret_of
from upshot.service.webhooks.targets import TargetRules

if TYPE_CHECKING:
    from upshot.service.feed.hub import Hub

log = logging.getLogger("upshot.service")

MOST_DEAD_LETTERS = 100
DEMAND = "demand"


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Seconds before the second attempt, the longest pause, and the number of attempts."""

    first: float = 1.0
    longest: float = 300.0
    attempts: int = 12

    def pause(self, attempt: int) -> float:
        """Seconds after this many attempts: doubled each time, and random, so that retries spread out."""
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)


@dataclass(slots=True)
class Webhook:
    """A webhook as it is stored. `cursor` is the version that the receiver has, None before its first snapshot;
    `pending` is the last version of an unconfirmed net change. `state` is `active`, or `suspended` for a `reason`."""

    id: str
    view: str
    url: str
    secret: str
    owner: str
    where: str | None = None
    every: float | str | None = None
    cursor: int | None = None
    pending: int | None = None
    state: str = "active"
    reason: str = ""
    dead_letters: list[dict[str, Any]] = field(default_factory=list)
    parameters: str | None = None
    """The parameters as JSON, if `view` is a query."""
    events: str = "all"
    limit: int | None = None

    @property
    def subject(self) -> Subject:
        return Subject(self.view, self.where, self.parameters)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A delivery, and the version that the receiver has after it."""

    delivery: Delivery
    since: int | None
    version: int


class Courier:
    """Delivers to one webhook. `save` stores the webhook, soon or at once; `allowed` tests whether its owner may still
    read the view."""

    def __init__(
        self,
        hub: Hub,
        webhook: Webhook,
        rules: TargetRules,
        retries: RetryPlan,
        *,
        save: Callable[[bool], Any],
        allowed: Callable[[], bool],
    ) -> None:
        self.webhook = webhook
        self._hub, self._rules, self._retries, self._save, self._allowed = hub, rules, retries, save, allowed
        self._database = hub.service.database
        self._steps: deque[VersionChange] = deque()
        self._reason: str | None = None
        self._requested = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def deliver_now(self) -> None:
        """Deliver waiting changes now, before the end of an interval."""
        self._requested.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                self._require_scope()
                try:
                    parcel = await self._next()
                except EngineError as error:
                    if error.code != "store-failed":
                        raise
                    # A delivery is stored before it is sent. While the disk is full, try again.
                    failures += 1
                    log.warning("webhook %s waits: %s", self.webhook.id, error.message)
                    await asyncio.sleep(self._retries.pause(failures))
                    continue
                failures = 0
                await self._deliver(parcel)
                self.webhook.cursor, self.webhook.pending = parcel.version, None
                self._save(False)
        except _Suspended as suspended:
            await self._suspend(str(suspended))
        except Error as error:
            await self._suspend("view-dropped" if error.code == "not-found" else error.code)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("the courier of webhook %s failed", self.webhook.id)
            await self._suspend("failed")

    def _require_scope(self) -> None:
        if not self._allowed():
            raise _Suspended("forbidden")

    async def _suspend(self, reason: str) -> None:
        self.webhook.state, self.webhook.reason = "suspended", reason
        log.warning("webhook %s is suspended: %s", self.webhook.id, reason)
        try:
            await self._save(True)
        except EngineError as error:
            log.warning("that webhook %s is suspended is not written yet: %s", self.webhook.id, error.message)
            self._save(False)

    # ---- delivering -------------------------------------------------------------------------------

    async def _deliver(self, parcel: Parcel) -> None:
        """Send the delivery until it is confirmed."""
        outcomes = self._hub.service.metrics.deliveries
        for attempt in range(1, self._retries.attempts + 1):
            self._require_scope()
            try:
                target = self._rules.target(self.webhook.url)
                await deliver(parcel.delivery, target, self._rules, secret_of(self.webhook.secret))
                outcomes.labels("delivered").inc()
                return
            except (FailedDelivery, Error) as failure:
                message = failure.message if isinstance(failure, Error) else str(failure)
                gone = isinstance(failure, FailedDelivery) and failure.gone
            outcomes.labels("failed").inc()
            log.info("delivery %s, attempt %d: %s", parcel.delivery.id, attempt, message)
            if gone or attempt == self._retries.attempts:
                self._keep_dead_letter(parcel, attempt, message)
                outcomes.labels("dead").inc()
                raise _Suspended("undeliverable")
            await asyncio.sleep(self._retries.pause(attempt))

    def _keep_dead_letter(self, parcel: Parcel, attempts: int, message: str) -> None:
        letter = {
            "delivery": parcel.delivery.id,
            "since": parcel.since,
            "version": parcel.version,
            "attempts": attempts,
            "error": message,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self.webhook.dead_letters = [*self.webhook.dead_letters, letter][-MOST_DEAD_LETTERS:]

    # ---- the next delivery ------------------------------------------------------------------------

    async def _next(self) -> Parcel:
        """Wait for the next delivery."""
        webhook = self.webhook
        while True:
            chosen = await self._hub.standing.chosen(webhook.subject)
            with self._hub.following(chosen) as stream:
                if webhook.cursor is None:
                    return await self._snapshot(chosen)
                try:
                    if webhook.every is None:
                        found = await self._step(stream)
                    else:
                        found = await self._net(stream)
                except Forgotten as forgotten:
                    webhook.cursor = webhook.pending = None
                    self._reason = forgotten.reason
                    continue
                if found is not None:
                    return found
            self._hub.standing.refuse_failed(chosen)

    async def _snapshot(self, chosen: Selection) -> Parcel:
        most, reason = self._hub.service.settings.bounds.snapshot, self._reason

        def read() -> Parcel:
            found = read_snapshot(self._database, chosen, most, self._hub.standing)
            return self._parcel(None, found.version, found.rows, (), snapshot=True, reason=reason)

        parcel = await self._hub.read(read)
        self._reason = None
        return parcel

    async def _step(self, stream: ChangeStream) -> Parcel | None:
        """The next change with rows that the receiver requested. If there is none, the cursor moves."""
        since = self.webhook.cursor
        assert since is not None, "after the snapshot"
        if not self._steps:
            entries = stream.all_after(since)
            if entries is None:
                if since > self._database.version:
                    raise Forgotten
                until = max(stream.base, self._hub.version)
                past = await self._hub.read(
                    lambda: read_past(self._database, stream.selection, since, until, self._hub.standing)
                )
                self._steps.extend(each for each in past.steps if self._has_rows(each.inserted, each.deleted))
                through = past.through
            else:
                self._steps.extend(
                    VersionChange(e.version, list(e.inserted), list(e.deleted))
                    for e in entries
                    if e.counts and self._has_rows(e.inserted, e.deleted)
                )
                through = max(self._hub.version, since)
        if self._steps:
            step = self._steps.popleft()
            return self._parcel(since, step.version, step.inserted, step.deleted)
        self._set_cursor(through)
        if entries is not None and not stream.closed:
            await _new_event(stream)
        return None

    async def _net(self, stream: ChangeStream) -> Parcel | None:
        """The net change of the next interval, or of the requested range."""
        webhook = self.webhook
        since = webhook.cursor
        assert since is not None, "after the snapshot"
        if webhook.pending is not None:
            until = webhook.pending
            net = await self._hub.read(
                lambda: read_net(self._database, stream.selection, since, until, self._hub.standing)
            )
        else:
            await self._interval()
            until, net = await net_change(self._hub, stream, since)
        if not self._has_rows(net.inserted, net.deleted):
            webhook.pending = None
            self._set_cursor(until)
            return None
        if webhook.pending is None:
            webhook.pending = until
            try:
                await self._save(True)
            except BaseException:
                webhook.pending = None
                raise
        return self._parcel(since, until, net.inserted, net.deleted)

    def _has_rows(self, inserted: Iterable[Row], deleted: Iterable[Row]) -> bool:
        """Test whether a change has rows that the receiver requested."""
        inserted, deleted, _ = requested_rows(inserted, deleted, self.webhook.events, None)
        return any(True for rows in (inserted, deleted) for _ in rows)

    async def _interval(self) -> None:
        if self.webhook.every == DEMAND:
            await self._requested.wait()
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._requested.wait(), float(self.webhook.every or 0))
        self._requested.clear()

    def _set_cursor(self, version: int) -> None:
        """Move the cursor: there is nothing to deliver up to this version."""
        if version != self.webhook.cursor:
            self.webhook.cursor = version
            self._save(False)

    def _parcel(
        self,
        since: int | None,
        version: int,
        inserted: Iterable[Row],
        deleted: Iterable[Row],
        *,
        snapshot: bool = False,
        reason: str | None = None,
    ) -> Parcel:
        events, limit = self.webhook.events, self.webhook.limit
        inserted, deleted, omitted = requested_rows(inserted, deleted, events, limit, whole=snapshot)
        head: dict[str, Any] = {"subscription": self.webhook.id, **described(self.webhook)}
        if omitted:
            head["omitted"] = omitted
        head |= {"version": version, "since": since}
        if snapshot:
            head["snapshot"] = True
        if reason is not None:
            head["reason"] = reason
        opened = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1]
        body = f'{opened},"insert":{rows_to_json(inserted)},"delete":{rows_to_json(deleted)}}}'
        id = f"{self.webhook.id}-{'snapshot' if snapshot else since}-{version}"
        return Parcel(Delivery(id, body.encode()), since, version)


def described(webhook: Webhook) -> dict[str, Any]:
    """The subject of a webhook: a view, a part of it, or a query with its parameters."""
    if webhook.parameters is not None:
        return {"query": webhook.view, "parameters": json.loads(webhook.parameters)}
    return {"view": webhook.view, **({} if webhook.where is None else {"where": webhook.where})}


class _Suspended(Exception):
    """Suspends the webhook, for a reason, until it is resumed."""


async def _new_event(stream: ChangeStream) -> None:
    future = stream.waiter()
    try:
        await future
    except asyncio.CancelledError:
        stream.forget(future)
        raise
