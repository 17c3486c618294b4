"""`GET /explanations/{view}`: the maintenance of a view; why a row is present, absent, or changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.errors import DataError, LimitError
from upshot.core.rows import Row
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.database.queries.absence import Absence
from upshot.reasons.changed import RowChange
from upshot.reasons.derivation import Derivation, pictures, without_meta
from upshot.reasons.failure import Failure, without_notes
from upshot.service.access.scopes import Scopes
from upshot.service.feed.past import past_database
from upshot.service.routes.insight import all_names
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import JSON, json_response, listed
from upshot.service.wire.bodies import read_row
from upshot.service.wire.errors import RequestError, not_found
from upshot.service.wire.shapes import ERRORS, ExplanationAnswer
from upshot.service.writing.fixes import Fixes, with_fixes

router = APIRouter(tags=["insight"], responses=ERRORS)

_LONGEST_ROW = 20_000
_ROW_HELP = "`row` must be a JSON list of values, as in `?row=[1,3]`"
_WHY_BOUND = 200_000
"""The number of rule instances that are searched for a derivation."""
_MOST_TREES, _DEEPEST = 100, 10
_LARGEST_VERSION = 2**62
_MOST_FIXES, _LONGEST_SEARCH = 100, 10**6
_ATTEMPTS = 3
"""Attempts for a row that keeps changing."""

Explanation = Derivation | Failure | RowChange


@dataclass(frozen=True, slots=True)
class ExplanationRequest:
    """The parameters of a request to explain a row of a view."""

    view: str
    row: str
    limit: int | None
    depth: int
    changed_in: int | None
    format: str
    fixes: Fixes
    at: int | None = None


@dataclass(frozen=True, slots=True)
class RowExplanation:
    """The explanations of a row, with their name in the answer, and the version. They are empty if a search for fixes
    must be run first."""

    part: str
    version: int
    row: Row
    trees: tuple[Explanation, ...]


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
        Query(
            max_length=_LONGEST_ROW,
            description="a row as JSON, to explain why it is present or missing",
            examples=["[1,3]"],
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Query(ge=1, le=_MOST_TREES, description="at most this many derivations, smallest first (`derivations`)"),
    ] = None,
    depth: Annotated[int, Query(ge=1, le=_DEEPEST, description="depth for missing rows of views")] = 1,
    changed_in: Annotated[
        int | None,
        Query(ge=1, le=_LARGEST_VERSION, description="why this version inserted or deleted the row (`why_changed`)"),
    ] = None,
    at: Annotated[
        int | None, Query(ge=0, le=_LARGEST_VERSION, description="an earlier version, in which the row is explained")
    ] = None,
    format: Annotated[
        Literal["json", "text", "svg"], Query(description="format of the explanation: data, text or a picture")
    ] = "json",
    fixes: Annotated[
        int | None,
        Query(ge=0, le=_MOST_FIXES, description="for a missing row: at most this many realizations; default 3"),
    ] = None,
    seconds: Annotated[
        float | None, Query(gt=0, le=_LONGEST_SEARCH, description="time limit of their search, in seconds; default 2")
    ] = None,
) -> Response:
    """Explain the maintenance of a view; with `row`, the smallest derivation of that row (`derivation`), or, if it is
    absent, the nearest rules and its fixes (`why_not`). The token needs to read every relation that the view depends
    on; fixes are shown to tokens that may call `POST /realizations`."""
    service, scopes = service_of(request)
    database = service.database
    _require_known(view, scopes, database)
    if row is None:
        for name in sorted(request.query_params):
            raise RequestError(400, "bad-request", f"`{name}` needs `row`", help=_ROW_HELP)
        return json_response(await service.run_read(lambda: _explained(view, scopes, database)))
    parameters = ExplanationRequest(view, row, limit, depth, changed_in, format, Fixes(fixes, seconds), at)
    found = await _found(request, parameters, service, scopes)
    return await service.run_read(lambda: _response(parameters, found, scopes))


async def _found(request: Request, parameters: ExplanationRequest, service: Service, scopes: Scopes) -> RowExplanation:
    try:
        if (at := parameters.at) is not None:
            if parameters.changed_in is not None or parameters.fixes.count:
                hint = "`changed_in` names a version itself; `POST /realizations` with `at` finds fixes"
                raise RequestError(
                    400, "bad-request", "`at` cannot be combined with `changed_in` or `fixes`", help=hint
                )
            past = await service.writer.between_commits(lambda: past_database(service.database, at))
            return await service.run_read(lambda: _derivations(replace(parameters, fixes=Fixes(0)), scopes, past))
        if parameters.changed_in is None:
            return await _reasons(request, parameters, service, scopes)
        # The previous state is reconstructed, so nothing may be committed.
        return await service.writer.between_commits(lambda: _why_changed(parameters, scopes, service.database))
    except LimitError as error:
        if error.code != "explanation-bounds":
            raise
        raise RequestError(422, error.code, error.message, help="choose a row that depends on fewer rows") from None


def _require_known(view: str, scopes: Scopes, database: Database) -> None:
    scopes.require_read(view, all_names(database))
    if view in database.rules and not scopes.reads_everything:
        # A rule reads and changes relations in many parts of the program.
        raise not_found()


def _explained(view: str, scopes: Scopes, database: Database) -> dict[str, Any]:
    with database.reading():
        if _is_base(view, database):
            hint = "explain a view instead"
            raise RequestError(400, "not-a-view", "this is a base relation", help=hint)
        found = database.explain(view).as_dict()
        _require_all_below(view, scopes, database)
    if not scopes.reads_everything:
        found = {key: value for key, value in found.items() if key not in ("work", "rules", "triggering")}
        for part in found["relations"].values():
            part["kept"] = [{"parameters": each["parameters"], "rows": each["rows"]} for each in part["kept"]]
    return found


def _is_base(view: str, database: Database) -> bool:
    return view in database.schemas and database.schemas[view].role is Role.BASE


def _require_all_below(view: str, scopes: Scopes, database: Database) -> None:
    if scopes.reads_everything or _is_base(view, database):
        return
    below = {part.name for part in database.explain(view).parts}
    if not scopes.may_read_all(below & all_names(database)):
        hint = "use a token that may read everything the view depends on"
        raise RequestError(
            403, "forbidden", "the explanation would disclose data that this token may not read", help=hint
        )


# ---- of a row -------------------------------------------------------------------------------------


def _response(parameters: ExplanationRequest, found: RowExplanation, scopes: Scopes) -> Response:
    trees = found.trees if scopes.admin else tuple(map(_without_metadata, found.trees))
    if parameters.format == "text":
        return Response("\n\n".join(each.text() for each in trees) + "\n", media_type="text/plain")
    if parameters.format == "svg":
        derivations = [each for each in trees if isinstance(each, Derivation)]
        return Response(pictures(derivations) if derivations else trees[0].svg(), media_type="image/svg+xml")
    about = json_response({"view": parameters.view, "version": found.version, "row": listed([found.row])[0]}).body
    written = ",".join(each.json() for each in trees)
    content = f"[{written}]" if found.part == "derivations" else written
    # Trees may be deeper than `json.dumps` supports.
    text = bytes(about)[:-1] + f',"{found.part}":{content}}}'.encode("utf-8", "backslashreplace")
    return Response(text, media_type=JSON)


def _row(parameters: ExplanationRequest, database: Database) -> Row:
    return read_row(parameters.row, replace(database.explained_schema(parameters.view), name=parameters.view))


async def _reasons(
    request: Request, parameters: ExplanationRequest, service: Service, scopes: Scopes
) -> RowExplanation:
    """The derivations of the row; if it is absent, the missing premises and the realizations."""
    database = service.database
    for _ in range(_ATTEMPTS):
        found = await service.run_read(lambda: _derivations(parameters, scopes, database))
        if found.trees:
            return found
        why_not = partial(_why_not, parameters, scopes, found.row)
        key = parameters.view, found.row
        answer = await with_fixes(service, scopes, key, why_not, parameters.fixes, request.is_disconnected)
        if answer is not None:
            return RowExplanation("why_not", answer[0], found.row, (answer[1],))
    plain = replace(parameters, fixes=Fixes(0))
    return await service.run_read(lambda: _derivations(plain, scopes, database))


def _derivations(parameters: ExplanationRequest, scopes: Scopes, database: Database) -> RowExplanation:
    """The derivations of the row; if it is absent, the missing premises, unless realizations are searched too."""
    view, limit = parameters.view, parameters.limit
    with database.reading() as at:
        _require_all_below(view, scopes, database)
        count = parameters.fixes.number(view, scopes, database)
        row = _row(parameters, database)
        try:
            if limit is None:
                return RowExplanation("derivation", at.version, row, (database.why(view, row, bounds=_WHY_BOUND),))
            trees = islice(database.why(view, row, limit=limit, bounds=_WHY_BOUND), limit)
            return RowExplanation("derivations", at.version, row, tuple(trees))
        except DataError as error:
            if error.code != "row-not-there":
                raise
        if count:
            return RowExplanation("why_not", at.version, row, ())
        answer = _why_not(parameters, scopes, row, database)
        return RowExplanation("why_not", at.version, row, (parameters.fixes.without_search(view, answer, database),))


def _why_not(parameters: ExplanationRequest, scopes: Scopes, row: Row, database: Database) -> Absence:
    """Called inside `database.reading()`, so that access is checked in the explained version."""
    _require_all_below(parameters.view, scopes, database)
    return database.why_not(parameters.view, row, depth=parameters.depth, bounds=_WHY_BOUND)


def _why_changed(parameters: ExplanationRequest, scopes: Scopes, database: Database) -> RowExplanation:
    view, version = parameters.view, parameters.changed_in
    _require_all_below(view, scopes, database)
    row = _row(parameters, database)
    try:
        change = database.why_changed(view, row, version, bounds=_WHY_BOUND)
    except DataError as error:
        if error.code != "row-not-changed":
            raise
        message = f"the row was neither inserted nor deleted in version {version}"
        hint = error.help if "version" in error.help else "omit `changed_in` to explain its current state"
        raise RequestError(400, error.code, message, help=hint) from None
    return RowExplanation("why_changed", database.version, row, (change,))


def _without_metadata(tree: Explanation) -> Explanation:
    """Remove the metadata of commits, which only administrators may read."""
    match tree:
        case Derivation():
            return without_meta(tree)
        case RowChange():
            return tree.without_meta()
        case Failure():
            return without_notes(tree)
