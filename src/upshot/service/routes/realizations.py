"""`POST /realizations`: the base changes that insert or delete rows of views."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from upshot.core.json_values import JsonMisfit, json_reader
from upshot.core.rows import Row
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind, Type
from upshot.database.database import Database
from upshot.database.realization import Realization
from upshot.database.realize import ALL, OPEN, Realizations
from upshot.database.search_arguments import LEAST_SIDE_EFFECTS
from upshot.revise.request import Bounds
from upshot.service.access.scopes import EVERYTHING, Scopes
from upshot.service.feed.past import past_database
from upshot.service.service import service_of
from upshot.service.wire.answers import json_response, listed
from upshot.service.wire.bodies import MOST_EXPECTED, Facts, Goal, read_goal, read_object, require_keys, wrong
from upshot.service.wire.errors import RequestError
from upshot.service.wire.shapes import (
    ERRORS,
    MOST_CHANGES,
    MOST_GIVEN,
    MOST_NEW,
    MOST_ROUNDS,
    REALIZATIONS,
    USUAL_LIMIT,
    RealizationsAnswer,
    answer_of,
    body_of,
)
from upshot.service.writing.searches import SlicedSearch

router = APIRouter(tags=["transactions"], responses=ERRORS, default_response_class=Response)

_KEYS = ("insert", "delete", "repair", "limit", "frozen", "cost", "bounds", "side_effect_free_first", "prefer", "at")
_MOST_NAMED = 1_000
"""Names that `frozen` and `cost` may have."""
_DEAREST = 10**15
_LONGEST = 10**6
_LARGEST_VERSION = 2**62


@router.post(
    "/realizations",
    summary="Find base changes for a request to views",
    responses=answer_of(RealizationsAnswer, "Nothing was committed."),
    openapi_extra=body_of(REALIZATIONS),
)
async def realizations(request: Request) -> Response:
    """The minimal sets of base changes that insert and delete these rows and violate no further constraint: the
    cheapest first, each with all its effects. The token needs to read everything that the answer can depend on: the
    relations below the requested ones, the constraints on these, and the relations below those constraints.

    `POST /transactions` commits one: its `insert` and `delete`, with values for the placeholders, and the `request` of
    this answer as `expect`."""
    service, scopes = service_of(request)
    body = _body(await read_object(request, _KEYS, exact=True), service.database, scopes)
    require_reach(body.relations, service.database, scopes)
    if body.prefer is not None and not scopes.may_read_all(service.database.schemas):
        hint = "use a token that may read all views, or `side_effect_free_first`, which counts those it may read"
        raise RequestError(403, "forbidden", "`prefer` would disclose changes that this token may not read", help=hint)
    requested: list[Goal] = [body.goal]

    def begin(database: Database) -> Realizations:
        goal = body.with_witnesses(database)
        search = body.search(goal, database)
        # Rules may have been defined since the previous slice.
        require_reach(body.relations, database, scopes)
        requested[:] = [goal]
        return search

    then = service.database
    if (at := body.at) is not None:
        then = await service.writer.between_commits(lambda: past_database(service.database, at))

    def start() -> SlicedSearch:
        bounds = service.settings.bounds
        most = None if body.side_effect_free_first else body.limit
        seconds = min(bounds.seconds, body.bounds.seconds)
        return SlicedSearch(then, begin, seconds, most, bounds.rows, rows_shown(scopes))

    found = await service.searches.run(start, request.is_disconnected)
    return await service.run_read(lambda: json_response(_answer(found, requested[0], body, scopes)))


# ---- the request ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RealizationsBody:
    """A request for realizations; `repair`: constraints whose witnesses must be deleted, too."""

    goal: Goal
    repair: tuple[str, ...] = ()
    limit: int = USUAL_LIMIT
    frozen: tuple[str, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    side_effect_free_first: bool = False
    prefer: str | None = None
    patterns: tuple[tuple[str, str], ...] = ()
    """Relations, and patterns whose rows must be deleted."""
    at: int | None = None
    """An earlier version in which realizations are searched."""

    @property
    def relations(self) -> set[str]:
        """The relations of the request."""
        return {*self.goal.insert, *self.goal.delete, *self.repair, *(name for name, _ in self.patterns)}

    def with_witnesses(self, database: Database) -> Goal:
        """The requested rows, with the current witnesses and the current rows of patterns."""
        delete: Facts = {name: list(rows) for name, rows in self.goal.delete.items()}
        for name, pattern in (*((name, "") for name in self.repair), *self.patterns):
            matched = database.pattern_rows(name, pattern) if pattern else database.rows(name)
            if len(matched) > MOST_EXPECTED:
                rows, verb = ("rows", "requested") if pattern else ("witnesses", "repaired")
                message = f"`{pattern or name}` has {len(matched):,} {rows}; {MOST_EXPECTED:,} can be {verb} together"
                raise RequestError(422, "too-many-rows", message, help="name some of them in `delete`")
            delete[name] = sorted({*delete.get(name, ()), *matched}, key=repr)
        return Goal(self.goal.insert, {name: rows for name, rows in delete.items() if rows})

    def search(self, goal: Goal, database: Database) -> Realizations:
        """Start the search, without a time limit."""
        options: dict[str, Any] = {"frozen": self.frozen, "cost": self.cost, "prefer": self.prefer}
        options["bounds"] = replace(self.bounds, seconds=math.inf)
        if not goal.size and self.patterns:
            # No row matches, so the request is already satisfied.
            return database.realize(delete=dict(self.patterns), **options)
        if not goal.size:
            # There are no violations, which `repairs` reports.
            return database.repairs(self.repair[0] if len(self.repair) == 1 else None, **options)
        return database.realize(goal.insert, goal.delete, **options)


def _body(content: Mapping[str, Any], database: Database, scopes: Scopes) -> RealizationsBody:
    schemas = database.schemas
    parts = {part: content[part] for part in ("insert", "delete") if part in content}
    patterns = _patterns(parts, schemas, scopes)
    free = content.get("side_effect_free_first", False)
    if not isinstance(free, bool):
        raise wrong("`side_effect_free_first` must be true or false", 'as in {"side_effect_free_first": true}')
    goal = read_goal(parts, "the request", schemas, scopes)
    prefer = content.get("prefer")
    if prefer not in (None, LEAST_SIDE_EFFECTS):
        raise wrong(f"`prefer` must be `{LEAST_SIDE_EFFECTS}`", f'as in {{"prefer": "{LEAST_SIDE_EFFECTS}"}}')
    if not goal.size and not patterns and content.get("repair") is None:
        hint = 'give rows to insert or delete, as in {"insert": {"closure": [[1, 3]]}}, or give `repair`'
        raise RequestError(400, "empty-request", "the request is empty", help=hint)
    return RealizationsBody(
        goal,
        _repair(content.get("repair"), schemas, scopes),
        _whole(content.get("limit", USUAL_LIMIT), "limit", 1, MOST_GIVEN),
        tuple(_places(content.get("frozen", []), list, "frozen", schemas, scopes)),
        _cost(content.get("cost", {}), schemas, scopes),
        _bounds(content.get("bounds", {})),
        free,
        prefer,
        patterns,
        None if content.get("at") is None else _whole(content["at"], "at", 0, _LARGEST_VERSION),
    )


def _patterns(parts: dict[str, Any], schemas: Mapping[str, Schema], scopes: Scopes) -> tuple[tuple[str, str], ...]:
    """Remove the patterns from the rows to delete, and return them."""
    delete = parts.get("delete")
    if not isinstance(delete, dict):
        return ()
    found: list[tuple[str, str]] = []
    kept: dict[str, Any] = {}
    for name, rows in delete.items():
        listed = [rows] if isinstance(rows, str) else rows
        texts = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
        if texts:
            scopes.require_read(name, schemas)
            found += [(name, each) for each in texts]
            listed = [each for each in listed if not isinstance(each, str)]
        if listed or not texts:
            kept[name] = listed
    parts["delete"] = kept
    if len(found) > _MOST_NAMED:
        raise wrong(f"`delete` must have at most {_MOST_NAMED:,} patterns", 'as in {"access": "access(\'ann\', _)"}')
    return tuple(found)


def _repair(name: Any, schemas: Mapping[str, Schema], scopes: Scopes) -> tuple[str, ...]:
    if name is None:
        return ()
    if not isinstance(name, str):
        raise wrong("`repair` must be the name of a constraint, or `*`", "`GET /constraints` lists them")
    constraints = [each for each, schema in schemas.items() if schema.role is Role.CONSTRAINT]
    if name == EVERYTHING:
        return tuple(constraints)
    scopes.require_read(name, schemas)
    if name not in constraints:
        raise wrong(f"`{name}` is not a constraint", "`GET /constraints` lists them")
    return (name,)


def _places(
    given: Any, kind: type[list[Any] | dict[Any, Any]], word: str, known: Collection[str], scopes: Scopes
) -> list[str]:
    """Names of relations that may be read, with a sign or without."""
    if not isinstance(given, kind) or len(given) > _MOST_NAMED or not all(isinstance(each, str) for each in given):
        raise wrong(f"`{word}` must name base relations, at most {_MOST_NAMED:,}", 'as in ["granted", "+member"]')
    for each in given:
        scopes.require_read(each[1:] if each[:1] in ("+", "-") else each, known)
    return list(given)


def _cost(given: Any, known: Collection[str], scopes: Scopes) -> dict[str, float]:
    found = {}
    for name in _places(given, dict, "cost", known, scopes):
        price = given[name]
        if isinstance(price, bool) or not isinstance(price, int | Decimal) or not 0 <= price <= _DEAREST:
            raise wrong(f"the `cost` of `{name[:60]}` must be a number from 0 to {_DEAREST:,}", 'as in {"-granted": 5}')
        found[name] = float(price) if isinstance(price, Decimal) else price
    return found


def _bounds(given: Any) -> Bounds:
    keys = ("seconds", "size", "rounds", "new_constants", "constants")
    listed = f"its keys are {', '.join(keys)}"
    if not isinstance(given, dict):
        raise wrong("`bounds` must be an object", listed)
    require_keys(given, keys, "`bounds`")
    plain, seconds = Bounds(), given.get("seconds", _LONGEST)
    if isinstance(seconds, bool) or not isinstance(seconds, int | Decimal) or not 0 < seconds <= _LONGEST:
        raise wrong(f"`seconds` must be a positive number of at most {_LONGEST:,}", 'as in {"bounds": {"seconds": 5}}')
    return Bounds(
        _whole(given.get("rounds", plain.rounds), "rounds", 1, MOST_ROUNDS),
        _whole(given.get("new_constants", plain.new_constants), "new_constants", 0, MOST_NEW),
        None if given.get("size") is None else _whole(given["size"], "size", 1, MOST_CHANGES),
        float(seconds),
        _constants(given.get("constants", [])),
    )


def _constants(given: Any) -> tuple[Any, ...]:
    """The values to try, each in every type that can read it: JSON has no dates and no decimals."""
    if not isinstance(given, list) or len(given) > _MOST_NAMED:
        raise wrong(f"`constants` must be a list of at most {_MOST_NAMED:,} values", 'as in {"constants": ["ops", 7]}')
    found: dict[tuple[type, Any], Any] = {}
    for value in given:
        if not isinstance(value, str | int | float | Decimal):
            raise wrong("`constants` must be texts, numbers, true or false", 'as in {"constants": ["ops", 7]}')
        readings = [Decimal(value)] if not isinstance(value, str | bool) else []
        for kind in (each for each in Kind if each is not Kind.DECIMAL):
            with suppress(JsonMisfit):
                readings.append(json_reader(Type(kind))(value))
        found |= {(type(each), each): each for each in readings}
    return tuple(found.values())


def _whole(value: Any, word: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong(f"`{word}` must be an integer from {low:,} to {high:,}", f'as in {{"{word}": {max(low, 3)}}}')
    return value


def require_reach(relations: Collection[str], database: Database, scopes: Scopes) -> None:
    """`forbidden` unless the token may read everything that realizations for these relations depend on."""
    if not scopes.reads_everything and not scopes.may_read_all(database.search_reach(relations)):
        hint = "use a token that may read everything the answer depends on"
        raise RequestError(
            403, "forbidden", "the realizations would disclose data that this token may not read", help=hint
        )


# ---- the answer -----------------------------------------------------------------------------------


def _answer(found: SlicedSearch, goal: Goal, body: RealizationsBody, scopes: Scopes) -> dict[str, Any]:
    listing = [each.as_dict(scopes.may_read) for each in found.found]
    status, reason = found.status, found.reason
    unbounded = list(filter(scopes.may_read, found.unbounded))
    if body.side_effect_free_first:
        listing.sort(key=lambda each: int(each["side_effects"]))
        if len(listing) > body.limit:
            status, reason = _first_of(body.limit, len(listing), status, reason)
            listing = listing[: body.limit]
    return {
        "version": found.version,
        "status": status,
        "reason": reason,
        **({"unbounded": unbounded} if unbounded else {}),
        "request": {"insert": _facts(goal.insert), "delete": _facts(goal.delete)},
        "realizations": listing,
    }


def _first_of(limit: int, number: int, status: str, reason: str) -> tuple[str, str]:
    if status == ALL:
        return OPEN, f"the first {limit:,} of {number:,}, which are all"
    return status, f"the first {limit:,} of {number:,}: {reason}"


def _facts(facts: Mapping[str, Iterable[Row]]) -> dict[str, list[list[Any]]]:
    return {name: listed(rows) for name, rows in facts.items()}


def rows_shown(scopes: Scopes) -> Callable[[Realization], int]:
    """A function that counts the rows in the readable effects of a realization."""

    def counted(realization: Realization) -> int:
        changes = (change for name, change in realization.effects.items() if scopes.may_read(name))
        return sum(len(change.inserted) + len(change.deleted) for change in changes)

    return counted
