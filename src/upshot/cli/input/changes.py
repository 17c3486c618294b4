"""Change files: NDJSON, one transaction a line, `{"insert": {"edge": [[1,2]]}, "delete": {"edge": [[3,4]]}}`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from upshot.cli.input.files import at_line, decode_line, open_bytes, shown_name
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import DataError, unknown_relation
from upshot.core.json_values import JsonMisfit, from_json, repeated_key
from upshot.core.schema import Role, Schema
from upshot.core.span import Span

Facts = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """The facts of one transaction; no fact is in both."""

    insert: Facts
    delete: Facts


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A line of a change file and where it stands; blank lines are passed over."""

    file: str
    number: int
    raw: bytes

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"

    def span(self) -> Span:
        return at_line(self.file, self.number, self.raw.decode("utf-8", "replace").strip())


def read_change_lines(path: Path) -> Iterator[ChangeLine]:
    """The lines of a change file as they arrive; `-` is standard input."""
    name = shown_name(path)
    with open_bytes(path, "change file") as stream:
        # readline and not iteration: a transaction on a pipe is answered when it arrives, not when a buffer is full.
        for number, raw in enumerate(iter(stream.readline, b""), start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield ChangeLine(name, number, raw)


def parse_change(line: ChangeLine, schemas: Mapping[str, Schema]) -> ChangeFacts:
    """The transaction of a line with typed values, or a `DataError` that names file, line and cause.

    A fact that is both inserted and deleted cancels out: a JSON object has no order.
    """
    text = decode_line(line.raw, line.file, line.number)
    try:
        content = _read_object(text)
        insert = _facts(content.get("insert", {}), "insert", schemas)
        delete = _facts(content.get("delete", {}), "delete", schemas)
    except _Wrong as wrong:
        raise DataError(
            f"{line.place}: {wrong.words}", code=wrong.slug, span=_where(line, text, wrong), help=wrong.help
        ) from None
    return canceled(insert, delete)


class _Wrong(Exception):
    def __init__(self, slug: str, words: str, help: str = "", column: int = 0) -> None:
        super().__init__(words)
        self.slug, self.words, self.help, self.column = slug, words, help, column


_EXAMPLE = 'write a line as {"insert": {"edge": [[1, 2]]}, "delete": {"edge": [[3, 4]]}}'


def _where(line: ChangeLine, text: str, wrong: _Wrong) -> Span:
    if wrong.column:
        return at_line(line.file, line.number, text, wrong.column - 1, wrong.column)
    return at_line(line.file, line.number, text)


def _read_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(
            text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_without_repetition
        )
    except json.JSONDecodeError as error:
        raise _Wrong("not-json", f"invalid JSON: {error.msg.lower()}", _EXAMPLE, error.colno) from None
    except RecursionError:
        raise _Wrong("not-json", "JSON is nested too deeply", _EXAMPLE) from None
    except (ValueError, ArithmeticError):
        # Python refuses to read integers of thousands of digits and exponents beyond those of `Decimal`.
        raise _Wrong("wrong-type", "a number has too many digits") from None
    if not isinstance(content, dict):
        raise _Wrong("not-a-transaction", "a transaction must be a JSON object", _EXAMPLE)
    for key in content:
        if key not in ("insert", "delete"):
            raise _Wrong("not-a-transaction", f"unknown key `{key}`", _instead_of(key))
    return content


def _instead_of(key: str) -> str:
    """Suggest a key instead of one that transactions do not have."""
    only = "a transaction in a change file has only the keys `insert` and `delete`"
    match key:
        case "upsert" | "update":
            return f"{only}; for an {key}, delete the old row and insert the new one"
        case "replace":
            return f"{only}; to replace rows, delete the old ones and insert the new ones"
        case _:
            return did_you_mean(key, ("insert", "delete")) or only


def _no_constant(name: str) -> None:
    raise _Wrong("not-json", f"`{name}` is not JSON", f'write it as text: "{name}"')


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated_key(pairs)
        raise _Wrong("not-a-transaction", f"duplicate key `{twice}`", "put all rows into one list")
    return found


def _facts(part: Any, word: str, schemas: Mapping[str, Schema]) -> Facts:
    if not isinstance(part, dict):
        raise _Wrong("not-a-transaction", f"`{word}` must be an object that maps relations to rows", _EXAMPLE)
    return {name: _rows(rows, word, _known(name, schemas)) for name, rows in part.items()}


def _known(name: str, schemas: Mapping[str, Schema]) -> Schema:
    if name in schemas:
        return schemas[name]
    base = [schema.name for schema in schemas.values() if schema.role is Role.BASE]
    listed = ", ".join(f"`{name}`" for name in base) or "none"
    error = unknown_relation(name, base, otherwise=f"base relations: {listed}")
    raise _Wrong(error.code, error.message, error.help)


def _rows(rows: Any, word: str, schema: Schema) -> list[tuple[Any, ...]]:
    if not isinstance(rows, list):
        raise _Wrong("not-a-transaction", f"`{word}` of `{schema.name}` must be a list of rows", _EXAMPLE)
    return [_row(row, f"{word} row {number} of `{schema.name}`", schema) for number, row in enumerate(rows, start=1)]


def _row(row: Any, place: str, schema: Schema) -> tuple[Any, ...]:
    if isinstance(row, dict):
        row = _by_name(row, place, schema)
    if not isinstance(row, list):
        raise _Wrong("wrong-row", f"{place} is not a list", _EXAMPLE)
    if len(row) != schema.arity:
        raise _Wrong(
            "wrong-arity",
            f"{place} has {len(row)} value{'s' * (len(row) != 1)}, the relation has {schema.arity}",
            f"columns: {schema}",
        )
    values = []
    for value, column in zip(row, schema.columns, strict=True):
        try:
            values.append(from_json(value, column.type))
        except JsonMisfit as wrong:
            raise _Wrong(wrong.code, f"{place}, column `{column.name}`: {wrong}", f"columns: {schema}") from None
    return tuple(values)


def _by_name(row: dict[str, Any], place: str, schema: Schema) -> list[Any]:
    names = [column.name for column in schema.columns]
    for key in row:
        if key not in names:
            help = did_you_mean(key, names) or f"columns: {schema}"
            raise _Wrong("unknown-column", f"{place}: unknown column `{key}`", help)
    for column in schema.columns:
        if column.name not in row and not column.type.nullable:
            raise _Wrong("wrong-arity", f"{place}: column `{column.name}` is missing", f"columns: {schema}")
    return [row.get(name) for name in names]


def canceled(insert: Facts, delete: Facts) -> ChangeFacts:
    """The change without what is in both: the two have no order."""
    both = {name: set(insert[name]) & set(delete[name]) for name in insert.keys() & delete.keys()}
    return ChangeFacts(_without(insert, both), _without(delete, both))


def _without(facts: Facts, dropped: Mapping[str, set[tuple[Any, ...]]]) -> Facts:
    return {name: [row for row in rows if row not in dropped.get(name, ())] for name, rows in facts.items()}
