"""`/subscriptions`: webhooks, to which the service delivers the changes of a view."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from upshot.service.feed.selections import LONGEST_TEXT
from upshot.service.feed.standing import Subject
from upshot.service.routes.changes import LARGEST_VERSION, LONGEST_INTERVAL, LONGEST_QUERY
from upshot.service.service import Service, service_of
from upshot.service.webhooks.couriers import Webhook, described
from upshot.service.webhooks.targets import LONGEST_URL
from upshot.service.webhooks.webhooks import Webhooks
from upshot.service.wire.errors import RequestError, not_found

router = APIRouter(prefix="/subscriptions", tags=["subscriptions"])

SHORTEST_INTERVAL = 0.1
Id = Annotated[str, Path(max_length=64)]


class NewSubscription(BaseModel):
    """A webhook for the changes of a view or a query."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "example": {
                "view": "closure",
                "where": 'closure("a",Y)',
                "url": "https://hooks.example.org/upshot",
                "secret": "HOOKS",
                "every": 60,
            }
        },
    )

    view: str | None = Field(None, max_length=256)
    query: str | None = Field(None, max_length=LONGEST_QUERY, description="instead of a view: a rule body or a SELECT")
    parameters: dict[str, str | int | float | bool] = Field({}, description="the values of `$x` or `:x` in the query")
    url: str = Field(max_length=LONGEST_URL)
    secret: str = Field(max_length=64, description="the signing secret is in `UPSHOT_WEBHOOK_SECRET_<this>`")
    where: str | None = Field(None, max_length=LONGEST_TEXT, description="a part of the view")
    every: Annotated[float, Field(ge=SHORTEST_INTERVAL, le=LONGEST_INTERVAL)] | Literal["demand"] | None = Field(
        None, description="seconds of an interval, or `demand`; by default every commit"
    )
    since: int | None = Field(None, ge=0, le=LARGEST_VERSION, description="start after this version, without all rows")
    events: Literal["all", "insert", "delete"] = Field("all", description="rows of one sign only")
    limit: int | None = Field(None, ge=0, le=1_000_000, description="the most rows of a sign in one delivery")


class Resumption(BaseModel):
    """The options of resuming a suspended webhook."""

    model_config = ConfigDict(extra="forbid", strict=True)

    skip: bool = Field(False, description="omit the delivery that failed")


@router.post("", status_code=201, summary="Add a webhook")
async def create(request: Request, new: NewSubscription) -> dict[str, Any]:
    """All rows are delivered first, unless `since` is given; then each change, in order, until it is confirmed."""
    service, scopes = service_of(request)
    scopes.require_subscribe()
    subject = _subject(new)
    if subject.is_query:
        await asyncio.to_thread(service.database.query_reads, subject.view, subject.values, scopes.may_read)
    else:
        scopes.require_read(subject.view, service.database.schemas)
    template = Webhook(
        "", subject.view, new.url, new.secret, scopes.name, subject.where, new.every, new.since,
        parameters=subject.parameters, events=new.events, limit=new.limit,
    )  # fmt: skip
    return _shown(await _webhooks(request).create(template))


def _subject(new: NewSubscription) -> Subject:
    if (new.view is None) == (new.query is None) or (new.query is not None and new.where is not None):
        hint = 'as in {"view": "closure"} or {"query": "closure($x, Y)", "parameters": {"x": "a"}}'
        raise RequestError(400, "bad-request", "a subscription is of a `view` or of a `query`", help=hint)
    if new.query is not None:
        return Subject(new.query, parameters=json.dumps(new.parameters))
    assert new.view is not None
    return Subject(new.view, new.where)


@router.get("", summary="The webhooks of this token")
async def listed(request: Request) -> dict[str, Any]:
    service, scopes = service_of(request)
    scopes.require_subscribe()
    own = [each for each in service.hub.webhooks.all() if scopes.admin or each.owner == scopes.name]
    return {"subscriptions": [_shown(each) for each in own]}


@router.get("/{id}", summary="One webhook")
async def one(request: Request, id: Id) -> dict[str, Any]:
    return _shown(_own(request, id))


@router.delete("/{id}", status_code=204, summary="Remove a webhook", response_class=Response)
async def remove(request: Request, id: Id) -> Response:
    await _webhooks(request).remove(_own(request, id))
    return Response(status_code=204)


@router.post("/{id}/resume", summary="Resume a suspended webhook")
async def resume(request: Request, id: Id, how: Resumption | None = None) -> dict[str, Any]:
    """Continue from the cursor: the failed delivery is repeated first, unless it is skipped."""
    webhook = _own(request, id)
    await _webhooks(request).resume(webhook, skip=how is not None and how.skip)
    return _shown(webhook)


@router.post("/{id}/deliver", status_code=202, summary="Deliver now")
async def deliver(request: Request, id: Id) -> dict[str, Any]:
    """Deliver the waiting changes as one change; for webhooks on demand, and before the end of an interval."""
    webhook = _own(request, id)
    _webhooks(request).deliver_now(webhook)
    return _shown(webhook)


@router.get("/{id}/dead-letters", summary="The failed deliveries")
async def dead_letters(request: Request, id: Id) -> dict[str, Any]:
    return {"dead_letters": _own(request, id).dead_letters}


def _webhooks(request: Request) -> Webhooks:
    service: Service = request.app.state.service
    return service.hub.webhooks


def _own(request: Request, id: str) -> Webhook:
    """The webhook, if it is the token's own or the token may do anything; `not-found` otherwise."""
    _, scopes = service_of(request)
    scopes.require_subscribe()
    webhook = _webhooks(request).get(id)
    if webhook is None or not (scopes.admin or webhook.owner == scopes.name):
        raise not_found("subscription")
    return webhook


def _shown(webhook: Webhook) -> dict[str, Any]:
    found: dict[str, Any] = {"id": webhook.id, **described(webhook)}
    if webhook.events != "all":
        found["events"] = webhook.events
    if webhook.limit is not None:
        found["limit"] = webhook.limit
    found |= {"url": webhook.url, "secret": webhook.secret, "every": webhook.every, "owner": webhook.owner}
    found |= {"state": webhook.state, "cursor": webhook.cursor, "dead_letters": len(webhook.dead_letters)}
    if webhook.reason:
        found["reason"] = webhook.reason
    return found
