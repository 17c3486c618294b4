"""`GET /views/{name}/changes`: a view, and then everything that happens to it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.json_values import to_json
from upshot.service.feed.hub import Hub
from upshot.service.feed.past import Forgotten, read_snapshot
from upshot.service.feed.selections import Selection, selection
from upshot.service.feed.sse import EventStream, net_change
from upshot.service.feed.streams import columns_json
from upshot.service.service import Service
from upshot.service.wire.errors import Refused

router = APIRouter()

LARGEST_VERSION = 2**63 - 1
SHORTEST_INTERVAL = 0.05
LONGEST_INTERVAL = 86_400.0

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
    since: Annotated[int | None, Query(ge=0, le=LARGEST_VERSION, description="start after this version")] = None,
    where: Annotated[str | None, Query(description='filter: `closure("a",Y)`')] = None,
    every: Annotated[
        float | None,
        Query(ge=SHORTEST_INTERVAL, le=LONGEST_INTERVAL, description="seconds: one net change for each interval"),
    ] = None,
    epoch: Annotated[str | None, Query(max_length=64, description="the epoch of the version in `since`")] = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """Server-sent events: a `snapshot` unless `since` or `Last-Event-ID` is given, then a `change` for each commit that
    concerns the view, in order, once. With `Accept: application/json` one answer: the net change since `since`, or all
    rows."""
    service: Service = request.app.state.service
    hub = service.hub
    scopes = service.scopes(request)
    scopes.require_subscribe()
    scopes.require_read(name, service.database.schemas)
    cursor = _cursor(last_event_id) if last_event_id else since
    reason = None
    if cursor is not None and epoch is not None and epoch != service.database.identity:
        cursor, reason = None, "history-not-kept"
    if "application/json" in accept and "text/event-stream" not in accept:
        chosen = selection(name, where, service.database.schemas)
        return await _on_demand(hub, await hub.standing.reported(chosen), cursor, reason)
    service.hub.require_room()

    def allowed() -> bool:
        try:
            now = service.scopes(request)
        except Refused:
            return False
        return now.subscribe and now.may_read(name)

    await hub.standing.reported(selection(name, where, service.database.schemas))
    return EventStream(hub, name, where, since=cursor, reason=reason, every=every, allowed=allowed)


def _cursor(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > LARGEST_VERSION:
        hint = "send the `id` of the last received event"
        raise Refused(400, "bad-cursor", "`Last-Event-ID` is not a version", help=hint)
    return int(text)


async def _on_demand(hub: Hub, selection: Selection, since: int | None, reason: str | None) -> JSONResponse:
    """One net change since the version, or all rows."""
    database, most = hub.service.database, hub.service.settings.bounds.snapshot
    body: dict[str, Any] = {"version": 0, "epoch": database.identity}
    if since is not None:
        try:
            with hub.following(selection) as stream:
                body["version"], net = await net_change(hub, stream, since)
            rows = {"insert": list(map(_json, net.inserted)), "delete": list(map(_json, net.deleted))}
            return JSONResponse({**body, "since": since, **rows})
        except Forgotten as forgotten:
            reason = forgotten.reason
    found = await hub.read(lambda: read_snapshot(database, selection, most))
    body |= {"version": found.version, "columns": columns_json(found.schema), "rows": list(map(_json, found.rows))}
    return JSONResponse(body if reason is None else {**body, "reason": reason})


def _json(row: tuple[Any, ...]) -> list[Any]:
    return [to_json(value) for value in row]
