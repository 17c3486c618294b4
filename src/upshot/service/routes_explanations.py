"""`GET /explanations/{view}`: how a view is kept; why a row is there, is not there, came or went."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.errors import DataError
from upshot.core.json_values import Misfit, row_reader
from upshot.core.rows import Row
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.reasons.changed import RowChange
from upshot.reasons.derivation import Derivation, without_meta
from upshot.reasons.failure import Failure
from upshot.service.answers import JSON, json_response, listed
from upshot.service.bodies import parse_json
from upshot.service.errors import Refused, not_found
from upshot.service.openapi import ERRORS, ExplanationAnswer
from upshot.service.routes_insight import all_names
from upshot.service.scopes import Scopes
from upshot.service.service import Service

router = APIRouter(tags=["insight"], responses=ERRORS)

_LONGEST_ROW = 20_000
_ROW_HELP = "`row` is a JSON list of the row's values, as in `?row=[1,3]`"
_WHY_BOUND = 200_000
"""Rule instances that are looked at for one derivation."""
_MOST_TREES, _DEEPEST = 100, 10
_LARGEST_VERSION = 2**62

Told = Derivation | Failure | RowChange


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about a row of a view, and how it is told."""

    view: str
    row: str
    limit: int | None
    depth: int
    changed_in: int | None
    format: str


@router.get(
    "/explanations/{view}",
    summary="Explain a view or a row",
    response_class=Response,
    responses={
        200: {
            "model": ExplanationAnswer,
            "content": {"text/plain": {}, "image/svg+xml": {}},
            "description": "The explanation, or the derivation.",
        }
    },
)
async def explanation(
    request: Request,
    view: str,
    row: Annotated[
        str | None,
        Query(max_length=_LONGEST_ROW, description="a row as JSON: why is it there, or not?", examples=["[1,3]"]),
    ] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=_MOST_TREES, description="so many derivations, the smallest first (`derivations`)")
    ] = None,
    depth: Annotated[
        int, Query(ge=1, le=_DEEPEST, description="how deep missing rows of views are looked into in turn")
    ] = 1,
    changed_in: Annotated[
        int | None,
        Query(ge=1, le=_LARGEST_VERSION, description="a version: why did the row come or go with it (`why_changed`)?"),
    ] = None,
    format: Annotated[
        Literal["json", "text", "svg"], Query(description="what is said of a row as data, text or a picture")
    ] = "json",
) -> Response:
    """How a view is kept up to date and why so; with `row`, the smallest derivation of that row (`derivation`), or, if
    it is not there, how near each rule comes to it (`why_not`). The token needs to read every relation that the view
    rests on."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database
    _require_known(view, scopes, database)
    if row is None:
        if limit is not None or depth != 1 or changed_in is not None or format != "json":
            raise Refused(400, "bad-request", "this is about a row, and none is given", help=_ROW_HELP)
        return json_response(await service.run_read(lambda: _explained(view, scopes, database)))
    question = Question(view, row, limit, depth, changed_in, format)
    if changed_in is None:
        return await service.run_read(lambda: _answer(question, scopes, database))
    # The state before is made again for it: nothing may be committed meanwhile.
    return await service.writer.between_commits(lambda: _answer(question, scopes, database))


def _require_known(view: str, scopes: Scopes, database: Database) -> None:
    scopes.require_read(view, all_names(database))
    if view in database.rules and not scopes.reads_everything:
        # What a rule reads and sets off is spread over the program.
        raise not_found()


def _explained(view: str, scopes: Scopes, database: Database) -> dict[str, Any]:
    with database.reading():
        if _is_base(view, database):
            hint = "its rows are what transactions put there; ask about a view"
            raise Refused(400, "not-a-view", "this is a base relation", help=hint)
        told = database.explain(view).as_dict()
        _require_all_below(view, scopes, database)
    if not scopes.reads_everything:
        told = {key: value for key, value in told.items() if key not in ("work", "rules", "triggering")}
    return told


def _is_base(view: str, database: Database) -> bool:
    return view in database.schemas and database.schemas[view].role is Role.BASE


def _require_all_below(view: str, scopes: Scopes, database: Database) -> None:
    if scopes.reads_everything or _is_base(view, database):
        return
    below = {part.name for part in database.explain(view).parts}
    if not scopes.may_read_all(below & all_names(database)):
        hint = "a token that may read all that the view rests on can ask"
        raise Refused(403, "forbidden", "the explanation would show what this token may not read", help=hint)


# ---- of a row -------------------------------------------------------------------------------------


def _answer(question: Question, scopes: Scopes, database: Database) -> Response:
    view = question.view
    if question.changed_in is None:
        with database.reading() as at:
            version = at.version
            _require_all_below(view, scopes, database)
            row = _row(question, database)
            part, found = _reasons(database, question, row)
    else:
        version = database.version
        _require_all_below(view, scopes, database)
        row = _row(question, database)
        part, found = "why_changed", [_why_changed(database, view, row, question.changed_in)]
    if not scopes.admin:
        found = [_without_notes(each) for each in found]
    if question.format == "text":
        return Response("\n\n".join(each.text() for each in found) + "\n", media_type="text/plain")
    if question.format == "svg":
        return Response(found[0].svg(), media_type="image/svg+xml")
    about = json_response({"view": view, "version": version, "row": listed([row])[0]}).body
    trees = ",".join(each.json() for each in found)
    content = f"[{trees}]" if part == "derivations" else trees
    # Trees may be deeper than the writer of JSON goes.
    text = bytes(about)[:-1] + f',"{part}":{content}}}'.encode("utf-8", "backslashreplace")
    return Response(text, media_type=JSON)


def _row(question: Question, database: Database) -> Row:
    try:
        content = parse_json(question.row, exact=True)
    except Refused as error:
        error.help = _ROW_HELP
        raise
    schema = database.schemas.get(question.view)
    if schema is None:
        raise Refused(400, "no-condition", "a derivation is of a row of a relation")
    try:
        return row_reader(schema)(content)
    except Misfit as misfit:
        raise Refused(400, misfit.code, f"`row`: {misfit}", help=f"columns: {schema}") from None


def _reasons(database: Database, question: Question, row: Row) -> tuple[str, list[Told]]:
    view, limit = question.view, question.limit
    try:
        if limit is None or question.format == "svg":
            return "derivation", [database.why(view, row, bounds=_WHY_BOUND)]
        return "derivations", list(islice(database.why(view, row, limit=limit, bounds=_WHY_BOUND), limit))
    except DataError as error:
        if error.code != "row-not-there":
            raise
    # What would bring it about hangs on more than the view rests on: `POST /realizations` tells, and sees to scopes.
    answer = database.why_not(view, row, depth=question.depth, bounds=_WHY_BOUND)
    return "why_not", [answer.told(fixes=0)]


def _why_changed(database: Database, view: str, row: Row, version: int) -> RowChange:
    try:
        return database.why_changed(view, row, version, bounds=_WHY_BOUND)
    except DataError as error:
        if error.code != "row-not-changed":
            raise
        message = f"the row neither came nor went with version {version}"
        raise Refused(400, error.code, message, help=error.help) from None


def _without_notes(told: Told) -> Told:
    """Notes of commits are between their sender and the log."""
    match told:
        case Derivation():
            return without_meta(told)
        case RowChange():
            return told.without_meta()
        case _:
            return told
