"""The bodies of requests: strict JSON, and errors that name the fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from starlette.requests import Request

from upshot.core.diagnostic import did_you_mean
from upshot.core.json_values import JsonMisfit, repeated_key, row_as_list, row_reader
from upshot.core.schema import Schema
from upshot.database.transaction import Transaction
from upshot.service.access.scopes import Scopes
from upshot.service.wire.errors import RequestError

Facts = dict[str, list[tuple[Any, ...]]]

PARTS = ("insert", "delete", "upsert", "replace")
RESERVED = "upshot"
"""The key in the metadata of a commit under which the service stores its own data."""

_EXAMPLE = 'as in {"insert": {"edge": [[1, 2]]}, "delete": {"edge": [[3, 4]]}}'
_SECONDS = 30.0
"""Time limit for the arrival of a body."""
_LONGEST_METADATA = 16_384
_LONGEST_NAME = 40
"""The longest key or parameter, in characters, that an answer repeats."""
MOST_REQUESTED = 1_000
"""The number of rows that a request for realizations may insert and delete."""
MOST_EXPECTED = 10_000
"""The number of rows that a transaction may expect: those of a request, and those that its patterns matched."""


async def read_object(request: Request, keys: tuple[str, ...], *, exact: bool = False) -> dict[str, Any]:
    """The JSON object of a body, which may have these keys. `exact` reads fractions as `Decimal`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A page of another origin may send other content types without a preflight request.
        hint = "send `Content-Type: application/json`"
        raise RequestError(415, "not-json", "the body must be JSON, with its content type", help=hint)
    try:
        async with asyncio.timeout(_SECONDS):
            raw = await request.body()
    except TimeoutError:
        raise RequestError(408, "timeout", "the body did not arrive in time", retryable=True) from None
    content = parse_json(raw, exact=exact)
    if not isinstance(content, dict):
        raise wrong("the body must be a JSON object", _EXAMPLE)
    require_keys(content, keys, "the body")
    return content


def require_keys(content: Mapping[str, Any], keys: Collection[str], place: str) -> None:
    """`bad-request` for any other key, with the place of the key and a suggestion."""
    for key in content:
        if key not in keys:
            raise wrong(f"unknown key {shown_key(key)} in {place}", _instead(key, keys, "keys"))


def shown_key(key: str) -> str:
    """The name in a message. A long one is not repeated: it may be a secret in the wrong place."""
    return f"`{key}`" if len(key) <= _LONGEST_NAME else f"of {len(key)} characters"


def _instead(name: str, known: Collection[str], kind: str) -> str:
    listed = f"the {kind} are {', '.join(known)}" if known else f"it takes no {kind}"
    return f"{did_you_mean(name[:_LONGEST_NAME], known)} {listed}".strip()


def require_parameters(given: Collection[str], known: Collection[str]) -> None:
    """`bad-request` for an unknown query parameter, which FastAPI would ignore."""
    for name in given:
        if name not in known:
            raise wrong(f"unknown parameter {shown_key(name)}", _instead(name, known, "parameters"))


def parse_json(raw: bytes | str, *, exact: bool = False) -> Any:
    """Parse JSON. Duplicate keys, NaN, deep nesting and long numbers are errors."""
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        return json.loads(
            text,
            parse_float=Decimal if exact else _finite,
            parse_constant=_no_constant,
            object_pairs_hook=_without_repetition,
        )
    except UnicodeDecodeError:
        raise RequestError(400, "not-json", "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        message = f"invalid JSON: {error.msg.lower()}, line {error.lineno}, column {error.colno}"
        raise RequestError(400, "not-json", message, help=_EXAMPLE) from None
    except RecursionError:
        raise RequestError(400, "not-json", "JSON is nested too deeply") from None
    except (ValueError, ArithmeticError):
        raise RequestError(400, "wrong-type", "a number has too many digits") from None


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _no_constant(name: str) -> None:
    raise RequestError(400, "not-json", f"`{name}` is not JSON", help=f'write it as text: "{name}"')


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated_key(pairs)
        raise wrong(f"duplicate key {shown_key(twice)} in an object", "put all rows into one list")
    return found


def wrong(message: str, help: str = "") -> RequestError:
    return RequestError(400, "bad-request", message, help=help)


# ---- transactions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """Rows of readable relations that must be present, or absent, after the transaction."""

    insert: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, (*self.insert.values(), *self.delete.values())))


@dataclass(frozen=True, slots=True)
class TransactionBody:
    """The statements of a transaction with typed values, and its metadata."""

    insert: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)
    upsert: Facts = field(default_factory=dict)
    replace: Facts = field(default_factory=dict)
    meta: Mapping[str, Any] | None = None
    expect: Goal | None = None

    def apply(self, transaction: Transaction) -> None:
        """Execute the statements in a fixed order, since a JSON object has none."""
        if self.expect is not None:
            transaction.expect(self.expect.insert, self.expect.delete)
        for part, statement in (
            (self.replace, transaction.replace),
            (self.delete, transaction.delete),
            (self.insert, transaction.insert),
            (self.upsert, transaction.upsert),
        ):
            for name, rows in part.items():
                statement(name, rows)

    @property
    def relations(self) -> set[str]:
        return {*self.insert, *self.delete, *self.upsert, *self.replace}


def transaction_body(content: Mapping[str, Any], schemas: Mapping[str, Schema], scopes: Scopes) -> TransactionBody:
    """The transaction of a body. A relation that the sender may not change is `forbidden`, with the same message
    whether it exists or not. A row that is both inserted and deleted cancels out."""

    def may_write(name: str) -> None:
        scopes.require_write(name, schemas)

    parts = {part: _facts(content.get(part, {}), part, schemas, may_write) for part in PARTS}
    meta, expect = content.get("meta"), content.get("expect")
    if meta is not None:
        _require_metadata(meta)
    insert, delete = parts["insert"], parts["delete"]
    for name in insert.keys() & delete.keys():
        both = set(insert[name]) & set(delete[name])
        insert[name] = [row for row in insert[name] if row not in both]
        delete[name] = [row for row in delete[name] if row not in both]
    expected = None if expect is None else read_goal(expect, "`expect`", schemas, scopes, MOST_EXPECTED)
    return TransactionBody(insert, delete, parts["upsert"], parts["replace"], meta, expected)


def read_goal(
    content: Any, word: str, schemas: Mapping[str, Schema], scopes: Scopes, most: int = MOST_REQUESTED
) -> Goal:
    """The rows of the keys `insert` and `delete` of an object. A relation that may not be read is `not-found`, like one
    that does not exist."""
    if not isinstance(content, dict):
        raise wrong(f"{word} must be an object with `insert` and `delete`", 'as in {"delete": {"path": [[1, 3]]}}')
    require_keys(content, ("insert", "delete"), word)

    def may_read(name: str) -> None:
        scopes.require_read(name, schemas)

    found = Goal(*(_facts(content.get(part, {}), part, schemas, may_read) for part in ("insert", "delete")))
    if found.size > most:
        raise RequestError(413, "too-large", f"{word} may have at most {most:,} rows", help="request less at a time")
    return found


def _require_metadata(meta: Any) -> None:
    if not isinstance(meta, dict) or RESERVED in meta:
        raise wrong(f"`meta` must be an object without the key `{RESERVED}`")
    try:
        text = json.dumps(meta, ensure_ascii=False, allow_nan=False, default=_number)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        raise wrong("`meta` cannot be stored") from None
    if len(text) > _LONGEST_METADATA:
        raise RequestError(413, "too-large", f"`meta` may have at most {_LONGEST_METADATA:,} characters")


def _number(value: Any) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError


def plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata with numbers as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(meta, default=_number))
    return found


def _facts(part: Any, word: str, schemas: Mapping[str, Schema], require: Callable[[str], None]) -> Facts:
    if not isinstance(part, dict):
        raise wrong(f"`{word}` must be an object: rows by relation", _EXAMPLE)
    found: Facts = {}
    for name, rows in part.items():
        try:
            require(name)
        except RequestError as refused:
            refused.message = f"`{word}`: {refused.message}"
            raise
        if not isinstance(rows, list):
            raise wrong(f"`{word}` must have a list of rows for each relation", _EXAMPLE)
        found[name] = _rows(rows, word, schemas[name])
    return found


def _rows(rows: list[Any], word: str, schema: Schema) -> list[tuple[Any, ...]]:
    read, found = row_reader(schema), []
    for number, row in enumerate(rows, start=1):
        try:
            found.append(read(row_as_list(row, schema)))
        except JsonMisfit as misfit:
            place = f"{word} row {number} of `{schema.name}`"
            help = misfit.help or f"columns: {schema}"
            raise RequestError(400, misfit.code, f"{place}: {misfit}", help=help) from None
    return found


def read_row(text: str, schema: Schema) -> tuple[Any, ...]:
    """The row of a parameter such as `[1,3]`."""
    try:
        content = parse_json(text, exact=True)
    except RequestError as error:
        error.help = "`row` must be a JSON list of values, as in `?row=[1,3]`"
        raise
    try:
        return row_reader(schema)(row_as_list(content, schema))
    except JsonMisfit as misfit:
        help = misfit.help or f"columns: {schema}"
        raise RequestError(400, misfit.code, f"`row`: {misfit}", help=help) from None
