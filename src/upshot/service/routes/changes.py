"""`GET /views/{name}/changes` and `GET /changes`: follow a view or a query."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from upshot.service.feed.hub import Hub
from upshot.service.feed.past import Forgotten, read_snapshot
from upshot.service.feed.selections import Selection, selection
from upshot.service.feed.sse import EventStream, net_change
from upshot.service.feed.standing import Subject
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import columns_of, listed
from upshot.service.wire.errors import RequestError

router = APIRouter()

LARGEST_VERSION = 2**63 - 1
SHORTEST_INTERVAL = 0.05
LONGEST_INTERVAL = 86_400.0

LONGEST_QUERY = 20_000
Sign = Annotated[Literal["all", "insert", "delete"], Query(description="rows of one sign only; a snapshot has all")]
Most = Annotated[int | None, Query(ge=0, le=1_000_000, description="the most rows of a sign in one change")]

_EVENTS = """event: snapshot
id: 7
data: {"version":7,"epoch":"5c1b…","columns":[{"name":"x","type":"number"}],"rows":[[1],[2]]}

event: change
id: 8
data: {"version":8,"insert":[[3]],"delete":[[1]]}

event: progress
id: 9
data: {"version":9}

"""

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events `snapshot`, `change`, `progress` and `end`; or, as JSON, one net change.",
        "content": {
            "text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS},
            "application/json": {
                "schema": {"type": "object"},
                "example": {"version": 9, "epoch": "5c1b…", "since": 7, "insert": [[3]], "delete": [[1]]},
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class StartOfFollowing:
    """The version after which a stream starts, and the options of the stream."""

    since: int | None
    every: float | None
    only: tuple[str, int | None]
    epoch: str | None
    last_event_id: str | None
    accept: str


def _start(
    since: Annotated[int | None, Query(ge=0, le=LARGEST_VERSION, description="start after this version")] = None,
    every: Annotated[
        float | None,
        Query(ge=SHORTEST_INTERVAL, le=LONGEST_INTERVAL, description="seconds: one net change for each interval"),
    ] = None,
    events: Sign = "all",
    limit: Most = None,
    epoch: Annotated[str | None, Query(max_length=64, description="the epoch of the version in `since`")] = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
    accept: Annotated[str, Header()] = "*/*",
) -> StartOfFollowing:
    return StartOfFollowing(since, every, (events, limit), epoch, last_event_id, accept)


Start = Annotated[StartOfFollowing, Depends(_start)]


@router.get(
    "/views/{name}/changes",
    tags=["subscriptions"],
    summary="Follow a view",
    responses=_RESPONSES,
    response_class=Response,
)
async def changes(
    request: Request,
    name: str,
    start: Start,
    until: Annotated[
        int | None, Query(ge=0, le=LARGEST_VERSION, description="one net change, as JSON, up to this version")
    ] = None,
    where: Annotated[str | None, Query(description='filter: `closure("a",Y)`')] = None,
) -> Response:
    """Server-sent events: a `snapshot` unless `since` or `Last-Event-ID` is given, then a `change` for each commit that
    changes the view, in order, once. With `Accept: application/json` one answer: the net change since `since`, or all
    rows."""
    service, scopes = service_of(request)
    scopes.require_subscribe()
    scopes.require_read(name, service.database.schemas)
    chosen = selection(name, where, service.database.schemas)
    if until is not None:
        return await _net_between(service, chosen, start.since, until)
    return await _answer(request, service, Subject(name, where), frozenset({name}), start)


@router.get("/changes", tags=["subscriptions"], summary="Follow a query", responses=_RESPONSES, response_class=Response)
async def query_changes(
    request: Request,
    query: Annotated[str, Query(max_length=LONGEST_QUERY, description="a rule body with `$x`, or a SELECT with `:x`")],
    start: Start,
    parameters: Annotated[str, Query(max_length=LONGEST_QUERY, description='their values: `{"x": "a"}`')] = "{}",
) -> Response:
    """Follow a query with parameters as for a view: its answers, then every change of them. Queries that differ in the
    values of their parameters only share one plan. The token needs to read every relation that the query names."""
    service, scopes = service_of(request)
    scopes.require_subscribe()
    subject = Subject(query, parameters=json.dumps(read_parameters(parameters)))
    reads = await asyncio.to_thread(service.database.query_reads, query, subject.values, scopes.may_read)
    return await _answer(request, service, subject, reads, start)


async def _answer(
    request: Request, service: Service, subject: Subject, reads: frozenset[str], start: StartOfFollowing
) -> Response:
    hub = service.hub
    cursor = _cursor(start.last_event_id) if start.last_event_id else start.since
    reason = None
    if cursor is not None and start.epoch is not None and start.epoch != service.database.identity:
        cursor, reason = None, "history-not-kept"
    if "application/json" in start.accept and "text/event-stream" not in start.accept:
        return await _on_demand(hub, await hub.standing.chosen(subject), cursor, reason)
    service.hub.require_room()

    def allowed() -> bool:
        try:
            now = service.scopes(request)
        except RequestError:
            return False
        return now.subscribe and now.may_read_all(reads)

    await hub.standing.chosen(subject)
    return EventStream(hub, subject, since=cursor, reason=reason, every=start.every, only=start.only, allowed=allowed)


async def _net_between(service: Service, chosen: Selection, since: int | None, until: int) -> JSONResponse:
    """The net change from one version to another."""
    database = service.database
    if since is None:
        raise RequestError(400, "bad-request", "`until` needs `since`", help="as in `?since=7&until=9`")

    def net() -> dict[str, Any]:
        found = database.changes(chosen.view, since, until)
        rows = {"insert": chosen.of(found.inserted.sorted()), "delete": chosen.of(found.deleted.sorted())}
        return {sign: listed(each) for sign, each in rows.items()}

    body = {"version": until, "epoch": database.identity, "since": since}
    return JSONResponse({**body, **await service.writer.between_commits(net)})


def read_parameters(text: str) -> dict[str, Any]:
    """The values of parameters, sent as a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(isinstance(value, list | dict) for value in found.values()):
        hint = 'as in `parameters={"x": "a"}`'
        raise RequestError(
            400, "bad-request", "`parameters` is an object of numbers, texts and truth values", help=hint
        )
    return found


def _cursor(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > LARGEST_VERSION:
        hint = "send the `id` of the last received event"
        raise RequestError(400, "bad-cursor", "`Last-Event-ID` is not a version", help=hint)
    return int(text)


async def _on_demand(hub: Hub, selection: Selection, since: int | None, reason: str | None) -> JSONResponse:
    """One net change since the version, or all rows."""
    database, most = hub.service.database, hub.service.settings.bounds.snapshot
    body: dict[str, Any] = {"version": 0, "epoch": database.identity}
    if since is not None:
        try:
            with hub.following(selection) as stream:
                body["version"], net = await net_change(hub, stream, since)
            rows = {"insert": listed(net.inserted), "delete": listed(net.deleted)}
            return JSONResponse({**body, "since": since, **rows})
        except Forgotten as forgotten:
            reason = forgotten.reason
    found = await hub.read(lambda: read_snapshot(database, selection, most, hub.standing))
    body |= {"version": found.version, "columns": columns_of(found.schema), "rows": listed(found.rows)}
    return JSONResponse(body if reason is None else {**body, "reason": reason})
