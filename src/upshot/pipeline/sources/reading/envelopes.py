"""Lines of JSON as ordered statements about rows of one relation.

Four forms, recognized line by line:

    {"insert": {"edge": [[1, 2]]}, "delete": {"edge": [[3, 4]]}}    a transaction, as `upshot watch` takes it
    {"x": 1, "y": 2, "_change": -1}                                  a row, inserted (1) or deleted (-1)
    {"x": 1, "y": 2, "op": "update"}                                 a row and insert | delete | update | upsert
    {"op": "u", "before": {…}, "after": {…}}                         an envelope of Debezium, also under "payload"
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from upshot.core.json_values import JsonMisfit, json_reader, repeated_key
from upshot.core.schema import Schema

OPERATIONS = ("insert", "delete", "update", "upsert")
_ABOUT_THE_CHANGE = frozenset({"_change", "_version", "op"})
_ENVELOPE = frozenset({"before", "after", "op"})
_TRANSACTION = frozenset({"insert", "delete"})


class EnvelopeStatement(NamedTuple):
    """`op` is insert, delete, upsert, or remove, which names a row by its key and has None in all other columns; it is
    empty if the statement cannot be understood, and `reason` says why. `part` orders the statements of a line; those
    of one transaction have the same. `row` is the text of one that does not fit, if it is not the whole line."""

    op: str
    part: int
    values: tuple[Any, ...]
    reason: str = ""
    row: str = ""


@dataclass(frozen=True)
class LineReader:
    """Reads lines for one relation. `others` are relations that the same folder serves: their rows are passed over;
    columns that the relation does not have are passed over or refused.

    >>> from upshot.core.schema import Column
    >>> from upshot.core.types import NUMBER
    >>> read = LineReader(Schema("edge", (Column("x", NUMBER), Column("y", NUMBER))))
    >>> [(s.op, s.values) for s in read.statements('{"x": 1, "y": 2, "_change": -1}')]
    [('delete', (1, 2))]
    >>> [s.reason for s in read.statements('{"x": 1, "_change": 1}')]
    ['column `y` is missing']
    """

    schema: Schema
    others: frozenset[str] = frozenset()
    ignore_extra: bool = False
    _columns: tuple[tuple[str, Any, bool], ...] = field(init=False, repr=False)
    _names: frozenset[str] = field(init=False, repr=False)
    _marks: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns = tuple((c.name, json_reader(c.type), c.type.nullable) for c in self.schema.columns)
        object.__setattr__(self, "_columns", columns)
        names = frozenset(column.name for column in self.schema.columns)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_marks", _ABOUT_THE_CHANGE - names)

    def statements(self, line: str) -> Iterable[EnvelopeStatement]:
        """The statements of the line; a blank line and a tombstone of Kafka (`null`, which repeats the deletion before
        it) have none."""
        if not line.strip():
            return ()
        try:
            content = _read(line)
            if isinstance(content, dict) and "payload" in content and not self._has("payload"):
                content = content["payload"]
            if content is None:
                return ()
            if not isinstance(content, dict):
                raise JsonMisfit("not a JSON object")
            return self._of_object(content)
        except JsonMisfit as misfit:
            return (self._bad(str(misfit)),)

    def _of_object(self, content: dict[str, Any]) -> Iterable[EnvelopeStatement]:
        if content.keys() <= _TRANSACTION and not self._has(*_TRANSACTION):
            return list(self._transaction(content))
        if "op" in content and ("before" in content or "after" in content) and not self._has(*_ENVELOPE):
            return self._envelope(content)
        return (self._marked_row(content),)

    def _has(self, *names: str) -> bool:
        return not self._names.isdisjoint(names)

    # ---- the forms ------------------------------------------------------------------------------

    def _transaction(self, content: dict[str, Any]) -> Iterator[EnvelopeStatement]:
        for word, relations in content.items():
            if not isinstance(relations, dict):
                yield self._bad(f"`{word}` must be an object that maps relations to rows")
                continue
            for name, rows in relations.items():
                if name != self.schema.name:
                    if name not in self.others:
                        yield self._bad(f"rows of `{name}`, which does not have this source")
                elif not isinstance(rows, list):
                    yield self._bad(f"`{word}` of `{name}` must be a list of rows")
                else:
                    yield from (self._statement(word, 0, row, own_text=True) for row in rows)

    def _marked_row(self, content: dict[str, Any]) -> EnvelopeStatement:
        """A row with `_change` or `op` beside its columns."""
        marks = self._marks
        if "_change" in marks and "_change" in content:
            change = content["_change"]
            if change.__class__ is not int or change not in (1, -1):
                raise JsonMisfit("`_change` must be 1 or -1")
            op = "insert" if change == 1 else "delete"
        elif "op" in marks and "op" in content:
            op = content["op"]
            if op not in OPERATIONS:
                raise JsonMisfit(f"`op` must be one of {', '.join(OPERATIONS)}")
        else:
            raise JsonMisfit("the row has neither `_change` nor `op`")
        row = content
        for mark in marks:
            row.pop(mark, None)
        if op in ("update", "upsert"):
            if not self.schema.keys:
                name = self.schema.name
                raise JsonMisfit(f"`{name}` has no key to update by: delete the old row and insert the new one")
            op = "upsert"
        elif op == "delete" and self._names_only_the_key(row):
            op = "remove"
        return self._statement(op, 0, row)

    def _names_only_the_key(self, row: Mapping[str, Any]) -> bool:
        if not self.schema.keys:
            return False
        rest = [name for i, (name, _, _) in enumerate(self._columns) if i not in self.schema.keys[0]]
        return bool(rest) and not any(name in row for name in rest)

    def _envelope(self, content: dict[str, Any]) -> list[EnvelopeStatement]:
        """An event of Debezium. With a key, a written row replaces the row with its key, and a deleted row is named by
        its key: events can come twice, and `before` may have only the key."""
        op, before, after = content["op"], content.get("before"), content.get("after")
        keyed = bool(self.schema.keys)
        statements = []
        if op in ("u", "d"):
            if before is None and (op == "d" or not keyed):
                key = "" if keyed else f", and `{self.schema.name}` has no key"
                raise JsonMisfit(f"the operation `{op}` has no `before`{key}")
            if keyed and before is not None and (op == "d" or self._moves(before, after)):
                statements.append(self._statement("remove", 0, before))
            elif not keyed:
                statements.append(self._statement("delete", 0, before))
        elif op not in ("c", "r"):
            raise JsonMisfit(f"the operation `{op}` cannot be applied to a row")
        if op != "d":
            if after is None:
                raise JsonMisfit(f"the operation `{op}` has no `after`")
            statements.append(self._statement("upsert" if keyed else "insert", 1, after))
        # An update is atomic: if the new row does not fit, the old one is not deleted either.
        wrong = [statement for statement in statements if statement.reason]
        return wrong[-1:] or statements

    def _moves(self, before: Any, after: Any) -> bool:
        if not isinstance(before, dict) or not isinstance(after, dict):
            return True
        keys = [self._columns[position][0] for position in self.schema.keys[0]]
        return any(before.get(key) != after.get(key) for key in keys)

    # ---- rows -----------------------------------------------------------------------------------

    def _statement(self, op: str, part: int, row: Any, *, own_text: bool = False) -> EnvelopeStatement:
        try:
            return EnvelopeStatement(op, part, self._removed(row) if op == "remove" else self._values(row))
        except JsonMisfit as misfit:
            return self._bad(str(misfit), _text(row) if own_text else "")

    def _removed(self, row: Any) -> tuple[Any, ...]:
        if not isinstance(row, dict):
            raise JsonMisfit("the row is not an object")
        key = self.schema.keys[0]
        return tuple(self._value(i, row) if i in key else None for i in range(len(self._columns)))

    def _values(self, row: Any) -> tuple[Any, ...]:
        columns = self._columns
        if isinstance(row, dict):
            if len(row) == len(columns):
                # Almost every row fits; the error of another one is found below.
                with suppress(KeyError, JsonMisfit):
                    return tuple([read(row[name]) for name, read, _ in columns])
            if not self.ignore_extra and not row.keys() <= self._names:
                extra = ", ".join(f"`{name}`" for name in row if name not in self._names)
                raise JsonMisfit(f"unknown column {extra} in `{self.schema}`")
            return tuple([self._value(i, row) for i in range(len(columns))])
        if not isinstance(row, list):
            raise JsonMisfit("the row is neither a list nor an object")
        if len(row) != len(columns):
            raise JsonMisfit(f"the row has {len(row)} values, `{self.schema}` has {len(columns)}")
        return tuple([self._value(i, {name: row[i]}) for i, (name, _, _) in enumerate(columns)])

    def _value(self, position: int, row: Mapping[str, Any]) -> Any:
        name, read, nullable = self._columns[position]
        if name not in row and not nullable:
            raise JsonMisfit(f"column `{name}` is missing")
        try:
            return read(row.get(name))
        except JsonMisfit as misfit:
            raise JsonMisfit(f"column `{name}`: {misfit}") from None

    def _bad(self, reason: str, row: str = "") -> EnvelopeStatement:
        return EnvelopeStatement("", 0, (None,) * len(self._columns), reason, row)


# ---- JSON ---------------------------------------------------------------------------------------


def _read(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise JsonMisfit(f"invalid JSON: {error.msg.lower()} at column {error.colno}") from None
    except RecursionError:
        raise JsonMisfit("JSON is nested too deeply") from None
    except JsonMisfit:
        raise
    except (ValueError, ArithmeticError):
        # Python refuses to read integers of thousands of digits and exponents beyond those of `Decimal`.
        raise JsonMisfit("a number has too many digits") from None


def _refused(name: str) -> None:
    raise JsonMisfit(f'`{name}` is not JSON: write it as text, "{name}"')


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated_key(pairs)
        raise JsonMisfit(f"duplicate key `{twice}`")
    return found


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused, object_pairs_hook=_without_repetition)


def _text(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)
