"""A courier brings the changes of a view to one webhook: in order, each until it is confirmed.

What a delivery holds is decided before it is sent for the first time, and written down: sent again, by this process or
the next one, it is the same delivery with the same id.
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
from upshot.service.feed.streams import ChangeStream, heard
from upshot.service.webhooks.deliveries import Delivery, FailedDelivery, deliver, secret_of
from upshot.service.webhooks.targets import TargetRules

if TYPE_CHECKING:
    from upshot.service.feed.hub import Hub

log = logging.getLogger("upshot.service")

MOST_DEAD_LETTERS = 100
DEMAND = "demand"


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Seconds before the second attempt, the longest pause, and how many attempts there are."""

    first: float = 1.0
    longest: float = 300.0
    attempts: int = 12

    def pause(self, attempt: int) -> float:
        """After this many attempts: doubled each time, and never the same for all who wait."""
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)


@dataclass(slots=True)
class Webhook:
    """A webhook as it is kept. `cursor` is the version that the receiver has, None before its first snapshot; `pending`
    the one that a net change under way ends at. It is `active`, or `suspended` for a `reason`."""

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
    """Of a query, which `view` is then, as JSON."""
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
    """`save` writes the webhook down, soon or at once; `allowed` says whether its owner may still read the view."""

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
        self._asked = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def ask(self) -> None:
        """Request the delivery of waiting changes now."""
        self._asked.set()

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
                    # A delivery is written down before it is sent; a disk that is full for a while ends nothing.
                    failures += 1
                    log.warning("webhook %s waits: %s", self.webhook.id, error.message)
                    await asyncio.sleep(self._retries.pause(failures))
                    continue
                failures = 0
                await self._bring(parcel)
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

    # ---- bringing ---------------------------------------------------------------------------------

    async def _bring(self, parcel: Parcel) -> None:
        """Returns when the delivery is confirmed."""
        outcomes = self._hub.service.metrics.deliveries
        for attempt in range(1, self._retries.attempts + 1):
            self._require_scope()
            try:
                target = self._rules.target(self.webhook.url)
                await deliver(parcel.delivery, target, self._rules, secret_of(self.webhook.secret))
                outcomes.labels("delivered").inc()
                return
            except (FailedDelivery, Error) as failure:
                words = failure.message if isinstance(failure, Error) else str(failure)
                gone = isinstance(failure, FailedDelivery) and failure.gone
            outcomes.labels("failed").inc()
            log.info("delivery %s, attempt %d: %s", parcel.delivery.id, attempt, words)
            if gone or attempt == self._retries.attempts:
                self._keep_dead_letter(parcel, attempt, words)
                outcomes.labels("dead").inc()
                raise _Suspended("undeliverable")
            await asyncio.sleep(self._retries.pause(attempt))

    def _keep_dead_letter(self, parcel: Parcel, attempts: int, words: str) -> None:
        letter = {
            "delivery": parcel.delivery.id,
            "since": parcel.since,
            "version": parcel.version,
            "attempts": attempts,
            "error": words,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self.webhook.dead_letters = [*self.webhook.dead_letters, letter][-MOST_DEAD_LETTERS:]

    # ---- what comes next --------------------------------------------------------------------------

    async def _next(self) -> Parcel:
        """The next delivery, once there is something to deliver."""
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
        """The change of the next version that has one which the receiver hears. While there is none the cursor moves
        on."""
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
                self._steps.extend(each for each in past.steps if self._hears(each.inserted, each.deleted))
                through = past.through
            else:
                self._steps.extend(
                    VersionChange(e.version, list(e.inserted), list(e.deleted))
                    for e in entries
                    if e.counts and self._hears(e.inserted, e.deleted)
                )
                through = max(self._hub.version, since)
        if self._steps:
            step = self._steps.popleft()
            return self._parcel(since, step.version, step.inserted, step.deleted)
        self._move_on(through)
        if entries is not None and not stream.closed:
            await _woken(stream)
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
        if not self._hears(net.inserted, net.deleted):
            webhook.pending = None
            self._move_on(until)
            return None
        if webhook.pending is None:
            webhook.pending = until
            try:
                await self._save(True)
            except BaseException:
                webhook.pending = None
                raise
        return self._parcel(since, until, net.inserted, net.deleted)

    def _hears(self, inserted: Iterable[Row], deleted: Iterable[Row]) -> bool:
        """Test whether a change has rows of a sign that the receiver asked for."""
        came, went, _ = heard(inserted, deleted, self.webhook.events, None)
        return any(True for rows in (came, went) for _ in rows)

    async def _interval(self) -> None:
        if self.webhook.every == DEMAND:
            await self._asked.wait()
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), float(self.webhook.every or 0))
        self._asked.clear()

    def _move_on(self, version: int) -> None:
        """There is nothing to deliver up to this version."""
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
        inserted, deleted, omitted = heard(inserted, deleted, self.webhook.events, self.webhook.limit, whole=snapshot)
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
    """Nothing is delivered any more until somebody resumes it."""


async def _woken(stream: ChangeStream) -> None:
    future = stream.waiter()
    try:
        await future
    except asyncio.CancelledError:
        stream.forget(future)
        raise
