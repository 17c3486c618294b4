"""The program and what becomes of it: explanations, constraints, rules, the last commits."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.errors import DataError
from upshot.core.json_values import Misfit, row_reader
from upshot.core.rows import Row
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.service.answers import columns_of, json_response, listed
from upshot.service.bodies import parse_json
from upshot.service.commit_stream import told
from upshot.service.commits import KEPT
from upshot.service.disclosure import MOST_WITNESSES
from upshot.service.errors import Refused, not_found
from upshot.service.openapi import (
    ERRORS,
    CommitsAnswer,
    ConstraintsAnswer,
    ExplanationAnswer,
    ProgramAnswer,
    RulesAnswer,
)
from upshot.service.scopes import Scopes
from upshot.service.service import Service
from upshot.syntax import print_item
from upshot.syntax.ast import ActiveRule

router = APIRouter(tags=["insight"], responses=ERRORS)

_IDENTIFIER = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*")
_LONGEST_ROW = 20_000
_ROW_HELP = "`row` is a JSON list of the row's values, as in `?row=[1,3]`"
_WHY_BOUND = 200_000
"""Rule instances that are looked at for one derivation."""


@router.get(
    "/program",
    summary="Read the program",
    response_class=Response,
    responses={200: {"model": ProgramAnswer, "description": "The program."}},
)
async def program(request: Request) -> Response:
    """The program, item by item, as far as everything that an item names may be read; and the relations that may be."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            names = _all_names(database)
            items = [print_item(item) for item in database.program.items]
            return {
                "program": "".join(item + "\n" for item in items if shows_nothing_hidden(item, names, scopes)),
                "version": at.version,
                "epoch": database.identity,
                "relations": [
                    {
                        "name": name,
                        "role": schema.role.value,
                        "columns": columns_of(schema),
                        "keys": [[schema.columns[place].name for place in key] for key in schema.keys],
                        "writable": schema.role is Role.BASE and scopes.may_write(name),
                    }
                    for name, schema in at.schemas.items()
                    if scopes.may_read(name)
                ],
                "rules": [name for name in database.rules if scopes.may_read(name)],
            }

    return json_response(await service.run_read(answer))


def _all_names(database: Database) -> frozenset[str]:
    return frozenset(database.schemas) | frozenset(database.rules)


def shows_nothing_hidden(text: str, names: frozenset[str], scopes: Scopes) -> bool:
    """Whether every relation, constraint and rule that the text names may be read."""
    return scopes.reads_everything or scopes.may_read_all(names.intersection(_IDENTIFIER.findall(text)))


# ---- explanations ---------------------------------------------------------------------------------


@router.get(
    "/explanations/{view}",
    summary="Explain a view or a row",
    response_class=Response,
    responses={200: {"model": ExplanationAnswer, "description": "The explanation, or the derivation."}},
)
async def explanation(
    request: Request,
    view: str,
    row: Annotated[
        str | None,
        Query(max_length=_LONGEST_ROW, description="a row as JSON: why is it there, or not?", examples=["[1,3]"]),
    ] = None,
) -> Response:
    """How a view is kept up to date and why so; with `row`, the smallest derivation of that row (`derivation`), or, if
    it is not there, how near each rule comes to it (`why_not`). The token needs to read every relation that the view
    rests on."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database
    _require_known(view, scopes, database)

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            version = at.version
            is_base = view in at.schemas and at.schemas[view].role is Role.BASE
            found = None if is_base else database.explain(view)
            if found is not None and not scopes.reads_everything:
                _require_all_below({part.name for part in found.parts}, view, scopes, database)
            if row is not None:
                return _why(view, row, version, scopes, database)
            if found is None:
                hint = "its rows are what transactions put there; ask about a view"
                raise Refused(400, "not-a-view", "this is a base relation", help=hint)
            told = found.as_dict()
            if not scopes.reads_everything:
                told = {key: value for key, value in told.items() if key not in ("work", "rules", "triggering")}
            return told

    return json_response(await service.run_read(answer))


def _require_known(view: str, scopes: Scopes, database: Database) -> None:
    scopes.require_read(view, _all_names(database))
    if view in database.rules and not scopes.reads_everything:
        # What a rule reads and sets off is spread over the program.
        raise not_found()


def _require_all_below(below: set[str], view: str, scopes: Scopes, database: Database) -> None:
    if not scopes.may_read_all(below & _all_names(database)):
        hint = "a token that may read all that the view rests on can ask"
        raise Refused(403, "forbidden", "the explanation would show what this token may not read", help=hint)


def _why(view: str, row: str, version: int, scopes: Scopes, database: Database) -> dict[str, Any]:
    try:
        content = parse_json(row, exact=True)
    except Refused as error:
        error.help = _ROW_HELP
        raise
    schema = database.schemas.get(view)
    if schema is None:
        raise Refused(400, "no-condition", "a derivation is of a row of a relation")
    try:
        values = row_reader(schema)(content)
    except Misfit as misfit:
        raise Refused(400, misfit.code, f"`row`: {misfit}", help=f"columns: {schema}") from None
    part, told = _reasons(database, view, values)
    if not scopes.admin:
        _without_notes(told)
    return {"view": view, "version": version, "row": listed([values])[0], part: told}


def _reasons(database: Database, view: str, row: Row) -> tuple[str, dict[str, Any]]:
    try:
        return "derivation", database.why(view, row, bounds=_WHY_BOUND).as_dict()
    except DataError as error:
        if error.code != "row-not-there":
            raise
    # What would bring it about hangs on more than the view rests on: `POST /realizations` tells, and sees to scopes.
    return "why_not", database.why_not(view, row, bounds=_WHY_BOUND).as_dict(fixes=0)


def _without_notes(told: dict[str, Any]) -> None:
    """Notes of commits are between their sender and the log."""
    nodes = [told]
    while nodes:
        node = nodes.pop()
        if "inserted" in node:
            node["inserted"] = {key: value for key, value in node["inserted"].items() if key != "meta"}
        nodes += [*node.get("premises", ()), *node.get("parts", ())]


# ---- what became of it ----------------------------------------------------------------------------


@router.get(
    "/commits",
    summary="List the last commits",
    response_class=Response,
    responses={200: {"model": CommitsAnswer, "description": "The commits."}},
)
async def commits(
    request: Request, limit: Annotated[int, Query(ge=1, le=KEPT, description="how many, newest first")] = 50
) -> Response:
    """The last commits since the service started: how many rows came and went in each relation that the token may read,
    and how long it took."""
    service: Service = request.app.state.service
    scopes = service.scopes(request)
    found = [told(each, scopes) for each in service.recent.latest(limit)]
    return json_response({"version": service.database.version, "commits": found})


@router.get(
    "/constraints",
    summary="List constraints and their witnesses",
    response_class=Response,
    responses={200: {"model": ConstraintsAnswer, "description": "The constraints."}},
)
async def constraints(request: Request) -> Response:
    """What must never be true, and the first of the rows that make it true all the same."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            found = {
                name: (schema, at.rows(name))
                for name, schema in at.schemas.items()
                if schema.role is Role.CONSTRAINT and scopes.may_read(name)
            }
            version = at.version
        return {
            "version": version,
            "constraints": [
                {
                    "name": name,
                    "policy": database.policies[name],
                    "columns": columns_of(schema),
                    "count": len(rows),
                    "witnesses": listed(rows.sorted()[:MOST_WITNESSES]),
                }
                for name, (schema, rows) in found.items()
            ],
        }

    return json_response(await service.run_read(answer))


@router.get(
    "/rules",
    summary="List rules and their firings",
    response_class=Response,
    responses={200: {"model": RulesAnswer, "description": "The rules."}},
)
async def rules(request: Request) -> Response:
    """What happens by itself when something becomes true, and when it last did."""
    service: Service = request.app.state.service
    scopes, database = service.scopes(request), service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            version, names = at.version, _all_names(database)
            parts = database.explain().rules if database.rules else ()
            texts = {item.name: print_item(item) for item in database.program.items if isinstance(item, ActiveRule)}
        return {
            "version": version,
            "rules": [
                {
                    "name": part.name,
                    "coupling": part.rule.coupling,
                    "active": bool(part.turn),
                    "text": texts[part.name] if shows_nothing_hidden(texts[part.name], names, scopes) else "",
                }
                for part in parts
                if scopes.may_read(part.name)
            ],
            "firings": [
                {"version": each.version, "rule": each.rule, "count": each.count, "rows": listed(each.rows)}
                for each in service.recent.firings()
                if scopes.may_read(each.rule)
            ],
        }

    return json_response(await service.run_read(answer))
