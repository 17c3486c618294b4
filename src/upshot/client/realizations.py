"""Realizations from a service: base changes that satisfy a request, and their effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, overload

from upshot.client.errors import unexpected
from upshot.client.outcomes import Facts, Relations, json_value, transaction_body
from upshot.client.relations import Row, read_version
from upshot.core.errors import DataError, UsageError
from upshot.core.fact_text import spelled
from upshot.core.json_values import JsonMisfit, json_reader, type_from_json
from upshot.core.schema import Role, Schema
from upshot.core.search_bounds import Bounds
from upshot.core.types import Type


@dataclass(frozen=True, slots=True, repr=False)
class Placeholder:
    """A fresh value of a type, which is chosen when the realization is applied."""

    name: str
    type: str

    @property
    def kind(self) -> Type:
        """The type of the values that it can have."""
        return type_from_json(self.type)

    def __repr__(self) -> str:
        """The spelling in rows: `?1`."""
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Formula:
    """A value that is computed from fresh values, as in `?1 - 19`."""

    name: str

    def __repr__(self) -> str:
        """The spelling in rows."""
        return self.name


@dataclass(frozen=True, slots=True)
class RelationEffect:
    """The rows of a relation that would be inserted and deleted, with a `Placeholder` for a fresh value and a `Formula`
    for a value that is computed from one."""

    inserted: tuple[Row, ...]
    deleted: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Realization:
    """`insert` and `delete` are rows by base relation, with a `Placeholder` for a fresh value; values that satisfy
    `conditions` are valid. `changes`, `violations` and `firings` are its readable effects, `side_effects` the number of
    changed rows of views that were not requested. The effects on the relations `by_trial` are known only for the fresh
    values `tried`. `expect` is the request."""

    insert: Mapping[str, tuple[Row, ...]]
    delete: Mapping[str, tuple[Row, ...]]
    cost: float
    side_effects: int
    placeholders: tuple[Placeholder, ...]
    conditions: tuple[str, ...]
    changes: Mapping[str, RelationEffect]
    violations: Mapping[str, tuple[Row, ...]]
    expect: Mapping[str, Mapping[str, tuple[Row, ...]]]
    version: int
    by_trial: frozenset[str] = frozenset()
    tried: Mapping[str, Any] = field(default_factory=dict)
    firings: tuple[Mapping[str, Any], ...] = ()
    schemas: Relations = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """The number of base rows it changes."""
        return sum(map(len, (*self.insert.values(), *self.delete.values())))

    def lines(self) -> list[str]:
        """The base changes in the syntax of facts, each with its sign."""
        deleted = [f"-{self._fact(name, row)}" for name, rows in self.delete.items() for row in rows]
        return deleted + [f"+{self._fact(name, row)}" for name, rows in self.insert.items() for row in rows]

    def text(self) -> str:
        """The base changes, one per line; placeholders, conditions and effects as comments."""
        lines = self.lines()
        lines += [f"// {each.name}: a fresh {each.type}" for each in self.placeholders]
        lines += [f"// where {condition}" for condition in self.conditions]
        tried = ", ".join(f"{e.name} = {spelled(self.tried.get(e.name), e.kind)}" for e in self.placeholders)
        for sign, name, row in self._view_changes():
            is_goal = row in self.expect["insert" if sign == "+" else "delete"].get(name, ())
            more = f" for {tried}" * (name in self.by_trial and not is_goal)
            lines.append(f"// {'goal: ' if is_goal else 'also: '}{sign}{self._fact(name, row)}{more}")
        if others := sorted(self.by_trial - {*self.changes}):
            lines.append(f"// possibly: rows of {', '.join(others)}, for values other than {tried}")
        lines += [f"// rules: {sign}{self._fact(name, row)}" for sign, name, row in self._made_by_rules()]
        lines += [f"// warns: {self._fact(name, row)}" for name, rows in self.violations.items() for row in rows]
        lines += [f"// firing: {firing.get('rule')}" for firing in self.firings]
        return "\n".join(lines) or "// nothing to do: already true"

    def __str__(self) -> str:
        return self.text()

    def _view_changes(self) -> Iterator[tuple[str, str, Row]]:
        for name, change in self.changes.items():
            if self.schemas[name].role is not Role.BASE:
                yield from (("-", name, row) for row in change.deleted)
                yield from (("+", name, row) for row in change.inserted)

    def _made_by_rules(self) -> Iterator[tuple[str, str, Row]]:
        """The changes of base relations that active rules would add."""
        for name, change in self.changes.items():
            if self.schemas[name].role is Role.BASE:
                yield from (("-", name, row) for row in change.deleted if row not in self.delete.get(name, ()))
                yield from (("+", name, row) for row in change.inserted if row not in self.insert.get(name, ()))

    def _fact(self, name: str, row: Row) -> str:
        columns = zip(row, self.schemas[name].columns, strict=True)
        return f"{name}({', '.join(spelled(value, column.type) for value, column in columns)})"

    def filled(self, values: Mapping[str, Any]) -> tuple[Facts, Facts]:
        """The insertions and deletions with values for the placeholders, by name with `?` or without."""
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            message = "`values` is a dict of values by placeholder"
            raise UsageError(message, code="wrong-argument", help='as in `client.apply(realization, {"?1": …})`')
        chosen = {f"?{name.lstrip('?')}": value for name, value in values.items()}
        known = [each.name for each in self.placeholders]
        for name in chosen:
            if name not in known:
                listed = ", ".join(f"`{each}`" for each in known)
                hint = f"it has {listed}" if known else "it has no placeholders: omit the values"
                raise UsageError(f"the realization has no placeholder `{name}`", code="wrong-argument", help=hint)
        if missing := [name for name in known if name not in chosen]:
            message = f"no value for placeholder {', '.join(f'`{name}`' for name in missing)}"
            hint = f'give the fresh value: `client.apply(realization, {{"{missing[0]}": …}})`'
            raise UsageError(message, code="placeholder-open", help=hint)
        insert = {
            name: [
                tuple(chosen[value.name] if isinstance(value, Placeholder) else value for value in row) for row in rows
            ]
            for name, rows in self.insert.items()
        }
        return insert, self.delete


class Realizations(Sequence[Realization]):
    """The realizations of a request at one `version`, the cheapest first. `status` is `all`, `more` if there may be
    others, `bounds reached`, `none exists` or `only through frozen`; `reason` explains it. `unbounded` are the views
    whose rows can need any number of fresh values."""

    def __init__(
        self, found: Sequence[Realization], version: int, status: str, reason: str, unbounded: tuple[str, ...] = ()
    ) -> None:
        self._found = tuple(found)
        self.version, self.status, self.reason, self.unbounded = version, status, reason, unbounded

    @overload
    def __getitem__(self, place: int) -> Realization: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Realization]: ...

    def __getitem__(self, place: int | slice) -> Realization | Sequence[Realization]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Realization]:
        return iter(self._found)

    def __repr__(self) -> str:
        return f"<{len(self)} realizations at version {self.version}: {self.reason}>"


def filled(realization: Any, values: Any) -> tuple[Facts, Facts]:
    """The rows to insert and delete for a realization, with values for its placeholders."""
    if not isinstance(realization, Realization):
        hint = "take one of those of `client.realize`"
        raise UsageError("this is not a realization", code="wrong-argument", help=hint)
    return realization.filled({} if values is None else values)


def no_longer_valid(realization: Realization, reason: str) -> DataError:
    """The error for a realization that no longer satisfies its request, with the conditions on its values."""
    again = "repeat `client.realize`"
    if not realization.placeholders:
        return DataError(f"this is no longer a realization: {reason}", code="not-a-realization", help=again)
    stated = " and ".join(f"`{each}`" for each in realization.conditions)
    help = f"give {f'values that meet {stated}' if stated else 'other values'}, or {again}"
    message = f"with these values, or in the current database, this is not a realization: {reason}"
    return DataError(message, code="not-a-realization", help=help)


def realizations_body(
    insert: Facts | None,
    delete: Facts | None,
    frozen: Any,
    cost: Any,
    bounds: Any,
) -> dict[str, Any]:
    """The body of `POST /realizations`."""
    patterns, rows = patterns_apart(delete)
    body = transaction_body({"insert": insert, "delete": rows})
    for name, texts in patterns.items():
        body["delete"][name] = [*body["delete"].get(name, ()), *texts]
    names = [frozen] if isinstance(frozen, str) else frozen
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        hint = 'as in frozen=["granted", "+member"]'
        raise UsageError("`frozen` is a list of base relations", code="wrong-argument", help=hint)
    if cost is not None and not isinstance(cost, Mapping):
        hint = 'as in cost={"-granted": 5}'
        raise UsageError("`cost` is a dict of prices by base relation", code="wrong-argument", help=hint)
    return body | {"frozen": list(names), "cost": dict(cost or {}), "bounds": _bounds_to_json(bounds)}


def patterns_apart(delete: Any) -> tuple[dict[str, list[str]], Any]:
    """The patterns, and the rows, to delete, by relation."""
    if not isinstance(delete, Mapping):
        return {}, delete
    patterns: dict[str, list[str]] = {}
    rows: dict[str, Any] = {}
    for name, requested in delete.items():
        listed = [requested] if isinstance(requested, str) and "(" in requested else requested
        texts = [each for each in listed if isinstance(each, str)] if isinstance(listed, list | tuple) else []
        if texts:
            patterns[name] = texts
            listed = [each for each in listed if not isinstance(each, str)]
        rows[name] = listed
    return patterns, rows


def _bounds_to_json(bounds: Any) -> dict[str, Any]:
    """The bounds that differ from the defaults, which the service has."""
    if isinstance(bounds, Bounds):
        default = Bounds()
        values = {each.name: getattr(bounds, each.name) for each in fields(Bounds)}
        bounds = {name: value for name, value in values.items() if value != getattr(default, name)}
    elif bounds is not None and not isinstance(bounds, Mapping):
        hint = "as in bounds=upshot.Bounds(seconds=2)"
        raise UsageError("`bounds` are given as `upshot.Bounds`, or a dict", code="wrong-argument", help=hint)
    sent = dict(bounds or {})
    if "constants" in sent:
        sent["constants"] = [json_value(each, "a value of `constants`") for each in sent["constants"]]
    if sent.get("seconds") == math.inf:
        # The service has its own time limit.
        del sent["seconds"]
    return sent


def read_realizations(content: Mapping[str, Any], relations: Relations) -> Realizations:
    """Read the answer of `POST /realizations`. `KeyError` if a relation is unknown, `JsonMisfit` if its columns have
    changed."""
    version, request = read_version(content), content.get("request")
    if not isinstance(request, dict) or not isinstance(content.get("realizations"), list):
        raise unexpected("realizations without their request")
    expect = {part: _facts(request.get(part), relations, {}) for part in ("insert", "delete")}
    found = [_realization(each, relations, expect, version) for each in content["realizations"]]
    unbounded = tuple(map(str, content.get("unbounded", ())))
    return Realizations(found, version, str(content.get("status")), str(content.get("reason")), unbounded)


def _realization(
    content: Any, relations: Relations, expect: Mapping[str, Mapping[str, tuple[Row, ...]]], version: int
) -> Realization:
    if not isinstance(content, dict):
        raise unexpected("a realization that is no object")
    new = {name: Placeholder(name, str(type)) for name, type in (content.get("placeholders") or {}).items()}
    by_trial = content.get("by_trial") or {}
    return Realization(
        _facts(content.get("insert"), relations, new),
        _facts(content.get("delete"), relations, new),
        content.get("cost", 0),
        int(content.get("side_effects", 0)),
        tuple(new.values()),
        tuple(map(str, content.get("conditions") or ())),
        {
            name: RelationEffect(
                _rows(relations[name], parts.get("insert"), new), _rows(relations[name], parts.get("delete"), new)
            )
            for name, parts in (content.get("changes") or {}).items()
        },
        _facts(content.get("violations"), relations, new),
        expect,
        version,
        frozenset(by_trial.get("relations", ())),
        {
            name: json_reader(new[name].kind)(value)
            for name, value in (by_trial.get("values") or {}).items()
            if name in new
        },
        tuple(content.get("firings") or ()),
        relations,
    )


def _facts(content: Any, relations: Relations, new: Mapping[str, Placeholder]) -> dict[str, tuple[Row, ...]]:
    return {name: _rows(relations[name], rows, new) for name, rows in (content or {}).items()}


def _rows(schema: Schema, rows: Any, new: Mapping[str, Placeholder]) -> tuple[Row, ...]:
    readers = [json_reader(column.type) for column in schema.columns]
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != len(readers) for row in rows):
        raise JsonMisfit(f"rows of `{schema.name}` are lists of {len(readers)} values", "wrong-row")
    return tuple(
        tuple(
            _open_value(value, new) if isinstance(value, dict) else read(value)
            for read, value in zip(readers, row, strict=True)
        )
        for row in rows
    )


def _open_value(value: Mapping[str, Any], new: Mapping[str, Placeholder]) -> Placeholder | Formula:
    return Formula(str(value["formula"])) if "formula" in value else new[value["placeholder"]]
