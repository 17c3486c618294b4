"""`GET /views/{name}` and `POST /query`: rows at one version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from upshot.database.database import Database
from upshot.database.explain.dependencies import uses_in
from upshot.database.queries.query import is_select
from upshot.service import logs
from upshot.service.access.scopes import Scopes
from upshot.service.feed.past import past_selection, read_selection
from upshot.service.feed.selections import selection
from upshot.service.feed.sse import disconnected
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import (
    ARROW,
    JSON,
    NDJSON,
    columns_of,
    json_response,
    listed,
    page_response,
    pieces,
    preferred_format,
)
from upshot.service.wire.bodies import read_object, read_row
from upshot.service.wire.errors import RequestError, not_found
from upshot.service.wire.pages import LONGEST_CURSOR, Listing, Page, PageRequest
from upshot.service.wire.shapes import ERRORS, QUERY, QueryAnswer, ViewAnswer, answer_of, body_of
from upshot.syntax import parse_query

PIECE = 20_000
"""The number of rows in a piece."""
PATIENCE = 30.0
"""Time limit for sending a piece, in seconds: the rows of the version are kept until the last piece is sent."""


class WholeAnswer(Response):
    """An answer in pieces. A reader thread computes a piece after the previous one has been sent."""

    def __init__(self, service: Service, pieces: Iterator[bytes], headers: Mapping[str, str], form: str) -> None:
        super().__init__(None, 200, headers, form)
        del self.headers["content-length"]
        self._service, self._pieces = service, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._service.sending_whole():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            gone = asyncio.ensure_future(disconnected(receive))
            try:
                while (piece := await self._service.run_piece(lambda: next(self._pieces, None))) is not None:
                    async with asyncio.timeout(PATIENCE):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if gone.done():
                        return
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                # Without its end the answer is invalid, so no client takes it for complete.
                logs.service.warning("a client did not take a large answer in %g seconds", PATIENCE)
            finally:
                gone.cancel()


router = APIRouter(tags=["reading"], responses=ERRORS, default_response_class=Response)

_LONGEST_QUERY = 20_000
_LARGEST_LIMIT = 1_000_000
_LONGEST_ORDER = 2_000
LARGEST_VERSION = 2**63 - 1

_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ViewAnswer,
        "description": "The rows, as JSON, as lines of JSON or as an Arrow stream.",
        "content": {
            JSON: {},
            NDJSON: {"schema": {"type": "string"}, "example": "[1,2]\n[1,3]\n"},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
        "headers": {
            "Upshot-Version": {"description": "the version of the rows", "schema": {"type": "integer"}},
            "Upshot-Next": {"description": "as `next`", "schema": {"type": "string"}},
        },
    },
    406: {**ERRORS[400], "description": "The client takes none of the forms."},
}


@router.get("/views/{name}", summary="Read a relation", response_class=Response, responses=_FORMS)
async def view(
    request: Request,
    name: str,
    where: Annotated[
        str | None, Query(description='a part of it: `closure("a",Y)`', examples=['closure("a",Y)'])
    ] = None,
    limit: Annotated[int | None, Query(ge=1, le=_LARGEST_LIMIT, description="rows of a page")] = None,
    after: Annotated[str | None, Query(max_length=LONGEST_CURSOR, description="`next` of the page before")] = None,
    order: Annotated[str | None, Query(max_length=_LONGEST_ORDER, description="columns to sort by: `-y,x`")] = None,
    consistent: Annotated[bool, Query(description="only pages of the version of the first")] = True,
    at: Annotated[int | None, Query(ge=0, le=LARGEST_VERSION, description="the rows at this earlier version")] = None,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """The rows of a relation, view or constraint, in order. A large answer comes in pages, all of the version of the
    first. Lines of JSON and Arrow without `limit` contain all rows; if there are many, they are not sorted."""
    service, scopes = service_of(request)
    database = service.database
    form = preferred_format(accept)
    scopes.require_read(name, database.schemas)
    most = service.settings.bounds.rows
    subject = json.dumps([name, where, at])
    page_request = PageRequest(subject, min(limit or most, most), order, after, consistent)

    def read() -> Listing:
        return Listing(name, subject, *read_selection(database, selection(name, where, database.schemas)))

    if at is not None:
        found = selection(name, where, database.schemas)

        def then() -> Listing:
            return Listing(name, subject, at, past_selection(database, found, at), time=database.at(at).time)

        page = await _past_page(service, page_request, then)
        return await service.run_read(lambda: page_response(page, form))

    def answer() -> Response:
        if not (limit or order or after or form == JSON):
            listing = read()
            if len(listing.rows) > most and listing.rows.has_parts:
                headers = {"Upshot-Version": str(listing.version), "Vary": "Accept"}
                return WholeAnswer(service, pieces(listing.rows, form, PIECE), headers, form)
            return page_response(service.pages.page(page_request, lambda: listing), form)
        return page_response(service.pages.page(page_request, read), form)

    return await service.run_read(answer)


async def _past_page(service: Service, page_request: PageRequest, read: Callable[[], Listing]) -> Page:
    """A page of an earlier version. Unless its rows are kept, they are read between commits."""

    def unread() -> Listing:
        raise _Unread

    try:
        return await service.run_read(lambda: service.pages.page(page_request, unread))
    except _Unread:
        listing = await service.writer.between_commits(read)
        return await service.run_read(lambda: service.pages.page(page_request, lambda: listing))


class _Unread(Exception):
    """No rows of the version are kept."""


@router.get("/views/{name}/history", summary="The history of a row", response_class=Response)
async def history(
    request: Request,
    name: str,
    row: Annotated[str, Query(max_length=_LONGEST_QUERY, description="the row as JSON: `[1,3]`")],
) -> Response:
    """The commits that inserted or deleted a row, the oldest first, as far as the log reaches."""
    service, scopes = service_of(request)
    database = service.database
    scopes.require_read(name, database.schemas)
    values = read_row(row, database.schemas[name])

    def answer() -> Response:
        found = database.row_history(name, values)
        changes = [{"version": each.version, "change": each.change, "time": each.time.isoformat()} for each in found]
        if scopes.admin:
            changes = [{**change, "meta": each.meta} for change, each in zip(changes, found, strict=True)]
        return json_response(
            {"view": name, "version": database.version, "row": listed([values])[0], "changes": changes}
        )

    return await service.run_read(answer)


@router.post(
    "/query",
    summary="Run a query",
    responses=answer_of(QueryAnswer, "The answers."),
    openapi_extra=body_of(QUERY),
)
async def query(request: Request) -> Response:
    """The answers to the body of a rule, a column for each variable, or to a SELECT, in its order. Values are bound to
    `$x`, or `:x` in SQL, never spliced. The token needs to read every relation that the query names. With `limit` they
    come in pages, as the rows of a view do."""
    service, scopes = service_of(request)
    database = service.database
    content = await read_object(request, ("query", "parameters", "at", "limit", "order", "after", "consistent"))
    text, values = content.get("query"), content.get("parameters", {})
    if not isinstance(text, str) or not isinstance(values, dict):
        raise RequestError(400, "bad-request", "`query` is a text and `parameters` an object")
    if len(text) > _LONGEST_QUERY:
        raise RequestError(413, "too-large", f"a query may have {_LONGEST_QUERY:,} characters")
    for value in values.values():
        if isinstance(value, list | dict) or value is None:
            raise RequestError(400, "bad-request", "parameters are numbers, texts and truth values")
    most = service.settings.bounds.rows
    at = content.get("at")
    if at is not None and (at.__class__ is not int or not 0 <= at <= LARGEST_VERSION):
        raise RequestError(400, "bad-request", "`at` is a version")
    page_request = _query_page(content, json.dumps([text, values, at]), most)

    def read() -> Listing:
        with database.reading() as at:
            found = database.sql(text, **values) if is_select(text) else at.query(text, **values)
            return Listing("", page_request.subject, at.version, found, is_sorted=is_select(text))

    def shown(page: Page) -> Response:
        if page.next is not None and content.get("limit") is content.get("after") is None:
            hint = "read it in pages, with `limit`"
            raise RequestError(422, "too-many-rows", f"the answer has more than {most:,} rows", help=hint)
        body = {"version": page.listing.version, "columns": columns_of(page.rows.schema), "rows": listed(page.rows)}
        return json_response(body if page.next is None else {**body, "next": page.next})

    def answer() -> Response:
        _require_readable(text, values, scopes, database)
        return shown(service.pages.page(page_request, read))

    def version() -> int | None:
        _require_readable(text, values, scopes, database)
        return at if at is not None or not is_select(text) else database.as_of(text, **values)

    then = await service.run_read(version)
    if then is None:
        return await service.run_read(answer)

    def read_past() -> Listing:
        found = database.at(then).query(text, **values)
        return Listing("", page_request.subject, then, found, is_sorted=is_select(text))

    return shown(await _past_page(service, page_request, read_past))


def _query_page(content: dict[str, Any], subject: str, most: int) -> PageRequest:
    """The page that the body of a query requests."""
    limit, order, after = content.get("limit", most), content.get("order"), content.get("after")
    if limit.__class__ is not int or not 1 <= limit <= _LARGEST_LIMIT:
        raise RequestError(400, "bad-request", f"`limit` is a number from 1 to {_LARGEST_LIMIT:,}")
    for name, value, longest in (("order", order, _LONGEST_ORDER), ("after", after, LONGEST_CURSOR)):
        if value is not None and (not isinstance(value, str) or len(value) > longest):
            raise RequestError(400, "bad-request", f"`{name}` is a text of at most {longest:,} characters")
    consistent = content.get("consistent", True)
    if not isinstance(consistent, bool):
        raise RequestError(400, "bad-request", "`consistent` is true or false")
    return PageRequest(subject, min(limit, most), order, after, consistent)


def _require_readable(text: str, values: dict[str, Any], scopes: Scopes, database: Database) -> None:
    """`not-found` if the query names a hidden relation. The query is checked against the readable relations only, so
    that no error discloses more."""
    if not is_select(text):
        for relation, _, _ in uses_in([parse_query(text)]):
            if not scopes.may_read(relation) or relation not in database.schemas:
                raise not_found()
    if is_select(text) or not scopes.reads_everything:
        database.query_reads(text, values, scopes.may_read)
