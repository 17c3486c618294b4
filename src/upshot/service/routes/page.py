"""The page at `/`: its files, and the two answers that only it asks for. They are no part of the public surface."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.database.explain.dependencies import Dependency
from upshot.service.access.scopes import Scopes
from upshot.service.feed.commit_stream import CommitStream, told
from upshot.service.service import Service
from upshot.service.wire.answers import columns_of, json_response
from upshot.service.wire.errors import Refused, nervous_view, not_found, not_reported

router = APIRouter(include_in_schema=False)

_FILES = files("upshot.service") / "page"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_LATEST = 20


@router.get("/")
async def page() -> Response:
    """The page. It holds nothing of the database: what it shows it asks for, as whoever looks at it."""
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
    """The dependency network with sizes, as far as the token may read it; and the last commits."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            version, explained = at.version, database.explain()
        reads: dict[str, list[Dependency]] = {}
        for edge in explained.edges:
            if scopes.may_read(edge.relation):
                reads.setdefault(edge.view, []).append(edge)
        return {
            "version": version,
            "relations": [
                {
                    "name": part.name,
                    "role": part.schema.role.value,
                    "columns": columns_of(part.schema),
                    "rows": part.size,
                    "stored": part.size is not None,
                    "writable": part.schema.role is Role.BASE and scopes.may_write(part.name),
                    "reads": _edges(reads.get(part.name, ())),
                    "unfollowed": _unfollowed(part.name, database),
                }
                for part in explained.parts
                if scopes.may_read(part.name)
            ],
            "rules": [
                {"name": part.name, "role": "rule", "reads": _edges(reads.get(part.name, ()))}
                for part in explained.rules
                if scopes.may_read(part.name)
            ],
            "commits": [told(each, scopes) for each in service.recent.latest(_LATEST)],
            "session": service.authenticator.cookie in request.cookies,
            "subscribes": scopes.subscribe,
        }

    return json_response(await service.run_read(answer))


def _unfollowed(name: str, database: Database) -> dict[str, str] | None:
    """The reason that the relation cannot be followed as a whole, if it cannot."""
    if not database.reports_net_changes(name):
        why = nervous_view(name)
    elif not database.reports_changes(name):
        why = not_reported(name)
    else:
        return None
    return {"code": why.code, "message": why.message, "help": why.help}


def _edges(edges: Iterable[Dependency]) -> list[dict[str, Any]]:
    return [{"relation": edge.relation, "negated": edge.negated, "aggregated": edge.aggregated} for edge in edges]


@router.get("/commits/stream")
async def commit_stream(request: Request, since: Annotated[int, Query(ge=0)] = 0) -> Response:
    """Every commit as it happens, in numbers."""
    service: Service = request.app.state.service
    service.scopes(request).require_subscribe()
    service.hub.require_room()

    def scopes() -> Scopes | None:
        try:
            now = service.scopes(request)
        except Refused:
            return None
        return now if now.subscribe else None

    return CommitStream(service, since, scopes)
