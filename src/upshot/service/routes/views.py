"""`GET /views/{name}` and `POST /query`: rows at one version."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.check import check_query
from upshot.core.rows import Rows
from upshot.database.database import Database
from upshot.database.explain.dependencies import uses_in
from upshot.service.access.scopes import Scopes
from upshot.service.feed.past import read_selection
from upshot.service.feed.selections import selection
from upshot.service.routes.openapi import ERRORS, QUERY, QueryAnswer, ViewAnswer, body_of
from upshot.service.service import Service
from upshot.service.wire.answers import (
    ARROW,
    JSON,
    NDJSON,
    columns_of,
    json_response,
    listed,
    page_response,
    pieces,
    wanted,
)
from upshot.service.wire.bodies import read_object
from upshot.service.wire.errors import Refused, not_found
from upshot.service.wire.pages import Listing
from upshot.service.wire.whole_answers import PIECE, WholeAnswer
from upshot.syntax import parse_query

router = APIRouter(tags=["reading"], responses=ERRORS)

_LONGEST_QUERY = 20_000
_LARGEST_LIMIT = 1_000_000

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
    after: Annotated[str | None, Query(max_length=400, description="`next` of the page before")] = None,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """The rows of a relation, view or constraint, in order if there are at most a million. What does not fit into one
    answer comes in pages, all of the version of the first. Lines of JSON and Arrow without `limit` are all rows."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database
    form = wanted(accept)
    scopes.require_read(name, database.schemas)
    most = service.settings.bounds.rows
    size = min(limit or most, most)
    if after is not None:
        page = service.pages.following(name, where, after, size)
        return await service.run_read(lambda: page_response(page, form))

    def answer() -> Response:
        version, rows = read_selection(database, selection(name, where, database.schemas))
        if len(rows) > most and limit is None and form != JSON and rows.has_parts:
            headers = {"Upshot-Version": str(version), "Vary": "Accept"}
            return WholeAnswer(service, pieces(rows, form, PIECE), headers, form)
        listing = Listing(name, where, version, _listed_rows(rows, service.settings.bounds.snapshot))
        return page_response(service.pages.first(listing, size), form)

    return await service.run_read(answer)


def _listed_rows(rows: Rows, most: int) -> Rows:
    """The rows in order if there are at most so many; of more only a page at a time is decoded."""
    if len(rows) <= most:
        return Rows.of(rows.schema, in_order(list(rows)))
    return rows


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """NULL first, NaN last."""
    return sorted(rows, key=lambda row: tuple((0, 0) if v is None else (2, 0) if v != v else (1, v) for v in row))


@router.post(
    "/query",
    summary="Ask a question",
    response_class=Response,
    responses={200: {"model": QueryAnswer, "description": "The answers."}},
    openapi_extra=body_of(QUERY),
)
async def query(request: Request) -> Response:
    """The answers to the body of a rule, a column for each variable. Values are bound to `$x`, never spliced. The token
    needs to read every relation that the query names."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database
    content = await read_object(request, ("query", "parameters"))
    text, values = content.get("query"), content.get("parameters", {})
    if not isinstance(text, str) or not isinstance(values, dict):
        raise Refused(400, "bad-request", "`query` is a text and `parameters` an object")
    if len(text) > _LONGEST_QUERY:
        raise Refused(413, "too-large", f"a query may have {_LONGEST_QUERY:,} characters")
    for value in values.values():
        if isinstance(value, list | dict) or value is None:
            raise Refused(400, "bad-request", "parameters are numbers, texts and truth values")

    def answer() -> Response:
        _require_readable(text, values, scopes, database)
        with database.reading() as at:
            version, found = at.version, at.query(text, **values)
        most = service.settings.bounds.rows
        if len(found) > most:
            hint = "ask for less, or read a view in pages"
            raise Refused(422, "too-many-rows", f"the answer has more than {most:,} rows", help=hint)
        return json_response(
            {"version": version, "columns": columns_of(found.schema), "rows": listed(in_order(list(found)))}
        )

    return await service.run_read(answer)


def _require_readable(text: str, values: dict[str, Any], scopes: Scopes, database: Database) -> None:
    """`not-found` if the query names what the token may not read; and it must make sense by what it may, so that no
    error says more."""
    formula = parse_query(text)
    for relation, _, _ in uses_in([formula]):
        if not scopes.may_read(relation) or relation not in database.schemas:
            raise not_found()
    if not scopes.reads_everything:
        known = {name: schema for name, schema in database.schemas.items() if scopes.may_read(name)}
        check_query(formula, known, values)
