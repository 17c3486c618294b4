"""`GET /program`, `/constraints`, `/rules` and `/commits`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.rows import Row
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.service.access.disclosure import MOST_WITNESSES
from upshot.service.access.scopes import Scopes
from upshot.service.feed.commits import KEPT, Fired
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import columns_of, json_response, listed, readable_causes
from upshot.service.wire.shapes import ERRORS, CommitsAnswer, ConstraintsAnswer, ProgramAnswer, RulesAnswer, answer_of
from upshot.syntax import print_item
from upshot.syntax.ast import ActiveRule

router = APIRouter(tags=["insight"], responses=ERRORS, default_response_class=Response)

_IDENTIFIER = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*")


@router.get(
    "/program",
    summary="Read the program",
    responses=answer_of(ProgramAnswer, "The program."),
)
async def program(request: Request) -> Response:
    """The readable relations, and the program without the items that name other relations."""
    service, scopes = service_of(request)
    database = service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            names = all_names(database)
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


def all_names(database: Database) -> frozenset[str]:
    return frozenset(database.schemas) | frozenset(database.rules)


def shows_nothing_hidden(text: str, names: frozenset[str], scopes: Scopes) -> bool:
    """Test whether the token may read every relation, constraint and rule that the text names."""
    return scopes.reads_everything or scopes.may_read_all(names.intersection(_IDENTIFIER.findall(text)))


@router.get(
    "/commits",
    summary="List the last commits",
    responses=answer_of(CommitsAnswer, "The commits."),
)
async def commits(
    request: Request, limit: Annotated[int, Query(ge=1, le=KEPT, description="how many, newest first")] = 50
) -> Response:
    """The last commits since the service started: inserted and deleted rows per relation that the token may read, and
    seconds."""
    service, scopes = service_of(request)
    found = [each.as_dict(scopes) for each in service.recent.latest(limit)]
    return json_response({"version": service.database.version, "commits": found})


@router.get(
    "/constraints",
    summary="List constraints and their witnesses",
    responses=answer_of(ConstraintsAnswer, "The constraints."),
)
async def constraints(request: Request) -> Response:
    """The constraints, each with the first rows that violate it."""
    service, scopes = service_of(request)
    database = service.database

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
    responses=answer_of(RulesAnswer, "The rules."),
)
async def rules(
    request: Request,
    causes: Annotated[bool, Query(description="with the cause of each row of the last firings")] = False,
) -> Response:
    """The active rules, and their last firings."""
    service, scopes = service_of(request)
    database = service.database

    def answer() -> dict[str, Any]:
        with database.reading() as at:
            version, names = at.version, all_names(database)
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
                {
                    "version": each.version,
                    "rule": each.rule,
                    "count": each.count,
                    "rows": listed(each.rows),
                    **({"causes": _causes(service, each, scopes)} if causes else {}),
                }
                for each in service.recent.firings()
                if scopes.may_read(each.rule)
            ],
        }

    return json_response(await (service.writer.between_commits(answer) if causes else service.run_read(answer)))


def _causes(service: Service, fired: Fired, scopes: Scopes) -> list[dict[str, Any]] | None:
    """The causes of the shown rows; None if the firing, or the state before or after it, is not kept."""
    found: dict[Row, dict[str, Any]] = {}
    for firing in service.recent.firings_of(fired.version, fired.rule):
        rows = [row for row in fired.rows if row in firing.rows]
        found |= zip(rows, readable_causes(firing, rows, scopes) or (), strict=False)
    return [found[row] for row in fired.rows] if all(row in found for row in fired.rows) else None
