"""Records that are kept with a database outside of its relations: subscriptions, settings of a service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from upshot.core.errors import UsageError

Texts = Mapping[str, str | None]


class WriteRecords(Protocol):
    """Write the texts of one kind; a `lazy` write is durable with the next commit."""

    def __call__(self, kind: str, texts: Texts, *, lazy: bool = False) -> None: ...


RecordAccess = tuple[WriteRecords, Callable[[str], dict[str, str]]]
"""The writer and the reader of the texts of one kind."""


class Records:
    """JSON objects of one kind by their ids, from `db.records(kind)`. In a durable database they are on disk when `put`
    returns; in memory they live as long as the database. They belong to no version: transactions do not change them,
    and there are no events. Thread-safe.

    >>> records = Records("color", *in_memory())
    >>> records.put("sky", {"red": 0.5})
    >>> records.all()
    {'sky': {'red': 0.5}}
    >>> records.remove("sky")
    """

    def __init__(self, kind: str, write: WriteRecords, read: Callable[[str], dict[str, str]]) -> None:
        self.kind = kind
        self._write, self._read = write, read

    def put(self, id: str, record: Mapping[str, Any]) -> None:
        """Write a record, in place of one with the same id."""
        self.put_all({id: record})

    def put_all(self, records: Mapping[str, Mapping[str, Any] | None], *, lazy: bool = False) -> None:
        """Write several atomically; None removes the record. A `lazy` write is durable with the next commit."""
        texts = {id: None if record is None else _text(record) for id, record in records.items()}
        if texts:
            self._write(self.kind, texts, lazy=lazy)

    def remove(self, id: str) -> None:
        """Remove a record, if it exists."""
        self._write(self.kind, {id: None})

    def all(self) -> dict[str, dict[str, Any]]:
        """Every record of the kind by its id, in the order of ids."""
        return {id: json.loads(text) for id, text in self._read(self.kind).items()}


def in_memory() -> RecordAccess:
    """The writer and reader for a database in memory."""
    texts_by_id: dict[tuple[str, str], str] = {}

    def write(kind: str, texts: Texts, *, lazy: bool = False) -> None:
        for id, text in texts.items():
            if text is None:
                texts_by_id.pop((kind, id), None)
            else:
                texts_by_id[kind, id] = text

    def read(kind: str) -> dict[str, str]:
        return {id: text for (each, id), text in sorted(texts_by_id.copy().items()) if each == kind}

    return write, read


def _text(record: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"a record cannot be written as JSON: {error}"
        raise UsageError(message, code="wrong-argument", help="use text, numbers, lists and mappings") from None
