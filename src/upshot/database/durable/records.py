"""Notes that others keep with a database, beside its relations: subscriptions, settings of a service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from upshot.core.errors import UsageError

Texts = Mapping[str, str | None]


class WriteRecords(Protocol):
    """Writes the texts of one kind; if it is `lazy`, they need not outlive the process before the next commit does."""

    def __call__(self, kind: str, texts: Texts, *, lazy: bool = False) -> None: ...


RecordAccess = tuple[WriteRecords, Callable[[str], dict[str, str]]]
"""The writer and the reader of the texts of one kind."""


class Records:
    """JSON objects of one kind by their ids, from `db.records(kind)`. A durable database has what was put on the disk
    when `put` returns; one in memory keeps them as long as it is open. They are no part of any version: no transaction
    changes them, and nobody is told. Any thread may call.

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
        """Writes a record, in place of the one with the same id."""
        self.put_all({id: record})

    def put_all(self, records: Mapping[str, Mapping[str, Any] | None], *, lazy: bool = False) -> None:
        """Writes several with one write, all of them or none; where there is None, the record is removed. If it is
        `lazy`, they are durable with the next commit."""
        texts = {id: None if record is None else _text(record) for id, record in records.items()}
        if texts:
            self._write(self.kind, texts, lazy=lazy)

    def remove(self, id: str) -> None:
        """Removes a record; if there is none, nothing happens."""
        self._write(self.kind, {id: None})

    def all(self) -> dict[str, dict[str, Any]]:
        """Every record of the kind by its id, in the order of ids."""
        return {id: json.loads(text) for id, text in self._read(self.kind).items()}


def in_memory() -> RecordAccess:
    """The writer and reader of the records of a database that is not durable."""
    kept: dict[tuple[str, str], str] = {}

    def write(kind: str, texts: Texts, *, lazy: bool = False) -> None:
        for id, text in texts.items():
            if text is None:
                kept.pop((kind, id), None)
            else:
                kept[kind, id] = text

    def read(kind: str) -> dict[str, str]:
        return {id: text for (each, id), text in sorted(kept.copy().items()) if each == kind}

    return write, read


def _text(record: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"a record cannot be written as JSON: {error}"
        raise UsageError(message, code="wrong-argument", help="use text, numbers, lists and mappings") from None
