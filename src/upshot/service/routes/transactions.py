"""`POST /transactions` and `POST /what-if`: commit or preview a transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.errors import DataError
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet
from upshot.database.database import Database
from upshot.database.transaction import Transaction
from upshot.service.access.scopes import Scopes
from upshot.service.service import Service, service_of
from upshot.service.wire.answers import (
    count_rows,
    json_response,
    readable_changes,
    readable_firings,
    readable_past_firings,
    readable_rows,
)
from upshot.service.wire.bodies import PARTS, RESERVED, TransactionBody, plain, read_object, transaction_body
from upshot.service.wire.errors import RequestError
from upshot.service.wire.shapes import ERRORS, TRANSACTION, WHAT_IF, Outcome, WhatIfAnswer, answer_of, body_of
from upshot.service.writing.idempotency import idempotency_key as read_key

router = APIRouter(tags=["transactions"], responses=ERRORS, default_response_class=Response)

_SMALL = 1_000
"""Rows that are encoded on the event loop; a larger answer is encoded on a reader thread."""


@router.post(
    "/transactions",
    summary="Commit a transaction",
    responses=answer_of(Outcome, "It is durable."),
    openapi_extra=body_of(TRANSACTION),
)
async def transactions(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(description="a repeated key with the same body is committed once"),
    ] = None,
    causes: Annotated[bool, Query(description="with the cause of each row that a rule fired for")] = False,
) -> Response:
    """All statements or none. The answer is sent when the transaction is durable: its version, and the exact changes of
    every relation that the token may read. With `expect`, it is committed only if at its end these rows are present,
    and those absent."""
    service: Service = request.app.state.service
    began = time.perf_counter()
    scopes = service.scopes(request)
    content = await read_object(request, (*PARTS, "meta", "expect"), exact=True)
    body = transaction_body(content, service.database.schemas, scopes)
    key = read_key(scopes.name, idempotency_key, await request.body())
    done = await service.writer.commit(_statements(body, scopes), _metadata(body, scopes), key)
    service.metrics.commit_seconds.observe(time.perf_counter() - began)
    made, again = done.transaction, {"repeated": True} if done.repeated else {}
    if made is None:
        return await service.run_read(
            lambda: json_response({**_first_outcome(service.database, done.version, scopes), **again})
        )
    if causes and made.firings:
        return json_response(
            await service.writer.between_commits(lambda: {**_made_outcome(made, scopes, causes=True), **again})
        )
    if count_rows(made.changes) <= _SMALL:
        return json_response({**_made_outcome(made, scopes), **again})
    return await service.run_read(lambda: json_response({**_made_outcome(made, scopes), **again}))


def _metadata(body: TransactionBody, scopes: Scopes) -> Mapping[str, Any] | None:
    """The metadata of the commit. A commit with metadata is a version even if nothing changed, so that the version does
    not reveal whether a row was there."""
    if body.meta is not None:
        return plain(body.meta)
    return None if scopes.may_read_all(body.relations) else {RESERVED: {"token": scopes.name}}


def _statements(body: TransactionBody, scopes: Scopes) -> Any:
    """A function that executes the statements. Its errors do not disclose hidden views."""

    def statements(transaction: Transaction) -> None:
        try:
            body.apply(transaction)
        except DataError as error:
            if error.code == "not-a-base-relation" and not scopes.reads_everything:
                hint = "change base relations: `GET /program` lists them"
                raise RequestError(400, error.code, "rows of views are derived", help=hint) from None
            raise

    return statements


@dataclass(frozen=True, slots=True)
class _LoggedOutcome:
    """The outcome of a transaction, as the log has it."""

    version: int
    changes: ChangeSet
    violations: Mapping[str, list[Row]]
    repaired: Mapping[str, list[Row]]


def _outcome(made: Transaction | _LoggedOutcome, firings: list[dict[str, Any]], scopes: Scopes) -> dict[str, Any]:
    return {
        "version": made.version,
        "changes": readable_changes(made.changes, scopes),
        "firings": firings,
        "violations": readable_rows(made.violations, scopes),
        "repaired": readable_rows(made.repaired, scopes),
    }


def _made_outcome(made: Transaction, scopes: Scopes, *, causes: bool = False) -> dict[str, Any]:
    return _outcome(made, readable_firings(made.firings, scopes, causes=causes), scopes)


def _first_outcome(database: Database, version: int, scopes: Scopes) -> dict[str, Any]:
    """The outcome of an earlier request with the same key, as the log has it."""
    if not database.is_durable:
        hint = "it was committed; read the views"
        raise RequestError(410, "history-not-kept", "the changes of this transaction are no longer kept", help=hint)
    commit = next(database.history(version - 1))
    changes = commit.changes
    constraints = [name for name, schema in database.schemas.items() if schema.role.value == "constraint"]
    found = {name: changes[name] for name in constraints if name in changes}
    violations = {name: rows for name, change in found.items() if (rows := change.inserted.sorted())}
    repaired = {name: rows for name, change in found.items() if (rows := change.deleted.sorted())}
    logged = _LoggedOutcome(version, changes, violations, repaired)
    return _outcome(logged, readable_past_firings(commit, scopes), scopes)


# ---- what if --------------------------------------------------------------------------------------


@router.post(
    "/what-if",
    summary="Preview a transaction",
    responses=answer_of(WhatIfAnswer, "Nothing was committed."),
    openapi_extra=body_of(WHAT_IF),
)
async def what_if(request: Request) -> Response:
    """The readable effects of a transaction: changes, violations and rule firings. The token needs the scopes of the
    transaction, since a preview discloses as much."""
    service, scopes = service_of(request)
    database = service.database
    body = transaction_body(await read_object(request, PARTS, exact=True), database.schemas, scopes)

    def answer() -> dict[str, Any]:
        insert, delete = _as_two(body, database)
        try:
            found = database.what_if(insert, delete)
        except DataError as error:
            if error.code == "not-a-base-relation" and not scopes.reads_everything:
                raise RequestError(400, error.code, "rows of views are derived") from None
            raise
        return {
            "version": database.version,
            "changes": readable_changes(found, scopes),
            "violations": readable_rows(found.violations, scopes),
            "firings": readable_firings(found.firings, scopes),
        }

    return json_response(await service.writer.between_commits(answer))


def _as_two(body: TransactionBody, database: Database) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """The statements as insertions and deletions. For relations that are replaced or changed by key, these are computed
    from the current rows."""
    insert, delete = dict(body.insert), dict(body.delete)
    for name in {*body.replace, *body.upsert}:
        before = set(database.rows(name))
        after = set(body.replace[name]) if name in body.replace else set(before)
        after -= set(delete.get(name, ()))
        after |= set(insert.get(name, ()))
        if name in body.upsert:
            after = _upserted(after, body.upsert[name], database.schemas[name])
        insert[name], delete[name] = list(after - before), list(before - after)
    return insert, delete


def _upserted(rows: set[Row], given: list[Row], schema: Schema) -> set[Row]:
    """The rows after each of `given` has replaced those with one of its keys."""
    if not schema.keys:
        raise RequestError(400, "no-key", f"`{schema.name}` has no key to upsert by", help="insert and delete rows")
    holders: dict[tuple[tuple[int, ...], Row], set[Row]] = defaultdict(set)

    def places(row: Row) -> list[tuple[tuple[int, ...], Row]]:
        return [(key, tuple(row[place] for place in key)) for key in schema.keys]

    for row in rows:
        for place in places(row):
            holders[place].add(row)
    for row in given:
        for old in {old for place in places(row) for old in holders[place]}:
            rows.discard(old)
            for place in places(old):
                holders[place].discard(old)
        rows.add(row)
        for place in places(row):
            holders[place].add(row)
    return rows
