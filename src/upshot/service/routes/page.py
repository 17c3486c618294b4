"""The page at `/`: its files, and two routes that only the page uses."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.database.explain.dependencies import Dependency
from upshot.database.explain.drawing import BOX_HEIGHT, Layout
from upshot.database.explain.explain import Explanation
from upshot.database.explain.explained_view import rows
from upshot.service.access.scopes import Scopes
from upshot.service.feed.commits import CommitStream
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import columns_of, json_response
from upshot.service.wire.errors import RequestError, nervous_view, not_found, not_reported

router = APIRouter(include_in_schema=False)

_FILES = files("upshot.service") / "page"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_LATEST = 20
_ROOM = " " * 18
"""Space beside the number of rows, for the changes of the last commit."""


@router.get("/")
async def page() -> Response:
    """The page. It contains no data: it requests what it shows, with the viewer's token."""
    return _file("index.html")


@router.get("/page/{name}")
async def part(name: str) -> Response:
    """A file of the page."""
    return _file(name)


def _file(name: str) -> Response:
    ending = name.rpartition(".")[2]
    found = _FILES / name
    if ending not in _TYPES or "/" in name or "\\" in name or name.startswith(".") or not found.is_file():
        raise not_found()
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return Response(found.read_bytes(), media_type=f"{_TYPES[ending]}; charset=utf-8", headers=headers)


@router.get("/network")
async def network(request: Request) -> Response:
    """The readable part of the dependency network, with sizes; and the last commits."""
    service, scopes = service_of(request)
    database = service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            version, explained = at.version, database.explain()
        return {
            "version": version,
            **_network(explained, database, scopes),
            "commits": [each.as_dict(scopes) for each in service.recent.latest(_LATEST)],
            "session": service.authenticator.cookie in request.cookies,
            "subscribes": scopes.subscribe,
        }

    return json_response(await service.run_read(answer))


def _network(explained: Explanation, database: Database, scopes: Scopes) -> dict[str, Any]:
    """The readable relations and rules, with their places in the picture of `explain`."""
    notes = {part.name: rows(part.size) for part in explained.parts} | {part.name: "rule" for part in explained.rules}
    layout = explained.layout({name: note + _ROOM for name, note in notes.items() if scopes.may_read(name)})
    reads: dict[str, list[dict[str, Any]]] = {}
    for edge in explained.edges:
        if edge.view in layout.boxes and edge.relation in layout.boxes:
            reads.setdefault(edge.view, []).append(_edge(edge, layout))
    return {
        "relations": [
            {
                "name": part.name,
                "role": part.schema.role.value,
                "columns": columns_of(part.schema),
                "rows": part.size,
                "stored": part.size is not None,
                "writable": part.schema.role is Role.BASE and scopes.may_write(part.name),
                "reads": reads.get(part.name, []),
                "box": asdict(layout.boxes[part.name]),
                "unfollowed": _unfollowed(part.name, database),
                "first": database.first_version(part.name) if database.is_durable else None,
            }
            for part in explained.parts
            if part.name in layout.boxes
        ],
        "rules": [
            {
                "name": part.name,
                "role": "rule",
                "reads": reads.get(part.name, []),
                "box": asdict(layout.boxes[part.name]),
            }
            for part in explained.rules
            if part.name in layout.boxes
        ],
        "picture": {
            "width": layout.width,
            "height": layout.height,
            "box_height": BOX_HEIGHT,
            "frames": [layout.frame(group) for group in layout.groups],
        },
    }


def _edge(edge: Dependency, layout: Layout) -> dict[str, Any]:
    line, middle = layout.line(edge)
    kind = {"negated": edge.negated, "aggregated": edge.aggregated}
    return {"relation": edge.relation, **kind, "line": line, "middle": middle}


def _unfollowed(name: str, database: Database) -> dict[str, str] | None:
    """The reason why the relation cannot be followed as a whole, if it cannot."""
    if not database.reports_net_changes(name):
        error = nervous_view(name)
    elif not database.reports_changes(name):
        error = not_reported(name)
    else:
        return None
    return {"code": error.code, "message": error.message, "help": error.help}


@router.get("/commits/stream")
async def commit_stream(request: Request, since: Annotated[int, Query(ge=0)] = 0) -> Response:
    """Every commit as it happens, in numbers."""
    service: Service = request.app.state.service
    service.scopes(request).require_subscribe()
    service.hub.require_room()

    def scopes() -> Scopes | None:
        try:
            now = service.scopes(request)
        except RequestError:
            return None
        return now if now.subscribe else None

    return CommitStream(service, since, scopes)
