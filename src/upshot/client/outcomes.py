"""The outcome of a transaction, and the body of its request."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from upshot.client.relations import Row, read_rows, read_version
from upshot.core.errors import DataError, UsageError
from upshot.core.json_values import to_json
from upshot.core.rows import Rows
from upshot.core.schema import Schema

Facts = Mapping[str, Iterable[Any]]


@dataclass(frozen=True, slots=True)
class RelationDelta:
    """The net change of one relation."""

    inserted: Rows
    deleted: Rows


class ChangesByRelation(Mapping[str, RelationDelta]):
    """The changed relations that the token may read. Other known relations have empty changes."""

    def __init__(self, found: Mapping[str, RelationDelta], relations: Mapping[str, Schema]) -> None:
        self._found, self._relations = dict(found), relations

    def __getitem__(self, name: str) -> RelationDelta:
        if name not in self._found and name in self._relations:
            nothing = Rows.of(self._relations[name], [])
            return RelationDelta(nothing, nothing)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        shown = (f"{name} +{len(c.inserted)} −{len(c.deleted)}" for name, c in self._found.items())
        return f"<changes: {', '.join(shown) or 'none'}>"


Relations = Mapping[str, Schema]
WithRelations = Callable[[Callable[[Relations], Any]], Any]
"""Calls a function with the known relations, and again with fetched ones if that fails."""


class Outcome:
    """The changes of a transaction or of a what-if. `version` is the version that it made, or the current one.

    Rows are decoded on access. This may fetch columns, and an error of that must not look like one of the transaction.
    """

    def __init__(self, content: Mapping[str, Any], with_relations: WithRelations) -> None:
        self._content, self._with_relations = content, with_relations
        self.version = read_version(content)
        self.repeated = content.get("repeated") is True
        """True if an earlier request had the same key. This is its outcome."""
        self.firings: tuple[Mapping[str, Any], ...] = tuple(content.get("firings") or ())

    @cached_property
    def changes(self) -> ChangesByRelation:
        found: ChangesByRelation = self._with_relations(partial(read_changes, self._content.get("changes")))
        return found

    @cached_property
    def violations(self) -> Mapping[str, tuple[Row, ...]]:
        """The inserted witnesses, by constraint."""
        return self._witnesses("violations")

    @cached_property
    def repaired(self) -> Mapping[str, tuple[Row, ...]]:
        """The deleted witnesses, by constraint."""
        return self._witnesses("repaired")

    def _witnesses(self, part: str) -> Mapping[str, tuple[Row, ...]]:
        found: Mapping[str, tuple[Row, ...]] = self._with_relations(partial(read_witnesses, self._content.get(part)))
        return found

    def __repr__(self) -> str:
        return f"<outcome, version {self.version}>"


def read_changes(content: Any, relations: Mapping[str, Schema]) -> ChangesByRelation:
    """Read changes. `KeyError` if a relation is unknown, `JsonMisfit` if its columns have changed."""
    found = {
        name: RelationDelta(
            read_rows(relations[name], parts.get("insert", [])), read_rows(relations[name], parts.get("delete", []))
        )
        for name, parts in (content or {}).items()
    }
    return ChangesByRelation(found, relations)


def read_witnesses(content: Any, relations: Mapping[str, Schema]) -> dict[str, tuple[Row, ...]]:
    """The witnesses by constraint, or the rows that share a key by relation."""
    return {name: tuple(read_rows(relations[name], rows)) for name, rows in (content or {}).items()}


def transaction_body(parts: Mapping[str, Facts | None], meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of a transaction request."""
    for part, facts in parts.items():
        _require_facts(part, facts)
    body: dict[str, Any] = {
        part: {name: [_row_to_json(row, name) for row in rows] for name, rows in facts.items()}
        for part, facts in parts.items()
        if facts is not None
    }
    if meta is not None:
        body["meta"] = _checked_json(dict(meta))
    return body


def _require_facts(part: str, facts: Any) -> None:
    if facts is None:
        return
    if not isinstance(facts, Mapping):
        message = f"`{part}` must be a dict of rows by relation, not a {type(facts).__name__}"
        raise UsageError(message, code="wrong-argument", help=f'as in {part}={{"closure": [(1, 3)]}}')
    for name, rows in facts.items():
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            message = f"`{name}` needs rows, not one {type(rows).__name__}"
            raise DataError(message, code="not-rows", help="give a list of rows: [(1, 2)]")


def _checked_json(meta: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(meta, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"`meta` is not JSON: {error}", code="wrong-argument") from None
    return meta


def _row_to_json(row: Any, name: str) -> Any:
    if isinstance(row, Mapping):
        return {str(column): json_value(value, f"column `{column}` of `{name}`") for column, value in row.items()}
    if isinstance(row, (tuple, list)):
        return [json_value(value, f"value {place} of a row of `{name}`") for place, value in enumerate(row, 1)]
    raise DataError(
        f"a row of `{name}` must be a tuple, a list or a dict, not {type(row).__name__}",
        code="wrong-row",
        help="[(1, 2)]",
    )


def json_value(value: Any, place: str) -> Any:
    """The JSON form of a Python value, or a `DataError` that names its place."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        message = f"{place}: timestamp {value.isoformat()} has no time zone; add one"
        raise DataError(message, code="wrong-type")
    try:
        if isinstance(value, str) and not value.isascii():
            value.encode()
        return to_json(value)
    except UnicodeEncodeError:
        raise DataError(f"{place}: text with half of a surrogate pair", code="wrong-type") from None
    except TypeError:
        raise DataError(
            f"{place}: no column can store a value of type {type(value).__name__}", code="wrong-type"
        ) from None
